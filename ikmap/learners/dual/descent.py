"""One binary problem on rows in memory, with sweeps of dual coordinate descent up to a certified solution.

Hsieh, Chang, Lin, Keerthi, Sundararajan (2008); what is added to algorithms.md 8.2 is how it ends and what it leaves
out: see :class:`Progress`. Rows at rest at a bound are left out when their margin is
further from 1 than thrice what margins moved by in the last sweep; a certificate that fails brings them back.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import cast

import numpy as np

from ikmap._threads import for_each_block
from ikmap.learners.dual import _linear_svm_loops as loops
from ikmap.learners.dual import _momentum_loops as momentum_loops
from ikmap.learners.dual.block_reader import CompiledBlock
from ikmap.learners.dual.momentum import Momentum, ahead
from ikmap.learners.dual.progress import Progress
from ikmap.learners.dual.shared_pass import SharedPass
from ikmap.learners.dual.whole_numbers import CountedArrays, WholeNumbers, complete_cells, dual_bound, whole_numbers
from ikmap.learners.rows import CellArrays, RowArrays

CHUNK = 8192
"""Rows whose losses are summed apart, so that sums do not depend on the number of threads."""
AT_REST = 3.0
"""Rows are left out whose margin is further from its bound than so many times the typical step."""


@dataclass(frozen=True)
class Problem:
    """The problem of one class against the rest on the rows of one block.

    Parameters
    ----------
    block : CompiledBlock
    positive : int
        Number of the positive class.
    class_cost : ndarray of float64
        C times the weight of every class.
    loss : int
        As in ``_linear_svm_loops``.
    bias : float
        Value of the constant feature, 0 for none.
    n_columns : int
    """

    block: CompiledBlock
    positive: int
    class_cost: np.ndarray
    loss: int
    bias: float
    n_columns: int

    @property
    def objective(self) -> loops.Objective:
        """Arguments of the compiled loops after rows and norms."""
        block = self.block
        return loops.Objective(block.y, self.positive, self.class_cost, block.sample_weight, self.bias, self.loss)


class _Sweeps:
    """Sweeps over the active rows, on cells by fixed-point weights (see ``_rows_loops``) and one or two threads.

    Parameters
    ----------
    w : ndarray of float64, shape (n_columns + 1,)
        Weights of ``alpha``.
    """

    def __init__(
        self, problem: Problem, w: np.ndarray, alpha: np.ndarray, seed: int, shrinking: bool, n_threads: int
    ) -> None:
        self.problem, self.w, self.alpha = problem, w, alpha
        self.rows: RowArrays | CountedArrays = problem.block.rows
        self.shared: SharedPass | None = None
        self.state, self.shrinking = np.uint64(seed), shrinking
        self.momentum = Momentum()
        cells = problem.block.rows
        self.numbers = self._whole_numbers(cells) if complete_cells(cells) else None
        if self.numbers and complete_cells(cells):
            self.rows, self.w = self.numbers.rows(cells), self.numbers.counted(w)
            if n_threads > 1 and SharedPass.suits(cells[1], problem.n_columns):
                self.shared = SharedPass(*cells[0].shape)
        self.before = self.w, alpha
        self.activate()

    def _whole_numbers(self, rows: CellArrays) -> WholeNumbers | None:
        """Choose the unit of fixed-point weights.

        The dual objective rises in every step and is at most sum_i C_i: that bounds ``|w|``.
        """
        problem, alpha, cost = self.problem, self.alpha, _costs(self.problem)
        length = 2.0 * cost.sum() + loops.squared_length(self.w)
        if problem.loss == loops.SQUARED_HINGE:
            length += (alpha[cost > 0] ** 2 / (2.0 * cost[cost > 0])).sum()
        codes, _, value = rows
        bound = dual_bound(length, cost.max(initial=0.0))
        return whole_numbers(codes.shape[1], value, problem.bias, length, bound)

    def weights(self) -> np.ndarray:
        """Return the weights in float64."""
        return self.numbers.weights(self.w) if self.numbers else self.w

    def activate(self) -> None:
        """Make every row active that counts at all."""
        self.order = np.flatnonzero(_costs(self.problem) > 0).astype(np.int32)
        self.size = self.everything = self.order.size
        self.threshold = np.inf

    def __call__(self) -> tuple[bool, float, float, float, float]:
        """Make one sweep; return what :meth:`Progress.swept` wants to know."""
        whole, length = self.size == self.everything, self._go_on()
        norms, objective = self.problem.block.norms, self.problem.objective
        self.state = np.uint64(loops.shuffle(self.order, self.size, self.state))
        arrays = (norms, objective, self.w, self.alpha, self.order, self.size, self.threshold)
        shared = self.shared if self.shared is not None and self.shared.pays(self.size) else None
        began, swept = time.perf_counter(), self.size
        if shared:
            told = shared(cast("CountedArrays", self.rows), *arrays)
        else:
            told = loops.one_pass(self.rows, *arrays, loops.AT_FIRST)
        self.size, losses, gap, most, rms, growth = told
        if self.shared is not None:
            self.shared.pace.took(shared is not None, time.perf_counter() - began, swept)
        self.threshold = AT_REST * rms if rms > 0.0 and self.shrinking else np.inf
        if length is not None:
            growth = loops.squared_length(self.weights()) - length
        return whole, losses, gap, most, growth

    def _go_on(self) -> float | None:
        """Keep what there is before a sweep; with momentum, go on from it and return what ``|w|^2`` was."""
        beta = self.momentum.beta
        if not self.momentum.possible:
            return None
        w, alpha = self.w, self.alpha.copy()
        if beta > 0.0:
            length: float = loops.squared_length(self.weights())
            self.w = ahead(w, self.before[0], beta)
            momentum_loops.extrapolate(
                self.rows, self.problem.objective, self.w, alpha, self.before[1], beta, 1.0, self.alpha
            )
            self.before = w, alpha
            return length
        self.before = w.copy(), alpha
        return None

    def dual(self) -> float:
        """Return the dual objective."""
        length = loops.squared_length(self.weights())
        objective: float = float(momentum_loops.dual_sum(self.problem.objective, self.alpha)) - 0.5 * length
        return objective


def _costs(problem: Problem) -> np.ndarray:
    """Return the C of every row."""
    y, weight = problem.block.y, problem.block.sample_weight
    costs: np.ndarray = problem.class_cost[y] * weight if weight.size else problem.class_cost[y]
    return costs


def certify(problem: Problem, w: np.ndarray, alpha: np.ndarray, n_threads: int = 1) -> tuple[float, float, float]:
    """Return the sums of losses and of shares of the gap, and |w|^2, at these weights, which must be those of alpha."""
    rows, y = problem.block.rows, problem.block.y
    sums = np.zeros((-(-y.size // CHUNK), 3))

    def work(start: int, stop: int) -> None:
        sums[start // CHUNK] = loops.certificate(rows, problem.objective, w, alpha, start, stop)

    for_each_block(work, y.size, CHUNK, n_threads)
    losses, gap, length = np.add.reduce(sums, axis=0).tolist()
    return losses, gap, length


def descend(
    problem: Problem,
    alpha: np.ndarray,
    *,
    tol: float,
    max_iter: int,
    shrinking: bool,
    seed: int,
    n_threads: int = 1,
) -> tuple[np.ndarray, list[tuple[float, float, float, float]]]:
    """Solve a problem to the relative duality gap ``tol``, or as far as ``max_iter`` sweeps or float64 go.

    Parameters
    ----------
    alpha : ndarray of float64, shape (n,)
        Dual variables to start from; clipped into their bounds, changed in place.
    seed : int
        Seed of the order of rows, below 2^64.
    n_threads : int
        For the certificate and, up to two, for sweeps over cells. The result is the same bit for bit.

    Returns
    -------
    w : ndarray of float64, shape (n_columns + 1,)
        Weights, the intercept's last.
    history : list of tuples
        At every certificate: sweeps made, primal, dual, gap.
    """
    w = np.zeros(problem.n_columns + 1)
    if alpha.any():
        loops.accumulate(problem.block.rows, problem.objective, w, alpha)
    sweeps = _Sweeps(problem, w, alpha, seed, shrinking, n_threads)
    progress = Progress(tol, max_iter, loops.squared_length(w))
    while True:
        wanted = progress.swept(*sweeps())
        if sweeps.momentum.possible:
            sweeps.momentum.swept(progress.before, sweeps.dual())
        if wanted:
            w = sweeps.weights()
            if progress.certified(*certify(problem, w, alpha, n_threads)):
                return w, progress.history
            sweeps.activate()
