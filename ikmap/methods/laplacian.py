"""The Laplacian kernel, with the width of an isolation kernel of psi cells or with an inverse width gamma."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from annotated_types import Ge, Gt

from ikmap.methods.about import KernelAbout
from ikmap.methods.fields import Doc, Searched, Symbol
from ikmap.methods.kernel import HasFourier, KernelMethod
from ikmap.methods.map import PSI_DOC, candidates_of_psi
from ikmap.methods.method import Candidates, SearchSpace
from ikmap.methods.sample import Sample
from ikmap.methods.width import GAMMAS, WIDTH

if TYPE_CHECKING:
    from ikmap.kernels import LaplacianKernel
    from ikmap.maps import FourierMap

OF_WIDTH = "The width of a kernel on the rows themselves is given by it: γ = ln ψ / columns."


class Laplacian(KernelMethod, HasFourier):
    """The Laplacian kernel exp(-gamma |x - y|_1)."""

    about: ClassVar[KernelAbout] = KernelAbout(name="laplacian", title="Laplacian kernel")
    psi: Annotated[
        int, Ge(1), Doc(PSI_DOC), Searched(by_default=True), Symbol("ψ", "cells per partitioning", OF_WIDTH)
    ] = 64
    gamma: Annotated[
        float | Literal["psi"],
        Gt(0),
        Doc("inverse width of that kernel: psi means ln(psi) / columns, auto chooses it by cross-validation"),
        Searched(),
        WIDTH,
    ] = "psi"

    @classmethod
    def of_record(cls, record: Mapping[str, object]) -> tuple[Self, frozenset[str]]:
        """Return the kernel of a record; a searched gamma has the middle of its candidates until it is chosen."""
        kernel, searched = super().of_record(record)
        return kernel.at({"gamma": GAMMAS[len(GAMMAS) // 2]}) if "gamma" in searched else kernel, searched

    def tunable(self, searched: frozenset[str]) -> tuple[str, ...]:
        return ("psi",) if self.gamma == "psi" and "gamma" not in searched else ("gamma",)

    def ignored(self, searched: frozenset[str]) -> frozenset[str]:
        return frozenset() if self.tunable(searched) == ("psi",) else frozenset({"psi"})

    def search_space(self, searched: frozenset[str], n_rows: int, sample: Sample | None = None) -> SearchSpace:
        (name,) = self.tunable(searched)
        if name not in searched:
            return {}
        return {name: Candidates(GAMMAS) if name == "gamma" else candidates_of_psi(n_rows)}

    def kernel(self, n_columns: int) -> LaplacianKernel:
        from ikmap.kernels import LaplacianKernel

        if self.gamma == "psi":
            return LaplacianKernel.of_psi(self.psi, n_columns)
        return LaplacianKernel(self.gamma)

    def fourier(self, features: int, n_columns: int, seed: int) -> FourierMap:
        from ikmap.maps import FourierMap

        return FourierMap.laplacian(features, n_columns, self.kernel(n_columns).gamma, seed)
