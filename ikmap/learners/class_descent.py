"""Many problems on the same rows in memory, each one class against the rest, that share the pass over the rows.

Eight problems stand side by side in a group and are served by one visit to a row; a row at rest in all of them is not
visited. Each problem has its own certificate and ends on its own, as one alone does (``descent``). Now and then the
unsolved problems of all groups are moved together. A problem sees the rows in an order that the seed decides, whatever
stands beside it, so how problems are grouped makes no difference to any bit of a solution.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ikmap._threads import for_each_block
from ikmap.learners import _class_sweep_loops as loops
from ikmap.learners._lanes_loops import LANES
from ikmap.learners.block_reader import CompiledBlock
from ikmap.learners.descent import AT_REST
from ikmap.learners.progress import Progress

BYTES = 2**28
"""Weights and dual variables of the problems in flight, unless one group for each thread is more."""
FIRST_MOVE = 16
"""Sweeps after which unsolved problems move together for the first time; then after twice as many, and so on."""


@dataclass(frozen=True)
class ClassProblems:
    """What is solved: each class of ``positives`` against the rest, on the rows of one block.

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
    class_cost: np.ndarray
    loss: int
    bias: float
    n_columns: int

    @property
    def group_bytes(self) -> int:
        """Memory of a group of problems."""
        return 8 * LANES * (self.n_columns + 1 + self.block.y.size) + 5 * self.block.y.size

    def arrays(self, signs: np.ndarray) -> Any:
        """What the compiled loops take after rows and norms: a tuple."""
        return self.block.y, signs, self.class_cost, self.block.sample_weight, self.bias, self.loss


class _Group:
    """Up to eight problems side by side; ``slots[k]`` is the number of the one in lane k, -1 where there is none."""

    def __init__(
        self, problems: ClassProblems, slots: Sequence[int], alpha: np.ndarray, tol: float, max_iter: int, seed: int
    ) -> None:
        block, lanes = problems.block, range(len(slots))
        self.problems = problems
        self.slots = np.full(LANES, -1)
        self.slots[: len(slots)] = slots
        self.W = _aligned_zeros(problems.n_columns + 1, LANES)
        self.alpha = _aligned_zeros(block.y.size, LANES)
        self.alpha[:, : len(slots)] = alpha.T
        if alpha.any():
            loops.accumulate_lanes(block.rows, *problems.arrays(self.signs), self.W, self.alpha)
        lengths = np.einsum("jk,jk->k", self.W, self.W) if alpha.any() else np.zeros(LANES)
        self.progress = {k: Progress(tol, max_iter, float(lengths[k])) for k in lanes}
        self.unsolved = set(lanes)
        cost = problems.class_cost[block.y] * (block.sample_weight if block.sample_weight.size else 1.0)
        self.order = np.flatnonzero(cost > 0).astype(np.int32)
        self.everything, self.state = self.order.size, np.uint64(seed)
        self.active, self.size = np.zeros(block.y.size, np.uint8), np.zeros(LANES)
        self.threshold = np.full(LANES, np.inf)
        for k in lanes:
            self.activate(k)

    @property
    def signs(self) -> np.ndarray:
        """For each class and lane, 1 where rows of the class are positive there, else -1."""
        positive = np.where(self.slots >= 0, self.problems.positives[self.slots], -1)
        return np.where(np.arange(self.problems.class_cost.size)[:, None] == positive, 1.0, -1.0)

    def activate(self, k: int) -> None:
        """Make every row active that counts at all."""
        self.active[self.order] |= np.uint8(1 << k)
        self.size[k], self.threshold[k] = self.everything, np.inf

    def run(self, sweeps: int, shrinking: bool) -> None:
        """Make so many sweeps, fewer if all is solved before."""
        rows, norms = self.problems.block.rows, self.problems.block.norms
        arrays = self.problems.arrays(self.signs)
        seen, sums = np.empty((7, LANES)), np.empty((3, LANES))
        while self.unsolved and sweeps > 0:
            sweeps -= 1
            whole = self.size == self.everything
            state = loops.sweep_lanes(
                rows, norms, *arrays, self.W, self.alpha, self.order, self.active, self.threshold, self.state, seen
            )
            self.state = np.uint64(state)
            self.size = seen[loops.KEPT].copy()
            if shrinking:
                rms = np.sqrt(seen[loops.SQUARES] / np.maximum(seen[loops.MOVES], 1.0))
                self.threshold = np.where(rms > 0.0, AT_REST * rms, np.inf)
            told = seen[[loops.LOSS_SUM, loops.GAP_SUM, loops.MOST, loops.LENGTH]].T.tolist()
            wanted = [k for k in sorted(self.unsolved) if self.progress[k].swept(bool(whole[k]), *told[k])]
            if wanted:
                loops.certify_lanes(rows, *arrays, self.W, self.alpha, sums)
            for k in wanted:
                if self.progress[k].certified(*sums[:, k].tolist()):
                    self.unsolved.remove(k)
                    self.active &= np.uint8(~(1 << k) & 0xFF)
                else:
                    self.activate(k)

    def exchange(self, k: int, other: _Group, j: int) -> None:
        """Let the unsolved problem in lane k change places with what the other group has in lane j, if anything."""
        loops.swap_lanes(self.W, k, other.W, j)
        loops.swap_lanes(self.alpha, k, other.alpha, j)
        other.active |= ((self.active >> np.uint8(k)) & np.uint8(1)) << np.uint8(j)
        self.active &= np.uint8(~(1 << k) & 0xFF)
        for mine, theirs in ((self.slots, other.slots), (self.size, other.size), (self.threshold, other.threshold)):
            mine[k], theirs[j] = theirs[j], mine[k]
        moving, solved = self.progress.pop(k), other.progress.pop(j, None)
        other.progress[j] = moving
        if solved is not None:
            self.progress[k] = solved
        self.unsolved.remove(k)
        other.unsolved.add(j)


def descend_classes(
    problems: ClassProblems,
    alphas: np.ndarray,
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
        Of the order of rows, below 2^64.
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
    parts = np.array_split(np.arange(count), -(-count // LANES))
    at_once = max(n_threads, BYTES // problems.group_bytes)
    for first in range(0, len(parts), at_once):
        slots = parts[first : first + at_once]
        groups: list[_Group | None] = [None] * len(slots)

        def begin(number: int, _: int, slots: list[np.ndarray] = slots, groups: list[_Group | None] = groups) -> None:
            own = slots[number].tolist()
            groups[number] = _Group(problems, own, alphas[own], tol, max_iter, seed)

        for_each_block(begin, len(slots), 1, n_threads)
        whole = [group for group in groups if group is not None]
        _solve(whole, shrinking, n_threads)
        for group in whole:
            lanes = np.flatnonzero(group.slots >= 0)
            own = group.slots[lanes]
            loops.take_lanes(group.W, lanes, coef, own)
            intercept[own], alphas[own] = group.W[-1, lanes], group.alpha.T[lanes]
            for k in lanes.tolist():
                histories[group.slots[k]] = group.progress[k].history
    return coef, intercept, histories


def _solve(groups: list[_Group], shrinking: bool, n_threads: int) -> None:
    """Solve all groups, moving unsolved problems together where that makes groups fewer."""
    made, until = 0, FIRST_MOVE
    while busy := [group for group in groups if group.unsolved]:

        def work(number: int, _: int, busy: list[_Group] = busy, sweeps: int = until - made) -> None:
            busy[number].run(sweeps, shrinking)

        for_each_block(work, len(busy), 1, n_threads)
        made, until = until, 2 * until
        busy = sorted((g for g in busy if g.unsolved), key=lambda g: -len(g.unsolved))
        keep = -(-sum(len(group.unsolved) for group in busy) // LANES)
        free = [(group, k) for group in busy[:keep] for k in range(LANES) if k not in group.unsolved]
        moving = [(group, k) for group in busy[keep:] for k in sorted(group.unsolved)]
        for (group, k), (target, j) in zip(moving, free, strict=False):
            group.exchange(k, target, j)


def _aligned_zeros(*shape: int) -> np.ndarray:
    """Zeros that begin at a cache line, so that no row of eight lies across two."""
    size = int(np.prod(shape))
    buffer = np.zeros(size + LANES)
    start = (-buffer.ctypes.data // 8) % LANES
    return buffer[start : start + size].reshape(shape)
