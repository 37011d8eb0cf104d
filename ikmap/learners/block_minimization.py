"""Dual coordinate descent on data larger than memory: blocks are visited in turn, one sweep over each.

Yu, Hsieh, Chang, Lin (2010); algorithms.md 8.2. Every problem not solved yet is served while a block is in memory.

Blocks that never change are each pulled to a solution of their own, which takes many times as many sweeps as rows in
random order: ten times, where rows are many and columns few. So small blocks are put together, others every time, and a
sweep visits their rows in one random order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from ikmap.learners import _linear_svm_loops as loops
from ikmap.learners.block_reader import BlockReader
from ikmap.seeds import generator

if TYPE_CHECKING:
    from ikmap.learners.linear_svm import SVMParams

#: Tightening the tolerance on projected gradients further is no use: smaller ones are taken for 0 (8.2).
EPS_FLOOR = 5e-12
TOGETHER_BYTES = 32 << 20
"""Size of the blocks that are put together. It decides the order of the rows, so it is the same on every machine."""


@dataclass
class BlockProblem:
    """One binary problem while it is being solved over several blocks."""

    positive: int
    number: int
    w: np.ndarray
    tol: float
    alphas: dict[int, np.ndarray] = field(default_factory=dict)
    phase: Literal["start", "train", "certify", "done"] = "train"
    eps: float = 0.1
    n_iter: int = 0
    loss_sum: float = 0.0
    gap_sum: float = 0.0
    all_within_eps: bool = True
    certify_below: float = 0.0
    history: list[tuple[float, float, float, float]] = field(default_factory=list)

    def begin_cycle(self) -> None:
        self.loss_sum = self.gap_sum = 0.0
        self.all_within_eps = True

    def keep(self, numbers: Sequence[int], alpha: np.ndarray) -> None:
        """Take over the dual variables of some blocks, one block after the other."""
        ends = np.cumsum([self.alphas[b].size for b in numbers])
        self.alphas.update(zip(numbers, np.split(alpha, ends[:-1]), strict=True))

    def end_cycle(self, max_iter: int) -> None:
        """Choose what the next visit to the blocks is for."""
        primal = 0.5 * loops.squared_length(self.w) + self.loss_sum
        gap = self.gap_sum / max(primal, np.finfo(float).tiny)
        finished = self.n_iter >= max_iter
        if self.phase == "start":
            self.phase = "train"
        elif self.phase == "train":
            if self.all_within_eps:
                self.eps *= 0.1
            # A certificate is one more reading: wait until the gap that was seen on the way, each block's share at
            # the weights of its visit, promises success.
            if finished or gap <= self.certify_below or self.eps < EPS_FLOOR:
                self.phase = "certify"
        else:
            self.history.append((self.n_iter, primal, primal - self.gap_sum, gap))
            self.certify_below = min(self.certify_below, 0.5 * gap)
            self.phase = "done" if gap <= self.tol or finished or self.eps < EPS_FLOOR else "train"


def _groups(reader: BlockReader, seed: int, cycle: int) -> list[tuple[int, ...]]:
    """Which blocks are put together in a pass; in the first, where sizes become known, each is alone, in order."""
    count = len(reader)
    if cycle == 0:
        return [(b,) for b in range(count)]
    size = max(1, TOGETHER_BYTES // max(1, reader.largest))
    if size >= count:
        return [tuple(range(count))]  # which then stay in memory
    order = generator(seed, cycle).permutation(count).tolist()
    return [tuple(order[k : k + size]) for k in range(0, count, size)]


def visit_blocks(
    reader: BlockReader,
    problems: Sequence[BlockProblem],
    params: SVMParams,
    class_cost: np.ndarray,
    cycle: int,
    alpha0: np.ndarray | None,
) -> None:
    """One pass over all blocks for the unsolved problems, each in its own phase."""
    bias, loss = float(params.fit_intercept), loops.LOSSES[params.loss]
    for problem in problems:
        problem.begin_cycle()
    start, made = 0, dict.fromkeys((p.number for p in problems), 0)
    for numbers in _groups(reader, params.seed, cycle):
        rows, norms, y, weight = reader.together(numbers)
        for slot, p in enumerate(problems):
            if cycle == 0:
                (b,) = numbers
                p.alphas[b] = np.zeros(y.size)
                if alpha0 is not None:
                    if start + y.size > alpha0.shape[1]:
                        raise ValueError(f"alpha0 has {alpha0.shape[1]} rows, the blocks have more")
                    p.alphas[b][:] = alpha0[slot, start : start + y.size]
            alpha = np.concatenate([p.alphas[b] for b in numbers])
            common = (p.positive, class_cost, weight, bias, loss, p.w, alpha)
            if p.phase == "start":
                loops.accumulate(rows, y, *common)
                p.keep(numbers, alpha)
                continue
            loss_sum, gap_sum, _ = loops.certificate(rows, y, *common)
            p.loss_sum += loss_sum
            p.gap_sum += gap_sum
            if p.phase == "train":
                random = np.uint64(generator(params.seed, p.number, numbers[0], cycle).integers(2**63))
                _, within = loops.sweeps(
                    rows, norms, y, *common, p.eps, params.inner_sweeps, params.shrinking, random
                )  # fmt: skip
                made[p.number] = 1
                p.all_within_eps = p.all_within_eps and within
                p.keep(numbers, alpha)
        start += y.size
    if alpha0 is not None and start != alpha0.shape[1]:
        raise ValueError(f"alpha0 has {alpha0.shape[1]} rows, the blocks have {start}")
    for problem in problems:
        problem.n_iter += made[problem.number]
        problem.end_cycle(params.max_iter)
