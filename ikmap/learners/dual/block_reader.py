"""Blocks of a training set in the form of compiled loops, one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np

from ikmap._threads import ahead
from ikmap.arrays import Floats, Words
from ikmap.cells import Cells
from ikmap.learners.rows import (
    Block,
    Blocks,
    RowArrays,
    Rows,
    check_classes,
    check_numbers,
    check_rows,
    check_weights,
    concatenated,
    n_columns,
    n_rows,
    row_arrays,
    squared_norms,
)

LEAST_WEIGHT = 1e-300
"""Weight below which a row counts as absent: one over C times it would be beyond all numbers."""


class CompiledBlock(NamedTuple):
    """Arrays of one block: rows (see ``_rows_loops``), squared norms, classes or numbers, weights (empty for ones)."""

    rows: RowArrays
    norms: np.ndarray
    y: np.ndarray
    sample_weight: np.ndarray


class BlockReader:
    """A reader of blocks that keeps the last one, and checks each block when it is first read.

    Parameters
    ----------
    blocks : sequence of Block
    n_classes : int
        0 where targets are numbers.
    cell_value : float or None
        Feature value of a cell; None for 1/sqrt(t), or 1 without ``normalize``.
    """

    def __init__(self, blocks: Blocks, n_classes: int, cell_value: float | None, normalize: bool) -> None:
        self.blocks, self.n_classes = blocks, n_classes
        self.cell_value, self.normalize = cell_value, normalize
        self.columns: int | None = None
        self.sizes: dict[int, int] = {}
        self.largest = 0
        self.heaviest = 1.0
        self.cells: tuple[np.ndarray, float] | None = None
        self._complete: dict[int, bool] = {}
        self._numbers: tuple[int, ...] = ()
        self._loaded: CompiledBlock | None = None

    def __len__(self) -> int:
        return len(self.blocks)

    def __getitem__(self, number: int) -> CompiledBlock:
        return self.together((number,))

    def together(self, numbers: tuple[int, ...]) -> CompiledBlock:
        """Return the rows of some blocks, one block after the other."""
        if self._numbers != numbers or self._loaded is None:
            self._loaded = None  # Before the next block is read: never two in memory.
            self._loaded, self._numbers = self._read(numbers), numbers
        return self._loaded

    def each(self, groups: Sequence[tuple[int, ...]]) -> Iterator[CompiledBlock]:
        """Yield the rows of each group, and read the next ones meanwhile; a single group stays in memory."""
        if len(groups) == 1:
            yield self.together(groups[0])
        else:
            self.release()
            yield from ahead(self._read, groups)

    def survey(self) -> Floats:
        """Look at all blocks once: sizes become known, and the weight of the rows of every class is returned.

        Then ``heaviest`` is the weight of the row that has the largest, and ``cells``, where all rows are cells and
        none lacks one, the first column of every partitioning and the feature value of a cell.
        """
        counts, heaviest = np.zeros(self.n_classes), []
        for b in range(len(self)):
            rows, _, y, weight = self[b]
            if self.n_classes:
                counts += np.bincount(y, weights=weight if weight.size else None, minlength=self.n_classes)
            heaviest.append(weight.max() if weight.size else 1.0)
        self.heaviest = float(max(heaviest))
        self.cells = cast("tuple[Words, float]", rows[1:]) if all(self._complete.values()) else None
        return counts

    def rows_of_blocks(self) -> list[int]:
        """Return the number of rows of every block; unread blocks are read."""
        for b in range(len(self)):
            if b not in self.sizes:
                self[b]
        return [self.sizes[b] for b in range(len(self))]

    def _read(self, numbers: tuple[int, ...]) -> CompiledBlock:
        parts = []
        for number in numbers:
            part = self.blocks[number]
            self._check(number, part)
            parts.append(part)
        block = concatenated(parts)
        del parts, part
        complete = all(self._complete[number] for number in numbers)
        rows = row_arrays(block.rows, self._value(block.rows), complete=complete)
        if len(numbers) == 1:
            self.largest = max(self.largest, sum(getattr(array, "nbytes", 0) for array in rows))
        weight = np.empty(0) if block.sample_weight is None else block.sample_weight
        if weight.size and weight.min() < LEAST_WEIGHT:
            weight = np.where(weight < LEAST_WEIGHT, 0.0, weight)
        return CompiledBlock(
            rows,
            squared_norms(rows),
            np.ascontiguousarray(block.y, dtype=np.int32 if self.n_classes else np.float64),
            np.ascontiguousarray(weight, dtype=np.float64),
        )

    def release(self) -> None:
        """Release the block in memory, which is read again on demand."""
        self._loaded, self._numbers = None, ()

    def _value(self, rows: Rows) -> float:
        if self.cell_value is not None:
            return self.cell_value
        return 1.0 / np.sqrt(rows.n_partitions) if self.normalize and isinstance(rows, Cells) else 1.0

    def _check(self, number: int, block: Block) -> None:
        n = n_rows(block.rows)
        if number not in self.sizes:
            try:
                self._complete[number] = check_rows(block.rows, self.columns)
                if self.n_classes:
                    check_classes(block.y, n, self.n_classes)
                else:
                    check_numbers(block.y, n)
                if block.sample_weight is not None:
                    check_weights(block.sample_weight, n)
            except ValueError as error:
                raise ValueError(f"block {number}: {error}" if len(self) > 1 else str(error)) from None
            self.columns = n_columns(block.rows)
            self.sizes[number] = n
        elif n != self.sizes[number]:
            raise ValueError(f"block {number} has {n} rows, had {self.sizes[number]} when read before")
