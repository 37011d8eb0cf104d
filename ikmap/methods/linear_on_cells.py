"""Linear SVM and logistic regression on cells: the IK-SVM of the Isolation Kernel paper, by dual descent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from ikmap.methods.about import LearnerAbout
from ikmap.methods.capabilities import FollowsSplits
from ikmap.methods.fields import Doc
from ikmap.methods.learner import BatchClassifier, DualLearner, DualProblem
from ikmap.methods.sample import Training
from ikmap.methods.sweeping import gradient_sweep

if TYPE_CHECKING:
    from ikmap.learners.rows import Block
    from ikmap.splits import CellSplit, Swept

type LinearLoss = Annotated[Literal["squared_hinge", "hinge"], Doc("loss of the linear SVMs (default: squared_hinge)")]


class LinearSVM(DualLearner, BatchClassifier, FollowsSplits):
    """Linear SVM on cells, by dual coordinate descent."""

    about: ClassVar[LearnerAbout] = LearnerAbout(name="svm", title="linear SVM on cells")
    loss: LinearLoss = "squared_hinge"

    @property
    def problem(self) -> DualProblem:
        return DualProblem(self.loss, self.C, self.tol, self.weight_of_classes)

    def sweep(self, training: Training, held_out: Block, splits: Iterator[CellSplit]) -> Iterator[Swept]:
        yield from gradient_sweep(self.loss, self.C, training, held_out, splits, self.weight_of_classes)


class LogisticRegression(DualLearner, BatchClassifier, FollowsSplits):
    """Logistic regression on cells, by dual coordinate descent."""

    about: ClassVar[LearnerAbout] = LearnerAbout(name="logistic", title="logistic regression on cells")

    @property
    def problem(self) -> DualProblem:
        return DualProblem("logistic", self.C, self.tol, self.weight_of_classes)

    def sweep(self, training: Training, held_out: Block, splits: Iterator[CellSplit]) -> Iterator[Swept]:
        yield from gradient_sweep("logistic", self.C, training, held_out, splits, self.weight_of_classes)

    @property
    def log_odds(self) -> bool:
        return self.class_weight == "none"
