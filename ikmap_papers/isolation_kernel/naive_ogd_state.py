"""Online gradient descent with the predictor written out over every cell: IK-OGD(naive) (algorithms.md 5.4).

The baseline that index form is measured against: a prediction takes t psi products with the one-hot row, of which all
but t are with zero. Decisions and weights are those of :class:`~ikmap.learners.online.ogd.OGDState`, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ikmap.arrays import Floats
from ikmap.cells import Cells
from ikmap.json_values import JsonObject, Label
from ikmap.learners.linear_model import LinearModel
from ikmap.learners.online.ogd import OGDProgress, OGDState, steps_to_margin
from ikmap.learners.rows import Rows, check_classes, check_rows, row_arrays
from ikmap_papers.isolation_kernel._naive_ogd_loops import naive_decisions, naive_pass


@dataclass
class NaiveOGDState:
    """The state of a run, from which it continues with the same bits.

    Parameters
    ----------
    index : OGDState
        The same state in index form: its table has the net number of steps on every weight. It makes models and
        checkpoints; predictions and steps are made here.
    """

    index: OGDState

    @classmethod
    def start(
        cls, columns: int, n_classes: int, eta: float = 0.5, divisor: float = 1.0, constant: bool = False
    ) -> Self:
        """Return the state before the first row, for cells with so many columns: all weights are 0."""
        return cls(OGDState.start(columns, n_classes, eta, divisor, constant))

    @property
    def n_seen(self) -> int:
        """Number of rows that it has learned from."""
        return self.index.n_seen

    @property
    def n_support(self) -> int:
        """Number of rows on which some class took a step."""
        return self.index.n_support

    @property
    def weights(self) -> Floats:
        """Current weights, as a new float64 array of shape (n_columns, K)."""
        return self.index.weights

    def partial_fit(self, rows: Rows, y: np.ndarray) -> OGDProgress:
        """Predict and then learn from each row in turn.

        Raises
        ------
        ValueError
            If rows or classes are not valid; nothing has been learned then.
        """
        cells, y = self._checked(rows), np.asarray(y)
        check_classes(y, cells.n_rows, self.index.n_classes)
        predicted, steps = np.empty(y.size, dtype=np.int32), self._steps()
        margin = steps_to_margin(self.index.eta, self.index.divisor)
        labels = y.astype(np.int32, copy=False)
        support = int(naive_pass(*_arrays(cells), labels, steps, margin, predicted, self.index.n_updates))
        self.index.table = np.ascontiguousarray(steps.T, dtype=np.int64)
        self.index.n_seen += y.size
        self.index.n_support += support
        return OGDProgress(predicted, support)

    def _checked(self, rows: Rows) -> Cells:
        """Return checked cells, with the constant cell if there is one."""
        if not isinstance(rows, Cells):
            raise ValueError(f"full products are for cells, got {type(rows).__name__}")
        check_rows(rows, self.index.table.shape[0] - self.index.constant)
        return rows.with_constant() if self.index.constant else rows

    def _steps(self) -> Floats:
        """Return the integer steps as float64, with exact sums, class by class, shape (K, n_columns)."""
        return np.ascontiguousarray(self.index.table.T, dtype=np.float64)

    def decision_function(self, rows: Rows) -> Floats:
        """Return decisions with the current weights, shape (n, K), one column for two classes."""
        cells = self._checked(rows)
        out = np.empty((cells.n_rows, self.index.table.shape[1]))
        naive_decisions(*_arrays(cells), self._steps(), self.index.eta, self.index.divisor, out)
        return out

    def grow(self, old: np.ndarray, new: np.ndarray) -> None:
        """Continue with more cells, of weight 0, in some partitionings, by the offsets before and from now on."""
        self.index.grow(old, new)

    def model(self, classes: list[Label], params: JsonObject | None = None) -> LinearModel:
        """Return the classifier with the current weights."""
        return self.index.model(classes, params)

    def checkpoint(self) -> dict[str, np.ndarray]:
        """Copy of the state as plain arrays, for :meth:`restore`."""
        return self.index.checkpoint()

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the state of a :meth:`checkpoint`; the arrays are copied."""
        return cls(OGDState.restore(arrays))


def _arrays(cells: Cells) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the codes of cells, the first column of each partitioning, and the code of an absent cell, or -1."""
    arrays: tuple[Any, ...] = row_arrays(cells)
    codes, base, _, *absent = arrays
    return codes, base, int(absent[0]) if absent else -1
