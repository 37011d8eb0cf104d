"""Kernels of sums over columns, on rows laid out for the fastest of several loops with the same values."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Floats, Integers, Matrix
from ikmap.cells import Cells
from ikmap.kernels._pairs_loops import (
    CHI2,
    L1,
    PRODUCTS,
    SQUARES,
    bit_sums,
    dense_sums,
    pack_bits,
    pack_entries,
    sparse_sums,
)
from ikmap.kernels.base import Kernel
from ikmap.rows import Rows, as_csr, as_rows, check_finite

__all__ = ["CHI2", "L1", "PRODUCTS", "SQUARES", "PointKernel", "Points", "RowKernel", "pair_sums"]

PACKED_COLUMNS = 4096
"""Zeros and ones of at most so many columns are packed to bits; sparse rows of more are faster by their entries."""


class RowKernel[P: Points](Kernel[Rows, P]):
    """A kernel of dense or CSR rows. Subclasses turn sums over columns into its values."""

    def checked(self, rows: Matrix | Cells) -> Rows:
        """Return the rows as float64 in C order, or as a canonical csr_array.

        Raises
        ------
        ValueError
            If they are cells, or a value is not finite.
        """
        if isinstance(rows, Cells):
            raise ValueError(f"the {self.name} kernel takes dense or CSR rows, got cells")
        checked = as_rows(rows)
        check_finite(checked)
        return checked


class PointKernel(RowKernel["Points"]):
    """A kernel of dense or CSR rows that needs nothing but the layouts of :class:`Points`."""

    def points(self, rows: Rows) -> Points:
        """Return prepared rows."""
        return Points(rows)


class Points:
    """Some rows in the layouts that loops over pairs take, each made on first use.

    Parameters
    ----------
    rows : ndarray of float64, C order, or canonical csr_array, shape (n, d)
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    @property
    def n_columns(self) -> int:
        """Number d of columns."""
        return int(self.rows.shape[1])

    @property
    def dense(self) -> bool:
        """True if the rows are a dense array."""
        return isinstance(self.rows, np.ndarray)

    @property
    def csr(self) -> sp.csr_array:
        """Rows as CSR, for sparse rows only."""
        return self.rows

    @cached_property
    def binary(self) -> bool:
        """True if all values are 0 or 1, in few enough columns to pack them."""
        if self.n_columns > PACKED_COLUMNS:
            return False
        values: Floats = self.rows if isinstance(self.rows, np.ndarray) else self.rows.data
        return bool(((values == 0) | (values == 1)).all())

    @cached_property
    def words(self) -> np.ndarray:
        """Rows of zeros and ones as bits: uint64, shape (n, words)."""
        words = np.zeros((len(self), -(-self.n_columns // 64)), dtype=np.uint64)
        if self.dense:
            pack_bits(self.rows, words)
        else:
            pack_entries(self.csr.indices, self.csr.indptr, words)
        return words

    @cached_property
    def word_columns(self) -> np.ndarray:
        """Words of the packed rows, transposed."""
        return np.ascontiguousarray(self.words.T)

    @cached_property
    def columns(self) -> Floats:
        """Dense rows transposed."""
        return np.ascontiguousarray(self.rows.T)

    @property
    def sparse(self) -> Points:
        """Rows as CSR."""
        return self._from_dense if self.dense else self

    @cached_property
    def _from_dense(self) -> Points:
        return Points(as_csr(self.rows))

    @cached_property
    def inverted(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Sparse rows by column: columns in use, values, the row of each value, and the start of each column."""
        order = np.argsort(self.csr.indices, kind="stable")
        used, begin = np.unique(self.csr.indices[order], return_index=True)
        return used, self.csr.data[order], self._owners()[order], np.append(begin, order.size)

    def norms(self, measure: int) -> np.ndarray:
        """Return the sum of each sparse row against a row of zeros, or nothing for CHI2 and PRODUCTS."""
        if measure in (CHI2, PRODUCTS):
            return np.zeros(len(self))
        weights = np.abs(self.csr.data) if measure == L1 else np.square(self.csr.data)
        return np.bincount(self._owners(), weights=weights, minlength=len(self))

    def _owners(self) -> np.ndarray:
        """Return the row of every entry."""
        return np.repeat(np.arange(len(self)), np.diff(self.csr.indptr))


def check_columns(left: Points, right: Points) -> None:
    """Raise ValueError if two sets of rows have different numbers of columns."""
    if left.n_columns != right.n_columns:
        raise ValueError(f"rows have {left.n_columns} columns, those that they are compared with {right.n_columns}")


def places_in(used: Integers, columns: Integers) -> Integers:
    """Return the place of each column among ascending columns in use, or -1."""
    if not used.size:
        return np.full(columns.size, -1)
    place = np.minimum(np.searchsorted(used, columns), used.size - 1)
    return np.where(used[place] == columns, place, -1)


def pair_sums(left: Points, right: Points, measure: int, out: Floats) -> None:
    """Sum over columns for all pairs of points: float64, shape (n, m), written to `out`.

    Zeros and ones, and whole numbers whose sums are below 2^53, give the same sums as dense and as CSR. Others differ
    in the last bits of what is added up, as of sparse rows only those columns are visited that both have. Products and
    chi-square are added up like those of dense rows. A distance is both norms less twice what is common, so its error
    is a few times 2^-53 of the norms (|x|^2 + |y|^2 for SQUARES, |x|_1 + |y|_1 for L1), however small it is: of rows
    whose values are about 10^9, squared distances below 1024 are lost.

    Parameters
    ----------
    left, right : Points
    measure : {L1, SQUARES, CHI2, PRODUCTS}

    Raises
    ------
    ValueError
        If their numbers of columns differ.
    """
    check_columns(left, right)
    if left.binary and right.binary:
        bit_sums(left.words, right.word_columns, measure in (CHI2, PRODUCTS), out)
    elif left.dense and right.dense:
        dense_sums(left.rows, right.columns, measure, out)
    else:
        left, right = left.sparse, right.sparse
        used, entries, owner, begin = right.inverted
        indices = left.csr.indices
        sparse_sums(
            left.csr.data, places_in(used, indices), left.csr.indptr, left.norms(measure),
            entries, owner, begin, right.norms(measure), measure, out,
        )  # fmt: skip
