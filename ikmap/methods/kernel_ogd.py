"""Online gradient descent with a kernel on the rows, the OGD (dual) with which papers compare IK-OGD."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ikmap.methods.about import LearnerAbout
from ikmap.methods.kernel_on_rows import OnKernel
from ikmap.methods.learner import GradientLearner
from ikmap.methods.sample import Sample, Shape

if TYPE_CHECKING:
    from ikmap.learners.online.kernel_ogd import KernelOGDState


class KernelOGD(OnKernel, GradientLearner):
    """Online gradient descent with a kernel, as a sum over support points."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="kernel-ogd",
        title="online gradient descent with a kernel (OGD, dual)",
        on="rows",
        models=("ikmap.learners.kernel.kernel_model",),
    )
    all_pairs: ClassVar[bool] = True

    def start(self, sample: Sample, n_threads: int = 1) -> KernelOGDState:
        from ikmap.learners.online.kernel_ogd import KernelOGDState

        kernel = self.kernel.kernel(sample.n_columns)
        return KernelOGDState(kernel, sample.n_classes, self.eta, n_threads=n_threads)

    def memory(self, shape: Shape, rows: int | None = None) -> int:
        from ikmap.learners.kernel.support_set import support_set_bytes

        return support_set_bytes(shape.n, shape.d, shape.nnz, shape.n_classes)
