"""The integer-feature container that every map produces and every learner consumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ikmap.arrays import Bools, Int64s, Integers


@dataclass(frozen=True)
class Cells:
    """The cells of some rows, one in each of t partitionings.

    Parameters
    ----------
    codes : ndarray of integers, shape (n, t)
        ``codes[r, i]`` is the cell of row r in partitioning i, in ``[0, offsets[i+1] - offsets[i])``, or
        :attr:`absent` where the row has none. int32 at every interface, where that is -1; a compiled loop may ask for
        :meth:`packed` ones.
    offsets : ndarray of int64, shape (t + 1,)
        Feature column of (i, cell) is ``offsets[i] + cell``. Partitionings may have different numbers of cells.
    """

    codes: Integers
    offsets: Int64s

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

    def __getitem__(self, rows: slice | Integers | Bools) -> Cells:
        """Return the cells of some rows: a slice, a boolean mask or row numbers."""
        return Cells(np.ascontiguousarray(self.codes[rows]), self.offsets)

    def with_constant(self) -> Cells:
        """Return the cells with a further partitioning of a single cell, as for an intercept."""
        codes = np.concatenate([self.codes, np.zeros((self.n_rows, 1), self.codes.dtype)], axis=1)
        return Cells(codes, constant_added(self.offsets))

    @property
    def absent(self) -> int:
        """Code of "no cell": -1, or the largest number of an unsigned type.

        Where a partitioning has so many cells that unsigned codes leave no number free, -1, which no code is.
        """
        return absent_code(self.codes.dtype, self.offsets)

    @property
    def missing(self) -> Bools:
        """Mask of entries without a cell, bool of shape (n, t)."""
        missing: Bools = self.codes == self.absent
        return missing

    @property
    def complete(self) -> bool:
        """True if every row has a cell in every partitioning."""
        if self.codes.dtype.kind == "i":
            return bool(self.codes.min(initial=0) >= 0)
        return self.absent < 0 or bool(self.codes.max(initial=0) < self.absent)

    def packed(self, least: type[np.unsignedinteger] = np.uint8) -> Cells:
        """Return the same cells in the smallest unsigned type that holds every block's width.

        Where a row has no cell, that takes one number more. The type is no smaller than `least`.
        """
        small, large = (
            max(packed_dtype(self.offsets, gaps), np.dtype(least), key=lambda kind: kind.itemsize)
            for gaps in (False, True)
        )
        return self._cast(small if small == large or self.complete else large)

    def _cast(self, dtype: np.dtype[np.integer]) -> Cells:
        """Return the cells with codes of a type that can hold them."""
        if self.codes.dtype == dtype:
            return self
        cells = Cells(self.codes.astype(dtype), self.offsets)
        # A cast turns -1 into the highest number of an unsigned type, but no other "no cell" into its own.
        if self.codes.dtype.kind == "u" and not self.complete:
            cells.codes[self.missing] = cells.absent
        return cells

    @classmethod
    def concatenated(cls, parts: Sequence[Cells]) -> Cells:
        """Concatenate the rows of cells of the same partitionings."""
        dtype = np.result_type(*(part.codes.dtype for part in parts))
        return cls(np.concatenate([part._cast(dtype).codes for part in parts]), parts[0].offsets)

    def columns(self) -> Int64s:
        """Return the feature column of every entry, int64 of shape (n, t), ascending in each row; -1 for no cell."""
        columns = self.codes + self.offsets[:-1]
        return columns if self.complete else np.where(self.missing, -1, columns)

    def to_csr(self, normalize: bool = True) -> sp.csr_array:
        """Return one-hot rows, shape (n, n_columns), with 1/sqrt(t) for each cell, or 1 with ``normalize=False``."""
        n, t = self.codes.shape
        value = 1.0 / np.sqrt(t) if normalize else 1.0
        index: type[np.signedinteger] = np.int32 if max(n * t, self.n_columns) <= np.iinfo(np.int32).max else np.int64
        columns: Integers = self.columns()
        if self.complete:
            indptr = np.arange(0, n * t + 1, t, dtype=index)
        else:
            present = columns >= 0
            indptr = np.concatenate([[0], np.cumsum(present.sum(axis=1))]).astype(index)
            columns = columns[present]
        columns = columns.astype(index, copy=False).ravel()
        return sp.csr_array((np.full(columns.size, value), columns, indptr), shape=(n, self.n_columns))

    @classmethod
    def from_csr(cls, X: sp.csr_array | sp.csr_matrix) -> tuple[Cells, float] | None:
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
        return cls(codes, _of_one_block(codes.shape[1], X.shape[1])), float(X.data[0])

    @classmethod
    def from_csr_like(cls, X: sp.csr_array | sp.csr_matrix, n_partitions: int, value: float) -> Cells | None:
        """Read rows back of which some may have no cell in a partitioning; None if X has another form.

        A matrix qualifies when no row has more entries than there are partitionings, and all entries have the value.
        """
        lengths = np.diff(X.indptr)
        if lengths.max(initial=0) > n_partitions or (X.data != value).any():
            return None
        codes = np.full((X.shape[0], n_partitions), -1, dtype=np.int32)
        codes[np.arange(n_partitions) < lengths[:, None]] = X.indices
        return cls(codes, _of_one_block(n_partitions, X.shape[1]))


def _of_one_block(n_partitions: int, n_columns: int) -> Int64s:
    """Return the offsets of cells whose codes are the feature columns themselves."""
    offsets = np.zeros(n_partitions + 1, dtype=np.int64)
    offsets[-1] = n_columns
    return offsets


def constant_added(offsets: Int64s) -> Int64s:
    """Return the offsets of :meth:`Cells.with_constant` from the offsets of the cells."""
    return np.append(offsets, offsets[-1] + 1)


def in_wider_layout[Number: np.generic](values: NDArray[Number], old: Int64s, new: Int64s) -> NDArray[Number]:
    """Return values by feature column in a layout with more cells in some partitionings; new cells have the value 0.

    Parameters
    ----------
    values : ndarray, shape (old[-1], ...)
    old, new : ndarray of int64, shape (t + 1,)
        Offsets of both layouts. A cell that was there keeps its number within its partitioning.

    Raises
    ------
    ValueError
        A partitioning has fewer cells than before.
    """
    widths = np.diff(old)
    if old.shape != new.shape or (np.diff(new) < widths).any():
        raise ValueError("found fewer cells in a partitioning than before, expected at least as many")
    wider = np.zeros((int(new[-1]), *values.shape[1:]), values.dtype)
    wider[np.arange(int(old[-1])) + np.repeat(new[:-1] - old[:-1], widths)] = values
    return wider


def packed_dtype(offsets: Int64s, gaps: bool = False) -> np.dtype[np.unsignedinteger]:
    """Return the smallest unsigned type for every cell number of these blocks, and with `gaps` for "no cell" too.

    So 256 cells take one byte, as long as every row has one of them.
    """
    widest = int(np.diff(offsets).max(initial=1))
    return np.dtype(np.min_scalar_type(widest - 1 + gaps))


def absent_code(dtype: np.dtype[np.integer], offsets: Int64s) -> int:
    """Return :attr:`Cells.absent` for codes of a type."""
    if dtype.kind == "i":
        return -1
    highest = int(np.iinfo(dtype).max)
    return highest if int(np.diff(offsets).max(initial=1)) <= highest else -1
