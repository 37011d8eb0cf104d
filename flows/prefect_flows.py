"""The commands as Prefect flows: parameters for a form, one task per stage, artifacts to look at.

Imported only where a Prefect API is configured, or for a deployment. Chunks of work are Dask's: what Prefect sees
of a stage is its name, its log lines and its outcome. Arrays and models never pass through here.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
from prefect import Flow, Task, flow, get_client, get_run_logger
from prefect.cache_policies import NO_CACHE
from prefect.exceptions import CancelledRun
from prefect.logging.configuration import ensure_logging_setup
from prefect.runtime import flow_run
from prefect.settings import get_current_settings
from prefect.states import Cancelled, Failed, State

from cluster import ClusterHandle
from flows import run_batch, run_online, run_reproduce, run_score
from flows._cli import terminated_as_interrupted
from flows._declare import Options
from flows.options import BatchOptions, CommonOptions, OnlineOptions, ScoreOptions
from flows.prefect_artifacts import link_dashboard, show_accuracy, show_compared, show_report, show_throughput
from flows.prefect_events import RunLog, Tee, is_cancelled
from flows.prefect_limit import place_on
from flows.prefect_parameters import Result, takes
from flows.reproduce_options import ReproduceOptions
from pipeline.errors import InputError
from pipeline.progress import Events, choose_progress

_terminal: ContextVar[Events | None] = ContextVar("terminal", default=None)
"""Progress on the terminal of a command; a deployment has none."""


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
        metrics = run(_resumable(options), call=as_task, events=events, on_cluster=started)
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
        path = Path(options.run_dir or run_reproduce.DEFAULT)
        show_report(path.absolute(), results["run"]["command"])
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


def _in_flow[O: CommonOptions](work: Callable[[O, Events], Result], kind: type[O], values: Mapping[str, Any]) -> Any:
    """Do the work of a flow run; what it returns decides the run's final state."""
    terminal = _terminal.get()
    log = RunLog(watch=terminal is not None)
    events = Tee(log) if terminal is None else Tee(terminal, log)
    logger = get_run_logger()
    if terminal is not None and (address := flow_run.get_flow_run_ui_url()):
        terminal.message(f"Prefect flow run {flow_run.get_name()}: {address}")
    try:
        # SIGTERM, which is also how a Prefect worker cancels, ends a run as Ctrl-C does: Dask's work is stopped first.
        with terminated_as_interrupted(), _main_hidden() if terminal is None else nullcontext():
            options = kind(**values)
            with place_on(options.cluster, events.message, log.stop_if_cancelled):
                return work(options, events)
    except InputError as error:
        logger.error(str(error))
        return Failed(message=str(error), data=error)
    except KeyboardInterrupt as stop:
        again = f"; {stop} to resume" if str(stop) else ""
        logger.warning(f"interrupted{again}")
        if _was_cancelled():
            return Cancelled(message=f"cancelled{again}", data=str(stop))
        raise


@contextmanager
def _main_hidden() -> Iterator[None]:
    """Let no worker process import the main module again, as Python has it.

    In a deployment it is Prefect's engine: a second and 50 MB for each of them.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _was_cancelled() -> bool:
    try:
        return is_cancelled()
    except httpx.HTTPError:  # interrupted, perhaps, because the API does not answer
        return False


def _resumable(options: BatchOptions) -> BatchOptions:
    """For a run that no command has started: without a directory of its own, one that a retry finds again."""
    if _terminal.get() is not None or options.run_dir is not None:
        return options
    name = re.sub(r"[^\w.-]+", "-", f"{flow_run.get_name()}-{str(flow_run.get_id())[:8]}")
    return replace(options, run_dir=f"runs/{name}")


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
