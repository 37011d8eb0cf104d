"""A stage of a run: it runs a list of tasks, records each that is done, and skips those that were done before."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, cast

from pipeline.monitoring.events import Events
from pipeline.monitoring.process_metrics import COUNTED
from pipeline.params import Params
from pipeline.record_types import Result, TaskProgress, TaskRecord
from pipeline.running.dispatch import Task, run_tasks
from pipeline.running.measured import progress_of, summarise
from pipeline.storage.durable import taken
from pipeline.storage.records import Records
from pipeline.storage.rundir import RunDirectory
from pipeline.storage.store import Store

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["Context", "Stage", "Watcher", "run_tasks", "stage_label"]


class Watcher[R: TaskRecord](Protocol):
    """A follower of the tasks of a stage, which may end the stage before all of them are done."""

    def done(self, task: Task, record: R, skipped: bool) -> TaskProgress:
        """Take in a task that is done, now or (skipped) by an earlier process; return what progress is to show.

        Entries that it adds to the record of a task that is done now are kept with the record.
        """

    def enough(self) -> bool:
        """Return whether to leave the tasks that are not done yet."""


@dataclass
class Context:
    """Surroundings of a stage: a client, a run directory for the store and the records, parameters, and events.

    Attributes
    ----------
    share : int
        Number of runs on the cluster, side by side.
    device : {"auto", "cpu", "gpu"}
        Device on which workers map rows to cells (:mod:`pipeline.running.device`).
    """

    client: Client
    run: RunDirectory
    params: Params
    events: Events
    share: int = 1
    device: str = "auto"
    clock: Callable[[], float] = time.perf_counter
    _started: float = field(default_factory=time.perf_counter)

    @property
    def store(self) -> Store:
        """Store of the run."""
        return self.run.store

    def key(self, name: str) -> str:
        """Return the prefix of the keys of tasks of that name."""
        # Dask groups tasks on its dashboard by what stands before eight hexadecimal digits (or before "-1").
        return f"{stage_label(name)}-{self.run.manifest['id'][:8]}"

    def compiled(self, seconds: float) -> None:
        """Add seconds of compiling to those of the run; they count for no stage."""
        manifest = self.run.manifest
        manifest["compile_seconds"] = round(manifest.get("compile_seconds", 0.0) + seconds, 3)

    @property
    def elapsed(self) -> float:
        """Seconds since this process took up the run."""
        return self.clock() - self._started


class Stage:
    """One stage of a run: it collects the records of its tasks and sums them up.

    Parameters
    ----------
    context : Context
    name : str
        Name as in ``metrics.json``: "ingest", "cells", "train:svm", ...
    tasks : int or None
        Least number of tasks; None where it is not known. Where more turn out to be needed, as to encode the rows of a
        table that were just read, progress shows them when they begin.
    rows : int, optional
        Number of rows that the stage works on, where tasks share them; default: the sum over the tasks.
    """

    def __init__(self, context: Context, name: str, tasks: int | None, rows: int | None = None) -> None:
        self.context, self.name, self.rows = context, name, rows
        self.expected = tasks
        self._begun = 0
        self.began = context.elapsed
        # After the processes that worked on the run before.
        self.started, self.before = context.run.begin_stage(name, context.run.manifest["seconds"] + self.began)
        context.events.stage_started(name, tasks, rows or None)
        self.records: list[TaskRecord] = []
        self.skipped = 0
        self._compiling = defaultdict[str, float](float)
        self.kept = Records(context.run, name, context.events.message)

    def run[R: TaskRecord](
        self, function: Callable[..., R], tasks: Sequence[Task], watcher: Watcher[R] | None = None
    ) -> list[R]:
        """Run ``function(*task.args)`` for every task that has no record yet; return all records in order.

        A watcher follows the tasks and may end the stage early; then only the records of finished tasks are returned.

        A record is a dict of JSON values (:class:`~pipeline.record_types.TaskRecord`); ``rows``, ``bytes_read`` and
        ``bytes_written`` are summed up. Where some of the ``outputs`` of a task are missing
        (:meth:`~pipeline.storage.store.Store.holds`), the task is done again.
        """
        context = self.context
        self._expect(len(tasks))
        records: dict[str, R] = {}
        for task in tasks:
            kept = self.kept.done(task.name)
            if kept is not None:
                record = cast("R", kept)
                records[task.name] = record
                self.say(record, True, watcher.done(task, record, True) if watcher else {})
        self.skipped += len(records)
        todo = [task for task in tasks if task.name not in records]
        stop = [watcher.enough] if watcher else []
        for task, record in run_tasks(context.client, self.key, function, todo, *stop):
            progress: TaskProgress = watcher.done(task, record, False) if watcher else {}
            self.kept.keep(task.name, record)
            records[task.name] = record
            self.say(record, progress=progress)
        ordered = [records[task.name] for task in tasks if task.name in records]
        self.records += ordered
        return ordered

    def once[R: TaskRecord](self, name: str, work: Callable[[], R]) -> R:
        """Return the record of that name, or do the work that makes it: many tasks of which only the sum is kept."""
        self._expect(1)
        kept = self.kept.done(name)
        if kept is None:
            record = work()
            self.kept.keep(name, record)
        else:
            record = cast("R", kept)
            self.skipped += 1
            self.say(record, skipped=True)
        self.records.append(record)
        return record

    def _expect(self, tasks: int) -> None:
        """Count tasks that begin now among those of the stage."""
        self._begun += tasks
        if self.expected is not None:
            self.expected = max(self.expected, self._begun)

    def say(self, record: TaskRecord, skipped: bool = False, progress: TaskProgress | None = None) -> None:
        """Let progress show one more task."""
        if not skipped:
            self.note_compiling(record)
        shown: TaskProgress = {}
        for name in COUNTED:
            # Where tasks share rows, only the number of tasks tells how far the stage is.
            if name != "rows" or self.rows is None:
                shown[name] = record.get(name, 0)
        if self.expected is not None:
            shown["total_tasks"] = self.expected
        if (compiling := self._longest_compiling) > 0.0:
            shown["compile_seconds"] = compiling
        self.context.events.task_done(self.name, {**shown, **(progress or {}), "skipped": skipped})

    def note_compiling(self, record: TaskRecord) -> None:
        """Note the seconds in which a task compiled a loop that nobody had declared: they count for no stage."""
        self._compiling[record.get("worker", "")] += record.get("compile_seconds", 0.0)

    @property
    def _longest_compiling(self) -> float:
        """Seconds of compiling that the stage has waited for: workers compile side by side."""
        return max(self._compiling.values(), default=0.0)

    @property
    def key(self) -> str:
        """Prefix of the keys of the stage's tasks."""
        return self.context.key(self.name)

    def finish[R: Result](self, result: R, outputs: Sequence[str] = (), obsolete: Sequence[str] = ()) -> R:
        """Write the stage's summary and result to the manifest; return the result, JSON values that later stages need.

        The summary has the rows and seconds of all processes that have worked on the stage.

        `outputs` names what the stage wrote beside its tasks, `obsolete` the groups of the store that only it needed,
        which are deleted.
        """
        seconds = self.context.elapsed - self.began
        compiling = min(self._longest_compiling, seconds)
        if compiling > 0.0:
            self.context.compiled(compiling)
            self.context.events.message(f"{self.name}: {compiling:.1f} s more went to compiling, once per installation")
            seconds -= compiling
        summary = summarise(self.name, self.records, self.started, self.before + seconds, self.rows, self.skipped)
        if self.before:
            summary["seconds_before"] = round(self.before, 4)
        self.context.run.finish_stage(self.name, summary, result, outputs, self.kept.unflushed | taken(), obsolete)
        self.context.events.stage_finished(self.name, progress_of(summary))
        return result


def stage_label(name: str) -> str:
    """Return the name of a stage for Dask's dashboard and metrics: "train_svm" for "train:svm"."""
    return name.replace(":", "_")
