"""The commands as Prefect flows: parameters for a form, one task per stage, artifacts to look at.

Imported only where a Prefect API is configured, or for a deployment. Chunks of work are Dask's: what Prefect sees
of a stage is its name, its log lines and its outcome. Arrays and models never pass through here.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Literal, Self

from prefect import Flow, Task, flow, get_client, get_run_logger
from prefect.artifacts import create_link_artifact, create_markdown_artifact, create_table_artifact
from prefect.cache_policies import NO_CACHE
from prefect.context import FlowRunContext
from prefect.exceptions import CancelledRun
from prefect.logging.configuration import ensure_logging_setup
from prefect.runtime import flow_run
from prefect.settings import get_current_settings
from prefect.states import Cancelled, Failed, State
from pydantic import Field

from cluster import ClusterHandle
from flows import run_batch, run_online, run_reproduce, run_score
from flows._cli import terminated_as_interrupted
from flows._declare import Options, Spec
from flows._kinds import Choice, Flag, Integer, Pairs, Real, Several
from flows.options import BatchOptions, OnlineOptions, ScoreOptions
from flows.reproduce_options import ReproduceOptions
from pipeline.errors import InputError
from pipeline.progress import Events, LogProgress, choose_progress

Result = dict[str, Any]

_LOG_SECONDS = 30.0
"""A long stage says how far it is this often."""
_CANCELLED_SECONDS = 10.0
"""How often a run started by a command asks whether it was cancelled in the UI: nobody else would tell it."""

_terminal: ContextVar[Events | None] = ContextVar("terminal", default=None)
"""Progress on the terminal of a command; a deployment has none."""


def takes[F: Callable[..., Any]](options: type[Options]) -> Callable[[F], F]:
    """Give a function the declared options for parameters, with the same types, ranges, defaults and help."""
    specs = options.specs().values()
    parameters = [
        inspect.Parameter(
            spec.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if spec.required else _plain(spec.default),
            annotation=_annotation(spec),
        )
        for spec in specs
    ]

    def declare(function: F) -> F:
        function.__signature__ = inspect.Signature(parameters, return_annotation=Result)  # type: ignore[attr-defined]
        # Where Prefect looks for what its form says of each parameter.
        lines = "\n".join(f"    {spec.name}: {spec.help}" for spec in specs)
        function.__doc__ = f"{inspect.getdoc(function)}\n\nArgs:\n{lines}\n"
        return function

    return declare


def _annotation(spec: Spec) -> Any:
    """The type of an option, with its range."""
    kind: Any = str
    match spec.kind:
        case Choice(names=names):
            kind = Literal[names]
        case Several(choice=choice):
            kind = list[Literal[choice.names]]  # type: ignore[name-defined]
        case Pairs():
            kind = list[str]
        case Flag():
            kind = bool
        case Integer(low=low, high=high, word=word):
            kind = Annotated[int, Field(ge=low, le=high)]
            if word is not None:
                kind = kind | Literal[word]
        case Real(low=low, high=high, words=words):
            kind = Annotated[float, Field(gt=low, lt=high, allow_inf_nan=False)]
            if words:
                kind = kind | Literal[words]
    return kind | None if spec.default is None else kind


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


@flow(name="batch", description=BatchOptions.DESCRIPTION, persist_result=False)
@takes(BatchOptions)
def batch(**options: Any) -> Any:
    """``python -m flows.batch`` as a flow."""
    return _run_directory_flow(run_batch.run, BatchOptions, options)


@flow(name="online", description=OnlineOptions.DESCRIPTION, persist_result=False)
@takes(OnlineOptions)
def online(**options: Any) -> Any:
    """``python -m flows.online`` as a flow."""
    return _run_directory_flow(run_online.run, OnlineOptions, options)


def _run_directory_flow(run: Callable[..., Result], kind: type[BatchOptions], options: Mapping[str, Any]) -> Any:
    """Run a command that works in a run directory, and show what it found."""
    paths: list[Path] = []

    def started(cluster: ClusterHandle, path: Path) -> None:
        paths.append(path)
        get_run_logger().info(f"run directory: {path.absolute()}")  # whoever resumes a stopped run needs it
        link_dashboard(cluster)

    def work(options: BatchOptions, events: Events) -> Result:
        metrics = run(options, call=as_task, events=events, on_cluster=started)
        show_throughput(metrics["stages"])
        show_accuracy(metrics["learners"])
        path = paths[0] if paths else Path(options.run_dir or "")  # a run that was finished before starts nothing
        show_report(path.absolute(), metrics["run"]["command"])
        return metrics

    return _in_flow(work, kind, options)


@flow(name="score", description=ScoreOptions.DESCRIPTION, persist_result=False)
@takes(ScoreOptions)
def score(**options: Any) -> Any:
    """``python -m flows.score`` as a flow."""

    def work(options: ScoreOptions, events: Events) -> Result:
        result = run_score.run(options, call=as_task, events=events, on_cluster=link_dashboard)
        show_throughput(result["stages"])
        if result["accuracy"] is not None:
            show_accuracy({result["learner"]: result})
        return result

    return _in_flow(work, ScoreOptions, options)


@flow(name="reproduce", description=ReproduceOptions.DESCRIPTION, persist_result=False)
@takes(ReproduceOptions)
def reproduce(**options: Any) -> Any:
    """``python -m flows.reproduce`` as a flow."""

    def work(options: ReproduceOptions, events: Events) -> Result:
        results = run_reproduce.run(options, call=as_task, events=events, on_cluster=link_dashboard)
        show_compared(results)
        return results

    return _in_flow(work, ReproduceOptions, options)


def command(flow: Flow[..., Any], options: Options) -> Result:
    """Run a flow for a command: progress on the terminal as without Prefect, whose own lines go to its API.

    Raises
    ------
    InputError
        The user's input or environment is at fault, or no Prefect API answers.
    KeyboardInterrupt
        It was interrupted, or cancelled in the UI.
    """
    _check_api()
    values = options.to_dict()
    token = _terminal.set(choose_progress(values["quiet"]))
    try:
        with _quiet_console(errors=values["debug"]):
            result: Result = flow(**values)
            return result
    except CancelledRun as stop:
        raise KeyboardInterrupt(str(stop)) from None
    finally:
        _terminal.reset(token)


def as_task(name: str, work: Callable[[], Result], retries: int | None = None) -> Result:
    """Call a stage as a Prefect task of its name.

    The work stays in this process and out of Prefect's sight: no inputs to hash, no results to store.

    Parameters
    ----------
    retries : int, optional
        Default: Prefect's own setting (PREFECT_TASKS_DEFAULT_RETRIES), 0 unless it is set. A stage that is tried
        again goes on where it stopped.
    """

    def stage() -> Any:
        try:
            return work()
        except InputError as error:  # as a state, so that one line tells it and not a traceback
            return Failed(message=str(error), data=error)

    task = Task(
        stage,
        name=name,
        task_run_name=name,
        retries=retries,
        retry_condition_fn=_may_be_tried_again,
        cache_policy=NO_CACHE,
        persist_result=False,
    )
    outcome: Any = task()
    if isinstance(outcome, State):
        outcome.result()  # raises the error
    return dict(outcome)


def _may_be_tried_again(task: Any, run: Any, state: Any) -> bool:  # noqa: ARG001
    # A wrong file is as wrong the second time.
    return not isinstance(state.result(raise_on_failure=False), InputError)


def _in_flow[O: Options](work: Callable[[O, Events], Result], kind: type[O], values: Mapping[str, Any]) -> Any:
    """Do the work of a flow run; what it returns decides the run's final state."""
    terminal = _terminal.get()
    log = RunLog(watch=terminal is not None)
    logger = get_run_logger()
    if terminal is not None and (address := flow_run.get_flow_run_ui_url()):
        terminal.message(f"Prefect flow run {flow_run.get_name()}: {address}")
    try:
        # A command ends on SIGTERM as on Ctrl-C; for a deployment it is Prefect's way to cancel.
        with terminated_as_interrupted() if terminal is not None else nullcontext():
            return work(kind(**values), Tee(log) if terminal is None else Tee(terminal, log))
    except InputError as error:
        logger.error(str(error))
        return Failed(message=str(error), data=error)
    except KeyboardInterrupt as stop:
        if str(stop):
            logger.warning(f"interrupted; {stop} to resume")
        if log.cancelled:
            return Cancelled(message=f"cancelled; {stop} to resume", data=str(stop))
        raise


class RunLog(LogProgress):
    """Progress as log lines of the flow run, or of the task run within it.

    Parameters
    ----------
    watch : bool
        Look now and then whether the run was cancelled in the UI, and stop it if it was.

    Attributes
    ----------
    cancelled : bool
    """

    def __init__(self, *, watch: bool = False) -> None:
        super().__init__(every=_LOG_SECONDS)
        self.cancelled = False
        self._watch = watch
        self._looked = time.monotonic()

    def message(self, text: str) -> None:
        """Write one line."""
        get_run_logger().info(text)

    def stage_started(self, name: str, total_tasks: int | None = None, total_rows: int | None = None) -> None:
        super().stage_started(name, total_tasks, total_rows)
        self._stop_if_cancelled()

    def task_done(self, name: str, record: Mapping[str, Any]) -> None:
        super().task_done(name, record)
        self._stop_if_cancelled()

    def _stop_if_cancelled(self) -> None:
        context = FlowRunContext.get()
        if not self._watch or context is None or context.flow_run is None:
            return
        if time.monotonic() - self._looked < _CANCELLED_SECONDS:
            return
        with get_client(sync_client=True) as client:
            state = client.read_flow_run(context.flow_run.id).state
        self._looked = time.monotonic()
        if state is not None and (state.is_cancelled() or state.is_cancelling()):
            self.cancelled = True
            raise KeyboardInterrupt


class Tee:
    """Events for several listeners."""

    def __init__(self, *listeners: Events) -> None:
        self._listeners = listeners
        self._stack = ExitStack()

    def stage_started(self, name: str, total_tasks: int | None = None, total_rows: int | None = None) -> None:
        """Tell all."""
        for listener in self._listeners:
            listener.stage_started(name, total_tasks, total_rows)

    def task_done(self, name: str, record: Mapping[str, Any]) -> None:
        """Tell all."""
        for listener in self._listeners:
            listener.task_done(name, record)

    def stage_finished(self, name: str, summary: Mapping[str, Any]) -> None:
        """Tell all."""
        for listener in self._listeners:
            listener.stage_finished(name, summary)

    def message(self, text: str) -> None:
        """Tell all."""
        for listener in self._listeners:
            listener.message(text)

    def __enter__(self) -> Self:
        for listener in self._listeners:
            self._stack.enter_context(listener)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)


def link_dashboard(cluster: ClusterHandle, *_: Any) -> None:
    """Artifact `dask-dashboard`: where to watch the chunks."""
    if cluster.dashboard_link is not None:
        create_link_artifact(
            key="dask-dashboard",
            link=cluster.dashboard_link,
            link_text="Dask dashboard",
            description=f"{cluster.describe()}. It lives as long as the run.",
        )


def show_throughput(stages: Sequence[Mapping[str, Any]]) -> None:
    """Artifact `throughput`: what each stage took and did."""
    table = [
        {
            "stage": stage["name"],
            "seconds": round(stage["seconds"], 2),
            "rows": stage["rows"],
            "rows/s": round(stage["rows_per_second"]),
            "MB read": round(stage["bytes_read"] / 1e6, 2),
            "MB written": round(stage["bytes_written"] / 1e6, 2),
            "peak RSS MB": round(stage["peak_rss_bytes"] / 1e6),
            "tasks": stage["tasks"],
            "tasks done before": stage["tasks_skipped"],
        }
        for stage in stages
    ]
    create_table_artifact(key="throughput", table=table, description="Throughput of each stage")


def show_accuracy(learners: Mapping[str, Mapping[str, Any]]) -> None:
    """Artifact `accuracy`: how good each learner is on rows it has not seen."""
    table = [
        {"learner": name, "accuracy": None if figures["accuracy"] is None else round(figures["accuracy"], 4)}
        | {title: round(figures[key], 2) for key, title in _TIMES.items() if key in figures}
        for name, figures in learners.items()
    ]
    create_table_artifact(key="accuracy", table=table, description="Share of rows with the right class")


_TIMES = {"train_seconds": "train s", "predict_seconds": "predict s"}


def show_compared(results: Mapping[str, Any]) -> None:
    """Artifact `compared`: our accuracies beside the printed ones."""
    table = [
        {
            "table": experiment["name"],
            "data set": row["dataset"],
            "system": row["title"],
            "ours": row["accuracy"] if row["status"] == "finished" else row["status"],
            "printed": row["published_accuracy"],
            "difference": row["difference"],
        }
        for experiment in results["experiments"]
        for row in experiment["rows"]
        if row.get("shown")
    ]
    create_table_artifact(key="compared", table=table, description="Test accuracies, ours and printed")


def show_report(path: Path, command: str) -> None:
    """Artifact `report`: where the report is, and how to get the same result again."""
    create_markdown_artifact(
        key="report",
        markdown=f"Report: `{path / 'report.html'}`\n\nThe same result again: `{command}`\n",
        description="Result, throughput, learning curve, confusion matrix and parameters, in one offline page",
    )


def _check_api() -> None:
    """Say in one line that nobody answers, before Prefect says it in many."""
    with get_client(sync_client=True) as client:
        failure = client.api_healthcheck()
    if failure is not None:
        raise InputError(
            f"{get_current_settings().api.url}: no Prefect API answers ({type(failure).__name__}); start it "
            "(prefect server start), or run without: unset PREFECT_API_URL and the profile's"
        )


@contextmanager
def _quiet_console(*, errors: bool) -> Iterator[None]:
    """Keep Prefect's lines off the terminal, on which the command itself tells what happens; `errors` may show."""
    ensure_logging_setup()

    def wanted(record: logging.LogRecord) -> bool:
        return not record.name.startswith("prefect") or (errors and record.levelno >= logging.ERROR)

    handlers = list(logging.getLogger().handlers)
    for handler in handlers:
        handler.addFilter(wanted)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(wanted)
