"""Bins of the values of rows, as codes: one code, of a byte or of two, for a column or for several of two bins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ikmap import seed_paths
from ikmap._threads import for_each_block
from ikmap.arrays import Floats
from ikmap.learners.boosting._growth_loops import MOST_BINS, fill_bytes, mark_clashes, overlaps
from ikmap.partitioners._bins_loops import BYTE_BINS
from ikmap.partitioners._iforest_loops import LEAF
from ikmap.partitioners.bins import bin_edges, bins_of
from ikmap.rows import Rows, as_dense
from ikmap.seeds import generator

BIN_BLOCK = 8192
"""Number of rows whose bins are written at a time."""
EDGE_ROWS = 200_000
"""Largest number of rows that the edges of bins are taken from."""
EDGE_VALUES = 1 << 25
"""Number of values of these rows from which on there are fewer of them, but not fewer than :data:`LEAST_EDGE_ROWS`."""
LEAST_EDGE_ROWS = 10_000
OPEN_BYTES = 8
"""Number of bytes that a column of two bins is tried to share."""


@dataclass(frozen=True, eq=False)
class Layout:
    """The bins of all columns, and the bytes that the bins of a row are kept in.

    Columns of two bins share a byte if no row is in the upper bin of two of them, as the columns of one-hot words.

    Attributes
    ----------
    edges : ndarray of float64
        Ascending edges of the bins of each column, column after column: a value is in bin b if b edges are at or below.
    begins : ndarray of int64, shape (d + 1,)
        Where the edges of each column begin.
    places : ndarray of int64, shape (d,)
        Byte of each column.
    members : ndarray of int64, shape (d,)
        What a byte for several columns is for rows in the upper bin of this one, from 1; 0 for a column whose byte is
        the number of its bin.
    """

    edges: Floats
    begins: np.ndarray
    places: np.ndarray
    members: np.ndarray

    @classmethod
    def of(cls, X: Rows, max_bins: int = BYTE_BINS, n_threads: int | None = 1) -> Layout:
        """Return the bins, at most so many for a column, and bytes for some rows."""
        edges = bin_edges(X, max_bins, n_threads)
        begins = np.r_[0, np.cumsum([own.size for own in edges], dtype=np.int64)]
        every = np.concatenate([*edges, np.empty(0)])
        two_bins = np.flatnonzero(np.diff(begins) == 1)
        upper = np.empty((X.shape[0], two_bins.size), dtype=np.uint8)
        for start in range(0, X.shape[0], BIN_BLOCK):
            rows = slice(start, start + BIN_BLOCK)
            upper[rows] = as_dense(X[rows][:, two_bins]) >= every[begins[two_bins]]
        return cls(every, begins, *_shared_bytes(upper, two_bins, len(edges)))

    def owned(self) -> Layout:
        """Return the layout with arrays that can be written to, for which loops are compiled."""
        return Layout(*(np.array(array) for array in (self.edges, self.begins, self.places, self.members)))

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return int(self.places.size)

    @property
    def n_bytes(self) -> int:
        """Number of bytes of a row."""
        return int(self.places.max()) + 1

    @property
    def dtype(self) -> type[np.unsignedinteger]:
        """Type of a code: one byte, or two if some column has more bins than a byte tells apart."""
        return np.uint8 if int(np.diff(self.begins).max(initial=0)) < BYTE_BINS else np.uint16

    @cached_property
    def first_bins(self) -> np.ndarray:
        """Number of the first bin of each byte among the bins of all bytes, shape (number of bytes + 1,)."""
        sizes = np.ones(self.n_bytes, dtype=np.int64)
        alone = self.members == 0
        sizes[self.places[alone]] = np.diff(self.begins)[alone] + 1
        np.maximum.at(sizes, self.places, self.members + 1)
        first_bins: np.ndarray = np.r_[0, np.cumsum(sizes)]
        return first_bins

    def ranges(self, feature: np.ndarray, cut: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the byte of each node, or LEAF, and the range [low, high) of the bytes of rows that go right."""
        inner = feature != LEAF
        members = np.where(inner, self.members[feature], 0)
        places = np.where(inner, self.places[feature], LEAF)
        return places, np.where(members, members, cut), np.where(members, members + 1, MOST_BINS)

    def fill(self, X: Rows, stored: np.ndarray, n_threads: int | None = 1) -> None:
        """Write the bytes of rows; `stored` is of zeros."""

        def work(start: int, stop: int) -> None:
            codes = self._bins(X[start:stop])
            if self.members.any():
                fill_bytes(codes, self.places, self.members, stored[start:stop])
            else:
                stored[start:stop] = codes

        for_each_block(work, X.shape[0], BIN_BLOCK, n_threads)

    def _bins(self, X: Rows) -> np.ndarray:
        return bins_of(X, self.edges, self.begins, self.dtype)

    def clashes(self, X: Rows) -> np.ndarray:
        """Return a mask of the columns that share a byte with an earlier one although some row is in both upper bins.

        The mask for all rows is the union of those for parts of the rows.
        """
        marked = np.zeros(self.n_columns, dtype=np.bool_)
        for start in range(0, X.shape[0], BIN_BLOCK):
            seen = np.full(self.n_bytes, -1, dtype=np.int64)
            mark_clashes(self._bins(X[start : start + BIN_BLOCK]), self.places, self.members, seen, marked)
        return marked

    def without(self, marked: np.ndarray) -> Layout:
        """Return the layout in which the marked columns have bytes of their own."""
        groups = [np.flatnonzero((self.places == byte) & ~marked) for byte in np.unique(self.places[self.members > 0])]
        return Layout(self.edges, self.begins, *_numbered([group.tolist() for group in groups], self.n_columns))


def n_edge_rows(n: int, d: int) -> int:
    """Return the number of rows that edges are taken from, of so many rows and columns."""
    return min(n, EDGE_ROWS, max(LEAST_EDGE_ROWS, EDGE_VALUES // max(1, d)))


def edge_rows(n: int, d: int, seed: int) -> np.ndarray:
    """Return the ascending numbers of the rows that edges are taken from: all, or some that are drawn by the seed."""
    most = n_edge_rows(n, d)
    if n == most:
        return np.arange(n)
    return np.sort(generator(seed, seed_paths.BOOSTING_EDGES).choice(n, most, replace=False))


def _shared_bytes(upper: np.ndarray, two_bins: np.ndarray, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the byte of each column and its number in it, by the columns of two bins and the rows in the upper one.

    Each column of two bins goes to the first byte none of whose columns it overlaps, among the last :data:`OPEN_BYTES`.
    """
    shared: list[list[int]] = []
    taken: list[np.ndarray] = []
    for k, column in enumerate(two_bins.tolist()):
        for number in _open(shared):
            if not overlaps(upper, k, taken[number]):
                break
        else:
            number = len(shared)
            shared.append([])
            taken.append(np.zeros(len(upper), dtype=np.bool_))
            if number >= OPEN_BYTES:
                taken[number - OPEN_BYTES] = np.empty(0, dtype=np.bool_)
        shared[number].append(column)
        taken[number] |= upper[:, k] > 0
    return _numbered(shared, d)


def _open(shared: list[list[int]]) -> Iterator[int]:
    """Yield the numbers of the bytes that a further column is tried in."""
    for number in range(max(0, len(shared) - OPEN_BYTES), len(shared)):
        if len(shared[number]) < BYTE_BINS - 1:
            yield number


def _numbered(shared: list[list[int]], d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the byte of each column and its number in it; columns that are alone in a byte come last."""
    places, members = np.full(d, -1, dtype=np.int64), np.zeros(d, dtype=np.int64)
    several = [columns for columns in shared if len(columns) > 1]
    for number, columns in enumerate(several):
        places[columns], members[columns] = number, np.arange(1, len(columns) + 1)
    alone = np.flatnonzero(places < 0)
    places[alone] = len(several) + np.arange(alone.size)
    return places, members
