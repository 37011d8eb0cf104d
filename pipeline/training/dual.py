"""SVM, logistic regression and SVR on cells: in one task, or by CoCoA+ in rounds over parts of the rows.

In rounds, only weights travel: a part answers the weights that a round starts from with the change that its dual
variables make. These belong to the part, and the round uses those after the last two rounds. One-vs-rest problems that
share the passes over the rows are solved together, a few at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self, cast

import numpy as np

from ikmap.json_values import JsonObject, Label, MutableJsonObject
from ikmap.learners.dual import cocoa
from ikmap.learners.dual._lanes_loops import LANES
from ikmap.learners.dual.block_reader import BlockReader
from ikmap.learners.dual.certificate import sum_up
from ikmap.learners.dual.cocoa import Coordinator, Report
from ikmap.learners.dual.svm_params import SVMParams
from ikmap.methods import DualLearner, Learner
from pipeline.record_types import ModelRecord, SolutionRecord, TaskRecord, TrainResult
from pipeline.rows.block_sizes import BLOCK_BYTES, choose_parts, choose_solver, learning_parts, packed_row_bytes
from pipeline.rows.cell_blocks import CellBlocks, SpooledBlocks
from pipeline.rows.row_weights import weight_rule
from pipeline.running.dispatch import Task
from pipeline.running.stage import Stage
from pipeline.running.worker_memory import size
from pipeline.storage.models import MODELS
from pipeline.training.dual_tasks import (
    merge_classes,
    problem_of,
    solve_classes,
    solve_whole,
    solved_name,
    store_solution,
)
from pipeline.training.rounds import SOLVER, Arrays, Generations, Held, Rounds
from pipeline.training.runner import CellSizes, TrainingJob

SHARING = 5
"""Least number of classes for which problems share their passes over the rows instead of being tasks of their own."""
PROBLEMS_AT_ONCE = 8
"""Number of one-vs-rest problems that share the rounds; the others wait, to bound memory."""
HELD_BYTES = 64 << 20
"""Bytes of packed cells that a process holds in memory; the other parts that it works on are in temporary files."""


@dataclass(frozen=True)
class Survey:
    """The order of the first round: to count the rows of each class, or the moments of numbers."""


@dataclass(frozen=True, eq=False)
class Improvement:
    """The order of a further round, with the weights after the last round and after the one before."""

    rounds: cocoa.RoundConstants
    order: cocoa.RoundOrder
    w: np.ndarray
    w_before: np.ndarray


type Surveyed = tuple[list[float], int]
"""The counts of a part, and the number of its feature columns."""


@dataclass(frozen=True)
class DualRounds(Rounds[Coordinator | None, Survey | Improvement, BlockReader, Surveyed | Report]):
    """Linear problems of a :class:`~ikmap.methods.DualLearner` that are solved together; None before the survey.

    Attributes
    ----------
    n_classes : int
        0 where targets are numbers.
    n_parts : int
    group : tuple of int
        The one-vs-rest problems.
    number : int
        Number of the group.
    most_tasks : int
        Most tasks in which one-vs-rest problems are solved, where each task has all rows.
    lanes : int
        Number of problems that share a pass over the rows in such a task.
    """

    n_classes: int = 0
    n_parts: int = 1
    group: tuple[int, ...] = (0,)
    number: int = 0

    owns: ClassVar[bool] = True
    most_tasks: ClassVar[int] = 16
    lanes: ClassVar[int] = LANES
    metrics_schema: ClassVar[Mapping[str, JsonObject]] = {
        "duality_gap": {"description": "Certified, relative; of several problems the largest.", "type": "number"},
        "iterations": {"type": "integer", "minimum": 0},
        "converged": {"type": "boolean"},
        **SOLVER,
        "parts": {"description": "Of the distributed solver.", "type": "integer", "minimum": 1},
        "rounds": {"description": "Of the distributed solver.", "type": "integer", "minimum": 0},
    }

    @property
    def name(self) -> str:
        return f"classes-{self.number:03d}"

    @property
    def problem(self) -> SVMParams:
        """Parameters of the problems."""
        return problem_of(self.params, self.learner)

    def begin(self) -> Coordinator | None:
        return None

    def order(self, state: Coordinator | None) -> Survey | Improvement | None:
        if state is None:
            return Survey()
        order = state.order
        return None if order is None else Improvement(state.rounds, order, state.w, state.w_before)

    def work(
        self, order: Survey | Improvement, piece: int, held: Held[BlockReader], own: Generations
    ) -> tuple[Surveyed | Report, Arrays]:
        reader = held.data
        if isinstance(order, Survey):
            survey = cocoa.survey(reader, self.n_classes)
            assert reader.columns is not None
            return (survey, reader.columns), {"alpha": np.zeros((len(self.group), held.rows))}
        alpha = own[0]["alpha"]
        before = own[1].get("alpha", alpha)
        new, report = cocoa.improve(order.rounds, piece, reader, order.order, alpha, before, order.w, order.w_before)
        return report, {"alpha": new}

    def absorb(
        self, state: Coordinator | None, order: Survey | Improvement, shares: Iterator[Surveyed | Report]
    ) -> Coordinator:
        if isinstance(order, Survey):
            surveyed = cast("list[Surveyed]", list(shares))
            surveys, columns = [survey for survey, _ in surveyed], surveyed[0][1]
            return Coordinator(cocoa.RoundConstants.of(self.problem, self.n_classes, self.group, surveys), columns)
        assert state is not None
        state.absorb(order.order, cast("Iterator[Report]", shares))
        return state

    def checkpoint(self, state: Coordinator | None) -> Arrays:
        assert state is not None  # before the survey nothing is written
        return state.checkpoint()

    def restore(self, arrays: Arrays) -> Coordinator:
        return Coordinator.restore(self.problem, self.n_classes, arrays)

    @property
    def n_pieces(self) -> int:
        return self.n_parts

    def _ranges(self, piece: int) -> list[tuple[int, int]]:
        return learning_parts(self.train.n_rows, self.n_parts, self.params.seed)[piece]

    def open(self, piece: int, in_memory: bool) -> Held[BlockReader]:
        # A part no larger than a block is visited as a whole, a larger one in small blocks; the result is the same
        # whether it is held in memory or in a file.
        assert self.fitted is not None
        ranges, offsets = self._ranges(piece), self.offsets
        n_blocks = -(-self.size(piece) // BLOCK_BYTES)
        visited_ranges = [ranges[k::n_blocks] for k in range(n_blocks)]
        weight_of = weight_rule(self.train.preparation.task)
        stored = CellBlocks(self.store, self.fitted.cells_name("train"), offsets, visited_ranges, weight_of)
        visits = {"visit_rows": None} if n_blocks == 1 else {}
        blocks = stored if in_memory else SpooledBlocks(stored, offsets, **visits)
        sources = (stored,) if in_memory else (stored, blocks)
        rows = sum(stop - start for start, stop in ranges)
        reader = BlockReader(blocks, self.n_classes, None, True)
        return Held(reader, rows, sources, reader.release)

    def size(self, piece: int) -> int:
        return packed_row_bytes(self.offsets) * sum(stop - start for start, stop in self._ranges(piece))

    def room(self) -> float:
        return HELD_BYTES

    @classmethod
    def of(cls, job: TrainingJob) -> Sequence[Self]:
        rows, params = job.rows, job.context.params
        method = params.learner_as(DualLearner, job.learner)
        k = rows.preparation.task.decisions.outputs
        n_classes, n_parts = (
            len(rows.preparation.task.codec.classes),
            choose_parts(rows.n_rows, job.cells_bytes, method.parts),
        )
        common = (job.context.store.path, job.learner, job.fitted, job.value, params, n_classes, n_parts)
        groups = divided(k, -(-k // PROBLEMS_AT_ONCE))
        return [cls(*common, tuple(group), number) for number, group in enumerate(groups)]

    def finish(self, state: Coordinator | None) -> SolutionRecord:
        assert state is not None
        return store_solution(self.store, self.learner, self.number, state.fit())

    @classmethod
    def result(cls, job: TrainingJob, stage: Stage, records: Sequence[TaskRecord], solver: str) -> TrainResult:
        solved = cast("Sequence[SolutionRecord]", records)
        details: MutableJsonObject = {"solver": solver}
        if solver == "distributed":
            method = job.context.params.learner_as(DualLearner, job.learner)
            details["parts"] = choose_parts(job.rows.n_rows, job.cells_bytes, method.parts)
        details |= sum_up([record["certificate"] for record in solved])
        if solver == "distributed":
            details["rounds"] = details["iterations"]
        if (content_hash := solved[0].get("content_hash")) is not None:  # of the one task that solved all problems
            return stage.finish(job.result(content_hash, details))
        content_hash = _merge(job, stage, len(solved))["content_hash"]
        return stage.finish(job.result(content_hash, details), obsolete=[f"{MODELS}/{job.learner}-solved"])

    @classmethod
    def solver(cls, learner: Learner, held_bytes: int) -> str:
        return choose_solver(held_bytes, cast("DualLearner", learner).solver)

    @classmethod
    def without_rounds(cls, job: TrainingJob, solver: str) -> tuple[Stage, Sequence[SolutionRecord]]:
        task = job.rows.preparation.task
        classes, common = task.codec.classes, (job.context.store, job.context.params, job.learner, job.fitted)
        k, most = task.decisions.outputs, cls.most_tasks
        groups = divided(k, min(most, -(-k // cls.lanes)) if solver == "memory" and k >= SHARING else most)
        if len(groups) == 1:
            stage = job.stage(1)
            return stage, stage.run(solve_whole, [Task("whole", (*common, classes, solver))])
        stage = job.stage(len(groups) + 1)
        tasks = [Task(f"classes-{i:03d}", (*common, len(classes), group, i, solver)) for i, group in enumerate(groups)]
        return stage, stage.run(solve_classes, tasks)

    @classmethod
    def needs(cls, learner: Learner, sizes: CellSizes, solver: str, blocks: float) -> tuple[float, str]:
        cells, weights, problems = sizes.cells_bytes, sizes.weights_bytes, sizes.outputs
        if solver == "memory":
            at_once = max(-(-problems // cls.most_tasks), min(problems, cls.lanes))
            # A label, and for each problem that is solved at once two copies of a dual variable.
            needed = 2 * cells + 3 * weights + (4 + 16 * at_once) * sizes.rows
            return max(blocks, needed), "in memory (solver memory)"
        if solver == "distributed":
            parts = choose_parts(sizes.rows, cells, cast("DualLearner", learner).parts)
            together = min(problems, PROBLEMS_AT_ONCE)
            part = min(-(-cells // parts), BLOCK_BYTES)
            # The part that is worked on, twice while it is packed; parts that stay; four copies of its dual variables.
            needed = HELD_BYTES + 2 * part + 8 * weights // problems * together
            needed += int((4 + 32 * together) * sizes.rows / parts)
            return max(blocks, needed), f"in {parts} parts of {size(cells / parts)} each (solver distributed)"
        return blocks, "block by block (solver block)"


def divided(k: int, most: int) -> list[list[int]]:
    """Divide k problems into at most so many groups of nearly equal size."""
    return [group.tolist() for group in np.array_split(np.arange(k), min(k, most))]


def _merge(job: TrainingJob, stage: Stage, n_groups: int) -> ModelRecord:
    """Make one model of the solutions of all groups."""
    assert job.fitted is not None
    context, names = job.context, [solved_name(job.learner, i) for i in range(n_groups)]
    classes: list[Label] = job.rows.preparation.task.codec.classes
    task = Task("merge", (context.store, context.params, job.learner, classes, names, job.fitted.t))
    (record,) = stage.run(merge_classes, [task])
    return record
