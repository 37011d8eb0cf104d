"""The intersection kernel on rows without negative values."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ikmap.methods.about import KernelAbout
from ikmap.methods.kernel import KernelMethod, NonNegativeRows

if TYPE_CHECKING:
    from ikmap.kernels.intersection import IntersectionKernel


class Intersection(NonNegativeRows, KernelMethod):
    """The intersection kernel sum_j min(x_j, y_j)."""

    about: ClassVar[KernelAbout] = KernelAbout(
        name="intersection", title="intersection kernel", models=("ikmap.kernels.intersection",)
    )

    def kernel(self, n_columns: int) -> IntersectionKernel:
        from ikmap.kernels.intersection import IntersectionKernel

        return IntersectionKernel()
