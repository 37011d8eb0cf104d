"""The isolation kernel: the share of partitionings in which two rows have the same cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ikmap.methods.kernel import Chosen, KernelMethod

if TYPE_CHECKING:
    from ikmap.kernels import Kernel


class _Isolation(KernelMethod):
    def kernel(self, options: Any, chosen: Chosen, n_columns: int) -> Kernel:
        from ikmap.kernels import IsolationKernel

        return IsolationKernel(n_columns)


ISOLATION = _Isolation(name="isolation", title="isolation kernel", source="Qin et al., 2019", on="cells")
