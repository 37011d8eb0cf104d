"""The Gaussian kernel, of an inverse width gamma."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ikmap.methods.kernel import Chosen, KernelMethod
from ikmap.methods.kinds import Real
from ikmap.methods.options import BASELINES, MethodOptions, option
from ikmap.methods.search import Search
from ikmap.methods.width import GAMMAS, WIDTH

if TYPE_CHECKING:
    from ikmap.kernels import Kernel


class GaussianOptions(MethodOptions):
    """How wide it is."""

    gamma: float | str = option(
        "auto",
        Real(0, words=("auto",)),
        group=BASELINES,
        help="inverse width of that kernel, 1 / (2 sigma^2); auto chooses it by cross-validation",
        setting=WIDTH,
    )


class _Gaussian(KernelMethod):
    Options: ClassVar[type[MethodOptions]] = GaussianOptions

    def searches(self, options: Any, n_rows: int) -> tuple[Search, ...]:
        return (Search("gamma", "gamma", GAMMAS),) if options.gamma == "auto" else ()

    def given(self, options: Any) -> Chosen:
        return {} if options.gamma == "auto" else {"gamma": options.gamma}

    def unsearched(self, options: Any, n_columns: int) -> Chosen:
        """By the number of columns, for values in [0, 1]: as wide as in Online Learning with Kernels, figure 1."""
        return self.given(options) or {"gamma": 8.0 / n_columns}

    def kernel(self, options: Any, chosen: Chosen, n_columns: int) -> Kernel:
        from ikmap.kernels import GaussianKernel

        return GaussianKernel(float(chosen["gamma"]))

    def fourier(self, kernel: Any, features: int, n_columns: int, seed: int) -> Any:
        from ikmap.maps import FourierMap

        return FourierMap.gaussian(features, n_columns, kernel.gamma, seed)


GAUSSIAN = _Gaussian(name="gaussian", title="Gaussian kernel")
