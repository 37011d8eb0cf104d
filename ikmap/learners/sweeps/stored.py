"""Rows that are too many for memory: their cells at any point follow from those after the last split."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ikmap.cells import Cells
from ikmap.learners.rows import Block, balanced_weights
from ikmap.learners.sweeps._counts_loops import earlier, renumber
from ikmap.seeds import generator

SOME = 8192
"""Rows whose columns are in memory at once."""


class Some(NamedTuple):
    """Some rows of a pass: columns, targets and weights (empty where all weigh 1)."""

    columns: np.ndarray
    targets: np.ndarray
    weight: np.ndarray


class _Balanced(Sequence[Block]):
    """Blocks whose rows weigh as much more as their class does."""

    def __init__(self, blocks: Sequence[Block], of_class: np.ndarray) -> None:
        self._blocks, self._of_class = blocks, of_class

    def __len__(self) -> int:
        return len(self._blocks)

    def __getitem__(self, k: int) -> Block:  # type: ignore[override]
        block = self._blocks[k]
        return block._replace(sample_weight=weighed(block.y, block.sample_weight, self._of_class))


def weighed(y: np.ndarray, weight: np.ndarray | None, of_class: np.ndarray) -> np.ndarray:
    """Return the weights of rows of some classes: their own times those of the classes."""
    weights: np.ndarray = of_class[y] if weight is None else weight * of_class[y]
    return weights


class StoredRows:
    """Rows to learn from, each with a cell in every partitioning at any point of the sweep.

    Parameters
    ----------
    blocks : sequence of Block
        Cells after the last split, with targets and weights.
    n_rows : int
    start : Cells
        Cells of no rows, with the numbering before the first split.
    origin, column_of : ndarrays of int64, shape (number of columns,)
        Result of all splits: see :attr:`ikmap.methods.Splitting.lineage`.

    Attributes
    ----------
    start : Cells
    n_rows : int
    """

    def __init__(
        self, blocks: Sequence[Block], n_rows: int, start: Cells, origin: np.ndarray, column_of: np.ndarray
    ) -> None:
        self.blocks, self.n_rows, self.start = blocks, n_rows, start
        self._origin, self._column_of = origin, column_of

    def balanced(self, n_classes: int) -> StoredRows:
        """Return the rows with weights by which all classes weigh the same."""
        counts = np.zeros(n_classes)
        for k in range(len(self.blocks)):
            _, y, weight, _ = self.blocks[k]
            counts += np.bincount(y, weight, n_classes)
        blocks = _Balanced(self.blocks, balanced_weights(counts))
        return StoredRows(blocks, self.n_rows, self.start, self._origin, self._column_of)

    def mean(self) -> float:
        """Return the weighted mean of the targets."""
        total = of_weight = 0.0
        for k in range(len(self.blocks)):
            _, y, weight, _ = self.blocks[k]
            total += float(y.sum() if weight is None else weight @ y)
            of_weight += float(len(y) if weight is None else weight.sum())
        return total / of_weight

    def epoch(
        self, n_columns: int, number: int, seed: int, targets: Callable[[np.ndarray], np.ndarray]
    ) -> Iterator[Some]:
        """Yield all rows once, with their columns at a number of columns, in an order of the epoch.

        Blocks come in a random order, and the rows of a block in another.

        Parameters
        ----------
        targets : callable
            Turns the targets of some rows into shape (n, outputs).
        """
        table = np.empty(self._origin.size, dtype=np.int32)
        earlier(self._origin, n_columns, table)
        table = table[self._column_of]
        for k in generator(seed, number).permutation(len(self.blocks)):
            rows, y, weight, _ = self.blocks[k]
            assert isinstance(rows, Cells)
            order = generator(seed, number, int(k)).permutation(len(y))
            for begin in range(0, order.size, SOME):
                some = order[begin : begin + SOME]
                codes = rows.codes[some].astype(np.int32)
                columns = np.empty_like(codes)
                renumber(codes, rows.offsets, table, columns)
                of_weight = np.empty(0) if weight is None else np.ascontiguousarray(weight[some])
                yield Some(columns, np.ascontiguousarray(targets(y[some]), dtype=np.float64), of_weight)
