"""Feature columns of some rows at every point of a sweep over splits."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ikmap.arrays import Floats
from ikmap.cells import Cells
from ikmap.learners.sweeps._counts_loops import move
from ikmap.learners.sweeps._gradient_loops import decide
from ikmap.splits import CellSplit

GROWTH = 1 / 32
"""Share by which the number of columns grows from one checkpoint to the next, unless another is given."""


class ColumnSplit(NamedTuple):
    """A split of columns: `left` keeps the column of the split cell, `right` is a new column."""

    left: int
    right: int
    rows: Sequence[tuple[np.ndarray, np.ndarray]]


@dataclass
class Columns:
    """Columns of sets of rows, numbered in the order of creation.

    Attributes
    ----------
    of : list of ndarray of int32, shape (n, t)
        Column of each row in each partitioning; -1 where it has no cell.
    n : int
        Number of columns.
    value : int or float
        Value of the last split.
    """

    of: list[np.ndarray]
    n: int
    value: float = 0.0

    def __init__(self, start: Sequence[Cells]) -> None:
        self.of = [cells.columns().astype(np.int32) for cells in start]
        self.n = int(start[0].offsets[-1])
        widths = np.diff(start[0].offsets)
        self._column_of = [
            dict(enumerate(range(first, first + width)))
            for first, width in zip(start[0].offsets[:-1].tolist(), widths.tolist(), strict=True)
        ]

    @property
    def n_partitions(self) -> int:
        return len(self._column_of)

    def _renumbered(self, split: CellSplit) -> int:
        """Return the column of the split cell, which its left part keeps; the right part has the next."""
        numbers = self._column_of[split.partitioning]
        left = numbers.pop(split.parent)
        numbers[split.left], numbers[split.right] = left, self.n
        self.n += 1
        return left

    def apply_all(self, splits: Sequence[CellSplit]) -> np.ndarray:
        """Apply some splits, at least one, and return the columns that their left parts keep.

        Those of their right parts are the next ones in order.
        """
        first, left = self.n, np.array([self._renumbered(split) for split in splits], dtype=np.int64)
        self.value = splits[-1].value
        partitionings = np.array([split.partitioning for split in splits], dtype=np.int64)
        for which, columns in enumerate(self.of[: len(splits[0].rows)]):
            gone = [split.rows[which][1] for split in splits]
            rows = np.concatenate(gone).astype(np.int32, copy=False)
            if rows.size:
                move(columns, rows, np.cumsum([of.size for of in gone]), partitionings, first)
            # Rows that lost a cell are in no later split there, so this may come after all that are moved.
            for lost, places in [split.lost[which] for split in splits if split.lost]:
                if lost.size:
                    columns[lost, places] = -1
        return left

    def apply(self, split: CellSplit) -> ColumnSplit:
        """Move the rows of a split to their columns: of the sets that are held here, the first ones that it has."""
        m, right = split.partitioning, self.n
        left = self._renumbered(split)
        self.value = split.value
        for columns, (rows, partitionings) in zip(self.of, split.lost, strict=False):
            if rows.size:
                columns[rows, partitionings] = -1
        for columns, (_, gone) in zip(self.of, split.rows, strict=False):
            if gone.size:
                columns[gone, m] = right
        return ColumnSplit(left, right, split.rows)

    def split_by(self, splits: Iterable[CellSplit]) -> np.ndarray:
        """Return ascending columns of now that the next splits will split."""
        number_of: dict[tuple[int, int], int] = {}
        n, columns = self.n, set()
        for split in splits:
            m = split.partitioning
            column = number_of.pop((m, split.parent), None)
            if column is None:
                column = self._column_of[m][split.parent]
            number_of[m, split.left], number_of[m, split.right] = column, n
            n += 1
            if column < self.n:
                columns.add(column)
        return np.array(sorted(columns), dtype=np.int64)

    def decisions(self, weights: Floats, which: int = 1) -> Floats:
        """Return the decisions for the rows of one set, ``sum(weights) / sqrt(t)`` over their columns, shape (n,)."""
        columns = self.of[which]
        decisions = np.empty((len(columns), 1))
        padded = np.append(weights, 0.0)[:, None]  # the last for rows without a cell
        decide(columns, padded, 1 / math.sqrt(columns.shape[1]), decisions)
        return decisions[:, 0]


def to_checkpoints(splits: Iterable[CellSplit], n_columns: int, growth: float = GROWTH) -> Iterator[list[CellSplit]]:
    """Yield splits up to each checkpoint, where the number of columns, now `n_columns`, has grown by a share.

    Splits of one value stay together.

    Parameters
    ----------
    growth : float
        0 for a checkpoint at every value.
    """
    done: list[CellSplit] = []
    wanted = n_columns * (1 + growth)
    for split in splits:
        if done and n_columns >= wanted and split.value > done[-1].value:
            yield done
            done, wanted = [], n_columns * (1 + growth)
        done.append(split)
        n_columns += 1
    if done:
        yield done
