"""The learners that a run can train: what each works on, and what there is to choose for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Learner:
    """A name of ``--learner``.

    Attributes
    ----------
    name : str
    title : str
        For people.
    on : {"cells", "rows"}
        Works on the cells of the run's partitioner, or on the rows themselves.
    way : {"online", "batch"}
        Learns from one row after the other, or from all at once.
    width : {"psi", "lambda", None}
        What cross-validation chooses, beside C: the psi of the cells or of a Laplacian kernel, AdaRaker's penalty.
    takes_C : bool
        C is cross-validated too, if it is "auto"; else "auto" means 1.
    same_as : str or None
        A learner with the very same decisions, cross-validated in its place.
    """

    name: str
    title: str
    on: Literal["cells", "rows"]
    way: Literal["online", "batch"]
    width: Literal["psi", "lambda"] | None = "psi"
    takes_C: bool = False
    same_as: str | None = None


_ALL = (
    Learner("svm", "linear SVM on cells", "cells", "batch", takes_C=True),
    Learner("logistic", "logistic regression on cells", "cells", "batch", takes_C=True),
    Learner("ogd", "online gradient descent on cells (IK-OGD)", "cells", "online"),
    Learner("ogd-naive", "the same by products with all of t psi (IK-OGD, naive)", "cells", "online", same_as="ogd"),
    Learner("ogd-dual", "the same as a sum over support points (IK-OGD, dual)", "cells", "online", same_as="ogd"),
    Learner("isolation-svm", "SVM with the isolation kernel", "cells", "batch"),
    Learner("kernel-ogd", "online gradient descent with a kernel (OGD, dual)", "rows", "online"),
    Learner("nogd", "online gradient descent on Nystroem features", "rows", "online"),
    Learner("adaraker", "AdaRaker: sixteen Gaussian kernels in random features", "rows", "online", "lambda"),
    Learner("raker", "Raker: AdaRaker without its intervals", "rows", "online", "lambda"),
    Learner("kernel-svm", "SVM with a kernel", "rows", "batch"),
    Learner("chi2-svm", "SVM with the additive chi-square kernel", "rows", "batch", None),
    Learner("chi2-linear", "linear SVM on the chi-square map", "rows", "batch", None),
    Learner("fourier-linear", "linear SVM on random Fourier features", "rows", "batch"),
)

LEARNERS = {learner.name: learner for learner in _ALL}
