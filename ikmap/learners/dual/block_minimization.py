"""Dual coordinate descent on data larger than memory: groups of blocks are visited in turn, one sweep over each.

Yu, Hsieh, Chang, Lin (2010); algorithms.md 8.2. How it ends and which rows it leaves out is as in memory: see
:mod:`ikmap.learners.dual.descent`. Every problem not solved yet is served while a group is in memory.

Blocks that never change are each pulled to a solution of their own, which takes many times as many sweeps as rows in
random order: ten times, where rows are many and columns few. So small blocks are put together, others every time, and a
sweep visits their rows in one random order.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import ClassVar, Literal, NamedTuple, cast

import numpy as np

from ikmap.arrays import Floats, Int32s
from ikmap.learners.dual import _linear_svm_loops as loops
from ikmap.learners.dual import _linear_svr_loops as svr_loops
from ikmap.learners.dual import _momentum_loops as momentum_loops
from ikmap.learners.dual.block_reader import BlockReader, CompiledBlock
from ikmap.learners.dual.descent import AT_REST
from ikmap.learners.dual.dual_variables import DualVariables
from ikmap.learners.dual.momentum import Momentum, ahead
from ikmap.learners.dual.progress import Progress
from ikmap.learners.dual.shared_pass import SharedPass, Swept
from ikmap.learners.dual.whole_numbers import CountedArrays, WholeNumbers, dual_bound, whole_numbers
from ikmap.learners.rows import CellArrays, RowArrays
from ikmap.seeds import generator

TOGETHER_BYTES = 4 << 20
"""Size of the groups: near that of a core's own cache, where rows in random order cost no more than in file order.

It decides the order of the rows, so it is the same on every machine.
"""


@dataclass
class _Sums:
    """Sums over one pass through all groups (see :class:`Progress`)."""

    losses: float = 0.0
    gap: float = 0.0
    growth: float = 0.0
    length: float = 0.0
    most: float = 0.0
    whole: bool = True
    n_support: int = 0
    visits: int = 0
    squares: float = 0.0
    start: float = 0.0
    dual: float = 0.0


type Objective = loops.Objective | svr_loops.Targets
type VisitOrder = tuple[Floats, Int32s, int, float]
"""Dual variables, the order of the active rows, their number, and the threshold for leaving rows out."""


class How(NamedTuple):
    """Settings of a pass: sweeps over each group of blocks, and whether rows at rest are left out."""

    inner_sweeps: int
    shrinking: bool


@dataclass
class BlockProblem:
    """The state of one binary problem over several blocks.

    Parameters
    ----------
    number, slot : int
        Its number among all problems, and its place among those that are solved.
    positive, class_cost, bias, loss
        The same as in :class:`~ikmap.learners.dual.descent.Problem`.
    w : ndarray of float64, shape (n_columns + 1,)
        Weights, the intercept's last; those after the latest sweep only outside the phase "sweep".
    phase : {"start", "sweep", "certify", "done"}
        Purpose of the next pass; "start" adds up the weights of dual variables that are given.
    threshold : float
        Distance of the margin of a row from its bound above which the row is left out.
    numbers, counted
        Unit of fixed-point weights, and the weights in sweeps; None for float64 weights.
    before
        Weights, as they are in sweeps, after the sweep before the latest.
    """

    loops: ClassVar[ModuleType] = loops
    momentum_loops: ClassVar[ModuleType] = momentum_loops
    unbounded: ClassVar[tuple[int, ...]] = (loops.SQUARED_HINGE,)
    """Losses whose dual variables have no upper bound."""

    number: int
    slot: int
    positive: int
    class_cost: Floats
    bias: float
    loss: int
    w: Floats
    progress: Progress
    phase: Literal["start", "sweep", "certify", "done"] = "sweep"
    threshold: float = np.inf
    n_support: int = 0
    sums: _Sums = field(default_factory=_Sums)
    numbers: WholeNumbers | None = None
    counted: np.ndarray | None = None
    momentum: Momentum = field(default_factory=Momentum)
    before: np.ndarray = field(default_factory=lambda: np.empty(0))

    def begin(self, reader: BlockReader, total_cost: float, start: float) -> None:
        """Make ready for the first sweep; ``start`` is the sum of a^2 / (2 C) over the dual variables there are."""
        if reader.cells:
            base, value = reader.cells
            length, most = self.bounds(total_cost, start, reader.heaviest)
            self.numbers = whole_numbers(base.size, value, self.bias, length, most)
            self.counted = self.numbers.counted(self.w) if self.numbers else None

    def bounds(self, total_cost: float, start: float, heaviest: float) -> tuple[float, float]:
        """Return bounds on ``|w|^2`` without momentum, and on dual variables; ``heaviest`` is the largest weight."""
        length = 2.0 * total_cost + loops.squared_length(self.w) + start
        return length, dual_bound(length, float(self.class_cost.max()) * heaviest)

    def costs(self, y: np.ndarray, weight: Floats) -> Floats:
        """Return the C of every row."""
        cost: Floats = self.class_cost[y] * weight if weight.size else self.class_cost[y]
        return cost

    def begin_pass(self) -> None:
        """Move the weights by momentum."""
        if self.phase == "sweep" and self.momentum.possible:
            w = self.w if self.counted is None else self.counted
            beta, before = self.momentum.beta, self.before
            self.before = w.copy()
            if beta > 0.0:
                w[:] = ahead(w, before, beta)

    def objective(self, y: np.ndarray, weight: Floats) -> Objective:
        """Return the arguments of the compiled loops after rows and norms."""
        return loops.Objective(y, self.positive, self.class_cost, weight, self.bias, self.loss)

    def sweep(
        self, shared: SharedPass | None, rows: RowArrays, norms: Floats, objective: Objective, *order: *VisitOrder
    ) -> Swept:
        """Make one sweep like ``one_pass`` of the loops, by two threads if that is worthwhile."""
        if self.numbers is None or self.counted is None:
            swept: Swept = loops.one_pass(rows, norms, objective, self.w, *order, loops.AT_FIRST)
            return swept
        arrays = (self.numbers.rows(cast("CellArrays", rows)), norms, objective, self.counted, *order)
        if shared is None:
            counted: Swept = loops.one_pass(*arrays, loops.AT_FIRST)
            return counted
        _, _, size, _ = order
        by_two, began = shared.pays(size), time.perf_counter()
        told = shared(*arrays) if by_two else loops.one_pass(*arrays, loops.AT_FIRST)
        shared.pace.took(by_two, time.perf_counter() - began, size)
        return told

    def visit(
        self,
        block: CompiledBlock,
        alpha: Floats,
        before: Floats,
        how: How,
        seed: int,
        shared: SharedPass | None,
    ) -> bool:
        """Do with a group what the phase asks for; whether alpha has changed.

        Before a sweep, ``before`` are its dual variables before the latest sweep, and afterwards those after it.
        """
        rows, norms, y, weight = block
        objective = self.objective(y, weight)
        if self.phase == "start":
            self.loops.accumulate(rows, objective, self.w, alpha)
            if self.loss in self.unbounded:
                cost = self.costs(y, weight)
                self.sums.start += float((alpha[cost > 0] ** 2 / (2.0 * cost[cost > 0])).sum())
            return True
        order = np.empty(y.size, dtype=np.int32)
        size, left_out = self.loops.take_up(y, self.class_cost, weight, alpha, order)
        sums = self.sums
        if self.phase == "certify":
            losses, gap, length = self.loops.certificate(rows, objective, self.w, alpha, 0, -1)
            sums.losses += losses
            sums.gap += gap
            sums.length += length
            sums.n_support += int(np.count_nonzero(alpha))
            any_left_out: bool = left_out > 0
            return any_left_out
        self._go_on(rows, objective, alpha, before)
        state, active = np.uint64(seed), size
        threshold = self.threshold if how.shrinking else np.inf
        for sweep in range(how.inner_sweeps):
            state = np.uint64(loops.shuffle(order, size, state))
            kept, losses, gap, most, rms, growth = self.sweep(
                shared, rows, norms, objective, alpha, order, size, threshold
            )
            sums.growth += growth
            if sweep == 0:
                sums.losses += losses
                sums.gap += gap
                sums.most = max(sums.most, most)
                sums.visits += size
                sums.squares += size * rms**2
            size = kept
        sums.whole = sums.whole and not left_out
        if self.momentum.possible:
            sums.dual += self.momentum_loops.dual_sum(objective, alpha)
        if left_out or size < active:
            self.loops.lay_down(y, self.class_cost, weight, alpha, order, size)
        return True

    def _go_on(self, rows: RowArrays, objective: Objective, alpha: Floats, before: Floats) -> None:
        """Move the dual variables of a group by the momentum of the weights."""
        old = alpha.copy()
        if self.momentum.beta > 0.0:
            w = self.w if self.counted is None else self.counted
            if self.numbers:
                arrays: RowArrays | CountedArrays = self.numbers.rows(cast("CellArrays", rows))
            else:
                arrays = rows
            self.momentum_loops.extrapolate(arrays, objective, w, old, before, self.momentum.beta, 1.0, alpha)
        before[:] = old

    def end_pass(self, reader: BlockReader, total_cost: float) -> None:
        """Choose the purpose of the next pass."""
        sums, self.sums = self.sums, _Sums()
        if self.phase == "start":
            self.progress.length = loops.squared_length(self.w)
            self.phase = "sweep"
            self.begin(reader, total_cost, sums.start)
        elif self.phase == "sweep":
            self.threshold = AT_REST * np.sqrt(sums.squares / sums.visits) if sums.squares > 0.0 else np.inf
            length, growth = self._length(), sums.growth
            if self.momentum.beta > 0.0:
                growth = length - self.progress.length
            wanted = self.progress.swept(sums.whole, sums.losses, sums.gap, sums.most, growth)
            if self.momentum.possible:
                self.momentum.swept(self.progress.before, sums.dual - 0.5 * length)
            if wanted:
                self.phase = "certify"
                if self.numbers and self.counted is not None:
                    self.w = self.numbers.weights(self.counted)
        else:
            self.n_support = sums.n_support
            self.threshold = np.inf
            self.phase = "done" if self.progress.certified(sums.losses, sums.gap, sums.length) else "sweep"

    def _length(self) -> float:
        """Return ``|w|^2``."""
        if self.numbers and self.counted is not None:
            return float(loops.squared_length(self.numbers.weights(self.counted)))
        return float(loops.squared_length(self.w))


def draw_groups(reader: BlockReader, seed: int, cycle: int) -> list[tuple[int, ...]]:
    """Return groups of blocks for a pass."""
    count = len(reader)
    size = max(1, TOGETHER_BYTES // max(1, reader.largest))
    if size >= count:
        return [tuple(range(count))]  # which then stay in memory
    order = generator(seed, cycle).permutation(count)
    return [tuple(np.sort(order[k : k + size]).tolist()) for k in range(0, count, size)]


def descend_blocks(
    reader: BlockReader,
    problems: Sequence[BlockProblem],
    duals: DualVariables,
    *,
    how: How,
    seed: int,
    total_cost: float,
    n_threads: int,
) -> None:
    """Solve each problem to the relative duality gap of its progress, or as far as that lets it go.

    Parameters
    ----------
    reader : BlockReader
        After its survey.
    duals : DualVariables
        To start from, changed in place.
    seed : int
        Seed of the order of rows.
    total_cost : float
        Sum of the rows' C.
    n_threads : int
        Up to two make a sweep; the result is the same bit for bit.
    """
    cycle, shared = 0, None
    befores = DualVariables(len(problems), list(reader.sizes.values()))
    for problem in problems:
        if problem.phase == "sweep":
            problem.begin(reader, total_cost, 0.0)
    if n_threads > 1 and reader.cells:
        shared = _shared_pass(reader)
    while unsolved := [problem for problem in problems if problem.phase != "done"]:
        groups = draw_groups(reader, seed, cycle)
        for problem in unsolved:
            problem.begin_pass()
        for k, (numbers, block) in enumerate(zip(groups, reader.each(groups), strict=True)):
            for problem in unsolved:
                alpha = duals.read(problem.slot, numbers)
                before = befores.read(problem.slot, numbers) if problem.momentum.beta > 0.0 else np.empty_like(alpha)
                random = int(generator(seed, problem.number, cycle, k).integers(2**63))
                sweep = problem.phase == "sweep"
                if problem.visit(block, alpha, before, how, random, shared):
                    duals.write(problem.slot, numbers, alpha)
                if sweep and problem.momentum.possible:
                    befores.write(problem.slot, numbers, before)
        for problem in unsolved:
            problem.end_pass(reader, total_cost)
        cycle += 1


def _shared_pass(reader: BlockReader) -> SharedPass | None:
    """Return a sweep by two threads over groups of blocks, or None if the cells cannot be shared out."""
    assert reader.cells is not None
    assert reader.columns is not None
    base, _ = reader.cells
    if not SharedPass.suits(base, reader.columns):
        return None
    together = max(1, TOGETHER_BYTES // max(1, reader.largest))
    return SharedPass(together * max(reader.sizes.values()), base.size)
