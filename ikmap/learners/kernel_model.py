"""A fitted classifier in the dual: a weighted sum of kernel values over its support points."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from ikmap.cells import Cells
from ikmap.kernels import kernel_from
from ikmap.learners.linear_model import decision_to_index
from ikmap.learners.rows import Rows, check_rows, n_columns
from ikmap.learners.support_set import SupportSet
from ikmap.model import Model


@dataclass(frozen=True, eq=False)
class KernelModel(Model):
    """Support points and coefficients of a binary (K = 1) or one-vs-rest classifier.

    Parameters
    ----------
    points : ndarray of float64 (s, d), csr_array (s, d), or for the isolation kernel codes of integers (s, t)
    offsets : ndarray of int64
        Of the cells; of length 0 for other rows.
    coef : ndarray of float64, shape (s, K)
    intercept : ndarray of float64, shape (K,)
    scale : float
        The decision is ``scale * sum_i coef_i K(x_i, x) + intercept``.
    kernel : dict
        Name and parameters, as of :func:`ikmap.kernels.kernel_from`.
    learner : str
        Name of the learner that made it.
    classes : list
        Class labels, as JSON values. With K = 1 a decision >= 0 means ``classes[1]``.
    params : dict
        What the learner was asked to do, as JSON values.
    """

    kind: ClassVar[str] = "kernel"
    version: ClassVar[int] = 1

    points: np.ndarray | sp.csr_array
    offsets: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    scale: float
    kernel: dict[str, Any]
    learner: str
    classes: list[Any]
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def _rows(self) -> Rows:
        return Cells(self.points, self.offsets) if self.offsets.size else self.points  # type: ignore[arg-type]

    @cached_property
    def _support(self) -> SupportSet:
        whole = bool((self.coef == np.rint(self.coef)).all())
        support = SupportSet(kernel_from(self.kernel), self.coef.shape[1], whole)
        if self.coef.shape[0]:
            support.append(self._rows, self.coef)
        return support

    def decision_function(self, rows: Rows, n_threads: int | None = None) -> np.ndarray:
        """Decision values, float64: shape (n,) for two classes, else (n, K). Each row stands for itself.

        Raises
        ------
        ValueError
            If ``rows`` do not fit the model; row and column are named.
        """
        check_rows(rows, n_columns(self._rows))
        support = self._support
        support.n_threads = n_threads
        out = self.scale * support.sums(rows) / support.kernel.unit + self.intercept
        return out[:, 0] if out.shape[1] == 1 else out

    def predict_index(self, rows: Rows) -> np.ndarray:
        """Class number of every row, int32; sign(0) = +1, ties go to the lowest number."""
        return decision_to_index(self.decision_function(rows))

    def predict(self, rows: Rows) -> np.ndarray:
        """Class label of every row."""
        return np.asarray(self.classes)[self.predict_index(rows)]
