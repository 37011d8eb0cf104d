"""The fitted map: a frozen dataclass of plain arrays, which ikmap stores, hashes and sends to the workers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ikmap.cells import Cells
from ikmap.partitioners import Partitions
from ikmap.rows import row_blocks


@dataclass(frozen=True, eq=False)
class Planes(Partitions):
    """t times b planes through one point."""

    kind = "simhash"

    centre: np.ndarray
    normals: np.ndarray
    bits: int

    @property
    def n_partitions(self) -> int:
        return int(self.normals.shape[1]) // self.bits

    @property
    def offsets(self) -> np.ndarray:
        return np.arange(self.n_partitions + 1, dtype=np.int64) * 2**self.bits

    def cells(self, X: np.ndarray, n_threads: int | None = None) -> Cells:
        # Row by row the same whatever the block: one product and sum each, and no BLAS, which sums blocks differently.
        # In blocks of rows, so that what is computed on the way takes the same memory for any number of rows.
        codes = np.empty((X.shape[0], self.n_partitions), dtype=np.int32)
        powers = 1 << np.arange(self.bits)
        for block in row_blocks(X.shape[0], row_bytes=8 * (2 * X.shape[1] + 3 * self.normals.shape[1])):
            rows = X[block].toarray() if hasattr(X, "toarray") else X[block]
            sides = np.stack([np.einsum("d,dk->k", row, self.normals) for row in rows - self.centre]) > 0
            codes[block] = sides.reshape(len(rows), -1, self.bits) @ powers
        return Cells(codes, self.offsets)
