"""Many problems of one class against the rest on the same rows in memory, which share the pass over the rows.

Eight problems stand side by side in a group and are served by one visit to a row; a row at rest in all of them is not
visited. Where shrinking has left too few of them in a row to share its visit, they go apart: the same sweeps, one
problem after the other. Each problem has its own certificate and ends on its own, as one alone does (``descent``).

A problem sees the rows in an order that the seed decides, with the same arithmetic side by side and apart: so how
problems are grouped makes no difference to any bit of a solution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ikmap._threads import for_each_block
from ikmap.arrays import Floats
from ikmap.learners.dual import _class_sweep_loops as class_sweeps
from ikmap.learners.dual import _linear_svm_loops as loops
from ikmap.learners.dual import _momentum_loops as momentum_loops
from ikmap.learners.dual._lanes_loops import LANES
from ikmap.learners.dual.block_reader import CompiledBlock
from ikmap.learners.dual.descent import AT_REST
from ikmap.learners.dual.momentum import Momentum, ahead
from ikmap.learners.dual.progress import Progress

SHARED = 3.0
"""Visits to a row for one problem that take the time of a visit for eight."""
MOVE = 4.0
"""Entries of rows visited in vain, for each weight, until problems go apart: about what moving the weights takes."""


@dataclass(frozen=True)
class ClassProblems:
    """The problems of each class of ``positives`` against the rest, on the rows of one block.

    Parameters
    ----------
    block : CompiledBlock
    positives : ndarray of int, shape (P,)
    class_cost : ndarray of float64
        C times the weight of every class.
    loss : int
        As in ``_linear_svm_loops``.
    bias : float
        Value of the constant feature, 0 for none.
    n_columns : int
    """

    block: CompiledBlock
    positives: np.ndarray
    class_cost: Floats
    loss: int
    bias: float
    n_columns: int

    def objective(self, k: int) -> loops.Objective:
        """Return the objective of problem k alone."""
        return loops.Objective(self.block.y, int(self.positives[k]), *self._costs)

    def objectives(self, slots: np.ndarray) -> class_sweeps.Objectives:
        """Return the objectives of up to eight problems side by side."""
        positive = np.full(LANES, -1)
        positive[: slots.size] = self.positives[slots]
        signs = np.where(np.arange(self.class_cost.size)[:, None] == positive, 1.0, -1.0)
        return class_sweeps.Objectives(self.block.y, signs, *self._costs)

    @property
    def _costs(self) -> tuple[np.ndarray, np.ndarray, float, int]:
        return self.class_cost, self.block.sample_weight, self.bias, self.loss


class _Group:
    """The state of up to eight problems: side by side, ``W`` (columns + 1, 8) and ``alpha`` (n, 8), or transposed."""

    def __init__(
        self,
        problems: ClassProblems,
        slots: np.ndarray,
        alpha: Floats,
        spare: list[np.ndarray],
        tol: float,
        max_iter: int,
        seed: int,
    ) -> None:
        block, lanes = problems.block, range(slots.size)
        self.problems, self.slots, self.spare = problems, slots, spare
        cost = problems.class_cost[block.y] * (block.sample_weight if block.sample_weight.size else 1.0)
        self.order, self.state = np.flatnonzero(cost > 0).astype(np.int32), np.uint64(seed)
        self.active, self.size = np.zeros(block.y.size, np.uint8), np.zeros(LANES)
        self.threshold, self.seen = np.full(LANES, np.inf), np.zeros((7, LANES))
        self.apart, self.in_vain = slots.size < SHARED, 0.0
        lengths = np.zeros(LANES)
        if self.apart:
            self.W, self.alpha = np.zeros((slots.size, problems.n_columns + 1)), alpha
        else:
            try:  # another thread may take the last one at the same moment
                self.W = spare.pop()
            except IndexError:
                self.W = _aligned_zeros(problems.n_columns + 1, LANES)
            self.alpha = _aligned_zeros(block.y.size, LANES)
            self.alpha[:, : slots.size] = alpha.T
        if alpha.any():
            self._accumulate(lengths)
        self.progress = [Progress(tol, max_iter, float(lengths[k])) for k in lanes]
        self.momentum = [Momentum() for _ in lanes]
        self.before: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self.unsolved = list(lanes)
        for k in lanes:
            self._activate(k)

    def _accumulate(self, lengths: Floats) -> None:
        rows = self.problems.block.rows
        if not self.apart:
            class_sweeps.accumulate_lanes(rows, *self._side_by_side)
            class_sweeps.squared_lengths(self.W, lengths)
            return
        for k in range(self.slots.size):
            loops.accumulate(rows, *self._alone(k))
            lengths[k] = loops.squared_length(self.W[k])

    @property
    def _side_by_side(self) -> tuple[class_sweeps.Objectives, Floats, Floats]:
        """Arguments of the loops for eight problems after rows and norms."""
        return self.problems.objectives(self.slots), self.W, self.alpha

    def _alone(self, k: int) -> tuple[loops.Objective, Floats, Floats]:
        """Return the arguments of the loops for one problem after rows and norms."""
        return self.problems.objective(self.slots[k]), self.W[k], self.alpha[k]

    def _activate(self, k: int) -> None:
        """Make every row active that counts at all."""
        self.active[self.order] |= np.uint8(1 << k)
        self.size[k], self.threshold[k] = self.order.size, np.inf

    def solve(self, shrinking: bool) -> None:
        """Make sweeps until every problem is solved or given up."""
        sums = np.zeros((3, LANES))
        while self.unsolved:
            if not self.apart:
                self._consider_going_apart()
            whole = self.size == self.order.size
            self._go_on()
            self._sweep()
            seen = self.seen
            self.size = seen[class_sweeps.KEPT].copy()
            if shrinking:
                rms = seen[class_sweeps.RMS]
                self.threshold = np.where(rms > 0.0, AT_REST * rms, np.inf)
            told = seen[list(class_sweeps.TOLD)].T.tolist()
            wanted = [k for k in self.unsolved if self._swept(k, bool(whole[k]), *told[k])]
            if wanted:
                self._certify(wanted, sums)
            for k in wanted:
                if self.progress[k].certified(*sums[:, k].tolist()):
                    self.unsolved.remove(k)
                    self.before.pop(k, None)
                    self.active &= np.uint8(~(1 << k) & 0xFF)
                else:
                    self._activate(k)

    def _vectors(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return copies of the weights and dual variables of problem k."""
        if self.apart:
            return self.W[k].copy(), self.alpha[k].copy()
        return self.W[:, k].copy(), self.alpha[:, k].copy()

    def _go_on(self) -> None:
        """Keep what every problem is at before a sweep; those that have momentum go on from it."""
        for k in self.unsolved:
            beta = self.momentum[k].beta
            if not self.momentum[k].possible:
                self.before.pop(k, None)
                continue
            w, alpha = self._vectors(k)
            if beta > 0.0:
                v, start = ahead(w, self.before[k][0], beta), np.empty_like(alpha)
                arrays = (
                    self.problems.block.rows,
                    self.problems.objective(self.slots[k]),
                    v,
                    alpha,
                    self.before[k][1],
                )
                momentum_loops.extrapolate(*arrays, beta, 1.0, start)
                (self.W if self.apart else self.W.T)[k] = v
                (self.alpha if self.apart else self.alpha.T)[k] = start
            self.before[k] = w, alpha

    def _swept(self, k: int, whole: bool, losses: float, gap_sum: float, most: float, growth: float) -> bool:
        """Take note of what a sweep told of problem k; whether it is time for a certificate."""
        progress, momentum = self.progress[k], self.momentum[k]
        if not momentum.possible:
            return progress.swept(whole, losses, gap_sum, most, growth)
        w, alpha = self._vectors(k)
        length = float(loops.squared_length(w))
        if momentum.beta > 0.0:
            growth = length - progress.length
        wanted = progress.swept(whole, losses, gap_sum, most, growth)
        momentum.swept(
            progress.before,
            float(momentum_loops.dual_sum(self.problems.objective(self.slots[k]), alpha)) - 0.5 * length,
        )
        return wanted

    def _consider_going_apart(self) -> None:
        rows = self.problems.block.rows
        visits = np.count_nonzero(self.active)
        self.in_vain += (
            max(0.0, SHARED * visits - self.size[self.unsolved].sum()) * rows[0].size / max(1, self.active.size)
        )
        if self.in_vain > MOVE * len(self.unsolved) * self.W.shape[0]:
            self.apart, W = True, self.W
            self.W, self.alpha = np.ascontiguousarray(W.T), np.ascontiguousarray(self.alpha.T)
            self._release(W)

    def _sweep(self) -> None:
        rows, norms, _, _ = self.problems.block
        # All rows are shuffled: so each problem sees its active ones in an order that does not depend on the others.
        self.state = np.uint64(loops.shuffle(self.order, self.order.size, self.state))
        if not self.apart:
            arrays = (rows, norms, *self._side_by_side, self.order, self.active, self.threshold, self.seen)
            class_sweeps.sweep_lanes(*arrays)
            return
        for k in self.unsolved:
            alone = (rows, norms, *self._alone(k), self.order, self.active, k, self.threshold[k], self.seen)
            class_sweeps.sweep_apart(*alone)

    def _certify(self, wanted: list[int], sums: Floats) -> None:
        rows = self.problems.block.rows
        if not self.apart:
            class_sweeps.certify_lanes(*(rows, *self._side_by_side, sums))
            return
        for k in wanted:
            sums[:, k] = loops.certificate(*(rows, *self._alone(k), 0, -1))

    def _release(self, W: Floats) -> None:
        """Hand the weights to the next group, since memory in use is much cheaper than new memory."""
        W.fill(0.0)
        self.spare.append(W)

    def hand_over(self, coef: Floats, intercept: Floats, alphas: Floats) -> None:
        """Put the solutions where they belong among those of all problems."""
        count, slots = self.slots.size, self.slots
        W, alpha = (self.W.T, self.alpha.T) if self.apart else (self.W, self.alpha)
        if self.apart:
            coef[:, slots[0] : slots[-1] + 1] = W[:-1, :count]
        else:
            class_sweeps.copy_lanes(W, count, coef, slots[0])
        intercept[slots], alphas[slots] = W[-1, :count], alpha.T[:count]
        if not self.apart:
            self._release(W)


def descend_classes(
    problems: ClassProblems,
    alphas: Floats,
    *,
    tol: float,
    max_iter: int,
    shrinking: bool,
    seed: int,
    n_threads: int = 1,
) -> tuple[np.ndarray, np.ndarray, list[list[tuple[float, float, float, float]]]]:
    """Solve each problem to the relative duality gap ``tol``, or as far as ``max_iter`` sweeps or float64 go.

    Parameters
    ----------
    alphas : ndarray of float64, shape (P, n)
        Dual variables to start from; clipped into their bounds, changed in place.
    seed : int
        Seed of the order of rows, below 2^64.
    n_threads : int
        Groups of problems are solved side by side.

    Returns
    -------
    coef, intercept : ndarrays of float64, shapes (n_columns, P) and (P,)
    histories : list of list of tuples
        For each problem, at every certificate: sweeps made, primal, dual, gap.
    """
    count = problems.positives.size
    coef, intercept = np.empty((problems.n_columns, count)), np.empty(count)
    histories: list[list[tuple[float, float, float, float]]] = [[] for _ in range(count)]
    parts = [np.arange(start, min(start + LANES, count)) for start in range(0, count, LANES)]
    spare: list[np.ndarray] = []

    def work(number: int, _: int) -> None:
        slots = parts[number]
        group = _Group(problems, slots, alphas[slots], spare, tol, max_iter, seed)
        group.solve(shrinking)
        group.hand_over(coef, intercept, alphas)
        for k, progress in zip(slots, group.progress, strict=True):
            histories[k] = progress.history

    for_each_block(work, len(parts), 1, n_threads)
    return coef, intercept, histories


def _aligned_zeros(*shape: int) -> Floats:
    """Return zeros that begin at a cache line, so that no row of eight crosses one."""
    size = int(np.prod(shape))
    buffer = np.zeros(size + LANES)
    start = (-buffer.ctypes.data // 8) % LANES
    return buffer[start : start + size].reshape(shape)
