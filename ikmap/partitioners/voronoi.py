"""Voronoi (aNNE) partitions: the cell of a point is its nearest neighbour in a small random subsample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
import scipy.sparse as sp

from ikmap._threads import for_each_block
from ikmap.cells import Cells
from ikmap.partitioners._voronoi_loops import inverted_scores, recheck, settle
from ikmap.partitioners.base import Partitions
from ikmap.partitioners.distinct import distinct_rows
from ikmap.rows import Rows, as_csr, as_dense, as_rows, take_rows

SCORE_BLOCK_BYTES = 32 << 20
"""Scores of one block of rows, per thread: large enough for an efficient product, small enough to stay in cache."""


@dataclass(frozen=True, eq=False)
class VoronoiPartitions(Partitions):
    """t Voronoi partitionings of R^d, each around psi of the training points.

    Parameters
    ----------
    centers : float64 ndarray or csr_array, shape (U, d)
        The distinct points that the subsamples are made of.
    members : ndarray of int32, shape (t, psi)
        ``members[i, k]`` is the row of `centers` that is point k of subsample i.

    Notes
    -----
    Cells are exact: each equals the argmin, in float64, of the squared Euclidean distance (added up in column
    order) to the points of the subsample; ties go to the lowest number. Products in float32 only narrow down the
    candidates: wherever rounding could have changed an answer, it is settled in float64.
    Source: Isolation Kernel, section 3.2 (aNNE); algorithms.md, section 3.2.
    """

    kind: ClassVar[str] = "anne"

    centers: np.ndarray | sp.csr_array
    members: np.ndarray

    @property
    def n_partitions(self) -> int:
        return int(self.members.shape[0])

    @property
    def psi(self) -> int:
        return int(self.members.shape[1])

    @property
    def n_features(self) -> int:
        return int(self.centers.shape[1])

    @property
    def offsets(self) -> np.ndarray:
        return np.arange(self.n_partitions + 1, dtype=np.int64) * self.psi

    def cells(self, X: Rows, n_threads: int | None = None) -> Cells:
        """Map points to cells.

        Parameters
        ----------
        X : float64 ndarray or csr_array, shape (n, d)
        n_threads : int, optional
            At most this many threads; default: all usable cores.

        Returns
        -------
        Cells
            int32 codes of shape (n, t), each in [0, psi).
        """
        return Cells(self._codes(X, [self.psi], n_threads)[0], self.offsets)

    def cells_of_prefixes(self, X: Rows, psis: Sequence[int], n_threads: int | None = None) -> list[Cells]:
        """Map points to the cells of every psi at once: subsamples nest, so one search serves all.

        Parameters
        ----------
        psis : sequence of int
            Ascending, the largest at most :attr:`psi`.

        Returns
        -------
        list of Cells
            Equal to what a model fitted with each psi (and the same seed) gives.
        """
        codes = self._codes(X, psis, n_threads)
        steps = np.arange(self.n_partitions + 1, dtype=np.int64)
        return [Cells(codes[e], steps * psi) for e, psi in enumerate(psis)]

    def _codes(self, X: Rows, psis: Sequence[int], n_threads: int | None) -> np.ndarray:
        n = X.shape[0]
        if X.shape[1] != self.n_features:
            raise ValueError(f"X has {X.shape[1]} columns, the model was fitted on {self.n_features}")
        ends = np.asarray(psis, dtype=np.int64)
        if not ends.size or (np.diff(ends) <= 0).any() or not 1 <= ends[0] <= ends[-1] <= self.psi:
            raise ValueError(f"psis must ascend within 1..{self.psi}, got {list(psis)}")
        codes = np.empty((len(ends), n, self.n_partitions), dtype=np.int32)
        search = self._search

        def work(start: int, stop: int) -> None:
            rows = search.rows(as_rows(X[start:stop]))
            scores, tolerance = search.scores(rows)
            block = codes[:, start:stop]
            doubtful = np.empty(block.shape, dtype=np.bool_)
            if settle(scores, tolerance, self.members, ends, block, doubtful):
                recheck(scores, tolerance, self.members, ends, block, doubtful, *search.operands(rows))

        row_bytes = self.centers.shape[0] * search.score_dtype.itemsize + search.row_bytes
        for_each_block(work, n, int(np.clip(SCORE_BLOCK_BYTES // row_bytes, 16, 1024)), n_threads)
        return codes

    @cached_property
    def _search(self) -> _Search:
        return choose_search(self.centers)


def fit_voronoi(X: Rows, draws: np.ndarray) -> VoronoiPartitions:
    """Fit Voronoi partitions.

    Parameters
    ----------
    X : float64 ndarray or csr_array, shape (n, d)
        Points; only those named in `draws` are kept.
    draws : ndarray of int, shape (t, psi)
        Row numbers of each subsample (:func:`~ikmap.partitioners.subsample.draw_subsamples`).
    """
    used, position = np.unique(draws, return_inverse=True)
    points = as_rows(take_rows(X, used))
    first, inverse = distinct_rows(points)
    members = inverse[position.reshape(draws.shape)].astype(np.int32)
    return VoronoiPartitions(centers=take_rows(points, first), members=members)


class _Search(Protocol):
    """Scores of rows against all centres, up to a constant per row, with a bound on their rounding error."""

    score_dtype: np.dtype
    row_bytes: int

    def rows(self, X: Rows) -> Any: ...
    def scores(self, rows: Any) -> tuple[np.ndarray, np.ndarray]: ...
    def operands(self, rows: Any) -> tuple[Any, Any]: ...


def choose_search(centers: np.ndarray | sp.csr_array) -> _Search:
    """Choose the cheaper way to score all centres; the cells are the same either way.

    A product costs U * d multiplications a row, at many per nanosecond; lists of centres by column cost one
    addition for each pair of equal columns, at about one per nanosecond.
    """
    n_centers, n_features = centers.shape
    if isinstance(centers, np.ndarray):
        return _DenseProduct(centers)
    in_column = np.bincount(centers.indices, minlength=n_features).astype(np.float64)
    additions = float((in_column * in_column).sum()) / n_centers
    fits = n_centers * n_features * 12 <= 512 << 20
    return (
        _DenseProduct(as_dense(centers))
        if fits and n_centers * n_features / 24 < additions
        else _InvertedIndex(centers)
    )


class _DenseProduct:
    """One float32 matrix product per block, on centred data; float64 where float32 would leave much in doubt.

    The tolerance bounds the rounding error of a score and that of a float64 distance together: with u the unit
    roundoff, a product of n terms is off by at most n u sum |terms| in any order of addition (Jeannerod and Rump
    2013), shifting and converting add a few u, and |2 <x, z>| + |z|^2 <= (|x| + |z|)^2.
    """

    def __init__(self, centers: np.ndarray) -> None:
        self.centers = np.ascontiguousarray(centers)
        n_centers, n_features = centers.shape
        with np.errstate(over="ignore", under="ignore"):
            integral = _integral(centers) and float(_squared_norms(centers).max(initial=0.0)) <= 2.0**22
            self.shift = np.zeros(n_features) if integral else (centers / n_centers).sum(axis=0)
            moved = centers - self.shift
            reach = float(np.sqrt(_squared_norms(moved).max(initial=0.0)))
        usable = _usable(reach)
        # A power of two brings the centres to size 1: float32 keeps its range, and integers stay exact.
        self.scale = 2.0 ** -math.frexp(reach)[1] if usable else 1.0
        self.farthest = 2.0**40 if usable else -1.0
        self.exact_below = 2.0**24 * self.scale**2 if integral else -1.0
        moved = moved * self.scale if usable else np.zeros_like(moved)
        squared = _squared_norms(moved)
        self.reach = reach * self.scale
        # Far outliers make the float32 bound useless for everybody else.
        spread = self.reach / max(float(np.sqrt(np.median(squared))), 1e-300)
        self.score_dtype = np.dtype(np.float32 if integral or spread < 1e2 else np.float64)
        self.unit = (n_features + 8) * (2.0**-24 if self.score_dtype == np.float32 else 2.0**-51)
        self.row_bytes = (n_features + 1) * (16 + self.score_dtype.itemsize)
        # Columns: -2 z and |z|^2, so that one product with (x, 1) gives the score.
        self.factors = np.concatenate([-2.0 * moved, squared[:, None]], axis=1).T.astype(self.score_dtype, order="C")

    def rows(self, X: Rows) -> np.ndarray:
        return as_dense(X)

    def scores(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(over="ignore", under="ignore"):
            moved = (rows - self.shift) * self.scale
            length = np.sqrt(_squared_norms(moved))
            far = ~(length <= self.farthest)
            moved[far] = length[far] = 0.0
            left = np.ones((rows.shape[0], rows.shape[1] + 1), dtype=self.score_dtype)
            left[:, :-1] = moved
            scores = left @ self.factors
            bound = (length + self.reach) ** 2
        tolerance = self.unit * bound
        if self.exact_below > 0 and _integral(rows):
            # Every partial sum is an integer (times a power of two) below 2^24: the product is exact, ties included.
            tolerance[bound <= self.exact_below] = 0.0
        tolerance[far] = np.inf
        return scores, tolerance

    def operands(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return rows, self.centers


class _InvertedIndex:
    """For each column the centres that use it; sparse rows are never made dense."""

    score_dtype = np.dtype(np.float64)
    row_bytes = 0

    def __init__(self, centers: sp.csr_array) -> None:
        self.centers = (centers.data, centers.indices, centers.indptr)
        self.squared = _squared_norms(centers)
        self.integral = _integral(centers.data)
        self.reach = float(np.sqrt(self.squared.max(initial=0.0)))
        self.farthest = 2.0**440 if _usable(self.reach) else -1.0
        self.longest = int(np.diff(centers.indptr).max(initial=0))
        by_column = centers.tocsc()
        self.lists = (by_column.indptr, by_column.indices, by_column.data)

    def rows(self, X: Rows) -> sp.csr_array:
        return as_csr(X)

    def scores(self, rows: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
        scores = np.empty((rows.shape[0], self.squared.size))
        inverted_scores(rows.data, rows.indices, rows.indptr, *self.lists, self.squared, scores)
        length = np.sqrt(_squared_norms(rows))
        far = ~(length <= self.farthest)
        scores[far] = length[far] = 0.0
        bound = (length + self.reach) ** 2
        tolerance = (np.diff(rows.indptr) + self.longest + 8) * 2.0**-52 * bound
        if self.integral and _integral(rows.data):
            tolerance[bound <= 2.0**53] = 0.0
        tolerance[far] = np.inf
        return scores, tolerance

    def operands(self, rows: sp.csr_array) -> tuple[Any, Any]:
        return (rows.data, rows.indices, rows.indptr), self.centers


def _squared_norms(X: Rows) -> np.ndarray:
    """Squared length of each row; infinite where it overflows."""
    with np.errstate(over="ignore", under="ignore"):
        if isinstance(X, np.ndarray):
            return np.einsum("ij,ij->i", X, X)
        row_of = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        return np.bincount(row_of, weights=X.data * X.data, minlength=X.shape[0])


def _usable(reach: float) -> bool:
    """Whether squares of lengths around `reach` neither overflow nor underflow; else every distance is rechecked."""
    return 2.0**-400 < reach < 2.0**400


def _integral(values: np.ndarray) -> bool:
    return bool((values == np.rint(values)).all())
