"""The linear kernel, and the cosine: the same of rows of unit length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ikmap.methods.kernel import Chosen, KernelMethod

if TYPE_CHECKING:
    from ikmap.kernels import Kernel


class _Linear(KernelMethod):
    def kernel(self, options: Any, chosen: Chosen, n_columns: int) -> Kernel:
        from ikmap.kernels import LinearKernel

        return LinearKernel()


class _Cosine(KernelMethod):
    def kernel(self, options: Any, chosen: Chosen, n_columns: int) -> Kernel:
        from ikmap.kernels import CosineKernel

        return CosineKernel()


LINEAR = _Linear(name="linear", title="linear kernel")
COSINE = _Cosine(name="cosine", title="cosine of two rows")
