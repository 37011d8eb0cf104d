"""A fitted model in the dual: a weighted sum of kernel values over its support points."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import ClassVar

import numpy as np

from ikmap.arrays import Floats
from ikmap.json_values import JsonObject, Label
from ikmap.kernels import kernel_from
from ikmap.learners.kernel.support_set import SupportSet
from ikmap.learners.linear_model import decision_to_index
from ikmap.learners.rows import Rows, check_rows, n_columns
from ikmap.model import Model


@dataclass(frozen=True, eq=False)
class KernelModel(Model):
    """The support points and coefficients of a binary (K = 1), one-vs-rest or one-vs-one classifier.

    Parameters
    ----------
    points : ndarray of float64 or csr_array, shape (s, d), or Cells for the isolation kernel, s rows
    coef : ndarray of float64, shape (s, K)
    intercept : ndarray of float64, shape (K,)
    scale : float
        The decision is ``scale * sum_i coef_i K(x_i, x) + intercept``.
    kernel : dict
        Name and parameters, as of :func:`ikmap.kernels.kernel_from`.
    learner : str
        Name of the learner that made it.
    classes : list
        Class labels, as JSON values. With K = 1 a decision >= 0 means ``classes[1]``. From three classes on there is an
        output for each, or one for each pair (0, 1), (0, 2), ..., (1, 2), ...: > 0 is then a vote for the first.
    one_vs_one : bool
    params : dict
        Settings of the learner, as JSON values.
    """

    kind: ClassVar[str] = "kernel"
    version: ClassVar[int] = 1

    points: Rows
    coef: Floats
    intercept: Floats
    scale: float
    kernel: JsonObject
    learner: str
    classes: list[Label]
    one_vs_one: bool = False
    params: JsonObject = field(default_factory=dict)

    @cached_property
    def _support(self) -> SupportSet:
        whole = bool((self.coef == np.rint(self.coef)).all())
        support = SupportSet(kernel_from(self.kernel), self.coef.shape[1], whole)
        if self.coef.shape[0]:
            support.append(self.points, self.coef)
        return support

    def decision_function(self, rows: Rows, n_threads: int | None = None) -> Floats:
        """Return decision values, float64 of shape (n, K), one column for two classes, independently for each row.

        For a one-vs-one classifier of three or more classes they are the numbers of votes, a column for each class.

        Raises
        ------
        ValueError
            If ``rows`` do not fit the model; row and column are named.
        """
        check_rows(rows, n_columns(self.points))
        out = self.scale * self._support.sums(rows, n_threads) / self._support.unit + self.intercept
        return votes(out, len(self.classes)) if self.one_vs_one and len(self.classes) > 2 else out

    def predict_index(self, rows: Rows) -> np.ndarray:
        """Return class numbers, int32; 0 means the second of two classes, and ties go to the lowest number."""
        return decision_to_index(self.decision_function(rows))

    def predict(self, rows: Rows) -> np.ndarray:
        """Return the class label of every row."""
        labels: np.ndarray = np.asarray(self.classes)[self.predict_index(rows)]
        return labels


def votes(decisions: Floats, n_classes: int) -> Floats:
    """Return the votes for each class, float64 of shape (n, n_classes), from the decisions of all pairs of classes."""
    out = np.zeros((decisions.shape[0], n_classes))
    for column, (a, b) in enumerate(combinations(range(n_classes), 2)):
        first = decisions[:, column] > 0
        out[:, a] += first
        out[:, b] += ~first
    return out
