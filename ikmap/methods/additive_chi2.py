"""The additive chi-square kernel, of rows without negative values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ikmap.methods.kernel import Chosen, KernelMethod

if TYPE_CHECKING:
    from ikmap.kernels import Kernel


class _AdditiveChi2(KernelMethod):
    def kernel(self, options: Any, chosen: Chosen, n_columns: int) -> Kernel:
        from ikmap.kernels import AdditiveChi2Kernel

        return AdditiveChi2Kernel()

    def refused(self, rows: Any) -> tuple[int, int, float, str] | None:
        from ikmap.kernels.chi2 import first_negative

        found = first_negative(rows)
        return None if found is None else (*found, "a value >= 0")


ADDITIVE_CHI2 = _AdditiveChi2(
    name="chi2", title="additive chi-square kernel", source="Vedaldi and Zisserman, 2012, section 3"
)
