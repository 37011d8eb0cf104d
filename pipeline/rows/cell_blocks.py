"""Blocks of cells to learn from, read from the store as they are visited."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterator, Sequence

import numpy as np

from ikmap._threads import ahead
from ikmap.arrays import Bools
from ikmap.cells import Cells, absent_code, packed_dtype
from ikmap.learners.rows import Block
from pipeline.errors import writing
from pipeline.rows.parts import WEIGHTS
from pipeline.rows.prepared import READ_BYTES
from pipeline.rows.row_weights import WeightRule
from pipeline.storage.arrays import read
from pipeline.storage.store import Store

VISIT_ROWS = 1024
"""Number of rows of a block if data is larger than memory: small, so that the solver can combine blocks anew."""
READ_AHEAD = 3
"""Number of runs of rows that are read while another is packed: reading mostly waits."""


class CellBlocks(Sequence[Block]):
    """Training cells in blocks that fit in memory, packed to the smallest integer type, read as they are visited.

    Where 256 cells fill a byte and a row of a block has none (-1), the block takes two bytes for each.

    Parameters
    ----------
    store : Store
    name : str
        Group with the arrays `codes` and `labels`, and `weights` where the data has some.
    offsets : ndarray of int64, shape (t + 1,)
        Feature columns of the partitionings.
    blocks : list of lists of (start, stop)
        Rows of each block (:func:`~pipeline.rows.block_sizes.learning_blocks`).
    weigh : callable, optional
        Function for the weights of rows (:func:`~pipeline.rows.row_weights.weight_rule`); default: those of the data.
    kept : bool array, shape (n,), optional
        True for the training rows that are learned from; the others are left out of their blocks. Default: all are.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        offsets: np.ndarray,
        blocks: list[list[tuple[int, int]]],
        weigh: WeightRule | None = None,
        kept: Bools | None = None,
    ) -> None:
        self._arrays = store.open_arrays(name)
        self._offsets, self._blocks, self._weigh, self._kept = offsets, blocks, weigh, kept
        self._held: tuple[int, Block] | None = None
        self.bytes_read = 0

    @property
    def sizes(self) -> list[int]:
        """Number of rows of each block."""
        return list(map(self._rows_of, self._blocks))

    def __len__(self) -> int:
        return len(self._blocks)

    def __getitem__(self, k: int) -> Block:  # type: ignore[override]
        if self._held is None or self._held[0] != k:
            self._held = None  # before the next one is read: never two in memory
            self._held = (k, self._read(self._blocks[k]))
        return self._held[1]

    def _read(self, ranges: list[tuple[int, int]]) -> Block:
        rows = self._rows_of(ranges)
        codes = np.empty((rows, self._offsets.size - 1), dtype=packed_dtype(self._offsets))
        # A type with a number for "no cell" takes -1; any other is replaced by a wider one at the first -1.
        room = absent_code(codes.dtype, self._offsets) >= 0
        labels = np.empty(rows, dtype=self._arrays["labels"].dtype)
        weights = np.empty(rows) if WEIGHTS in self._arrays else None
        begin = 0
        runs = joined(ranges, max(1, READ_BYTES // ((READ_AHEAD + 1) * 4 * codes.shape[1])))
        for stored, targets, weight in ahead(self._read_run, runs, READ_AHEAD):
            inside = slice(begin, begin + targets.size)
            if not room and stored.min(initial=0) < 0:
                codes, room = codes.astype(packed_dtype(self._offsets, gaps=True)), True
            codes[inside], labels[inside] = stored, targets
            if weights is not None and weight is not None:
                weights[inside] = weight
            begin += targets.size
        self.bytes_read += rows * (4 * codes.shape[1] + labels.itemsize)
        weights = self._weigh(labels, weights) if self._weigh else weights
        return Block(Cells(codes, self._offsets), labels, weights)

    def _rows_of(self, ranges: list[tuple[int, int]]) -> int:
        if self._kept is None:
            return sum(stop - start for start, stop in ranges)
        return sum(int(np.count_nonzero(self._kept[start:stop])) for start, stop in ranges)

    def _read_run(self, run: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Read stored cells, labels and weights of neighbouring rows."""
        kept = slice(None) if self._kept is None else self._kept[slice(*run)]
        weights = read(self._arrays[WEIGHTS], slice(*run))[kept] if WEIGHTS in self._arrays else None
        return read(self._arrays["codes"], slice(*run))[kept], read(self._arrays["labels"], slice(*run))[kept], weights


def joined(ranges: Sequence[tuple[int, int]], most: int) -> Iterator[tuple[int, int]]:
    """Yield the same rows in fewer ranges: neighbours as one, of at most `most` rows unless one has more."""
    begin, end = ranges[0]
    for start, stop in ranges[1:]:
        if start != end or stop - begin > most:
            yield begin, end
            begin = start
        end = stop
    yield begin, end


class SpooledBlocks(Sequence[Block]):
    """Cells in small blocks that are read many times: packed once into a temporary file.

    Memory holds one block; the operating system keeps as much of the file as it has room for. With `visit_rows` None,
    the blocks are those of `source`.
    """

    def __init__(self, source: Sequence[Block], offsets: np.ndarray, visit_rows: int | None = VISIT_ROWS) -> None:
        self._offsets = offsets
        self._file = tempfile.TemporaryFile(prefix="ikmap-cells-")  # noqa: SIM115 - lives as long as this object
        weakref.finalize(self, self._file.close)
        self._places: list[tuple[int, int, np.dtype, bool]] = []  # where, rows, type of the cells, whether they weigh
        self._target, end = np.dtype(np.int32), 0
        self.bytes_read = 0
        with writing(tempfile.gettempdir()):
            for k in range(len(source)):
                cells, labels, weight, _ = source[k]
                assert isinstance(cells, Cells)
                self._target = labels.dtype
                step = visit_rows or labels.size
                for start in range(0, labels.size, step):
                    rows = slice(start, start + step)
                    self._places.append((end, labels[rows].size, cells.codes.dtype, weight is not None))
                    # The widest numbers first, so that all are aligned when they are read.
                    for array in (weight, labels, cells.codes):
                        if array is not None:
                            self._file.write(np.ascontiguousarray(array[rows]).data)
                            end += array[rows].nbytes
            self._file.flush()

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, k: int) -> Block:  # type: ignore[override]
        t = self._offsets.size - 1
        first, rows, dtype, weighted = self._places[k]
        weight_bytes = np.dtype(np.float64).itemsize * weighted
        raw = os.pread(self._file.fileno(), rows * (weight_bytes + self._target.itemsize + t * dtype.itemsize), first)
        self.bytes_read += len(raw)
        weight = np.frombuffer(raw, dtype=np.float64, count=rows) if weighted else None
        labels = np.frombuffer(raw, dtype=self._target, count=rows, offset=rows * weight_bytes)
        codes = np.frombuffer(raw, dtype=dtype, offset=rows * weight_bytes + labels.nbytes).reshape(rows, t)
        return Block(Cells(codes, self._offsets), labels, weight)
