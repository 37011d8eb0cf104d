"""Online gradient descent on cells as a sum over support points, the IK-OGD(dual) of the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ikmap.methods.about import LearnerAbout
from ikmap.methods.fields import FieldError
from ikmap.methods.ogd import OnCells
from ikmap.methods.sample import Sample, Shape

if TYPE_CHECKING:
    from ikmap.learners.online.kernel_ogd import KernelOGDState


class DualOGD(OnCells):
    """Online gradient descent on cells as a sum over support points."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="ogd-dual",
        title="the same as a sum over support points (IK-OGD, dual)",
        equivalent_to="ogd",
        models=("ikmap.learners.kernel.kernel_model",),
    )

    def check(self, searched: frozenset[str]) -> None:
        super().check(searched)
        if self.feature_scale == "raw":
            raise FieldError(
                "feature_scale", "{learner} ogd-dual, whose kernel is scaled", "ogd", value=self.feature_scale
            )

    def start(self, sample: Sample, n_threads: int = 1) -> KernelOGDState:
        from ikmap.kernels import IsolationKernel
        from ikmap.learners.online.kernel_ogd import KernelOGDState

        assert sample.offsets is not None
        return KernelOGDState(IsolationKernel(sample.offsets.size - 1), sample.n_classes, self.eta, n_threads=n_threads)

    def memory(self, shape: Shape, rows: int | None = None) -> int:  # noqa: ARG002
        from ikmap.learners.kernel.support_set import support_set_bytes

        return support_set_bytes(shape.n, shape.d, shape.nnz, shape.n_classes)
