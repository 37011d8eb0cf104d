"""The intersection kernel, of rows without negative values."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ikmap.methods.about import KernelAbout
from ikmap.methods.kernel import KernelMethod

if TYPE_CHECKING:
    from ikmap.kernels.intersection import IntersectionKernel
    from ikmap.learners.rows import Rows


class Intersection(KernelMethod):
    """The intersection kernel sum_j min(x_j, y_j)."""

    about: ClassVar[KernelAbout] = KernelAbout(
        name="intersection", title="intersection kernel", models=("ikmap.kernels.intersection",)
    )

    def kernel(self, n_columns: int) -> IntersectionKernel:
        from ikmap.kernels.intersection import IntersectionKernel

        return IntersectionKernel()

    def refused(self, rows: Rows) -> tuple[int, int, float, str] | None:
        from ikmap.kernels.chi2 import first_negative

        found = first_negative(rows)
        return None if found is None else (*found, "a value >= 0")
