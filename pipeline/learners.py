"""The learners that a run can train: what each works on, what there is to choose for it, which options it uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

SHARED = {"cells": "partitioner t max_depth", "rows": "", "online": "eta order", "batch": "C tol class_weight"}
"""Options of all learners of a kind."""


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
    own : str
        Options that can change its result, beside those of all learners like it (:data:`SHARED`) and psi.
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
    own: str = ""
    width: Literal["psi", "lambda"] | None = "psi"
    takes_C: bool = False
    same_as: str | None = None

    def parameter(self, gamma: Any) -> str | None:
        """Name of the number that its width is given by, for a value of ``--gamma``: "psi", "gamma", "lambda", None."""
        return "gamma" if self.width == "psi" and self.on == "rows" and gamma != "psi" else self.width

    def searched(self, params: Any) -> str | None:
        """What cross-validation is to choose for it, beside C; `params` has psi, gamma and decay."""
        parameter = self.parameter(params.gamma)
        asked = {None: None, "lambda": params.decay, "gamma": params.gamma, "psi": params.psi}
        return parameter if asked[parameter] == "auto" else None

    def uses(self, option: str, gamma: Any) -> bool:
        """Whether the value of an option of :data:`LEARNER_OPTIONS` can change its result."""
        return self.parameter(gamma) == "psi" if option == "psi" else option in self.options

    @property
    def options(self) -> frozenset[str]:
        """Names of all options that can change its result, but psi."""
        return frozenset(f"{SHARED[self.on]} {SHARED[self.way]} {self.own}".split())


_RAKER = "features decay flavour online_loss sigma_is"

_ALL = (
    Learner("svm", "linear SVM on cells", "cells", "batch", "solver parts loss", takes_C=True),
    Learner("logistic", "logistic regression on cells", "cells", "batch", "solver parts", takes_C=True),
    Learner("ogd", "online gradient descent on cells (IK-OGD)", "cells", "online", "feature_scale"),
    Learner("ogd-naive", "the same by products with all of t psi (IK-OGD, naive)", "cells", "online", "feature_scale",
            same_as="ogd"),
    Learner("ogd-dual", "the same as a sum over support points (IK-OGD, dual)", "cells", "online", same_as="ogd"),
    Learner("isolation-svm", "SVM with the isolation kernel", "cells", "batch"),
    Learner("kernel-ogd", "online gradient descent with a kernel (OGD, dual)", "rows", "online", "kernel gamma"),
    Learner("nogd", "online gradient descent on Nystroem features", "rows", "online",
            "kernel gamma b rank points average"),
    Learner("adaraker", "AdaRaker: sixteen Gaussian kernels in random features", "rows", "online", _RAKER, "lambda"),
    Learner("raker", "Raker: AdaRaker without its intervals", "rows", "online", _RAKER, "lambda"),
    Learner("kernel-svm", "SVM with a kernel", "rows", "batch", "kernel gamma"),
    Learner("chi2-svm", "SVM with the additive chi-square kernel", "rows", "batch", width=None),
    Learner("chi2-linear", "linear SVM on the chi-square map", "rows", "batch", "loss chi2_order", None),
    Learner("fourier-linear", "linear SVM on random Fourier features", "rows", "batch", "kernel gamma loss features"),
)  # fmt: skip

LEARNERS = {learner.name: learner for learner in _ALL}
LEARNER_OPTIONS = frozenset({"psi"}).union(*(learner.options for learner in _ALL))
"""Options that decide the result of some learners only."""
