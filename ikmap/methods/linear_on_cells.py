"""Linear SVM and logistic regression on cells: the IK-SVM of the Isolation Kernel paper, by dual descent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from ikmap.methods.kinds import Choice, Real
from ikmap.methods.learners import BatchOptions, DualLearner, SolverOptions
from ikmap.methods.options import MethodOptions, option
from ikmap.methods.sweeping import gradient_sweep

if TYPE_CHECKING:
    from ikmap.learners.rows import Block
    from ikmap.methods.sample import Training
    from ikmap.splits import CellSplit, Swept


class LossOptions(MethodOptions):
    """Of all linear SVMs, on cells or on another map."""

    loss: str = option(
        "squared_hinge",
        Choice(("squared_hinge", "hinge")),
        help="loss of the linear SVMs (default: squared_hinge)",
    )


class DualOptions(SolverOptions, BatchOptions):
    """Of every :class:`~ikmap.methods.learners.DualLearner`."""

    C: float | str | None = option(
        None, Real(0, words=("auto",)), help=BatchOptions.specs()["C"].help, setting=BatchOptions.specs()["C"].setting
    )


class SVMOptions(LossOptions, DualOptions):
    """Of the linear SVM."""


class _Linear(DualLearner):
    def sweeps(self, options: Any) -> bool:
        return True

    def sweep(self, options: Any, training: Training, held_out: Block, splits: Iterator[CellSplit]) -> Iterator[Swept]:
        yield from gradient_sweep(self.loss or options.loss, float(options.C), training, held_out, splits)


class _SVM(_Linear):
    Options: ClassVar[type[MethodOptions]] = SVMOptions


class _Logistic(_Linear):
    Options: ClassVar[type[MethodOptions]] = DualOptions

    def log_odds(self, options: Any) -> bool:
        return options.class_weights is None


SVM = _SVM(name="svm", title="linear SVM on cells", on="cells")
LOGISTIC = _Logistic(name="logistic", title="logistic regression on cells", on="cells", loss="logistic")
