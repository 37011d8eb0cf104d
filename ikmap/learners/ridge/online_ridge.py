"""Recursive least squares: ridge regression that is exact after each row.

Of weights w of features that are ``1 / sqrt(t)`` for the cells of a row, ``sum_i (y_i - b - w . x_i)^2 + alpha |w|^2``
is least, where b is the mean of the targets so far. The inverse of its matrix is kept, so a row costs the square of the
number of columns: for few cells, or to check by. Source: The Mondrian Kernel, section 4; algorithms.md, section 12.5.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ikmap.cells import Cells, in_wider_layout
from ikmap.json_values import JsonObject, Label
from ikmap.learners._scores_loops import decisions
from ikmap.learners.linear_model import LinearModel
from ikmap.learners.rows import Rows, check_numbers, check_rows, n_rows, row_arrays

NAME = "online-ridge"


class RidgeProgress(NamedTuple):
    """The result of one call of :meth:`OnlineRidge.partial_fit`.

    Attributes
    ----------
    predicted : ndarray of float64, shape (n,)
        Prediction for every row before the row was learned from.
    """

    predicted: NDArray[np.float64]


@dataclass
class OnlineRidge:
    """The state of a run, from which it continues with the same bits.

    As the mean moves, so do the weights, which are linear in the targets: those of the targets are kept, and those of
    targets that are all 1.

    Parameters
    ----------
    weights : ndarray of float64, shape (n_columns, 2)
        Weights of the targets themselves, and of targets that are all 1. Changed in place.
    inverse : ndarray of float64, shape (n_columns, n_columns)
        Inverse of ``X' X + alpha 1``. Changed in place.
    alpha : float
        Weight of the squared norm of the weights, > 0; the paper's delta^2.
    divisor : float
        Root of the number of partitionings.
    total : float
        Sum of the targets seen.
    n_seen : int
    """

    weights: NDArray[np.float64]
    inverse: NDArray[np.float64]
    alpha: float
    divisor: float
    total: float = 0.0
    n_seen: int = 0

    @classmethod
    def start(cls, offsets: NDArray[np.int64], alpha: float) -> Self:
        """Return the state before the first row of cells with these offsets.

        Raises
        ------
        ValueError
            alpha is not above 0.
        """
        if not 0.0 < alpha < math.inf:
            raise ValueError(f"alpha: found {alpha!r}, expected a number above 0, such as 1e-4")
        n = int(offsets[-1])
        inverse = np.zeros((n, n))
        np.fill_diagonal(inverse, 1.0 / alpha)
        return cls(np.zeros((n, 2)), inverse, float(alpha), math.sqrt(offsets.size - 1))

    @property
    def intercept(self) -> float:
        """Mean of the targets so far; 0 before the first."""
        return self.total / self.n_seen if self.n_seen else 0.0

    @property
    def coef(self) -> NDArray[np.float64]:
        """Weights of targets less their mean, shape (n_columns,)."""
        coef: NDArray[np.float64] = self.weights[:, 0] - self.intercept * self.weights[:, 1]
        return coef

    @property
    def n_support(self) -> int:
        """Number of rows so far, each of which changed the state."""
        return self.n_seen

    def partial_fit(self, rows: Rows, y: NDArray[np.generic]) -> RidgeProgress:
        """Predict and then learn from each row in turn.

        Parameters
        ----------
        rows : Cells
        y : ndarray of float64, shape (n,)

        Raises
        ------
        ValueError
            Rows or targets are not valid; nothing has been learned then.
        """
        check_rows(rows, self.inverse.shape[0])
        assert isinstance(rows, Cells)
        targets = np.ascontiguousarray(y, dtype=np.float64)
        check_numbers(targets, n_rows(rows))
        predicted = np.empty(targets.size)
        for i in range(targets.size):
            columns = rows[i : i + 1].columns()[0]
            inside = columns[columns >= 0]
            before = self.weights[inside].sum(axis=0) / self.divisor
            predicted[i] = self.intercept + before[0] - self.intercept * before[1]
            # The matrix is symmetric: its rows are what its columns are, and lie side by side.
            spread = self.inverse[inside].sum(axis=0) / self.divisor
            gain = spread / (1.0 + spread[inside].sum() / self.divisor)
            self.weights += np.multiply.outer(gain, [targets[i] - before[0], 1.0 - before[1]])
            # Only where the gain is not 0: cells that never met the row's are left alone.
            moved = np.flatnonzero(gain)
            for j in moved:
                self.inverse[j] -= gain[j] * spread
            self.total += targets[i]
            self.n_seen += 1
        return RidgeProgress(predicted)

    def decision_function(self, rows: Rows) -> NDArray[np.float64]:
        """Return predictions with the weights as they are now, shape (n, 1)."""
        complete = check_rows(rows, self.inverse.shape[0])
        out = np.empty((n_rows(rows), 1))
        arrays = row_arrays(rows, complete=complete)
        decisions(arrays, self.coef[:, None], self.divisor, np.array([self.intercept]), out)
        return out

    def grow(self, old: NDArray[np.int64], new: NDArray[np.int64]) -> None:
        """Continue with more cells in some partitionings, by the offsets before and from now on."""
        known = np.flatnonzero(in_wider_layout(np.ones(int(old[-1])), old, new))
        self.weights = in_wider_layout(self.weights, old, new)
        n = int(new[-1])
        inverse = np.zeros((n, n))
        np.fill_diagonal(inverse, 1.0 / self.alpha)
        inverse[np.ix_(known, known)] = self.inverse
        self.inverse = inverse

    def checkpoint(self) -> dict[str, NDArray[np.generic]]:
        """Return a copy of the state as plain arrays, for :meth:`restore`."""
        return {
            "weights": self.weights.copy(),
            "inverse": self.inverse.copy(),
            "scalars": np.array([self.alpha, self.divisor, self.total]),
            "n_seen": np.array(self.n_seen, dtype=np.int64),
        }

    @classmethod
    def restore(cls, arrays: Mapping[str, NDArray[np.generic]]) -> Self:
        """Return the state of a :meth:`checkpoint`; the arrays are copied."""
        alpha, divisor, total = (float(value) for value in arrays["scalars"].astype(np.float64))
        weights, inverse = (np.array(arrays[name], dtype=np.float64) for name in ("weights", "inverse"))
        return cls(weights, inverse, alpha, divisor, total, int(arrays["n_seen"]))

    def model(self, classes: list[Label], params: JsonObject | None = None) -> LinearModel:
        """Return the model with the weights as they are now; its decisions are those of the state, to the bit."""
        about: JsonObject = {"alpha": self.alpha, **(params or {})}
        return LinearModel(self.coef[:, None], np.array([self.intercept]), self.divisor, NAME, classes, about)
