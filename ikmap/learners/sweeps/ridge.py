"""Ridge regression that follows the splits of cells, with exact weights and marginal likelihood at each checkpoint.

Of weights w of features that are ``1 / sqrt(t)`` for the cells of a row, ``|y - X w|^2 + alpha |w|^2`` is least. Seen
as a Gaussian process with noise of variance alpha and weights of variance 1, the targets have the log likelihood

    - |y - X w|^2 / (2 alpha) - |w|^2 / 2 - ln det A / 2 + (C - N) / 2 ln alpha - N / 2 ln 2 pi,   A = X' X + alpha 1

with N rows and C columns. Source: The Mondrian Kernel, section 3.1; algorithms.md, section 12.4. While there are fewer
columns than rows, the normal equations are solved; then the equations of the dual variables, one for each row.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg as sl

from ikmap._threads import single_threaded_blas
from ikmap.arrays import Floats
from ikmap.cells import Cells
from ikmap.kernels.isolation import IsolationKernel
from ikmap.learners.sweeps._counts_loops import part
from ikmap.learners.sweeps.columns import GROWTH, Columns, to_checkpoints
from ikmap.learners.sweeps.normal_equations import NormalEquations, Solved, blocks, factor_of
from ikmap.splits import CellSplit


@dataclass(frozen=True, eq=False)
class RidgePoint:
    """The solution at one value of a field of a map.

    Attributes
    ----------
    value : int or float
    weights : ndarray, shape (C,)
        By column, in the order of :class:`~ikmap.learners.sweeps.columns.Columns`.
    log_likelihood : float
        Log marginal likelihood of the targets.
    """

    value: float
    weights: Floats
    log_likelihood: float


class RidgeSweep:
    """The state of a sweep over sets of rows, the first for learning.

    Parameters
    ----------
    start : sequence of Cells
        Before the first split.
    y : ndarray, shape (N,)
        Targets, with the mean that is to be left out already subtracted.
    alpha : float
        > 0; the paper's delta^2.
    growth : float
        Share by which the number of columns grows between checkpoints; 0: a checkpoint at every value.
    """

    def __init__(self, start: Sequence[Cells], y: np.ndarray, alpha: float, growth: float = GROWTH) -> None:
        self.columns, self._y, self._alpha, self._growth = Columns(start), y, alpha, growth
        few = self.columns.n <= len(y)
        self._primal: NormalEquations | None = NormalEquations(start[0], y, alpha) if few else None
        self._shared: np.ndarray | None = None

    def follow(self, splits: Iterable[CellSplit]) -> Iterator[RidgePoint]:
        """Apply splits, and solve at each checkpoint."""
        checkpoints = to_checkpoints(splits, self.columns.n, self._growth)
        for block in blocks(checkpoints, self.columns.n):
            n_after = self.columns.n + sum(map(len, block))
            if self._primal is not None and n_after <= len(self._y):
                with single_threaded_blas:
                    solved = self._primal.after(block)
                for done, of in zip(block, solved, strict=True):
                    self._apply(done)
                    yield self._point(of)
                continue
            self._primal = None
            for done in block:
                self._apply(done)
                with single_threaded_blas:
                    of = self._dual()
                yield self._point(of)

    def solved(self) -> RidgePoint:
        """Return the solution at the current point of the sweep."""
        with single_threaded_blas:
            return self._point(self._dual() if self._primal is None else self._primal.solve())

    def decisions(self, point: RidgePoint, which: int = 1) -> Floats:
        """Return predictions for the rows of one set at the last yielded point, shape (n,)."""
        return self.columns.decisions(point.weights, which)

    def variances(self, which: int = 1) -> Floats:
        """Return posterior variances of f for the rows of one set, now: ``alpha x' A^-1 x``, shape (n,)."""
        of, t = self.columns.of, self.columns.n_partitions
        with single_threaded_blas:
            factor = factor_of(self._kernel() + self._alpha * np.eye(len(self._y)), self._alpha)
            between = shared_rows(of[which], of[0]) / t
            half = sl.solve_triangular(factor, between.T, lower=True)
            own = (of[which] >= 0).sum(axis=1) / t
            variances: np.ndarray = own - (half**2).sum(axis=0)
        return variances

    def _apply(self, done: Sequence[CellSplit]) -> None:
        for split in done:
            self.columns.apply(split)
            if self._shared is not None:
                part(self._shared, *split.rows[0])

    def _point(self, solved: Solved) -> RidgePoint:
        w, log_determinant = solved
        N, C, alpha = len(self._y), self.columns.n, self._alpha
        fitted = self.decisions(RidgePoint(0.0, w, 0.0), 0)
        error = float(((self._y - fitted) ** 2).sum())
        likelihood = (
            -error / (2 * alpha) - float(w @ w) / 2 - log_determinant / 2 + (C - N) / 2 * math.log(alpha)
        ) - N / 2 * math.log(2 * math.pi)  # fmt: skip
        return RidgePoint(self.columns.value, w, likelihood)

    def _kernel(self) -> Floats:
        shared = shared_rows(self.columns.of[0], self.columns.of[0]) if self._shared is None else self._shared
        kernel: np.ndarray = shared / self.columns.n_partitions
        return kernel

    def _dual(self) -> Solved:
        """Solve by the kernel matrix of the rows, which is kept from then on."""
        if self._shared is None:
            self._shared = shared_rows(self.columns.of[0], self.columns.of[0])
        N, C, t = len(self._y), self.columns.n, self.columns.n_partitions
        K = self._kernel()
        K[np.diag_indices(N)] += self._alpha
        factor = factor_of(K, self._alpha)
        dual = sl.cho_solve((factor, True), self._y, check_finite=False)
        of = self.columns.of[0]
        w = np.zeros(C)
        for m in range(t):
            inside = of[:, m] >= 0
            w += np.bincount(of[inside, m], weights=dual[inside], minlength=C)
        log_determinant = 2.0 * float(np.log(np.diag(factor)).sum()) + (C - N) * math.log(self._alpha)
        return Solved(w / math.sqrt(t), log_determinant)


def shared_rows(a: np.ndarray, b: np.ndarray) -> Floats:
    """Return the number of partitionings in which two rows share a column, float64 of shape (n, m)."""
    t = a.shape[1]
    offsets = np.zeros(t + 1, dtype=np.int64)  # columns are numbered across partitionings
    offsets[-1] = max(int(a.max(initial=-1)), int(b.max(initial=-1))) + 1
    counts: Floats = np.rint(IsolationKernel(t).matrix(Cells(a, offsets), Cells(b, offsets)) * t)
    return counts
