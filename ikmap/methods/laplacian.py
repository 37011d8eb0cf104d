"""The Laplacian kernel, as wide as an isolation kernel of psi cells, or of an inverse width gamma."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ikmap.methods.kernel import Chosen, KernelMethod
from ikmap.methods.kinds import Real
from ikmap.methods.options import BASELINES, MethodOptions, option
from ikmap.methods.psi import psi_option, search_of_psi
from ikmap.methods.search import Search
from ikmap.methods.width import GAMMAS, WIDTH

if TYPE_CHECKING:
    from ikmap.kernels import Kernel


class LaplacianOptions(MethodOptions):
    """How wide it is."""

    psi: int | str = psi_option("The width of a kernel on the rows themselves is given by it: γ = ln ψ / columns.")
    gamma: float | str = option(
        "psi",
        Real(0, words=("psi", "auto")),
        group=BASELINES,
        help="inverse width of that kernel: psi means ln(psi) / columns, auto chooses it by cross-validation",
        setting=WIDTH,
    )

    @property
    def unused(self) -> frozenset[str]:
        return super().unused | (frozenset() if self.gamma == "psi" else {"psi"})


class _Laplacian(KernelMethod):
    Options: ClassVar[type[MethodOptions]] = LaplacianOptions

    def searches(self, options: Any, n_rows: int) -> tuple[Search, ...]:
        if options.gamma == "auto":
            return (Search("gamma", "gamma", GAMMAS),)
        if options.gamma == "psi" and options.psi == "auto":
            return (search_of_psi(n_rows),)
        return ()

    def given(self, options: Any) -> Chosen:
        name = "psi" if options.gamma == "psi" else "gamma"
        value = getattr(options, name)
        return {} if value == "auto" else {name: value}

    def kernel(self, options: Any, chosen: Chosen, n_columns: int) -> Kernel:
        from ikmap.kernels import LaplacianKernel

        if "psi" in chosen:
            return LaplacianKernel.of_psi(int(chosen["psi"]), n_columns)
        return LaplacianKernel(float(chosen["gamma"]))

    def fourier(self, kernel: Any, features: int, n_columns: int, seed: int) -> Any:
        from ikmap.maps import FourierMap

        return FourierMap.laplacian(features, n_columns, kernel.gamma, seed)


LAPLACIAN = _Laplacian(name="laplacian", title="Laplacian kernel")
