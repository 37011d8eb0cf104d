"""Online gradient descent with a kernel on the rows: the OGD (dual) that IK-OGD is compared with."""

from __future__ import annotations

from typing import Any, ClassVar

from ikmap.methods.kernel_on_rows import KernelOptions, OnKernel, kernel_on_rows
from ikmap.methods.learners import OnlineOptions, StreamLearner
from ikmap.methods.options import MethodOptions
from ikmap.methods.sample import Sample, Shape


class KernelOGDOptions(KernelOptions, OnlineOptions):
    """Of online gradient descent with a kernel."""


class _KernelOGD(OnKernel, StreamLearner):
    all_pairs: ClassVar[bool] = True
    Options: ClassVar[type[MethodOptions]] = KernelOGDOptions
    models = ("ikmap.learners.kernel.kernel_model",)

    def start(self, options: Any, value: float | None, sample: Sample, n_threads: int = 1) -> Any:
        from ikmap.learners.online.kernel_ogd import KernelOGDState

        kernel = kernel_on_rows(options, value, sample.n_columns)
        return KernelOGDState(kernel, sample.n_classes, options.eta, n_threads=n_threads)

    def needed_bytes(self, options: Any, shape: Shape) -> int:
        from ikmap.learners.kernel.support_set import support_set_bytes

        return support_set_bytes(shape.n, shape.d, shape.nnz, shape.n_classes)


KERNEL_OGD = _KernelOGD(name="kernel-ogd", title="online gradient descent with a kernel (OGD, dual)")
