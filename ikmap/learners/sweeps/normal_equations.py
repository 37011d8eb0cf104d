"""The normal equations of ridge regression on columns that split, solved at every checkpoint.

``A w = b``, where ``A[c, d]`` is the number of rows that columns c and d share, over t, with alpha added on the
diagonal. Counts are kept, so no rounding builds up as cells split.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import scipy.linalg as sl

from ikmap.arrays import Floats
from ikmap.cells import Cells
from ikmap.learners.sweeps._counts_loops import add_counts
from ikmap.learners.sweeps.columns import Columns
from ikmap.splits import CellSplit

BLOCK = 1 / 20
"""Most splits that one Cholesky factor serves, as a share of the number of columns."""


class Solved(NamedTuple):
    """A solution: weights by column, and the log determinant of A."""

    weights: np.ndarray
    log_determinant: float


def factor_of(matrix: Floats, alpha: float) -> Floats:
    """Return the Cholesky factor of a matrix plus alpha on its diagonal; the matrix is overwritten.

    Raises
    ------
    ValueError
        Rounding leaves nothing of alpha.
    """
    try:
        factor: np.ndarray = sl.cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    except sl.LinAlgError:
        raise ValueError(f"alpha {alpha:g} is lost in the rounding of so many rows: expected a larger one") from None
    return factor


class NormalEquations:
    """The normal equations of one set of rows at one checkpoint after the other.

    Parameters
    ----------
    start : Cells
        Cells of the rows before the first split.
    y : ndarray, shape (n,)
    alpha : float

    Attributes
    ----------
    factors : int
        Number of times that all of A was factored.
    """

    def __init__(self, start: Cells, y: np.ndarray, alpha: float) -> None:
        self._columns, self._y, self._alpha, self.factors = Columns([start]), y, alpha, 0
        self._shared, self._b = np.zeros((0, 0)), np.zeros(0)
        self._make_room()
        of = self._columns.of[0]
        for m in range(of.shape[1]):
            order = np.argsort(of[:, m], kind="stable").astype(np.int32)
            found, begins = np.unique(of[order, m], return_index=True)
            for c, rows in zip(found, np.split(order, begins[1:]), strict=True):
                if c >= 0:
                    add_counts(of, rows, self._shared[c])
                    self._b[c] = y[rows].sum()

    @property
    def n(self) -> int:
        """Number of columns."""
        return self._columns.n

    def solve(self) -> Solved:
        """Return the current weights of the columns, and the log determinant of A."""
        factor = self._factor(np.arange(self.n))
        return self._solved(factor, self._b[: self.n] / math.sqrt(self._columns.n_partitions))

    def after(self, checkpoints: Sequence[Sequence[CellSplit]]) -> list[Solved]:
        """Return the solutions after the splits of each checkpoint of a block (:func:`blocks`).

        K are the columns that no checkpoint of the block splits; ``A_KK = L L'`` is factored once. F are the columns
        that are split or newly made; ``Y = L^-1 A_KF``. At a checkpoint, the columns of F that exist then solve the
        small system with ``A_FF - Y' Y`` and ``b_F - Y' L^-1 b_K``.
        """
        if len(checkpoints) == 1:
            for split in checkpoints[0]:
                self._apply(split)
            return [self.solve()]
        t, before = self._columns.n_partitions, self.n
        split_here = self._columns.split_by(split for done in checkpoints for split in done)
        kept = np.setdiff1d(np.arange(before), split_here)
        # `contents`: rows shared with K, for every state that a column of F passes through; `now`: index of the present
        # state of each column.
        contents = [self._shared[c, kept] for c in split_here]
        now = {int(c): k for k, c in enumerate(split_here)}
        moments = []
        for done in checkpoints:
            for split in done:
                for c in self._apply(split):
                    now[c] = len(contents)
                    contents.append(self._shared[c, kept])
            of = np.array(list(now))
            inside = self._shared[np.ix_(of, of)] / t
            inside[np.diag_indices(len(of))] += self._alpha
            moments.append((of, np.array(list(now.values())), inside, self._b[of] / math.sqrt(t)))
        factor = self._factor(kept)
        c_K = sl.solve_triangular(factor, self._b[kept] / math.sqrt(t), lower=True, check_finite=False)
        Y = np.array(contents, order="C").T / t
        Y = sl.solve_triangular(factor, Y, lower=True, overwrite_b=True, check_finite=False)
        between, explained = Y.T @ Y, Y.T @ c_K
        outer = 2.0 * float(np.log(np.diag(factor)).sum())
        of_F, solutions = np.zeros((len(contents), len(moments))), []
        for k, (of, which, inside, b) in enumerate(moments):
            small = factor_of(inside - between[np.ix_(which, which)], self._alpha)
            part = self._solved(small, b - explained[which])
            of_F[which, k] = part.weights
            weights = np.empty(before + (len(of) - len(split_here)))
            weights[of] = part.weights
            solutions.append(Solved(weights, outer + part.log_determinant))
        of_K = sl.solve_triangular(factor, c_K[:, None] - Y @ of_F, lower=True, trans=1, check_finite=False)
        for k, solved in enumerate(solutions):
            solved.weights[kept] = of_K[:, k]
        return solutions

    def _apply(self, split: CellSplit) -> tuple[int, int]:
        """Move the rows of a split, and count what its parts share with all other columns."""
        of_columns = self._columns.apply(split)
        self._make_room()
        parts, columns = split.rows[0], (of_columns.left, of_columns.right)
        few = int(len(parts[0]) > len(parts[1]))
        counts = np.zeros(len(self._b))
        add_counts(self._columns.of[0], parts[few], counts)
        rest = self._shared[of_columns.left] - counts  # the larger part has what the smaller has not
        rest[list(columns)] = 0.0
        rest[columns[1 - few]] = len(parts[1 - few])
        for c, of, rows in ((columns[few], counts, parts[few]), (columns[1 - few], rest, parts[1 - few])):
            self._shared[c], self._shared[:, c] = of, of
            self._b[c] = self._y[rows].sum()
        return columns

    def _make_room(self) -> None:
        n = self._columns.n
        if n > len(self._b):
            more = n + n // 4 - len(self._b)
            self._shared, self._b = np.pad(self._shared, (0, more)), np.pad(self._b, (0, more))

    def _factor(self, of: np.ndarray) -> Floats:
        """Return the Cholesky factor of A for some columns."""
        matrix = self._shared[np.ix_(of, of)]
        matrix /= self._columns.n_partitions
        matrix[np.diag_indices(len(of))] += self._alpha
        self.factors += 1
        return factor_of(matrix, self._alpha)

    @staticmethod
    def _solved(factor: Floats, b: Floats) -> Solved:
        weights = sl.cho_solve((factor, True), b, check_finite=False)
        return Solved(weights, 2.0 * float(np.log(np.diag(factor)).sum()))


def blocks(checkpoints: Iterable[list[CellSplit]], n_columns: int) -> Iterator[list[list[CellSplit]]]:
    """Yield blocks of checkpoints for :meth:`NormalEquations.after`: a single checkpoint, or several.

    Several are consecutive ones whose splits together are at most :data:`BLOCK` of the columns.
    """
    block: list[list[CellSplit]] = []
    n_splits = 0
    for done in checkpoints:
        if block and n_splits + len(done) > BLOCK * n_columns:
            yield block
            n_columns, n_splits, block = n_columns + n_splits, 0, []
        block.append(done)
        n_splits += len(done)
    if block:
        yield block
