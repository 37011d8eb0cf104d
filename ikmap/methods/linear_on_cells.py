"""Linear SVM and logistic regression on cells: the IK-SVM of the Isolation Kernel paper, by dual descent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from ikmap.methods.about import LearnerAbout
from ikmap.methods.capabilities import FollowsSplits
from ikmap.methods.fields import Doc
from ikmap.methods.learner import ClassWeight, DualLearner, DualProblem
from ikmap.methods.sample import Training
from ikmap.methods.sweeping import gradient_sweep

if TYPE_CHECKING:
    from ikmap.learners.rows import Block
    from ikmap.splits import CellSplit, Swept

type LinearLoss = Annotated[
    Literal["squared_hinge", "hinge"], Doc("loss of the linear SVMs (default: squared_hinge)")
]


def balanced(class_weight: str) -> Literal["balanced"] | None:
    """Return a class weight as scikit-learn spells it."""
    return "balanced" if class_weight == "balanced" else None


class LinearSVM(DualLearner, FollowsSplits):
    """Linear SVM on cells, by dual coordinate descent."""

    about: ClassVar[LearnerAbout] = LearnerAbout(name="svm", title="linear SVM on cells")
    class_weight: ClassWeight = "none"
    loss: LinearLoss = "squared_hinge"

    @property
    def problem(self) -> DualProblem:
        return DualProblem(self.loss, self.C, self.tol, balanced(self.class_weight))

    def sweep(self, training: Training, held_out: Block, splits: Iterator[CellSplit]) -> Iterator[Swept]:
        yield from gradient_sweep(self.loss, self.C, training, held_out, splits)


class LogisticRegression(DualLearner, FollowsSplits):
    """Logistic regression on cells, by dual coordinate descent."""

    about: ClassVar[LearnerAbout] = LearnerAbout(name="logistic", title="logistic regression on cells")
    class_weight: ClassWeight = "none"

    @property
    def problem(self) -> DualProblem:
        return DualProblem("logistic", self.C, self.tol, balanced(self.class_weight))

    def sweep(self, training: Training, held_out: Block, splits: Iterator[CellSplit]) -> Iterator[Swept]:
        yield from gradient_sweep("logistic", self.C, training, held_out, splits)

    @property
    def log_odds(self) -> bool:
        return self.class_weight == "none"
