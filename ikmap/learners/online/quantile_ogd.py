"""Online quantile regression on cells, by steps on the pinball loss of each quantile.

The pinball loss of level q, ``(y - f) (q - [y < f])``, is least in the mean where a share q of the targets lies below
f (Koenker and Bassett, 1978). Its steps have one size up and one down, whatever the error, so they are told their unit
by the targets: four times the mean distance of targets from the mean of those before them. Like AdaGrad's (Duchi,
Hazan, Singer, 2011) they get smaller where many rows were, by the root of the number of rows in the cell: few rows
move a rare cell as far as it needs, and a frequent one settles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Floats
from ikmap.cells import Cells, absent_code, in_wider_layout
from ikmap.json_values import JsonObject, Label
from ikmap.learners.linear_model import LinearModel
from ikmap.learners.online._quantile_ogd_loops import quantile_pass
from ikmap.learners.rows import Rows, check_rows
from ikmap.quantiles import middle_of

STEP = 4.0
"""Times eta: the first step on a level, in mean distances of the targets from their mean."""


class QuantileProgress(NamedTuple):
    """The result of one call of :meth:`QuantileOGDState.partial_fit`.

    Attributes
    ----------
    predicted : ndarray of float64, shape (n,)
        The middle quantile of every row before the row was learned from; quantiles that cross are sorted.
    """

    predicted: np.ndarray


@dataclass
class QuantileOGDState:
    """The state of a run, from which it continues with the same bits.

    Parameters
    ----------
    offsets : ndarray of int64, shape (t + 1,)
    levels : ndarray of float64, shape (K,)
        Ascending, in (0, 1).
    eta : float
    weights : ndarray of float64, shape (K, offsets[-1])
    rows : ndarray of int64, shape (offsets[-1],)
        That were in each cell.
    intercepts : ndarray of float64, shape (K,)
    numbers : ndarray of float64, shape (3,)
        See :func:`~ikmap.learners.online._quantile_ogd_loops.quantile_pass`.
    """

    offsets: np.ndarray
    levels: Floats
    eta: float
    weights: Floats
    rows: np.ndarray
    intercepts: Floats
    numbers: Floats

    @classmethod
    def start(cls, offsets: np.ndarray, levels: Sequence[float], eta: float = 0.5) -> Self:
        """Return the state before the first row, for cells with these offsets.

        Raises
        ------
        ValueError
            Levels are not ascending, or not in (0, 1), or eta is not above 0.
        """
        known = np.array(levels, dtype=np.float64)
        if known.ndim != 1 or not known.size or not ((known > 0) & (known < 1)).all() or (np.diff(known) <= 0).any():
            raise ValueError(f"quantiles: found {levels!r}, expected ascending numbers > 0 and < 1")
        if not eta > 0:
            raise ValueError(f"eta: found {eta!r}, expected a number > 0")
        cells, K = int(offsets[-1]), known.size
        offsets = np.ascontiguousarray(offsets, dtype=np.int64)
        weights, rows = np.zeros((K, cells)), np.zeros(cells, dtype=np.int64)
        return cls(offsets, known, float(eta), weights, rows, np.zeros(K), np.zeros(3))

    @property
    def n_seen(self) -> int:
        """Number of rows that it has learned from."""
        return int(self.numbers[0])

    @property
    def n_support(self) -> int:
        """Number of kept rows, which is 0."""
        return 0

    def partial_fit(self, rows: Rows, y: np.ndarray) -> QuantileProgress:
        """Predict and then learn from each row in turn.

        Raises
        ------
        ValueError
            If rows or targets are not valid; nothing has been learned then.
        """
        assert isinstance(rows, Cells)
        check_rows(rows, self.rows.size)
        y = np.ascontiguousarray(y, dtype=np.float64)
        if y.shape != (rows.n_rows,) or not np.isfinite(y).all():
            raise ValueError(f"expected {rows.n_rows} targets that are finite numbers")
        codes = np.ascontiguousarray(rows.codes)
        if codes.dtype.kind == "i":
            codes = codes.view(f"u{codes.itemsize}")
        predicted = np.empty((y.size, self.levels.size))
        absent = absent_code(codes.dtype, rows.offsets)
        of = (self.weights, self.rows, self.intercepts, self.numbers)
        quantile_pass(codes, self.offsets, absent, y, self.levels, STEP * self.eta, *of, predicted)
        predicted.sort(axis=1)
        return QuantileProgress(np.ascontiguousarray(predicted[:, middle_of(self.levels)]))

    def decision_function(self, rows: Rows) -> np.ndarray:
        """Return all quantiles with the current weights, shape (n, K); they can cross."""
        return self.model([]).decision_function(rows)

    def model(self, classes: list[Label], params: JsonObject | None = None, learner: str = "quantile") -> LinearModel:
        """Return the model with the current weights, whose decisions have the same bits as those of the state."""
        about = {"eta": self.eta, "quantiles": self.levels.tolist(), **(params or {})}
        coef = np.ascontiguousarray(self.weights.T)
        return LinearModel(coef, self.intercepts.copy(), float(self.offsets.size - 1), learner, classes, about)

    def grow(self, old: np.ndarray, new: np.ndarray) -> None:
        """Continue with more cells, in which there were no rows."""
        self.weights = np.stack([in_wider_layout(values, old, new) for values in self.weights])
        self.rows, self.offsets = in_wider_layout(self.rows, old, new), np.ascontiguousarray(new, dtype=np.int64)

    def carry(self, matrix: sp.csr_array, offsets: np.ndarray) -> None:
        """Continue with partly redrawn partitionings: values become the matrix times the values before."""
        self.weights = np.ascontiguousarray((matrix @ self.weights.T).T)
        self.rows = np.rint(matrix @ self.rows).astype(np.int64)
        self.offsets = np.ascontiguousarray(offsets, dtype=np.int64)

    def checkpoint(self) -> dict[str, np.ndarray]:
        """Copy of the state as plain arrays, for :meth:`restore`."""
        named = ("offsets", "levels", "weights", "rows", "intercepts", "numbers")
        return {**{name: getattr(self, name).copy() for name in named}, "eta": np.array(self.eta)}

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the state of a :meth:`checkpoint`; the arrays are copied."""
        return cls(
            **{name: np.array(array) for name, array in arrays.items() if name != "eta"}, eta=float(arrays["eta"])
        )
