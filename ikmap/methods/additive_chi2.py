"""The additive chi-square kernel on rows without negative values."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ikmap.methods.about import KernelAbout
from ikmap.methods.kernel import KernelMethod, NonNegativeRows

if TYPE_CHECKING:
    from ikmap.kernels import AdditiveChi2Kernel


class AdditiveChi2(NonNegativeRows, KernelMethod):
    """The additive chi-square kernel."""

    about: ClassVar[KernelAbout] = KernelAbout(
        name="chi2", title="additive chi-square kernel", source="Vedaldi and Zisserman, 2012, section 3"
    )

    def kernel(self, n_columns: int) -> AdditiveChi2Kernel:
        from ikmap.kernels import AdditiveChi2Kernel

        return AdditiveChi2Kernel()
