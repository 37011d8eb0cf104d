"""Choose how to solve a linear problem on cells, by its size, and run the tasks of the solver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ikmap.json_values import JsonObject, Label, MutableJsonObject
from ikmap.learners.dual._lanes_loops import LANES
from ikmap.learners.dual.certificate import sum_up
from ikmap.methods import DualLearner
from pipeline.record_types import ModelRecord, SolutionRecord, TrainResult
from pipeline.rows.block_sizes import BLOCK_BYTES, choose_parts, choose_solver, packed_bytes
from pipeline.running.dispatch import Task
from pipeline.running.stage import Stage
from pipeline.running.worker_memory import size
from pipeline.storage.models import MODELS
from pipeline.training.runner import CellSizes, Runner, TrainingJob
from pipeline.training.train_batch import merge_classes, solve_classes, solve_whole, solved_name
from pipeline.training.train_distributed import HELD_BYTES, PROBLEMS_AT_ONCE, solve_distributed

SHARING = 5
"""Least number of classes for which problems share their passes over the rows instead of being tasks of their own."""


@dataclass(frozen=True)
class DualRunner(Runner[DualLearner]):
    """The runner of each :class:`~ikmap.methods.DualLearner`.

    Attributes
    ----------
    most_tasks : int
        Most tasks in which one-vs-rest problems are solved.
    lanes : int
        Number of problems that share a pass over the rows.
    """

    metrics_schema: ClassVar[Mapping[str, JsonObject]] = {
        "duality_gap": {"description": "Certified, relative; of several problems the largest.", "type": "number"},
        "iterations": {"type": "integer", "minimum": 0},
        "converged": {"type": "boolean"},
        "solver": {
            "description": "All rows in one task, blocks of a file in one task, or parts of the rows side by side.",
            "enum": ["memory", "block", "distributed"],
        },
        "parts": {"description": "Of the distributed solver.", "type": "integer", "minimum": 1},
        "rounds": {"description": "Of the distributed solver.", "type": "integer", "minimum": 0},
    }

    most_tasks: int = 16
    lanes: int = LANES

    def train(self, job: TrainingJob) -> TrainResult:
        fitted, context, learner = job.fitted, job.context, job.learner
        assert fitted is not None
        store, params, rows = context.store, context.params, job.rows
        method = params.learner_as(DualLearner, learner)
        classes, k = rows.preparation.task.codec.classes, rows.preparation.task.decisions.outputs
        cells_bytes = packed_bytes(rows.n_rows, fitted.t, fitted.most_cells)
        solver = choose_solver(cells_bytes, method.solver)
        details: MutableJsonObject = {"solver": solver}
        groups = self._groups(k, solver)
        solved: list[SolutionRecord]
        if solver == "distributed":
            n_parts = choose_parts(rows.n_rows, cells_bytes, method.parts)
            details["parts"] = n_parts
            stage = job.stage(None)
            solved = solve_distributed(stage, learner, fitted, len(classes), groups, n_parts)
        elif len(groups) == 1:
            stage = job.stage(1)
            solved = stage.run(solve_whole, [Task("whole", (store, params, learner, fitted, classes, solver))])
        else:
            stage = job.stage(len(groups) + 1)
            tasks = [
                Task(f"classes-{i:03d}", (store, params, learner, fitted, len(classes), group, i, solver))
                for i, group in enumerate(groups)
            ]
            solved = stage.run(solve_classes, tasks)
        content_hash = solved[0].get("content_hash")
        in_groups = content_hash is None
        if content_hash is None:
            content_hash = _merge(stage, learner, classes, len(groups), fitted.t)["content_hash"]
        details |= sum_up([task["certificate"] for task in solved])
        if solver == "distributed":
            details["rounds"] = details["iterations"]
        result = stage.finish(job.result(content_hash, details))
        if in_groups:
            store.delete(f"{MODELS}/{learner}-solved")  # only now: until here an interrupted run still needs them
        return result

    def _groups(self, k: int, solver: str) -> list[list[int]]:
        """Return the groups of the k problems that are solved together."""
        most = self.most_tasks
        if solver == "distributed":
            most = -(-k // PROBLEMS_AT_ONCE)
        elif solver == "memory" and k >= SHARING:
            most = min(most, -(-k // self.lanes))
        return [group.tolist() for group in np.array_split(np.arange(k), min(k, most))]

    def fills_cluster(self, learner: DualLearner, cells_bytes: int) -> bool:
        return choose_solver(cells_bytes, learner.solver) == "distributed"

    def needs(self, learner: DualLearner, sizes: CellSizes) -> tuple[float, str]:
        blocks, _ = super().needs(learner, sizes)
        cells, weights, problems = sizes.cells_bytes, sizes.weights_bytes, sizes.outputs
        solver = choose_solver(cells, learner.solver)
        if solver == "memory":
            at_once = max(-(-problems // self.most_tasks), min(problems, self.lanes))
            # A label, and for each problem that is solved at once two copies of a dual variable.
            needed = 2 * cells + 3 * weights + (4 + 16 * at_once) * sizes.rows
            return max(blocks, needed), "in memory (solver memory)"
        if solver == "distributed":
            parts = choose_parts(sizes.rows, cells, learner.parts)
            together = min(problems, PROBLEMS_AT_ONCE)
            part = min(-(-cells // parts), BLOCK_BYTES)
            # The part that is worked on, twice while it is packed; parts that stay; four copies of its dual variables.
            needed = HELD_BYTES + 2 * part + 8 * weights // problems * together
            needed += int((4 + 32 * together) * sizes.rows / parts)
            return max(blocks, needed), f"in {parts} parts of {size(cells / parts)} each (solver distributed)"
        return blocks, "block by block (solver block)"

    def least(self, learner: DualLearner) -> JsonObject:
        if learner.solver == "memory":
            return {}
        return {"solver": "block", "parts": None}


def _merge(stage: Stage, learner: str, classes: list[Label], n_groups: int, t: int) -> ModelRecord:
    """Make one model of the solutions of all groups."""
    names = [solved_name(learner, i) for i in range(n_groups)]
    context = stage.context
    task = Task("merge", (context.store, context.params, learner, classes, names, t))
    (record,) = stage.run(merge_classes, [task])
    return record
