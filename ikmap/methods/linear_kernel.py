"""The linear kernel, of rows as they are or of unit length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ikmap.methods.kernel import Chosen, KernelMethod
from ikmap.methods.kinds import Flag
from ikmap.methods.options import BASELINES, MethodOptions, option

if TYPE_CHECKING:
    from ikmap.kernels import Kernel


class LinearOptions(MethodOptions):
    """Of the linear kernel."""

    unit_length: bool = option(False, Flag(), group=BASELINES, help="scale rows to unit length for the linear kernel")


class _Linear(KernelMethod):
    Options: ClassVar[type[MethodOptions]] = LinearOptions

    def kernel(self, options: Any, chosen: Chosen, n_columns: int) -> Kernel:
        from ikmap.kernels import LinearKernel

        return LinearKernel(options.unit_length)


LINEAR = _Linear(name="linear", title="linear kernel")
