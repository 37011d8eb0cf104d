"""A stage of a run: it runs a list of tasks, records each that is done, and skips those that were done before."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from distributed import Client

from ikmap.json_values import Json, MutableJsonObject
from pipeline.monitoring.events import Events
from pipeline.monitoring.process_metrics import COUNTED
from pipeline.params import Params
from pipeline.record_types import Record
from pipeline.running.dispatch import Task, run_tasks
from pipeline.running.measured import summarise
from pipeline.storage.durable import taken
from pipeline.storage.records import Records
from pipeline.storage.rundir import RunDirectory
from pipeline.storage.store import Store

__all__ = ["Context", "Stage", "Watcher", "run_tasks", "stage_label"]


class Watcher(Protocol):
    """Follows the tasks of a stage as they are done, and may end it before all are."""

    def done(self, task: Task, record: Record, skipped: bool) -> Record:
        """Take in a task that is done, now or (skipped) by an earlier process; return what progress is to say of it.

        What it puts into the record of a task that is done now is kept with it.
        """

    def enough(self) -> bool:
        """Whether to leave the tasks that are not done yet."""


@dataclass
class Context:
    """What a stage is given: a client, a store, parameters, and where to keep records of what is done.

    Attributes
    ----------
    share : int
        How many runs there are on the cluster, side by side.
    device : {"auto", "cpu", "gpu"}
        Where workers map rows to cells (:mod:`pipeline.running.device`).
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
        return self.run.store

    def compiled(self, seconds: float) -> None:
        """Add seconds of compiling to those of the run; they are of no stage."""
        manifest = self.run.manifest
        manifest["compile_seconds"] = round(manifest.get("compile_seconds", 0.0) + seconds, 3)

    @property
    def elapsed(self) -> float:
        """Seconds since this process took up the run."""
        return self.clock() - self._started


class Stage:
    """Collects the task records of one stage and sums them up.

    Parameters
    ----------
    context : Context
    name : str
        As in ``metrics.json``: "ingest", "cells", "train:svm", ...
    tasks : int or None
        How many tasks there will be at least; None where that is not known. Where more turn out to be needed, as to
        encode the rows of a table that were just read, progress is told of them when they begin.
    rows : int, optional
        How many rows the stage works on, where tasks share them; default: the sum over the tasks.
    """

    def __init__(self, context: Context, name: str, tasks: int | None, rows: int | None = None) -> None:
        self.context, self.name, self.rows = context, name, rows
        self.expected = tasks
        self._begun = 0
        self.began = context.elapsed
        # After the processes that worked on the run before.
        self.started, self.before = context.run.begin_stage(name, context.run.manifest["seconds"] + self.began)
        context.events.stage_started(name, tasks, rows or None)
        self.records: list[Record] = []
        self.skipped = 0
        self._compiling = Counter[str]()
        self.kept = Records(context.run, name, context.events.message)

    def run(
        self, function: Callable[..., Record], tasks: Sequence[Task], watcher: Watcher | None = None
    ) -> list[Record]:
        """Run ``function(*task.args)`` for every task that has no record yet; return all records in order.

        A watcher is told of each and may end the stage early; then only the records of finished tasks are returned.

        A record is a dict of JSON values; ``rows``, ``bytes_read`` and ``bytes_written`` are summed up. ``outputs``
        names what the task wrote (:meth:`~pipeline.storage.store.Store.holds`): where some of it is missing, it is done
        again.
        With ``temporary`` the outputs serve the rest of the stage only.
        """
        context = self.context
        self._expect(len(tasks))
        records: dict[str, Record] = {}
        for task in tasks:
            record = self.kept.done(task.name)
            if record is not None:
                records[task.name] = record
                self.say(record, True, watcher.done(task, record, True) if watcher else {})
        self.skipped += len(records)
        todo = [task for task in tasks if task.name not in records]
        stop = [watcher.enough] if watcher else []
        for task, record in run_tasks(context.client, self.key, function, todo, *stop):
            said = watcher.done(task, record, False) if watcher else {}
            self.kept.keep(task.name, record)
            records[task.name] = record
            self.say(record, said=said)
        ordered = [records[task.name] for task in tasks if task.name in records]
        self.records += ordered
        return ordered

    def once(self, name: str, work: Callable[[], Record]) -> Record:
        """Return the record of that name, or do the work that makes it: many tasks of which only the sum is kept."""
        self._expect(1)
        record = self.kept.done(name)
        if record is None:
            record = work()
            self.kept.keep(name, record)
        else:
            self.skipped += 1
            self.say(record, skipped=True)
        self.records.append(record)
        return record

    def _expect(self, tasks: int) -> None:
        """Count tasks that begin now among those of the stage."""
        self._begun += tasks
        if self.expected is not None:
            self.expected = max(self.expected, self._begun)

    def say(self, record: Record, skipped: bool = False, said: Record | None = None) -> None:
        """Let progress show one more task, and what else there is to say."""
        if not skipped:
            self.note_compiling(record)
        # Where tasks share rows, only the number of tasks tells how far the stage is.
        shown = {name: record.get(name, 0) for name in COUNTED if name != "rows" or self.rows is None}
        total = {} if self.expected is None else {"total_tasks": self.expected}
        self.context.events.task_done(self.name, {**shown, **total, **(said or {}), "skipped": skipped})

    def note_compiling(self, record: Record) -> None:
        """Take note of a task that had to compile a loop which nobody had declared: that counts for no stage."""
        self._compiling[record.get("worker", "")] += record.get("compile_seconds", 0.0)

    @property
    def key(self) -> str:
        """Prefix of the stage's tasks."""
        # Dask groups tasks on its dashboard by what stands before eight hexadecimal digits (or before "-1").
        return f"{stage_label(self.name)}-{self.context.run.manifest['id'][:8]}"

    def finish(self, *, outputs: Sequence[str] = (), **result: Json) -> MutableJsonObject:
        """Write the stage's summary to the manifest; `result` is what later stages need of it.

        The summary has the rows and seconds of all processes that have worked on the stage.

        `outputs` names what the stage wrote beside its tasks.
        """
        seconds = self.context.elapsed - self.began
        # Workers compile side by side: the stage has waited for the one that was at it longest.
        compiling = min(max(self._compiling.values(), default=0.0), seconds)
        if compiling > 0.0:
            self.context.compiled(compiling)
            self.context.events.message(f"{self.name}: {compiling:.1f} s more went to compiling, once per installation")
            seconds -= compiling
        summary = summarise(self.name, self.records, self.started, self.before + seconds, self.rows, self.skipped)
        if self.before:
            summary["seconds_before"] = round(self.before, 4)
        self.context.run.finish_stage(self.name, summary, result, outputs, self.kept.unflushed | taken())
        self.context.events.stage_finished(self.name, summary)
        return result


def stage_label(name: str) -> str:
    """A stage as Dask's dashboard and metrics have it: "train_svm" for "train:svm"."""
    return name.replace(":", "_")
