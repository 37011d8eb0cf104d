"""The Gaussian kernel with an inverse width gamma."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from annotated_types import Gt

from ikmap.methods.about import KernelAbout
from ikmap.methods.fields import Doc, Searched
from ikmap.methods.kernel import HasOrthogonalFourier, KernelMethod
from ikmap.methods.method import Candidates, SearchSpace
from ikmap.methods.sample import Sample
from ikmap.methods.width import GAMMAS, WIDTH

if TYPE_CHECKING:
    from ikmap.kernels import GaussianKernel
    from ikmap.maps import FourierMap


class Gaussian(KernelMethod, HasOrthogonalFourier):
    """The Gaussian kernel exp(-gamma |x - y|^2)."""

    about: ClassVar[KernelAbout] = KernelAbout(name="gaussian", title="Gaussian kernel")
    gamma: Annotated[
        float | None,
        Gt(0),
        Doc("inverse width of that kernel, 1 / (2 sigma^2); auto chooses it by cross-validation"),
        Searched(by_default=True),
        WIDTH,
    ] = None

    def search_space(self, searched: frozenset[str], n_rows: int, sample: Sample | None = None) -> SearchSpace:
        return {"gamma": Candidates(GAMMAS)} if "gamma" in searched else {}

    def kernel(self, n_columns: int) -> GaussianKernel:
        from ikmap.kernels import GaussianKernel

        return GaussianKernel(self._width(n_columns))

    def fourier(self, features: int, n_columns: int, seed: int) -> FourierMap:
        from ikmap.maps import FourierMap

        return FourierMap.gaussian(features, n_columns, self._width(n_columns), seed)

    def orthogonal_fourier(self, features: int, n_columns: int, seed: int) -> FourierMap:
        from ikmap.maps import FourierMap

        return FourierMap.gaussian(features, n_columns, self._width(n_columns), seed, orthogonal=True)

    def _width(self, n_columns: int) -> float:
        """Return gamma, by default the value of figure 1 of Online Learning with Kernels for so many columns."""
        return 8.0 / n_columns if self.gamma is None else self.gamma
