"""Dual coordinate descent on data larger than memory: groups of blocks are visited in turn, one sweep over each.

Yu, Hsieh, Chang, Lin (2010); algorithms.md 8.2. How it ends and which rows it leaves out is as in memory: see
:mod:`ikmap.learners.dual.descent`. Every problem not solved yet is served while a group is in memory.

Blocks that never change are each pulled to a solution of their own, which takes many times as many sweeps as rows in
random order: ten times, where rows are many and columns few. So small blocks are put together, others every time, and a
sweep visits their rows in one random order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np

from ikmap.learners.dual import _linear_svm_loops as loops
from ikmap.learners.dual.block_reader import BlockReader, CompiledBlock
from ikmap.learners.dual.descent import AT_REST
from ikmap.learners.dual.dual_variables import DualVariables
from ikmap.learners.dual.progress import Progress
from ikmap.seeds import generator

TOGETHER_BYTES = 4 << 20
"""Size of the groups: near that of a core's own cache, where rows in random order cost no more than in file order.

It decides the order of the rows, so it is the same on every machine.
"""


@dataclass
class _Sums:
    """What one pass over all groups adds up (see :class:`Progress`)."""

    losses: float = 0.0
    gap: float = 0.0
    growth: float = 0.0
    length: float = 0.0
    most: float = 0.0
    whole: bool = True
    n_support: int = 0
    visits: int = 0
    squares: float = 0.0


@dataclass
class BlockProblem:
    """One binary problem while it is being solved over several blocks.

    Parameters
    ----------
    number, slot : int
        Its number among all problems, and its place among those that are solved.
    positive, class_cost, bias, loss
        As in :class:`~ikmap.learners.dual.descent.Problem`.
    w : ndarray of float64, shape (n_columns + 1,)
        Weights, the intercept's last.
    phase : {"start", "sweep", "certify", "done"}
        What the next pass is for; "start" adds up the weights of dual variables that are given.
    threshold : float
        How far a row's margin must be from its bound, for the row to be left out.
    """

    loops: ClassVar[Any] = loops

    number: int
    slot: int
    positive: int
    class_cost: np.ndarray
    bias: float
    loss: int
    w: np.ndarray
    progress: Progress
    phase: Literal["start", "sweep", "certify", "done"] = "sweep"
    threshold: float = np.inf
    n_support: int = 0
    sums: _Sums = field(default_factory=_Sums)

    def objective(self, y: np.ndarray, weight: np.ndarray) -> Any:
        """What the compiled loops take after rows and norms."""
        return loops.Objective(y, self.positive, self.class_cost, weight, self.bias, self.loss)

    def sweep(self, *arrays: Any) -> Any:
        """One sweep, as ``one_pass`` of the loops makes it."""
        return loops.one_pass(*arrays, loops.AT_FIRST)

    def visit(self, block: CompiledBlock, alpha: np.ndarray, inner_sweeps: int, shrinking: bool, seed: int) -> bool:
        """Do with a group what the phase asks for; whether alpha has changed."""
        rows, norms, y, weight = block
        objective = self.objective(y, weight)
        if self.phase == "start":
            self.loops.accumulate(rows, objective, self.w, alpha)
            return True
        order = np.empty(y.size, dtype=np.int32)
        size, left_out = self.loops.take_up(y, self.class_cost, weight, alpha, order)
        sums = self.sums
        if self.phase == "certify":
            losses, gap, length = self.loops.certificate(rows, objective, self.w, alpha)
            sums.losses += losses
            sums.gap += gap
            sums.length += length
            sums.n_support += int(np.count_nonzero(alpha))
            return left_out > 0
        state, active = np.uint64(seed), size
        threshold = self.threshold if shrinking else np.inf
        for sweep in range(inner_sweeps):
            state = np.uint64(loops.shuffle(order, size, state))
            arrays: Any = (rows, norms, objective, self.w, alpha, order, size, threshold)
            kept, losses, gap, most, rms, growth = self.sweep(*arrays)
            sums.growth += growth
            if sweep == 0:
                sums.losses += losses
                sums.gap += gap
                sums.most = max(sums.most, most)
                sums.visits += size
                sums.squares += size * rms**2
            size = kept
        sums.whole = sums.whole and not left_out
        if left_out or size < active:
            self.loops.lay_down(y, self.class_cost, weight, alpha, order, size)
        return True

    def end_pass(self) -> None:
        """Choose what the next pass is for."""
        sums, self.sums = self.sums, _Sums()
        if self.phase == "start":
            self.progress.length = loops.squared_length(self.w)
            self.phase = "sweep"
        elif self.phase == "sweep":
            self.threshold = AT_REST * np.sqrt(sums.squares / sums.visits) if sums.squares > 0.0 else np.inf
            if self.progress.swept(sums.whole, sums.losses, sums.gap, sums.most, sums.growth):
                self.phase = "certify"
        else:
            self.n_support = sums.n_support
            self.threshold = np.inf
            self.phase = "done" if self.progress.certified(sums.losses, sums.gap, sums.length) else "sweep"


def draw_groups(reader: BlockReader, seed: int, cycle: int) -> list[tuple[int, ...]]:
    """Which blocks are put together in a pass."""
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
    inner_sweeps: int,
    shrinking: bool,
    seed: int,
) -> None:
    """Solve each problem to the relative duality gap of its progress, or as far as that lets it go.

    Parameters
    ----------
    reader : BlockReader
        After its survey.
    duals : DualVariables
        To start from, changed in place.
    seed : int
        Of the order of rows.
    """
    cycle = 0
    while unsolved := [problem for problem in problems if problem.phase != "done"]:
        groups = draw_groups(reader, seed, cycle)
        for k, (numbers, block) in enumerate(zip(groups, reader.each(groups), strict=True)):
            for problem in unsolved:
                alpha = duals.read(problem.slot, numbers)
                random = int(generator(seed, problem.number, cycle, k).integers(2**63))
                if problem.visit(block, alpha, inner_sweeps, shrinking, random):
                    duals.write(problem.slot, numbers, alpha)
        for problem in unsolved:
            problem.end_pass()
        cycle += 1
