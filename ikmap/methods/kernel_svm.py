"""SVMs with an exact kernel: the isolation kernel on cells, or one on the rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from ikmap.methods.isolation import ISOLATION
from ikmap.methods.kernel_on_rows import KernelOptions, OnKernel, kernel_on_rows
from ikmap.methods.learners import BatchOptions, WholeLearner
from ikmap.methods.options import MethodOptions
from ikmap.methods.sample import Shape, Training

if TYPE_CHECKING:
    from ikmap.kernels import Kernel


class KernelSVM(WholeLearner):
    """Base: all but the kernel."""

    models = ("ikmap.learners.kernel.kernel_model",)
    # Its time grows with the square of the rows.
    compared_on: ClassVar[int | None] = 4000
    working_set: ClassVar[bool] = True
    told: ClassVar[Mapping[str, Any]] = {
        "n_support": {"description": "Rows that the model keeps.", "type": "integer", "minimum": 0}
    }

    def kernel(self, options: Any, training: Training) -> Kernel:
        """The kernel, for rows like these."""
        raise NotImplementedError

    def fit(self, options: Any, training: Training) -> tuple[Any, dict[str, Any]]:
        from ikmap.learners.kernel.kernel_svm import KernelSVMParams, fit_kernel_svm

        rows, y, classes = training.rows, training.y, training.classes
        asked = KernelSVMParams(C=options.C, tol=options.tol, class_weight=options.class_weights)
        kernel = self.kernel(options, training)
        model = fit_kernel_svm(
            rows, y, len(classes), kernel, asked, classes, training.n_threads, training.max_working_set
        )
        return model, {"n_support": int(model.coef.shape[0])}

    def needed_bytes(self, options: Any, shape: Shape, rows: int | None = None) -> int:
        from ikmap.learners.kernel.kernel_svm import kernel_svm_bytes

        return shape.rows_bytes + kernel_svm_bytes(shape.n, shape.d, shape.nnz, rows)


class _Isolation(KernelSVM):
    def kernel(self, options: Any, training: Training) -> Kernel:
        return ISOLATION.kernel(options, {}, training.rows.n_partitions)


class KernelSVMOptions(KernelOptions, BatchOptions):
    """Of the SVM with a kernel on the rows."""


class _OnRows(OnKernel, KernelSVM):
    all_pairs: ClassVar[bool] = True
    Options: ClassVar[type[MethodOptions]] = KernelSVMOptions

    def kernel(self, options: Any, training: Training) -> Kernel:
        return kernel_on_rows(options, training.value, training.rows.shape[1])


ISOLATION_SVM = _Isolation(name="isolation-svm", title="SVM with the isolation kernel", on="cells")
KERNEL_SVM = _OnRows(name="kernel-svm", title="SVM with a kernel")
