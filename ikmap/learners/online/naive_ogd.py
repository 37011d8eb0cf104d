"""Online gradient descent with the predictor written out over every cell: IK-OGD(naive) (algorithms.md 5.4).

The baseline that index form is measured against: a prediction takes t psi products with the one-hot row, of which all
but t are with zero. Decisions and weights are those of :class:`~ikmap.learners.online.ogd.OGDState`, bit for bit.
"""

from __future__ import annotations

import numpy as np

from ikmap.arrays import Floats, Int32s
from ikmap.cells import Cells
from ikmap.learners.online._naive_ogd_loops import naive_decisions, naive_pass
from ikmap.learners.online.ogd import OGDProgress, OGDState, steps_to_margin
from ikmap.learners.rows import RowArrays, Rows, n_rows, row_arrays


class NaiveOGDState(OGDState):
    """:class:`OGDState` for cells without sample weights, with full products; updates are indexed as there."""

    def partial_fit(self, rows: Rows, y: np.ndarray, sample_weight: np.ndarray | None = None) -> OGDProgress:
        """Predict and then learn from each row in turn: see :meth:`OGDState.partial_fit`.

        Raises
        ------
        ValueError
            If there are sample weights, or rows or classes are not valid; nothing has been learned then.
        """
        if sample_weight is not None:
            raise ValueError("full products are for rows without sample weights")
        return super().partial_fit(_only_cells(rows), y)

    def _integer_pass(self, arrays: RowArrays, y: Int32s, rows: Cells, predicted: np.ndarray) -> int:
        steps = self._steps()
        margin = steps_to_margin(self.eta, self.divisor)
        support: int = naive_pass(arrays, rows.n_partitions, y, steps, margin, predicted, self.n_updates)
        self.table = np.ascontiguousarray(steps.T, dtype=np.int64)
        return support

    def _steps(self) -> Floats:
        """Return the integer steps as float64, with exact sums, class by class, shape (K, n_columns)."""
        return np.ascontiguousarray(self.table.T, dtype=np.float64)

    def decision_function(self, rows: Rows) -> Floats:
        """Return decisions with the current weights, shape (n, K), one column for two classes."""
        rows, complete = self._checked(_only_cells(rows))
        out = np.empty((n_rows(rows), self.table.shape[1]))
        arrays = row_arrays(rows, complete=complete)
        naive_decisions(arrays, _only_cells(rows).n_partitions, self._steps(), self.eta, self.divisor, out)
        return out


def _only_cells(rows: Rows) -> Cells:
    if not isinstance(rows, Cells):
        raise ValueError(f"full products are for cells, got {type(rows).__name__}")
    return rows


def naive_ogd_bytes(n_columns: int, n_classes: int = 2) -> int:
    """Return the bytes that a run takes, beside the rows: the steps three times, and a one-hot row."""
    return 8 * n_columns * (3 * (1 if n_classes == 2 else n_classes) + 1)
