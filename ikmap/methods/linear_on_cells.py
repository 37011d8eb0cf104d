"""Linear SVM and logistic regression on cells: the IK-SVM of the Isolation Kernel paper, by dual descent."""

from __future__ import annotations

from typing import ClassVar

from ikmap.methods.kinds import Choice, Real
from ikmap.methods.learners import BatchOptions, DualLearner, SolverOptions
from ikmap.methods.options import MethodOptions, option


class LossOptions(MethodOptions):
    """Of all linear SVMs, on cells or on another map."""

    loss: str = option("squared_hinge", Choice(("squared_hinge", "hinge")), help="loss of the linear SVMs")


class DualOptions(SolverOptions, BatchOptions):
    """Of every :class:`~ikmap.methods.learners.DualLearner`."""

    C: float | str | None = option(
        None, Real(0, words=("auto",)), help=BatchOptions.specs()["C"].help, setting=BatchOptions.specs()["C"].setting
    )


class SVMOptions(LossOptions, DualOptions):
    """Of the linear SVM."""


class _SVM(DualLearner):
    Options: ClassVar[type[MethodOptions]] = SVMOptions


class _Logistic(DualLearner):
    Options: ClassVar[type[MethodOptions]] = DualOptions


SVM = _SVM(name="svm", title="linear SVM on cells", on="cells")
LOGISTIC = _Logistic(name="logistic", title="logistic regression on cells", on="cells", loss="logistic")
