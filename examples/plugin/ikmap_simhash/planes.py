"""The fitted map: a frozen dataclass of plain arrays, which ikmap stores, hashes and sends to the workers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ikmap.cells import Cells
from ikmap.partitioners import Partitions


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
        dense = X.toarray() if hasattr(X, "toarray") else X
        sides = np.stack([np.einsum("d,dk->k", row, self.normals) for row in dense - self.centre]) > 0
        codes = sides.reshape(len(dense), -1, self.bits) @ (1 << np.arange(self.bits))
        return Cells(codes.astype(np.int32), self.offsets)
