"""Points prepared for sums over all pairs: laid out for whichever loop is the fastest that gives the same values."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ikmap.kernels._pairs_loops import (
    CHI2,
    L1,
    SQUARES,
    bit_sums,
    dense_sums,
    pack_bits,
    pack_entries,
    sparse_sums,
)
from ikmap.rows import Rows

__all__ = ["CHI2", "L1", "SQUARES", "Points", "pair_sums"]

PACKED_COLUMNS = 4096
"""Zeros and ones of at most so many columns are packed to bits; sparse rows of more are faster by their entries."""


class Points:
    """Some rows, with the layouts that loops over pairs want, each made when it is first asked for.

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

    @cached_property
    def binary(self) -> bool:
        """Whether all values are 0 or 1, in few enough columns to be packed."""
        if self.n_columns > PACKED_COLUMNS:
            return False
        values = self.rows if isinstance(self.rows, np.ndarray) else self.rows.data
        return bool(((values == 0) | (values == 1)).all())

    @cached_property
    def words(self) -> np.ndarray:
        """Rows of zeros and ones as bits: uint64, shape (n, words)."""
        words = np.zeros((len(self), -(-self.n_columns // 64)), dtype=np.uint64)
        if isinstance(self.rows, np.ndarray):
            pack_bits(self.rows, words)
        else:
            pack_entries(self.rows.indices, self.rows.indptr, words)
        return words

    @cached_property
    def word_columns(self) -> np.ndarray:
        """The words transposed."""
        return np.ascontiguousarray(self.words.T)

    @cached_property
    def columns(self) -> np.ndarray:
        """Dense rows transposed."""
        return np.ascontiguousarray(self.rows.T)

    @cached_property
    def inverted(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Sparse rows by column: the columns in use, their values, whose these are, where each column begins."""
        order = np.argsort(self.rows.indices, kind="stable")
        used, begin = np.unique(self.rows.indices[order], return_index=True)
        owner = np.repeat(np.arange(len(self)), np.diff(self.rows.indptr))[order]
        return used, self.rows.data[order], owner, np.append(begin, order.size)

    def norms(self, measure: int) -> np.ndarray:
        """Each sparse row's sum against the row of zeros."""
        if measure == CHI2:
            return np.zeros(len(self))
        data = np.abs(self.rows.data) if measure == L1 else self.rows.data**2
        owner = np.repeat(np.arange(len(self)), np.diff(self.rows.indptr))
        return np.bincount(owner, weights=data, minlength=len(self))


def pair_sums(left: Points, right: Points, measure: int, out: np.ndarray) -> None:
    """Sum over columns for all pairs of points: float64, shape (n, m), written to `out`.

    Parameters
    ----------
    left, right : Points
        Both dense or both sparse, of as many columns.
    measure : {L1, SQUARES, CHI2}
    """
    if left.binary and right.binary:
        bit_sums(left.words, right.word_columns, measure == CHI2, out)
    elif isinstance(left.rows, np.ndarray):
        dense_sums(left.rows, right.columns, measure, out)
    else:
        used, entries, owner, begin = right.inverted
        indices = left.rows.indices
        place = np.minimum(np.searchsorted(used, indices), max(0, used.size - 1))
        place = np.where(used[place] == indices, place, -1) if used.size else np.full(indices.size, -1)
        sparse_sums(
            left.rows.data, place, left.rows.indptr, left.norms(measure),
            entries, owner, begin, right.norms(measure), measure, out,
        )  # fmt: skip
