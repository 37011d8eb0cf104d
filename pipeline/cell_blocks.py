"""Blocks of cells to learn from, read from the store as they are visited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np

from ikmap.cells import Cells, packed_dtype
from ikmap.learners.rows import Block
from pipeline.layout import learning_blocks
from pipeline.store import Store


class CellBlocks(Sequence[Block]):
    """The training cells in blocks that fit in memory, packed to the smallest integer type.

    Parameters
    ----------
    store : Store
    name : str
        Group with the arrays `codes` and `labels`.
    offsets : ndarray of int64, shape (t + 1,)
        Feature columns of the partitionings.
    seed : int
    shuffled : bool
        Whether blocks are made of random runs of rows.
    """

    def __init__(self, store: Store, name: str, offsets: np.ndarray, seed: int, *, shuffled: bool = True) -> None:
        self._arrays = store.open_arrays(name)
        self._offsets = offsets
        self.n_rows = int(self._arrays["codes"].shape[0])
        self._blocks = learning_blocks(self.n_rows, offsets, seed, shuffled=shuffled)
        self._held: tuple[int, Block] | None = None
        self.bytes_read = 0

    def __len__(self) -> int:
        return len(self._blocks)

    @overload
    def __getitem__(self, k: int) -> Block: ...
    @overload
    def __getitem__(self, k: slice) -> Sequence[Block]: ...
    def __getitem__(self, k: int | slice) -> Block | Sequence[Block]:
        if isinstance(k, slice):
            raise TypeError("blocks are read one by one")
        if self._held is None or self._held[0] != k:
            self._held = None  # before the next one is read: never two in memory
            self._held = (k, self._read(self._blocks[k]))
        return self._held[1]

    def _read(self, ranges: list[tuple[int, int]]) -> Block:
        rows = sum(stop - start for start, stop in ranges)
        codes = np.empty((rows, self._offsets.size - 1), dtype=packed_dtype(self._offsets))
        labels = np.empty(rows, dtype=np.int32)
        at = 0
        for start, stop in ranges:
            inside = slice(at, at + stop - start)
            codes[inside] = self._arrays["codes"][start:stop]
            labels[inside] = self._arrays["labels"][start:stop]
            at += stop - start
        self.bytes_read += rows * (4 * codes.shape[1] + 4)
        return Block(Cells(codes, self._offsets), labels)
