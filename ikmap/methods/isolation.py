"""The isolation kernel, the share of partitionings in which two rows have the same cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ikmap.methods.about import KernelAbout
from ikmap.methods.kernel import KernelMethod

if TYPE_CHECKING:
    from ikmap.kernels import IsolationKernel


class Isolation(KernelMethod):
    """The isolation kernel on the cells of a map."""

    about: ClassVar[KernelAbout] = KernelAbout(
        name="isolation", title="isolation kernel", source="Qin et al., 2019", on="cells"
    )

    def kernel(self, n_columns: int) -> IsolationKernel:
        from ikmap.kernels import IsolationKernel

        return IsolationKernel(n_columns)
