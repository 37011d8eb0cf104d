"""SVMs with an exact kernel: the isolation kernel on cells, or one on the rows."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from ikmap.methods.about import LearnerAbout
from ikmap.methods.isolation import Isolation
from ikmap.methods.kernel_on_rows import OnKernel
from ikmap.methods.learner import BatchClassifier, WholeLearner
from ikmap.methods.sample import Shape, Training

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ikmap.json_values import Json
    from ikmap.kernels import Kernel
    from ikmap.learners.kernel.kernel_model import KernelModel
    from ikmap.methods.learner import Summary

MODELS = ("ikmap.learners.kernel.kernel_model",)
METRICS_SCHEMA: Mapping[str, Mapping[str, Json]] = {
    "n_support": {"description": "Rows that the model keeps.", "type": "integer", "minimum": 0}
}
"""JSON Schema of the fields that all of them report."""


class ExactKernelSVM(WholeLearner, BatchClassifier):
    """Base of SVMs with an exact kernel."""

    # The time grows with the square of the rows.
    compared_on: ClassVar[int | None] = 4000
    working_set: ClassVar[bool] = True

    @abstractmethod
    def kernel_for(self, training: Training) -> Kernel:
        """Return the kernel for these rows."""

    def fit(self, training: Training) -> tuple[KernelModel, Summary]:
        from ikmap.learners.kernel.kernel_svm import KernelSVMParams, fit_kernel_svm

        classes = training.classes
        params = KernelSVMParams(C=self.C, tol=self.tol, class_weight=self.weight_of_classes)
        kernel = self.kernel_for(training)
        model = fit_kernel_svm(
            training.block.rows,
            training.y,
            len(classes),
            kernel,
            params,
            classes,
            training.n_threads,
            training.max_working_set,
        )
        return model, {"n_support": int(model.coef.shape[0])}

    def memory(self, shape: Shape, rows: int | None = None) -> int:
        from ikmap.learners.kernel.kernel_svm import kernel_svm_bytes

        return shape.rows_bytes + kernel_svm_bytes(shape.n, shape.d, shape.nnz, rows)


class IsolationSVM(ExactKernelSVM):
    """SVM with the isolation kernel on cells."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="isolation-svm", title="SVM with the isolation kernel", models=MODELS, metrics_schema=METRICS_SCHEMA
    )

    def kernel_for(self, training: Training) -> Kernel:
        return Isolation().kernel(training.cells.n_partitions)


class KernelSVM(OnKernel, ExactKernelSVM):
    """SVM with a kernel on the rows."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="kernel-svm", title="SVM with a kernel", on="rows", models=MODELS, metrics_schema=METRICS_SCHEMA
    )
    all_pairs: ClassVar[bool] = True

    def kernel_for(self, training: Training) -> Kernel:
        return self.kernel.kernel(training.rows.shape[1])
