"""SVMs with an exact kernel: the isolation kernel on cells, Laplacian, Gaussian or chi-square on the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from ikmap.methods.learner import Shape, WholeLearner, kernel_on_rows

if TYPE_CHECKING:
    import numpy as np

    from ikmap.kernels import Kernel


@dataclass(frozen=True, kw_only=True)
class KernelSVM(WholeLearner):
    """Base: all but the kernel."""

    models = ("ikmap.learners.kernel_model",)
    # Its time grows with the square of the rows.
    compared_on: ClassVar[int | None] = 4000
    working_set: ClassVar[bool] = True

    def kernel(self, options: Any, value: float | None, n_columns: int) -> Kernel:
        """The kernel, for rows of so many columns."""
        raise NotImplementedError

    def fit(
        self,
        options: Any,
        value: float | None,
        rows: Any,
        y: np.ndarray,
        classes: list[Any],
        n_threads: int = 1,
        max_working_set: int | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        from ikmap.cells import Cells
        from ikmap.learners.kernel_svm import KernelSVMParams, fit_kernel_svm

        kernel = self.kernel(options, value, rows.n_partitions if isinstance(rows, Cells) else rows.shape[1])
        weight: Any = "balanced" if options.class_weight == "balanced" else None
        asked = KernelSVMParams(C=options.kernel_C, tol=options.tol, class_weight=weight)
        model = fit_kernel_svm(rows, y, len(classes), kernel, asked, classes, n_threads, max_working_set)
        return model, {"n_support": int(model.coef.shape[0])}

    def needed_bytes(self, options: Any, shape: Shape, rows: int | None = None) -> int:
        from ikmap.learners.kernel_svm import kernel_svm_bytes

        return shape.rows_bytes + kernel_svm_bytes(shape.n, shape.d, shape.nnz, rows)


@dataclass(frozen=True, kw_only=True)
class _Isolation(KernelSVM):
    def kernel(self, options: Any, value: float | None, n_columns: int) -> Kernel:
        from ikmap.kernels import IsolationKernel

        return IsolationKernel(options.t)


@dataclass(frozen=True, kw_only=True)
class _OnRows(KernelSVM):
    def kernel(self, options: Any, value: float | None, n_columns: int) -> Kernel:
        return kernel_on_rows(options, value, n_columns)


ISOLATION_SVM = _Isolation(name="isolation-svm", title="SVM with the isolation kernel", on="cells")
KERNEL_SVM = _OnRows(name="kernel-svm", title="SVM with a kernel", on="rows", own="kernel gamma")
