"""A fitted model with cells of its own: partitionings, and a linear model on their cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ikmap.cells import Cells
from ikmap.learners.linear_model import LinearModel, OnOwnFeatures
from ikmap.partitioners import Partitions
from ikmap.rows import Rows

BLOCK_BYTES = 1 << 24
"""Bytes of the cells that are in memory at a time."""


@dataclass(frozen=True, eq=False)
class CellsModel(OnOwnFeatures):
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
    def rows_at_once(self) -> int:
        return max(1, BLOCK_BYTES // (4 * self.partitions.n_partitions))

    def features(self, rows: Rows, n_threads: int | None = None) -> Cells:
        return self.partitions.cells(rows, n_threads)
