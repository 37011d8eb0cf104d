"""Ridge regression that takes in one row after the other, and is exact after each: recursive least squares.

Of weights w of features that are ``1 / sqrt(t)`` for the cells of a row, ``sum_i (y_i - w . x_i)^2 + alpha |w|^2`` is
least. The inverse of its matrix is kept, so a row costs the square of the number of columns: for few cells, or to check
by. Source: The Mondrian Kernel, section 4; algorithms.md, section 12.5.
"""

from __future__ import annotations

import math

import numpy as np

from ikmap.arrays import Floats
from ikmap.cells import Cells, in_wider_layout


class OnlineRidge:
    """Weights after the rows so far.

    Parameters
    ----------
    offsets : ndarray of int64, shape (t + 1,)
        Of the cells.
    alpha : float
        Weight of the squared norm of the weights, > 0; the paper's delta^2.

    Attributes
    ----------
    coef : ndarray of float64, shape (offsets[t],)
    n_seen : int

    Raises
    ------
    ValueError
        alpha is not above 0.
    """

    def __init__(self, offsets: np.ndarray, alpha: float) -> None:
        if not 0.0 < alpha < math.inf:
            raise ValueError(f"alpha: found {alpha!r}, expected a number above 0, such as 1e-4")
        self._offsets, self._alpha, self._value = offsets, alpha, 1 / math.sqrt(offsets.size - 1)
        n = int(offsets[-1])
        self.coef, self._inverse, self.n_seen = np.zeros(n), np.eye(n) / alpha, 0

    def grow(self, offsets: np.ndarray) -> None:
        """Go on with more cells, which have had no row so far: those that there were keep their numbers."""
        known = np.flatnonzero(in_wider_layout(np.ones(self.coef.size), self._offsets, offsets))
        self.coef = in_wider_layout(self.coef, self._offsets, offsets)
        inverse = np.eye(self.coef.size) / self._alpha
        inverse[np.ix_(known, known)] = self._inverse
        self._inverse, self._offsets = inverse, offsets

    def partial_fit(self, cells: Cells, y: np.ndarray) -> Floats:
        """Learn from rows one after the other; return what was predicted of each before, shape (n,)."""
        predicted = np.empty(len(cells))
        for i, columns in enumerate(cells.columns()):
            there = columns[columns >= 0]
            spread = self._value * self._inverse[:, there].sum(axis=1)
            predicted[i] = self._value * self.coef[there].sum()
            gain = spread / (1.0 + self._value * spread[there].sum())
            self.coef += gain * (y[i] - predicted[i])
            self._inverse -= np.outer(gain, spread)
            self.n_seen += 1
        return predicted

    def decision_function(self, cells: Cells) -> np.ndarray:
        """Predictions, shape (n,)."""
        columns = cells.columns()
        found: np.ndarray = self._value * np.where(columns >= 0, self.coef[columns], 0.0).sum(axis=1)
        return found
