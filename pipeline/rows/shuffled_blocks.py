"""Rows of cells, shuffled into blocks that a solver visits many times: in memory, or in a temporary file."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

import numpy as np

from ikmap import seed_paths
from ikmap.arrays import Floats, Int64s
from ikmap.cells import Cells, packed_dtype
from ikmap.learners.rows import Block
from ikmap.seeds import generator
from pipeline.errors import writing


class ShuffledBlocks(Sequence[Block]):
    """The rows of other blocks in blocks of about the same size, each row in a random block.

    Neighbouring rows of a file are often alike: of one day, of one class. A solver that learns from neighbours one
    after the other forgets other rows, and needs several times as many passes. Every block made here is a random sample
    of all rows. So a solver may take the blocks as they come, one piece of memory after the other, and needs no more
    passes than with all rows in random order.

    The rows of each source block are shuffled and shared out equally among all blocks. So writing needs one source
    block in memory, and a file gets runs of rows, not single ones.

    Parameters
    ----------
    source : sequence of Block
        Blocks of cells. Each is read once, but all again if a row has no cell (see
        :class:`~pipeline.rows.cell_blocks.CellBlocks`): then cells take a wider type.
    sizes : sequence of int
        Number of rows of each source block.
    offsets : ndarray of int64, shape (t + 1,)
        Feature columns of the partitionings.
    seed : int
    most_rows : int
        Most rows of a block, > 0.
    in_memory : bool
        Whether rows are in memory, else in a temporary file, of which the operating system keeps as much in memory as
        it has room for. Rows and bits are the same.
    """

    def __init__(
        self,
        source: Sequence[Block],
        sizes: Sequence[int],
        offsets: np.ndarray,
        *,
        seed: int,
        most_rows: int,
        in_memory: bool,
    ) -> None:
        self._offsets, self._ends = offsets, np.cumsum([0, *sizes]).tolist()
        self._n_blocks = max(1, -(-self._ends[-1] // most_rows))
        self._starts = np.cumsum([0, *self._dealt(self._ends[-1])]).tolist()
        for dtype in (packed_dtype(offsets), packed_dtype(offsets, gaps=True)):
            self._store: _Stored = _InMemory() if in_memory else _InFile()
            if self._deal(source, dtype, seed):
                break

    def _dealt(self, n: int) -> np.ndarray:
        """Return the number of rows of every block after n rows have been shared out in turn."""
        dealt: Int64s = -((np.arange(self._n_blocks) - n) // self._n_blocks)
        return dealt

    def _deal(self, source: Sequence[Block], dtype: np.dtype, seed: int) -> bool:
        """Write all rows; return False if they have cells that the type has no number for."""
        for k, (begin, end) in enumerate(pairwise(self._ends)):
            cells, labels, weight, _ = source[k]
            assert isinstance(cells, Cells)
            if cells.codes.itemsize > dtype.itemsize:
                return False
            if k == 0:
                self._store.open(self._ends[-1], labels, weight, np.empty((0, cells.n_partitions), dtype))
            before, after = self._dealt(begin), self._dealt(end)
            cuts = np.cumsum([0, *(after - before)])
            order = generator(seed, seed_paths.SHUFFLED_BLOCKS, k).permutation(labels.size)
            for b in range(self._n_blocks):
                rows, place = order[cuts[b] : cuts[b + 1]], self._starts[b] + int(before[b])
                self._store.put(place, labels[rows], None if weight is None else weight[rows], cells.codes[rows])
        return True

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, k: int) -> Block:  # type: ignore[override]
        labels, weight, codes = self._store.get(self._starts[k], self._starts[k + 1])
        return Block(Cells(codes, self._offsets), labels, weight)

    @property
    def bytes_read(self) -> int:
        """Bytes read from the file so far."""
        return self._store.bytes_read


class _Stored(Protocol):
    """Rows at places of their own: targets, weights if there are any, and cells."""

    bytes_read: int

    def open(self, rows: int, labels: np.ndarray, weight: np.ndarray | None, codes: np.ndarray) -> None:
        """Make room for `rows` rows of the types and shapes of some arrays."""

    def put(self, at: int, labels: np.ndarray, weight: np.ndarray | None, codes: np.ndarray) -> None:
        """Write rows from the place `at` on."""

    def get(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        """Return rows as they were written."""


class _InMemory:
    """Rows in arrays."""

    def __init__(self) -> None:
        self.bytes_read = 0

    def open(self, rows: int, labels: np.ndarray, weight: Floats | None, codes: np.ndarray) -> None:
        self._labels, self._codes = (np.empty((rows, *like.shape[1:]), like.dtype) for like in (labels, codes))
        self._weight = None if weight is None else np.empty(rows)

    def put(self, at: int, labels: np.ndarray, weight: Floats | None, codes: np.ndarray) -> None:
        rows = slice(at, at + len(labels))
        self._labels[rows], self._codes[rows] = labels, codes
        if self._weight is not None:
            self._weight[rows] = weight

    def get(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        rows = slice(start, stop)
        return self._labels[rows], None if self._weight is None else self._weight[rows], self._codes[rows]


class _InFile:
    """Rows in a temporary file: the weights of all rows, then their targets, then their cells."""

    def __init__(self) -> None:
        self.bytes_read = 0
        self._file = tempfile.TemporaryFile(prefix="ikmap-cells-")  # noqa: SIM115 - lives as long as this object
        weakref.finalize(self, self._file.close)

    def open(self, rows: int, labels: np.ndarray, weight: Floats | None, codes: np.ndarray) -> None:
        self._kinds: list[tuple[int, np.dtype, tuple[int, ...]]] = []  # where, type, shape of a row
        end = 0
        for like in (np.empty((0, 0) if weight is None else 0), labels, codes):
            self._kinds.append((end, like.dtype, like.shape[1:]))
            end += rows * _row_bytes(like.dtype, like.shape[1:])
        self._weighted = weight is not None

    def put(self, at: int, labels: np.ndarray, weight: Floats | None, codes: np.ndarray) -> None:
        arrays = [np.empty(0) if weight is None else weight, labels, codes]
        with writing(tempfile.gettempdir()):
            for (first, dtype, shape), array in zip(self._kinds, arrays, strict=True):
                left = memoryview(np.ascontiguousarray(array, dtype)).cast("B") if array.size else memoryview(b"")
                place = first + at * _row_bytes(dtype, shape)
                while left:
                    written = os.pwrite(self._file.fileno(), left, place)
                    left, place = left[written:], place + written

    def get(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        weight, labels, codes = (self._read(*kind, start, stop) for kind in self._kinds)
        return labels, weight if self._weighted else None, codes

    def _read(self, first: int, dtype: np.dtype, shape: tuple[int, ...], start: int, stop: int) -> np.ndarray:
        size = _row_bytes(dtype, shape)
        array = np.empty((stop - start, *shape), dtype)
        into = [memoryview(array).cast("B")] if array.size else []
        if os.preadv(self._file.fileno(), into, first + start * size) < array.nbytes:
            raise OSError("a block of cells in a temporary file ended early")
        self.bytes_read += array.nbytes
        return array


def _row_bytes(dtype: np.dtype, shape: tuple[int, ...]) -> int:
    return dtype.itemsize * int(np.prod(shape))
