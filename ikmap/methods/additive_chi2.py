"""The additive chi-square kernel, of rows without negative values."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ikmap.methods.about import KernelAbout
from ikmap.methods.kernel import KernelMethod

if TYPE_CHECKING:
    from ikmap.kernels import AdditiveChi2Kernel
    from ikmap.learners.rows import Rows


class AdditiveChi2(KernelMethod):
    """The additive chi-square kernel."""

    about: ClassVar[KernelAbout] = KernelAbout(
        name="chi2", title="additive chi-square kernel", source="Vedaldi and Zisserman, 2012, section 3"
    )

    def kernel(self, n_columns: int) -> AdditiveChi2Kernel:
        from ikmap.kernels import AdditiveChi2Kernel

        return AdditiveChi2Kernel()

    def refused(self, rows: Rows) -> tuple[int, int, float, str] | None:
        from ikmap.kernels.chi2 import first_negative

        found = first_negative(rows)
        return None if found is None else (*found, "a value >= 0")
