"""Online gradient descent on cells (IK-OGD) in three forms: with weights, with all products, with support points.

With weights it also learns numbers, by squared errors: the task decides the loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from ikmap.methods.about import LearnerAbout
from ikmap.methods.fields import Doc, FieldError
from ikmap.methods.learner import GradientLearner, State
from ikmap.methods.sample import Sample, Shape

if TYPE_CHECKING:
    from ikmap.learners.online.averaged_ogd import AveragedOGDState
    from ikmap.learners.online.kernel_ogd import KernelOGDState
    from ikmap.learners.online.naive_ogd import NaiveOGDState
    from ikmap.learners.online.ogd import OGDState
    from ikmap.learners.online.squared_ogd import SquaredOGDState
    from ikmap.methods.learner import Summary


class OnCells(GradientLearner):
    """Base of all forms of online gradient descent on cells.

    Attributes
    ----------
    feature_scale : {"kernel", "raw"}
    """

    feature_scale: Annotated[
        Literal["kernel", "raw"], Doc("features that ogd and ogd-naive see: 1/sqrt(t), so that K(x, x) = 1, or 1")
    ] = "kernel"

    def divisor(self, sample: Sample) -> float:
        """Return the number by which sums over the cells of a row are divided."""
        assert sample.offsets is not None
        return float(sample.offsets.size - 1) if self.feature_scale == "kernel" else 1.0


class OGD(OnCells):
    """Online gradient descent on cells, which moves the weights of the cells of a row."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="ogd",
        title="online gradient descent on cells (IK-OGD)",
        tasks=frozenset({"classification", "regression"}),
        metrics_schema={
            "updates": {
                "description": "How often a weight vector was moved: in a round, once for each class that asked for "
                "it.",
                "type": "integer",
                "minimum": 0,
            }
        },
    )
    grows: ClassVar[bool] = True
    carries: ClassVar[bool] = True
    average: Annotated[
        bool,
        Doc(
            "predict with the mean of the weights it has had on its way, not with the last ones: more often right, and "
            "with steadier probabilities"
        ),
    ] = False

    def takes_weights(self, task: str) -> bool:
        """Return whether weights scale the steps: not with squared errors, where a long step can increase the error."""
        return task == "classification"

    def start(self, sample: Sample, n_threads: int = 1) -> OGDState | SquaredOGDState | AveragedOGDState:
        from ikmap.learners.online.averaged_ogd import AveragedOGDState
        from ikmap.learners.online.ogd import OGDState
        from ikmap.learners.online.squared_ogd import SquaredOGDState

        assert sample.offsets is not None
        columns, divisor = int(sample.offsets[-1]), self.divisor(sample)
        state: OGDState | SquaredOGDState
        if sample.n_classes:
            constant = not sample.reaches_all
            state = OGDState.start(columns, sample.n_classes, eta=self.eta, divisor=divisor, constant=constant)
        else:
            state = SquaredOGDState.start(sample.offsets, self.eta, divisor)
        return AveragedOGDState.start(state, columns, sample.offsets.size - 1) if self.average else state

    def summary(self, state: State) -> Summary:
        from ikmap.learners.online.averaged_ogd import AveragedOGDState
        from ikmap.learners.online.ogd import OGDState
        from ikmap.learners.online.squared_ogd import SquaredOGDState

        assert isinstance(state, OGDState | SquaredOGDState | AveragedOGDState)
        return {"updates": int(state.n_updates.sum())}


class NaiveOGD(OnCells):
    """Online gradient descent on cells by products of all t psi features, as a check."""

    about: ClassVar[LearnerAbout] = LearnerAbout(
        name="ogd-naive", title="the same by products with all of t psi (IK-OGD, naive)", equivalent_to="ogd"
    )
    grows: ClassVar[bool] = True

    def start(self, sample: Sample, n_threads: int = 1) -> NaiveOGDState:
        from ikmap.learners.online.naive_ogd import NaiveOGDState

        assert sample.offsets is not None
        return NaiveOGDState.start(
            int(sample.offsets[-1]),
            sample.n_classes,
            eta=self.eta,
            divisor=self.divisor(sample),
            constant=not sample.reaches_all,
        )


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

    def memory(self, shape: Shape, rows: int | None = None) -> int:
        from ikmap.learners.kernel.support_set import support_set_bytes

        return support_set_bytes(shape.n, shape.d, shape.nnz, shape.n_classes)
