"""What learners with a kernel on the rows themselves share: the options that say which, and the width to choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from ikmap.methods.kinds import Choice, Real
from ikmap.methods.learner import Learner, Search
from ikmap.methods.options import BASELINES, MethodOptions, OptionError, Setting, option
from ikmap.methods.psi import psi_option, psis_to_try

if TYPE_CHECKING:
    from ikmap.kernels import Kernel

GAMMAS = tuple(2.0**m for m in range(-10, 6))
"""Search range of a kernel's width that is not given by psi."""


class KernelOptions(MethodOptions):
    """Which kernel, and how wide."""

    psi: int | str = psi_option("The width of a kernel on the rows themselves is given by it: γ = ln ψ / columns.")
    kernel: str = option(
        "laplacian",
        Choice(("laplacian", "gaussian")),
        group=BASELINES,
        help="kernel on the rows themselves, for kernel-ogd, kernel-svm, nogd and fourier-linear",
    )
    gamma: float | str = option(
        "psi",
        Real(0, words=("psi", "auto")),
        group=BASELINES,
        help="inverse width of that kernel: psi means ln(psi) / columns, auto chooses it by cross-validation",
        setting=Setting(
            "γ",
            "inverse width of the kernel",
            "How quickly the similarity of two rows falls with their distance: a large γ lets only near rows count.",
        ),
    )

    def check_together(self) -> None:
        super().check_together()
        if self.kernel == "gaussian" and self.gamma == "psi":
            raise OptionError("--kernel gaussian: found --gamma psi, expected a number or auto: psi is Laplacian")

    @property
    def unused(self) -> frozenset[str]:
        return super().unused | (frozenset() if self.gamma == "psi" else {"psi"})


@dataclass(frozen=True, kw_only=True)
class OnKernel(Learner):
    """Base of learners with these options: a width that is given, or chosen by cross-validation."""

    on: Literal["cells", "rows"] = "rows"

    def parameter(self, options: Any) -> str | None:
        return "psi" if options.gamma == "psi" else "gamma"

    def search(self, options: Any, n_rows: int) -> Search | None:
        if options.gamma == "auto":
            return Search("gamma", "gamma", GAMMAS)
        if options.gamma == "psi" and options.psi == "auto":
            return Search("psi", "psi", psis_to_try(n_rows))
        return None

    def given(self, options: Any) -> float | None:
        asked = options.psi if options.gamma == "psi" else options.gamma
        return None if asked == "auto" else asked


def kernel_on_rows(options: Any, value: float | None, n_columns: int) -> Kernel:
    """The kernel that ``--kernel`` and ``--gamma`` name; `value` is psi or gamma."""
    from ikmap.kernels import GaussianKernel, LaplacianKernel

    assert value is not None
    if options.kernel == "gaussian":
        return GaussianKernel(float(value))
    if options.gamma == "psi":
        return LaplacianKernel.of_psi(int(value), n_columns)
    return LaplacianKernel(float(value))
