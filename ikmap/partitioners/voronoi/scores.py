"""Scores |z|^2 - 2 <x, z> of rows x against centres z in float32, with bounds on their rounding.

With u the unit roundoff, a sum of n products is off by at most n u sum |terms| in any order of addition (Jeannerod and
Rump 2013), shifting and converting add a few u, and |2 <x, z>| + |z|^2 <= (|x| + |z|)^2: a score is off by at most
``unit (|x| + |z|)^2`` with unit = (n + 8) 2^-24, the error of a float64 distance included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Floats, Int64s, Integers
from ikmap.partitioners.voronoi._layout_loops import fill_lines, fill_sparse_lines
from ikmap.partitioners.voronoi._scores_loops import TILE, begin_scores, prepare, prepare_sparse
from ikmap.rows import Rows, as_csr, as_dense, csr_arrays

ROUNDOFF = 2.0**-24
FARTHEST = 2.0**40
"""Length, in units of the centres', of the longest rows whose scores float32 can hold."""
DENSE_BYTES = 256 << 20
"""Largest size of tiles that hold zeros: beyond, columns that few centres use are kept as lists."""
_ALL = slice(None)
LIST_COST = 32
"""Adding to listed centres one by one costs this many times a vectorised addition."""


@dataclass(frozen=True, eq=False)
class Tiles:
    """Centres in tiles of 64, in the layout of the compiled loops.

    Parameters
    ----------
    center_of : int32 ndarray, shape (n_tiles * 64,)
        Which centre stands where; -1: none, its score is infinite.
    lines : float32 ndarray, shape (n_tiles, 1 + D, 64)
        Squared lengths, then a line for each coordinate.
    lists : tuple of ndarrays, or None
        start, position and value by column, and squared lengths by position: the columns that have no line.
    """

    center_of: np.ndarray
    lines: np.ndarray
    lists: tuple[np.ndarray, ...] | None = None


@dataclass(frozen=True, eq=False)
class Queries:
    """A block of rows, ready to be scored.

    Parameters
    ----------
    rows : ndarray or csr_array
        Given rows, float64, for exact distances.
    lengths : ndarray of float64, shape (n,)
        Length of each row after shift and scaling; -1: too far away for float32, nothing is known of its scores.
    units : ndarray of float64, shape (n,)
        Relative rounding error of its scores; 0 where they are exact.
    left : tuple of ndarrays
        Minus twice the rows, in the layout of the compiled loops.
    """

    rows: Rows
    lengths: Floats
    units: Floats
    left: tuple[np.ndarray, ...]

    @property
    def operand(self) -> Floats | tuple[Floats, Integers, Int64s]:
        """Rows for exact distances: a matrix, or a CSR triple."""
        return self.rows if isinstance(self.rows, np.ndarray) else csr_arrays(self.rows)


class DenseScores:
    """Dense rows and centres, shifted to the middle of the centres.

    ``cost`` is what a tile takes for a row, in processor cycles, and ``row_bytes`` what a row takes, both roughly.
    """

    def __init__(self, centers: np.ndarray) -> None:
        self.operand = np.ascontiguousarray(centers)
        n, d = centers.shape
        with np.errstate(over="ignore", under="ignore"):
            self.integral = _integral(centers) and float(squared_norms(centers).max(initial=0.0)) <= 2.0**22
            self.shift = np.zeros(d) if self.integral else (centers / max(n, 1)).sum(axis=0)
            self.scale = _scale_of(squared_norms(centers - self.shift))
        self.squared = squared_norms(self.scaled())
        self.reach = float(np.sqrt(self.squared.max(initial=0.0)))
        self.n_lines = d
        self.cost = 1.5 * d + 30.0
        self.row_bytes = 16 * d

    def scaled(self, numbers: np.ndarray | slice = _ALL) -> Floats:
        """Return the centres, shifted and scaled."""
        with np.errstate(over="ignore", under="ignore"):
            moved = self.operand[numbers] - self.shift
            return moved * self.scale if self.scale else np.zeros_like(moved)

    def tiles(self, numbers: np.ndarray) -> Tiles:
        """Return tiles of centres; -1 leaves a place empty."""
        center_of, lines = _empty_tiles(numbers, self.squared, self.n_lines)
        if self.scale:
            fill_lines(self.operand, self.shift, self.scale, center_of, lines)
        return Tiles(center_of, lines)

    def block(self, X: Rows) -> Queries:
        rows = as_dense(X)
        left, lengths = np.empty(rows.shape, dtype=np.float32), np.empty(rows.shape[0])
        prepare(rows, self.shift, self.scale, FARTHEST if self.scale else -1.0, left, lengths)
        units = np.full(lengths.size, (self.n_lines + 8) * ROUNDOFF)
        if self.integral and _integral(rows):
            # Every partial sum is an integer (times a power of two) below 2^24: scores are exact, ties included.
            units[(lengths + self.reach) ** 2 <= 2.0**24 * self.scale**2] = 0.0
        return Queries(rows, lengths, units, (left,))

    def begun(self, block: Queries, tiles: Tiles) -> tuple[np.ndarray, ...]:  # noqa: ARG002
        return block.left

    def points(self, block: Queries) -> Floats:
        """Return the rows in the frame of :meth:`scaled`."""
        return block.left[0] * np.float64(-0.5)


class SparseScores:
    """Sparse rows and centres, for which only the lines of the columns of a row are added up.

    Columns that many centres use have lines (zeros included); the others, lists of the centres that use them. Tiles
    have a place for each centre, or `places` if these are more.
    """

    def __init__(self, centers: sp.csr_array, places: int = 0) -> None:
        self.operand = csr_arrays(centers)
        n, d = centers.shape
        self.integral = _integral(centers.data)
        with np.errstate(over="ignore", under="ignore"):
            squared = squared_norms(centers)
        self.scale = _scale_of(squared)
        self.shape = centers.shape
        self.squared = squared_norms(self.scaled())
        self.reach = float(np.sqrt(self.squared.max(initial=0.0)))
        self.longest = int(np.diff(centers.indptr).max(initial=0))
        used = np.bincount(centers.indices, minlength=d)
        order = np.argsort(-used, kind="stable")
        room = DENSE_BYTES // (4 * max(n, places, 1))
        # Lists cost a pass of their own over all scores: only where lines for all columns would be too large.
        listed = order[(used[order] * LIST_COST < n) | (np.arange(d) >= room)] if d > room else order[:0]
        self.line_of = np.zeros(d, dtype=np.int32)  # 0: no line
        lined = np.ones(d, dtype=bool)
        lined[listed] = False
        self.n_lines = int(lined.sum())
        self.line_of[lined] = np.arange(1, self.n_lines + 1)
        self.has_lists = bool(used[listed].any())
        self.cost = 6.0 * centers.nnz / max(n, 1) + 30.0
        self.row_bytes = 32 * self.longest

    def scaled(self, numbers: np.ndarray | slice = _ALL) -> sp.csr_array:
        """Return the centres, scaled."""
        chosen = sp.csr_array(self.operand, shape=self.shape)[numbers]
        with np.errstate(under="ignore"):
            return sp.csr_array((chosen.data * self.scale, chosen.indices, chosen.indptr), shape=chosen.shape)

    def tiles(self, numbers: np.ndarray) -> Tiles:
        """Return tiles of centres; -1 leaves a place empty."""
        center_of, lines = _empty_tiles(numbers, self.squared, self.n_lines)
        fill_sparse_lines(*self.operand, self.scale, self.line_of, center_of, lines)
        lists = None
        if self.has_lists:
            there = np.flatnonzero(center_of >= 0)
            chosen = self.scaled(center_of[there])
            position = np.repeat(there, np.diff(chosen.indptr))
            rest = self.line_of[chosen.indices] == 0
            by_column = sp.csr_array(
                (chosen.data[rest].astype(np.float32), (chosen.indices[rest], position[rest])),
                shape=(self.line_of.size, center_of.size),
            )
            values, places, begin = csr_arrays(by_column)
            lists = (begin, places, values, lines[:, 0].ravel())
        return Tiles(center_of, lines, lists)

    def block(self, X: Rows) -> Queries:
        rows = as_csr(X)
        size, n = rows.nnz, rows.shape[0]
        lined, rest = (
            (np.empty(size, dtype=np.float32), np.empty(size, dtype=np.int32), np.empty(n + 1, dtype=np.int64))
            for _ in range(2)
        )
        lengths = np.empty(n)
        farthest = FARTHEST if self.scale else -1.0
        prepare_sparse(*csr_arrays(rows), self.scale, farthest, self.line_of, lined, rest, lengths)
        units = (np.diff(rows.indptr) + self.longest + 8) * ROUNDOFF
        if self.integral and _integral(rows.data):
            units[(lengths + self.reach) ** 2 <= 2.0**24 * self.scale**2] = 0.0
        return Queries(rows, lengths, units, (*lined, *rest) if self.has_lists else lined)

    def begun(self, block: Queries, tiles: Tiles) -> tuple[np.ndarray, ...]:
        lined, rest = block.left[:3], block.left[3:]
        if tiles.lists is None:
            return (*lined, np.empty((0, 0), dtype=np.float32))
        begun = np.empty((block.lengths.size, tiles.center_of.size), dtype=np.float32)
        arguments = (*rest, *tiles.lists, begun)
        begin_scores(*arguments)
        return (*lined, begun)

    def points(self, block: Queries) -> sp.csr_array:
        """Return the rows in the frame of :meth:`scaled`."""
        assert isinstance(block.rows, sp.csr_array)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            values = block.rows.data * self.scale
        values[np.repeat(block.lengths < 0, np.diff(block.rows.indptr))] = 0.0
        return sp.csr_array((values, block.rows.indices, block.rows.indptr), shape=block.rows.shape)


def _empty_tiles(numbers: np.ndarray, squared: Floats, n_lines: int) -> tuple[np.ndarray, np.ndarray]:
    """Return centre numbers padded with -1 to whole tiles, and tiles with squared lengths and other lines of 0."""
    padded = np.full(-(-numbers.size // TILE) * TILE, -1, dtype=np.int32)
    padded[: numbers.size] = numbers
    lines = np.zeros((padded.size // TILE, 1 + n_lines, TILE), dtype=np.float32)
    lines[:, 0] = np.where(padded < 0, np.inf, squared[padded]).reshape(-1, TILE)
    return padded, lines


def squared_norms(X: Rows) -> Floats:
    """Return the squared length of each row, which is infinite on overflow."""
    with np.errstate(over="ignore", under="ignore"):
        if isinstance(X, np.ndarray):
            norms: Floats = np.einsum("ij,ij->i", X, X)
            return norms
        row_of = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        return np.bincount(row_of, weights=X.data * X.data, minlength=X.shape[0])


def _scale_of(squared: Floats) -> float:
    """Return a power of two that scales the centres to size 1, so that float32 has the range and integers stay exact.

    0 where squares overflow or underflow: nothing can be said in float32 then.
    """
    reach = float(np.sqrt(squared.max(initial=0.0)))
    return 2.0 ** -math.frexp(reach)[1] if 2.0**-400 < reach < 2.0**400 else 0.0


def _integral(values: np.ndarray) -> bool:
    return bool((values == np.rint(values)).all())
