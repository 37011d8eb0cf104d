"""The integer-feature container that every map produces and every learner consumes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True)
class Cells:
    """For each row, the cell it falls in, in each of t partitionings.

    Parameters
    ----------
    codes : ndarray of integers, shape (n, t)
        ``codes[r, i]`` is the cell of row r in partitioning i, in ``[0, offsets[i+1] - offsets[i])``.
        int32 at every interface; a compiled loop may ask for :meth:`packed` ones.
    offsets : ndarray of int64, shape (t + 1,)
        Feature column of (i, cell) is ``offsets[i] + cell``. Blocks may have different widths.
    """

    codes: np.ndarray
    offsets: np.ndarray

    def __post_init__(self) -> None:
        if self.codes.ndim != 2 or not np.issubdtype(self.codes.dtype, np.integer):
            raise ValueError(f"codes must be a 2-d integer array, got {self.codes.dtype} {self.codes.shape}")
        if self.offsets.shape != (self.codes.shape[1] + 1,):
            raise ValueError(f"offsets must have t + 1 = {self.codes.shape[1] + 1} entries, got {self.offsets.shape}")

    @property
    def n_rows(self) -> int:
        return int(self.codes.shape[0])

    @property
    def n_partitions(self) -> int:
        return int(self.codes.shape[1])

    @property
    def n_columns(self) -> int:
        return int(self.offsets[-1])

    def __len__(self) -> int:
        return self.n_rows

    def __getitem__(self, rows: Any) -> Cells:
        """Select rows: a slice, a boolean mask or row numbers."""
        return Cells(np.ascontiguousarray(self.codes[rows]), self.offsets)

    def packed(self, least: type[np.unsignedinteger] = np.uint8) -> Cells:
        """Return the same cells in the smallest unsigned type that holds every block's width; as is if any is -1.

        It is no smaller than `least`.
        """
        dtype = max(packed_dtype(self.offsets), np.dtype(least), key=lambda kind: kind.itemsize)
        return (
            self
            if self.codes.dtype == dtype or self.codes.min(initial=0) < 0
            else Cells(self.codes.astype(dtype), self.offsets)
        )

    def columns(self) -> np.ndarray:
        """Feature column of every entry: int64 array of shape (n, t), ascending in each row."""
        return self.codes + self.offsets[:-1]

    def to_csr(self, normalize: bool = True) -> sp.csr_array:
        """One-hot form, shape (n, n_columns), t entries a row: 1/sqrt(t) each, or 1 with ``normalize=False``."""
        n, t = self.codes.shape
        value = 1.0 / np.sqrt(t) if normalize else 1.0
        index = np.int32 if max(n * t, self.n_columns) <= np.iinfo(np.int32).max else np.int64
        indptr = np.arange(0, n * t + 1, t, dtype=index)
        columns = self.columns().astype(index, copy=False).ravel()
        return sp.csr_array((np.full(n * t, value), columns, indptr), shape=(n, self.n_columns))

    @classmethod
    def from_csr(cls, X: Any) -> tuple[Cells, float] | None:
        """Read one-hot rows back: (cells, value of an entry), or None if X has another form.

        A matrix qualifies when every row has the same number t >= 1 of entries and all entries are one positive
        constant. Block boundaries cannot be recovered, so every block is taken to start at column 0: the codes are
        then the columns themselves, which is all that a learner needs.
        """
        lengths = np.diff(X.indptr)
        if X.shape[0] == 0 or lengths.size == 0 or lengths[0] == 0 or (lengths != lengths[0]).any():
            return None
        if X.data[0] <= 0 or (X.data != X.data[0]).any():
            return None
        codes = np.ascontiguousarray(X.indices.reshape(X.shape[0], int(lengths[0])), dtype=np.int32)
        offsets = np.zeros(codes.shape[1] + 1, dtype=np.int64)
        offsets[-1] = X.shape[1]
        return cls(codes, offsets), float(X.data[0])


def packed_dtype(offsets: np.ndarray) -> np.dtype:
    """Smallest unsigned integer type that holds every cell number of these blocks."""
    widest = int(np.diff(offsets).max(initial=1))
    return np.dtype(np.min_scalar_type(widest - 1))
