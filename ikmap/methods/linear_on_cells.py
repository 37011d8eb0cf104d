"""Linear SVM and logistic regression on cells: the IK-SVM of the Isolation Kernel paper, by dual descent."""

from __future__ import annotations

from typing import ClassVar

from ikmap.methods.kinds import Choice, Integer, Real
from ikmap.methods.learners import BatchOptions, DualLearner
from ikmap.methods.options import MethodOptions, OptionError, option


class LossOptions(MethodOptions):
    """Of all linear SVMs, on cells or on another map."""

    loss: str = option("squared_hinge", Choice(("squared_hinge", "hinge")), help="loss of the linear SVMs")


class DualOptions(BatchOptions):
    """Of every :class:`~ikmap.methods.learners.DualLearner`."""

    C: float | str | None = option(
        None, Real(0, words=("auto",)), help=BatchOptions.specs()["C"].help, setting=BatchOptions.specs()["C"].setting
    )
    solver: str = option(
        "auto",
        Choice(("auto", "memory", "block", "distributed")),
        help="how svm and logistic are solved: all rows in memory, block by block from a file, or in parts by many "
        "workers; auto goes by size",
    )
    parts: int | None = option(
        None, Integer(2), help="parts of the rows for --solver distributed (default: by size, 8 to 64)"
    )

    def check_together(self) -> None:
        super().check_together()
        if self.parts is not None and self.solver not in ("auto", "distributed"):
            raise OptionError(f"--parts {self.parts}: found --solver {self.solver}, expected distributed")


class SVMOptions(LossOptions, DualOptions):
    """Of the linear SVM."""


class _SVM(DualLearner):
    Options: ClassVar[type[MethodOptions]] = SVMOptions


class _Logistic(DualLearner):
    Options: ClassVar[type[MethodOptions]] = DualOptions


SVM = _SVM(name="svm", title="linear SVM on cells", on="cells")
LOGISTIC = _Logistic(name="logistic", title="logistic regression on cells", on="cells", loss="logistic")
