"""Train a learner in rounds: choose by size whether in one task or in tasks for all pieces, and run the engine."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from ikmap.json_values import JsonObject
from ikmap.methods import Learner
from ikmap.methods.fields import fields_of
from pipeline.record_types import TaskRecord, TrainResult
from pipeline.running.dispatch import Task
from pipeline.running.stage import Stage
from pipeline.training.engine import Folder, OnWorkers, solve_durably, solve_in_one
from pipeline.training.rounds import AnyRounds
from pipeline.training.runner import CellSizes, Runner, TrainingJob


class RoundsRunner(Runner):
    """The runner of all learners whose problems are solved in rounds.

    Parameters
    ----------
    problems : subclass of Rounds
        Class of the problems of one kind of learners.
    """

    def __init__(self, problems: type[AnyRounds]) -> None:
        self._problems = problems

    @property
    def metrics_schema(self) -> Mapping[str, JsonObject]:  # type: ignore[override]
        return self._problems.metrics_schema

    def train(self, job: TrainingJob) -> TrainResult:
        problems = self._problems
        if problems.durable:
            (rounds,) = problems.of(job)
            stage = job.stage(rounds.n_pieces + 1)
            return problems.result(job, stage, [solve_durably(rounds, stage)], "")
        solver = problems.solver(job.context.params.learner(job.learner), job.held_bytes)
        if solver == "distributed":
            stage = job.stage(None)
            with OnWorkers(stage) as executor:
                records = [_solved(stage, executor, rounds) for rounds in problems.of(job)]
        elif (solved := problems.without_rounds(job, solver)) is not None:
            stage, records = solved[0], list(solved[1])
        else:
            stage, records = _in_one_task(job, problems.of(job), solver)
        return problems.result(job, stage, records, solver)

    def fills_cluster(self, learner: Learner, held_bytes: int) -> bool:
        return not self._problems.durable and self._problems.solver(learner, held_bytes) == "distributed"

    def needs(self, learner: Learner, sizes: CellSizes) -> tuple[float, str]:
        blocks, words = super().needs(learner, sizes)
        if self._problems.durable:
            return blocks, words
        return self._problems.needs(learner, sizes, self._problems.solver(learner, sizes.cells_bytes), blocks)

    def least(self, learner: Learner) -> JsonObject:
        if self._problems.durable or self._problems.solver(learner, sys.maxsize) == "memory":
            return {}
        return {"solver": "block", **({"parts": None} if "parts" in fields_of(type(learner)) else {})}


def _solved(stage: Stage, executor: OnWorkers, rounds: AnyRounds) -> TaskRecord:
    """Return the record of a problem, which workers solve unless that is done; its files are removed then."""
    folder = _folder(stage, rounds.name)
    record = stage.once(rounds.name, partial(executor.solve, rounds, folder))
    _remove_files(folder.path.parent)
    return record


def _in_one_task(job: TrainingJob, problems: Sequence[AnyRounds], solver: str) -> tuple[Stage, list[TaskRecord]]:
    """Solve each problem in rounds, in one task."""
    stage = job.stage(len(problems))
    tasks = [
        Task(rounds.name, (rounds, _folder(stage, rounds.name), solver == "memory", job.n_threads))
        for rounds in problems
    ]
    records = stage.run(solve_in_one, tasks)
    _remove_files(_folder(stage, "").path.parent)
    return stage, records


def _folder(stage: Stage, name: str) -> Folder:
    """Return the folder of the files from which a problem goes on."""
    run = stage.context.run
    return Folder(run.task_record(stage.name, f"rounds-{name}").with_suffix(""), run.manifest["id"])


def _remove_files(folder: Path) -> None:
    """Remove the files of rounds, also of those of earlier versions, from among the records of a stage."""
    for entry in folder.glob("*"):
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        elif entry.suffix == ".npz":
            entry.unlink(missing_ok=True)
