"""A fitted model with cells of its own: partitionings, and a linear model on their cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ikmap.arrays import Floats
from ikmap.json_values import Label
from ikmap.learners.linear_model import LinearModel, decision_to_index
from ikmap.learners.rows import check_rows, n_rows
from ikmap.model import Model
from ikmap.partitioners import Partitions
from ikmap.rows import Rows

BLOCK_BYTES = 1 << 24
"""Bytes of the cells that are in memory at a time."""


@dataclass(frozen=True, eq=False)
class CellsModel(Model):
    """Partitionings that a learner has made, and a linear model on their cells.

    Parameters
    ----------
    partitions : Partitions
    linear : LinearModel
    """

    kind: ClassVar[str] = "own-cells"
    version: ClassVar[int] = 1

    partitions: Partitions
    linear: LinearModel

    @property
    def learner(self) -> str:
        """Name of the learner that made the model."""
        return self.linear.learner

    @property
    def classes(self) -> list[Label]:
        """Class labels by class number."""
        return self.linear.classes

    def decision_function(self, rows: Rows, n_threads: int | None = None) -> Floats:
        """Return decision values, float64 of shape (n, K), one column for two classes, independently for each row.

        Raises
        ------
        ValueError
            If ``rows`` do not fit the model; row and column are named.
        """
        check_rows(rows)
        at_once = max(1, BLOCK_BYTES // (4 * self.partitions.n_partitions))
        blocks = []
        for start in range(0, max(1, n_rows(rows)), at_once):
            cells = self.partitions.cells(rows[start : start + at_once], n_threads)
            blocks.append(self.linear.decision_function(cells))
        return np.concatenate(blocks)

    def predict_index(self, rows: Rows) -> np.ndarray:
        """Return class numbers, int32; 0 means the second of two classes, and ties go to the lowest number."""
        return decision_to_index(self.decision_function(rows))

    def predict(self, rows: Rows) -> np.ndarray:
        """Return the class label of every row."""
        labels: np.ndarray = np.asarray(self.classes)[self.predict_index(rows)]
        return labels
