"""The linear kernel, and the cosine, which is the linear kernel of rows scaled to unit length."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ikmap.methods.about import KernelAbout
from ikmap.methods.kernel import KernelMethod

if TYPE_CHECKING:
    from ikmap.kernels import CosineKernel, LinearKernel


class Linear(KernelMethod):
    """The linear kernel, the inner product of two rows."""

    about: ClassVar[KernelAbout] = KernelAbout(name="linear", title="linear kernel")

    def kernel(self, n_columns: int) -> LinearKernel:
        from ikmap.kernels import LinearKernel

        return LinearKernel()


class Cosine(KernelMethod):
    """The cosine of two rows."""

    about: ClassVar[KernelAbout] = KernelAbout(name="cosine", title="cosine of two rows")

    def kernel(self, n_columns: int) -> CosineKernel:
        from ikmap.kernels import CosineKernel

        return CosineKernel()
