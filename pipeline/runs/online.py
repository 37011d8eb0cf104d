"""The online pipeline: learn an initial set, then predict block after block and learn from it (algorithms.md 9.4)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Literal

from ikmap.json_values import JsonObject
from ikmap.methods import refused_on
from ikmap.methods.values import Value
from ikmap.tasks import TASKS
from ikmap.tasks.capabilities import AlertsRows, capability
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.record_types import (
    AlertsResult,
    IngestResult,
    Record,
    Result,
    SelectResult,
    ShuffleResult,
    StreamResult,
    TaskProgress,
    TaskRecord,
)
from pipeline.rows.prepared import DATA, PreparedRows
from pipeline.rows.stream_data import Stream, StreamSupply
from pipeline.running.compiling import words_of_rows
from pipeline.running.device import evidence_of, warning_of
from pipeline.running.dispatch import run_ready
from pipeline.running.repair import until_verified
from pipeline.running.stage import Context, Stage
from pipeline.runs.batch import (
    Call,
    Steps,
    call_directly,
    cannot_be_read_again,
    check_largest,
    check_least,
    compile_for,
    compile_words,
    map_values,
    say_chosen,
    stop_if_dry,
    stopped_after,
)
from pipeline.runs.metrics import Invocation, finish_run, records_of_stages
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.sources.feeds.feed import Feed
from pipeline.stages.cells import explain
from pipeline.stages.ingest import ingest
from pipeline.stages.partition import cores_of_a_host, partition
from pipeline.stages.scale import refuse_sparse_scaling
from pipeline.stages.select import searches, select
from pipeline.stages.shuffle import shuffle
from pipeline.stages.task import requested_task
from pipeline.storage.durable import write_text
from pipeline.storage.fitted import Fitted
from pipeline.streams.alerts import Alerts
from pipeline.streams.intake import Intake
from pipeline.streams.label_file import LABEL_LIMIT, LabelFile
from pipeline.streams.redraw import LEAST_ROWS
from pipeline.streams.schedule import Schedule, chunks_in_records
from pipeline.streams.streamed_learner import StreamedLearner
from pipeline.streams.take_initial import take_initial

type _Begun = tuple[IngestResult, ShuffleResult, StreamSupply]
"""The result of taking in rows, how the stream was cut, and the stream."""


ALSO: tuple[Literal["cells_grown", "alerts", "labels"], ...] = ("cells_grown", "alerts", "labels")
"""Fields of the result of the stream that go to the entry ``online`` of ``metrics.json``."""


@dataclass(frozen=True)
class OnlineParams:
    """Parameters of a run on a stream, beside :class:`~pipeline.params.Params`.

    Attributes
    ----------
    initial : int or None
        Number of rows of the initial set; None: as many as the data set has for training.
    block_rows : int
    limit_seconds : float or None
        Seconds of predicting and learning after which a learner is stopped; its result says so.
    alerts : bool
        Whether alerts are sent while the stream runs (:mod:`pipeline.streams.alerts`).
    warm_up : int
        Number of rows at the beginning of the stream for which no alerts are sent.
    late_labels : bool
        Labels come after their rows (:mod:`pipeline.streams.label_file`).
    label_limit : int
        Number of the last rows that wait for their labels.
    drift : str
        "none", or one of :data:`ikmap.drift.DETECTORS`, which watches the losses of each learner.
    drift_delta : float or None
        Delta of the detector; None: the usual one.
    on_drift : str
        "mark", or "redraw": after an alarm half of a learner's partitionings are drawn anew
        (:mod:`pipeline.streams.redraw`).
    redraw_rows : int or None
        Least number of rows after the alarm from which they are drawn; None: the usual number.
    """

    initial: int | None = None
    block_rows: int = 1000
    limit_seconds: float | None = None
    alerts: bool = False
    warm_up: int = 0
    late_labels: bool = False
    label_limit: int = LABEL_LIMIT
    drift: str = "none"
    drift_delta: float | None = None
    on_drift: str = "mark"
    redraw_rows: int | None = None

    def identity(self) -> JsonObject:
        """Return the parameters that identify a run; newer ones only if they do not have their defaults."""
        values, defaults = asdict(self), asdict(type(self)())
        unconditional = ("initial", "block_rows", "limit_seconds")
        return {name: value for name, value in values.items() if name in unconditional or value != defaults[name]}


def in_file_order(data: ResolvedDataset) -> ResolvedDataset:
    """Return a data set as a stream takes it in: without a test file, the file in its order until it is shuffled."""
    return replace(data, split=replace(data.split, rule="first"))


def run_online(
    context: Context,
    data: ResolvedDataset,
    invocation: Invocation,
    online: OnlineParams,
    *,
    feed: Feed | None = None,
    alerts: str | None = None,
    labels: str | None = None,
    call: Call = call_directly,
) -> Record:
    """Run every stage that is not finished yet and write the run's files.

    Parameters
    ----------
    data : ResolvedDataset
        Files that hold the whole stream; with a feed, the description of its rows.
    feed : Feed, optional
        The stream, where it has no end yet.
    alerts : str, optional
        The file that alerts go to, or "-".
    labels : str, optional
        The file of labels that come after their rows; only with a feed.

    Returns
    -------
    dict
        The contents of ``metrics.json``.

    Raises
    ------
    InputError
        The data or the machine is at fault.
    """
    run = context.run
    write_text(run.path / "run.toml", invocation.config_toml)
    done_before = set(run.manifest["stages"])
    run.begin_session(invocation.start_seconds)

    steps = Steps(context, call, done_before)
    with stopped_after(context, invocation):
        if feed is None:
            compile_words(context, words_of_rows(source.format for source in data.sources if source))
            begin = partial(_from_files, context, data, invocation, online, steps)
            cannot = partial(cannot_be_read_again, data, invocation)
        else:
            kind, say, late = requested_task(context.params, data), context.events.message, None
            if labels is not None:
                if not kind.labels.needed:
                    raise InputError(
                        f"--labels-input {labels}: found --task {kind.name}, which learns without labels, expected a "
                        "task to which they matter; leave it out: labels that the rows bring (--label) tell how good "
                        "it is"
                    )
                late = LabelFile(labels, online.initial or 0, online.label_limit, say)
            intake = Intake(context.store, feed, online.block_rows, kind, say, late)
            intake.promised = chunks_in_records(run.records("stream"))
            begin = partial(_from_feed, context, data, invocation, online, steps, intake)
            cannot = partial(_cannot_come_again, feed)
        work = partial(_stages, context, invocation, online, begin, steps, alerts)
        ingested, taken, selection, streamed = until_verified(context, work, cannot)
    shutil.rmtree(run.path / "checkpoints", ignore_errors=True)  # the models stand in the store

    if feed is not None:
        ingested = {**ingested, "rows_test": streamed["rows_stream"], "nnz": ingested["nnz"] + streamed["nnz"]}
        taken = {**taken, "rows_stream": streamed["rows_stream"], "chunks": streamed["chunks"]}
    also: Result = {name: streamed[name] for name in ALSO if name in streamed}
    sources = [dict(source) for source in invocation.sources] if feed is None else []
    return finish_run(
        context,
        invocation,
        # All rows are of the stream: whatever file they came in, none is a test row.
        data={"name": data.name, **{k: v for k, v in ingested.items() if k != "test"}, "sources": sources},
        stages=records_of_stages(run, done_before),
        selection=selection,
        learners=streamed["learners"],
        gpu=streamed,
        online={**online.identity(), **taken, **also},
    )


def _stages(
    context: Context,
    invocation: Invocation,
    online: OnlineParams,
    begin: Callable[[], _Begun],
    steps: Steps,
    alerts: str | None,
) -> tuple[IngestResult, ShuffleResult, SelectResult | None, StreamResult]:
    """Run all stages; return the results of taking in rows, of cross-validation and of the stream."""
    run, params = context.run, context.params
    ingested, taken, arrivals = begin()
    stop_if_dry(invocation)
    selection = None
    if searches(params):
        compile_for(context)
        selection = steps.call("select", partial(select, context))
        say_chosen(context, selection)
        for name, C in selection.get("chosen_C", {}).items():
            params = params.setting(name, C=C)
        context = replace(context, params=params)
    on_cells, values = map_values(params, selection, PreparedRows(context.store, "train").n_rows)
    compile_for(context, on_cells.values(), "stream")
    fitted: dict[Value, Fitted] = {}
    if on_cells:
        partitioned = steps.call("partition", partial(partition, context, list(on_cells.values())))
        models = [Fitted.of(fields, params.t) for fields in partitioned["fitted"]]
        fitted = {model.value: model for model in models}
        if invocation.explain:
            explain(context, fitted.values())
    task = PreparedRows(context.store, "train").preparation.task
    if alerts is not None and capability(task, AlertsRows) is None:
        able_tasks = " or ".join(
            f"--task {able_task.name}" for able_task in TASKS.values() if capability(able_task, AlertsRows)
        )
        raise InputError(f"--alerts {alerts}: found {task.name}, which alerts of no rows, expected {able_tasks}")
    redraws = online.on_drift == "redraw"
    learners = [
        StreamedLearner(
            name,
            fitted[on_cells[name]] if name in on_cells else None,
            values.get(name),
            str((run.path / "predictions" / f"{name}.{task.decisions.dtype}").absolute()),
            str((run.path / "checkpoints" / f"{name}.npz").absolute()),
            run.manifest["id"],
            online.alerts,
            None if online.drift == "none" else (online.drift, online.drift_delta),
            _redraw_rows(params, online, fitted[on_cells[name]]) if redraws and name in on_cells else None,
        )
        for name in params.learners
    ]
    invocation.prepare_to_draw()
    streamed = steps.call("stream", partial(_stream, context, online, arrivals, learners, taken, alerts))
    return ingested, taken, selection, streamed


def _redraw_rows(params: Params, online: OnlineParams, fitted: Fitted) -> int:
    """Return from how many rows partitionings are drawn anew: as given, else the usual number or what the map needs."""
    requested, fitted_map = online.redraw_rows, params.map_at(fitted.value)
    least = fitted_map.n_cells()
    if refused_on(fitted_map, requested or LEAST_ROWS) is None:
        return requested or LEAST_ROWS
    if requested is not None:
        raise InputError(
            f"--redraw-rows {requested}: found too few rows to draw partitionings of {least} cells from, expected at "
            f"least {least}; give --redraw-rows {least}, or leave it out"
        )
    return least


def _cannot_come_again(feed: Feed, within: str) -> str | None:
    """Say why damaged rows of a feed cannot be taken in again; None for what is made from them."""
    if not within.startswith(("store.zarr/data", "store.zarr/stream")):
        return None
    return f"its rows came from {feed.url}; --fresh, and the same rows from the first on, do the run again"


def _from_files(
    context: Context, data: ResolvedDataset, invocation: Invocation, online: OnlineParams, steps: Steps
) -> _Begun:
    """Take in the rows of files: all rows are there."""
    params = context.params
    # Ranges of columns are those of the initial rows, not of all rows that the files have for training.
    unscaled = replace(context, params=replace(params, scale="none"))
    check_least(context, data, invocation, stream=True)
    # Without a test file the stream is the file, in its order until it is shuffled.
    ingested = steps.call("ingest", partial(ingest, unscaled, in_file_order(data), every=True))
    if params.scale == "minmax":
        refuse_sparse_scaling(PreparedRows(context.store, "train", DATA).preparation)
    n_initial = ingested["rows_train"] if online.initial is None else online.initial
    taken = steps.call("shuffle", partial(shuffle, context, n_initial, online.block_rows, params.order, data))
    n_rows = ingested["rows_train"] + ingested["rows_test"]
    pooled: IngestResult = {**ingested, "rows_train": n_rows, "rows_test": 0}
    check_largest(context, {**pooled, "rows_train": n_initial}, invocation)
    check_largest(context, pooled, invocation, show=invocation.explain)
    return ingested, taken, StreamSupply(taken["chunks"], taken["rows_stream"])


def _from_feed(
    context: Context,
    data: ResolvedDataset,
    invocation: Invocation,
    online: OnlineParams,
    steps: Steps,
    intake: Intake,
) -> _Begun:
    """Take in the initial rows of a feed: others will come."""
    assert online.initial is not None
    ingested = steps.call("ingest", partial(take_initial, context, intake, data, online.initial))
    check_largest(context, ingested, invocation, show=invocation.explain)
    taken: ShuffleResult = {
        "rows_initial": online.initial,
        "chunk_rows": intake.chunk_rows,
        "source": intake.feed.url,
    }
    return ingested, taken, intake


def _stream(
    context: Context,
    online: OnlineParams,
    arrivals: StreamSupply,
    learners: list[StreamedLearner],
    taken: ShuffleResult,
    alerts_path: str | None,
) -> StreamResult:
    """Let all learners go through all chunks, with cells made a few chunks ahead of the slowest."""
    # The number of rows of a stream without an end is not known; but tasks share them.
    rows_initial, rows = taken["rows_initial"], taken.get("rows_stream")
    stage = Stage(context, "stream", None, rows or 0)
    threads = max(1, cores_of_a_host(context) // len(learners))
    shuffled = (rows_initial + rows, context.params.seed) if rows and context.params.order == "shuffled" else None
    stream = Stream(context.store, online.block_rows, rows_initial, shuffled, online.late_labels)
    done = 0

    def say(record: TaskRecord, skipped: bool = False) -> None:
        nonlocal done
        progress: TaskProgress = {
            "bytes_read": record.get("bytes_read", 0),
            "bytes_written": record.get("bytes_written", 0),
            "rows": schedule.rows - done,
            "skipped": skipped,
            "note": schedule.standing(),
        }
        context.events.task_done(stage.name, progress)
        done = schedule.rows

    names = [streamed.learner for streamed in learners]
    sending = nullcontext() if alerts_path is None else Alerts(context.run, alerts_path, names, online.warm_up)
    with sending as alerts, arrivals:
        arrivals.start()
        receivers = [] if alerts is None else [alerts]
        schedule = Schedule(context, stream, arrivals, learners, online.limit_seconds, threads, receivers)
        for record in schedule.resume():
            stage.skipped += 1
            stage.records.append(record)
            say(record, skipped=True)
        for task, record in run_ready(context.client, stage.key, schedule):
            stage.kept.keep(task.name, record)
            schedule.finished(task.name, record)
            stage.note_compiling(record)
            stage.records.append(record)
            say(record)
    for streamed in learners:
        if streamed.learner in schedule.stopped:
            limit = f"--limit-seconds {online.limit_seconds:g}"
            context.events.message(f"{streamed.learner}: stopped early, at {limit}")
    stage.rows = arrivals.rows
    gpu = evidence_of(schedule.mapped())
    if warning := warning_of(gpu):
        context.events.message(warning)
    result: StreamResult = {
        **gpu,
        "rows_stream": arrivals.rows,
        "chunks": arrivals.chunks,
        "nnz": arrivals.nnz,
        **schedule.grown(),
        **schedule.redrawn(),
        "predicted": schedule.predicted(),
        **(AlertsResult() if alerts is None else AlertsResult(alerts=alerts.about())),
        **arrivals.about(),
        "learners": {streamed.learner: schedule.result(streamed) for streamed in learners},
    }
    return stage.finish(result)
