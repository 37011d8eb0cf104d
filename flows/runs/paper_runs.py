"""The runs of ``flows.reproduce``: each once, side by side on the cluster, each in a directory of its own."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

from distributed import KilledWorker

from cluster import ClusterHandle, connect
from flows.options.batch import BatchOptions
from flows.options.online import OnlineOptions
from flows.options.reproduce import ReproduceOptions
from flows.runs.batch import batch_params, cluster_arguments, identity, invocation, sources_of
from flows.runs.local_data import LocalData
from flows.runs.online import online_identity, online_params
from ikmap.tasks import CLASSIFICATION
from pipeline.errors import ClusterLost, Damaged, DoesNotFit, InputError, NegativeValues
from pipeline.monitoring.events import Events, QuietProgress
from pipeline.monitoring.plain_text import printable
from pipeline.params import Params
from pipeline.record_types import FinishedStage, Record
from pipeline.reproduce.paper import Entry, Outcome, Paper
from pipeline.reproduce.text import one_line
from pipeline.rows.prepared import DATA
from pipeline.running.machine import describe_machine
from pipeline.running.repair import ATTEMPTS, until_verified, withdraw
from pipeline.running.scheduler_metrics import reported_to_scheduler
from pipeline.running.side_by_side import TimeLimitReached, side_by_side, time_limit
from pipeline.running.stage import Context
from pipeline.running.warm import WarmUp
from pipeline.runs.batch import Call, run_batch
from pipeline.runs.metrics import versions
from pipeline.runs.online import in_file_order, run_online
from pipeline.runs.study import run_study
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.stages.ingest import ingest
from pipeline.stages.select import searches
from pipeline.storage.durable import read_json, write_json
from pipeline.storage.rundir import RunDirectory, discard
from pipeline.storage.verify import stage_is_verified

STOPPED = "stopped.json"
"""Left in the directory of a run that has reached its time limit."""


class Runs:
    """All runs of a command.

    Attributes
    ----------
    outcomes : dict of Outcome
        By what the run is: data set, command and options.
    sizes : dict
        Of data sets: what the ingest found, or in one line why it failed.
    """

    def __init__(
        self,
        options: ReproduceOptions,
        path: Path,
        data: LocalData,
        call: Call,
        events: Events,
        on_cluster: Callable[[ClusterHandle], None] | None = None,
    ) -> None:
        self.options, self.path, self.data, self.call, self.events = options, path, data, call, events
        self.on_cluster = on_cluster
        self.outcomes: dict[str, Outcome] = {}
        self.sizes: dict[str, Any] = {}
        self._cluster: Mapping[str, Any] = {}
        self._ingests: dict[str, Lock] = {}
        self._read: set[str] = set()
        self._broken: dict[str, InputError] = {}
        self._lock = Lock()

    def found(self, entry: Entry) -> Outcome:
        """Return the outcome of a run."""
        return self.outcomes[_what(entry)]

    def about(self, command: str, seconds: float) -> dict[str, Any]:
        """Return the fields of ``results.json`` about the command."""
        return {
            "command": command,
            "seed": self.options.seed,
            "limit_seconds": self.options.limit_seconds,
            "seconds": round(seconds, 2),
            "machine": describe_machine(),
            "cluster": dict(self._cluster),
            "versions": dict(versions()),
        }

    def make(self, entries: Sequence[Entry], sized: Sequence[str]) -> None:
        """Make the runs side by side; those for which a worker is too small alone, with all the memory there is.

        Parameters
        ----------
        entries : sequence of Entry
            Those that are the same run are made once.
        sized : sequence of str
            Data sets that are to be read in any case.
        """
        todo = deque({_what(entry): entry for entry in reversed(entries)}.values())
        todo.reverse()
        if not todo and not sized:
            return
        options, too_large = self.options, deque[Entry]()
        self.events.stage_started("runs", len(todo) or None)
        with connect(options.cluster, **cluster_arguments(options, self.events)) as cluster:
            if options.fresh:  # all at once: if this command is interrupted, the one that goes on must not keep some
                for entry in todo:
                    for way, _ in _ways(entry, self.options.the_paper):
                        discard(self.path / way.key)
            self._cluster = cluster.record()
            self._begin(cluster)
            for name in sized:
                self.sizes[name] = self._size(name, cluster)
            lanes = max(1, min(cluster.workers, len(todo)))
            alone = cluster.kind == "local" and cluster.workers > 1 and options.memory_limit is None
            lane = partial(self._lane, todo, too_large if alone else None, cluster, lanes)
            side_by_side({f"lane {i}": lane for i in range(lanes)})
        if too_large:
            with connect(options.cluster, workers=1) as cluster:
                self.events.message("what needs more memory is tried again with all there is")
                self._begin(cluster)
                self._lane(too_large, None, cluster, 1)
        self.events.stage_finished("runs", {})

    def _begin(self, cluster: ClusterHandle) -> None:
        cluster.client.register_plugin(WarmUp())
        self.events.message(cluster.describe())
        if self.on_cluster is not None:
            self.on_cluster(cluster)

    def _lane(self, todo: deque[Entry], too_large: deque[Entry] | None, cluster: ClusterHandle, share: int) -> None:
        """Make one run after the other until there are no more; where it is given, put by what does not fit."""
        measure = self.options.the_paper.measure
        while True:
            try:
                entry = todo.popleft()
            except IndexError:
                return
            began = time.perf_counter()
            try:
                outcome = self._outcome(entry, cluster, share)
            except DoesNotFit as error:
                if too_large is not None:
                    too_large.append(entry)
                    continue
                outcome = self._ended(entry, "memory", str(error))
            self.outcomes[_what(entry)] = outcome
            self.events.message(one_line(entry.key, outcome, time.perf_counter() - began, measure))
            self.events.task_done("runs", {})

    def _outcome(self, entry: Entry, cluster: ClusterHandle, share: int) -> Outcome:
        """Make a run; where the system has no kernel for negative values, in the other way that it names.

        Raises
        ------
        ClusterLost
            The cluster is gone, for the other runs too.
        DoesNotFit
            A worker is too small for it.
        """
        refused = ""
        for way, why in _ways(entry, self.options.the_paper):
            try:
                return replace(self._run(way, cluster, share), message=why)
            except NegativeValues as error:
                refused = str(error)
            except TimeLimitReached:
                return self._ended(way, "stopped", f"stopped after {self._stop(self.path / way.key / STOPPED):g} s")
            except (ClusterLost, DoesNotFit):
                raise
            except InputError as error:
                return self._ended(way, "failed", str(error))
            except (KilledWorker, MemoryError) as error:
                return self._ended(way, "memory", printable(f"workers died of it: {error}"))
            except Exception as error:
                if self.options.debug:
                    raise
                # A defect of ours in one run is no reason to lose the others.
                return self._ended(way, "defect", printable(f"internal error: {type(error).__name__}: {error}"))
        return self._ended(entry, "failed", refused)

    def _run(self, entry: Entry, cluster: ClusterHandle, share: int) -> Outcome:
        """Make a run, or go on with it, or take what an earlier command left."""
        if entry.command == "study":
            return self._study(entry, cluster, share)
        options, data = self._options(entry), self.data.there[entry.dataset]
        params = batch_params(options)
        more = online_identity(options) if isinstance(options, OnlineOptions) else {}
        path = self.path / entry.key
        directory = RunDirectory(path, {**identity(params, data, sources_of(data)), **more})
        try:
            metrics = directory.metrics(self.events.message)
            if metrics is None:
                metrics = self._make(entry, options, params, data, directory, cluster, share)
            return Outcome("finished", options.command(session=False), metrics, f"{entry.key}/report.html")
        finally:
            directory.close()

    def _study(self, entry: Entry, cluster: ClusterHandle, share: int) -> Outcome:
        """Compute a study of the paper, or go on with it, on all rows of the data set in the order of their files.

        One without a data set generates its points.
        """
        params = self._read_for()
        # With more parts than before, it goes on.
        study = {name: value for name, value in entry.options.items() if name != "parts"}
        about: dict[str, Any] = {"params": params.as_json(), "study": study}
        if entry.dataset:
            data = in_file_order(self.data.there[entry.dataset])
            about = {**identity(params, data, sources_of(data)), "study": study}
        directory = RunDirectory(self.path / entry.key, about)
        try:
            metrics = directory.metrics(self.events.message)
            if metrics is None or len(metrics["parts"]) < entry.options["parts"]:
                if entry.dataset and directory.stage("ingest") is None:
                    self._link(entry.dataset, "none", True, directory, cluster)
                stopped = directory.path / STOPPED
                left = self.options.limit_seconds - max(directory.spent, _limit_reached(stopped))
                if left <= 0:
                    raise TimeLimitReached
                with time_limit(left), reported_to_scheduler(cluster.client, _Quiet(self.events, entry.key)) as told:

                    def work() -> Record:
                        context = Context(cluster.client, directory, params, told, share)
                        return run_study(context, self.options.paper, entry.options)

                    metrics = self._with_rows(work, entry.dataset, "none", True, cluster) if entry.dataset else work()
                stopped.unlink(missing_ok=True)
            return Outcome("finished", self._command(entry), metrics)
        finally:
            directory.close()

    def _read_for(self, **values: Any) -> Params:
        """Return parameters for reading rows for the task of the paper."""
        learners = self.options.the_paper.learners or (CLASSIFICATION.usual.learner,)
        return Params.given(learners=learners, seed=self.options.seed, **values)

    def _command(self, entry: Entry) -> str:
        """The command that makes a run elsewhere; a study is made by this one only."""
        if entry.command == "study":
            return self.options.command(session=False)
        return self._options(entry).command(session=False)

    def _make(
        self,
        entry: Entry,
        options: BatchOptions,
        params: Params,
        data: ResolvedDataset,
        directory: RunDirectory,
        cluster: ClusterHandle,
        share: int,
    ) -> dict[str, Any]:
        stopped = directory.path / STOPPED
        left = self.options.limit_seconds - max(directory.spent, _limit_reached(stopped))
        if left <= 0:
            raise TimeLimitReached
        online = isinstance(options, OnlineOptions)
        if directory.stage("ingest") is None:
            self._link(entry.dataset, "none" if online else params.scale, online, directory, cluster)
        asked = replace(invocation(options, sources_of(data), cluster), dask_report=False)
        quiet = _Quiet(self.events, entry.key)
        with time_limit(left), reported_to_scheduler(cluster.client, quiet) as told:

            def work() -> Record:
                context, call = Context(cluster.client, directory, params, told, share), self._named(entry)
                if isinstance(options, OnlineOptions):
                    return run_online(context, data, asked, online_params(options), call=call)
                return run_batch(context, data, asked, call=call)

            metrics = self._with_rows(work, entry.dataset, "none" if online else params.scale, online, cluster)
        stopped.unlink(missing_ok=True)
        return metrics

    def _with_rows(
        self, work: Callable[[], dict[str, Any]], dataset: str, scale: str, online: bool, cluster: ClusterHandle
    ) -> dict[str, Any]:
        """Make a run; where rows that it shares with others are damaged, have these read again first.

        Parameters
        ----------
        work : callable
            Function that takes up the run, in a new context: each has a clock, and its seconds are added to the run's.
        """
        for _ in range(ATTEMPTS):
            try:
                return work()
            except Damaged as damaged:
                self.events.message(f"{damaged}; it is made again")
                self._ingested(dataset, scale, online, cluster, damaged)
        return work()

    def _stop(self, stopped: Path) -> float:
        """Note that a run has reached its limit; return the largest that it has."""
        limit = max(_limit_reached(stopped), self.options.limit_seconds)
        write_json(stopped, {"limit_seconds": limit})
        return limit

    def _named(self, entry: Entry) -> Call:
        """Stages of a run are called with its name before theirs."""
        return lambda name, work: self.call(f"{entry.key}: {name}", work)

    def _options(self, entry: Entry) -> BatchOptions:
        """The command that makes the run elsewhere."""
        kind = OnlineOptions if entry.command == "online" else BatchOptions
        asked = self.options
        common: dict[str, Any] = {"data_dir": asked.data_dir, "dataset_file": asked.dataset_file, "seed": asked.seed}
        options = kind(dataset=entry.dataset, **common, **entry.options)
        # The paper's protocol: everything on all folds.
        return replace(options, search="full") if searches(batch_params(options)) else options

    def _link(self, dataset: str, scale: str, online: bool, directory: RunDirectory, cluster: ClusterHandle) -> None:
        """Let a run have the rows that another has taken in: a data set is read once."""
        source, result = self._ingested(dataset, scale, online, cluster)
        link = Path(directory.store.path) / DATA
        if not link.is_symlink():
            link.symlink_to(os.path.relpath(Path(source.store.path).resolve() / DATA, link.parent.resolve()))
        directory.finish_stage("ingest", result["record"], result["result"])

    def _ingested(
        self, dataset: str, scale: str, online: bool, cluster: ClusterHandle, damaged: Damaged | None = None
    ) -> tuple[RunDirectory, FinishedStage]:
        """Read a data set, or what of it is damaged; return where it is, and what the stage has found."""
        data = self.data.there[dataset]
        if online and data.test_url is None:
            data = in_file_order(data)
        name = "-".join([dataset, *(["minmax"] if scale == "minmax" else []), *(["whole"] if online else [])])
        if data.test_url is not None:
            name = name.removesuffix("-whole")  # the same rows, however they are used
        params = self._read_for(scale=scale)
        with self._lock:
            one_at_a_time = self._ingests.setdefault(name, Lock())
        with one_at_a_time:
            if name in self._broken:  # it would be as broken for the next system
                raise self._broken[name]
            fresh = self.options.fresh and name not in self._read
            self._read.add(name)
            directory = RunDirectory(self.path / "data" / name, identity(params, data, sources_of(data)), fresh=fresh)
            try:
                with reported_to_scheduler(cluster.client, _Quiet(self.events, name)) as told:
                    context = Context(cluster.client, directory, params, told)
                    if damaged is not None:
                        withdraw(context, damaged)
                    if directory.stage("ingest") is None or not stage_is_verified(directory, "ingest"):
                        until_verified(context, partial(self.call, f"{name}: ingest", partial(ingest, context, data)))
                found = directory.stage("ingest")
                assert found is not None
                return directory, found
            except InputError as error:
                self._broken[name] = error
                raise
            finally:
                directory.close()

    def _size(self, dataset: str, cluster: ClusterHandle) -> Any:
        """Return the result of the ingest, or the reason why it failed."""
        try:
            return self._ingested(dataset, "none", False, cluster)[1]["result"]
        except ClusterLost:
            raise
        except (InputError, KilledWorker, MemoryError) as error:
            return str(error)

    def _ended(self, entry: Entry, status: Any, message: str) -> Outcome:
        return Outcome(status, self._command(entry), message=message)


class _Quiet(QuietProgress):
    """The events of a run among many: a line for each stage that took its time."""

    LONG_SECONDS = 10.0

    def __init__(self, events: Events, name: str) -> None:
        self._events, self._name = events, name

    def stage_finished(self, name: str, summary: Mapping[str, Any]) -> None:
        """One line."""
        if summary["seconds"] >= self.LONG_SECONDS:
            self._events.message(f"{self._name}: {name} done, {summary['seconds']:.0f} s")


def _ways(entry: Entry, paper: Paper) -> list[tuple[Entry, str]]:
    """A run as asked for, and in the way that its system names for negative values; and why."""
    system = paper.systems.get(entry.system)
    if system is None or system.negative is None:
        return [(entry, "")]
    scaled = replace(entry, key=f"{entry.key}-scaled", options={**entry.options, **system.negative})
    return [(entry, ""), (scaled, system.why)]


def _limit_reached(stopped: Path) -> float:
    """Time limit that a run has reached, in seconds; 0 where it has not."""
    try:
        return float(read_json(stopped)["limit_seconds"])
    except (FileNotFoundError, Damaged):
        return 0.0


def _what(entry: Entry) -> str:
    """Return a key that is the same for entries of the same run, whatever it is made for."""
    return json.dumps([entry.dataset, entry.command, entry.options], sort_keys=True)
