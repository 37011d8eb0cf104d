"""Online gradient descent on cells (IK-OGD).

It also learns numbers, by squared errors: the task decides the loss.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from ikmap.methods.about import LearnerAbout
from ikmap.methods.fields import Doc
from ikmap.methods.learner import GradientLearner, State
from ikmap.methods.sample import Sample

if TYPE_CHECKING:
    from ikmap.learners.online.averaged_ogd import AveragedOGDState
    from ikmap.learners.online.ogd import OGDState
    from ikmap.learners.online.squared_ogd import SquaredOGDState
    from ikmap.methods.learner import Summary


class OnCells(GradientLearner):
    """Base of learners by gradient descent on cells.

    Attributes
    ----------
    feature_scale : {"kernel", "raw"}
    """

    feature_scale: Annotated[
        Literal["kernel", "raw"], Doc("features of the cells of a row: 1/sqrt(t), so that K(x, x) = 1, or 1")
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
            "store the mean of the weights it has had on its way as its model, not the last ones: more often right, "
            "with steadier probabilities; what it predicts on its way comes from the weights as they are"
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
