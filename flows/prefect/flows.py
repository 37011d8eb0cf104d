"""The commands as Prefect flows: parameters for a form, one task per stage, artifacts to look at.

Imported only where a Prefect API is configured, or for a deployment. Chunks of work are Dask's: what Prefect sees
of a stage is its name, its log lines and its outcome. Arrays and models never pass through here.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
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
from prefect.states import Cancelled, Completed, Failed, State

from cluster import ClusterHandle
from flows.interrupts import raised
from flows.options.batch import BatchOptions
from flows.options.command_line import Options
from flows.options.common import CommonOptions
from flows.options.online import OnlineOptions
from flows.options.reproduce import ReproduceOptions
from flows.options.score import ScoreOptions
from flows.prefect.artifacts import link_dashboard, show_compared, show_metrics, show_report, show_throughput
from flows.prefect.events import RunLog, Tee, is_cancelled
from flows.prefect.limit import place_on
from flows.prefect.parameters import Result, takes
from flows.runs import batch as run_batch
from flows.runs import online as run_online
from flows.runs import reproduce as run_reproduce
from flows.runs import score as run_score
from ikmap.tasks import TASKS, task_of
from pipeline.errors import ClusterLost, InputError, OnlyPlanned
from pipeline.monitoring.events import Events
from pipeline.monitoring.plain_text import printable
from pipeline.monitoring.progress import choose_progress
from pipeline.report.results import result_in_words


@dataclass
class _Terminal:
    """The terminal of a command: its progress, and how its work has ended. A deployment has none."""

    events: Events | None = None
    options: Options | None = None  # with what is not for Prefect's database, such as the signature of a URL
    outcome: Result | BaseException | None = None

    def say(self, text: str) -> None:
        if self.events is not None:
            self.events.message(text)


class Failure(Exception):
    """An error that Prefect may store in place of a defect: its name and text, without secrets of URLs.

    Prefect would log the error itself with its traceback, keep its text with the state, and write it to a file.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(_in_a_line(error))
        self.error = error

    def __reduce__(self) -> Any:
        return Exception, self.args


def _in_a_line(error: Exception) -> str:
    return printable(str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}")


_terminal: ContextVar[_Terminal | None] = ContextVar("terminal", default=None)


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
        get_run_logger().info(
            f"run directory: {printable(str(path.absolute()))}"
        )  # whoever resumes a stopped run needs it
        link_dashboard(cluster)

    def work(options: BatchOptions, events: Events) -> Result:
        options = _resumable(options)
        metrics = run(options, call=as_task, events=events, on_cluster=started)
        show_throughput(metrics["stages"])
        show_metrics(task_of(metrics), metrics["learners"], result_in_words(metrics))
        path = paths[0] if paths else Path(os.path.expanduser(options.run_dir or ""))  # a finished run starts nothing
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
        if result["said"] is not None:
            show_metrics(TASKS[result["task"]], {result["learner"]: result})
        return result

    return _in_flow(work, ScoreOptions, options)


@flow(name="reproduce", description=ReproduceOptions.DESCRIPTION, persist_result=False)
@takes(ReproduceOptions)
def reproduce(**options: Any) -> Any:
    """``python -m flows.reproduce`` as a flow."""

    def work(options: ReproduceOptions, events: Events) -> Result:
        results = run_reproduce.run(options, call=as_task, events=events, on_cluster=link_dashboard)
        show_compared(results)
        show_report(options.directory.absolute(), results["run"]["command"])
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
    terminal = _Terminal(choose_progress(values["quiet"]), options)
    token = _terminal.set(terminal)
    try:
        with _quiet_console(errors=values["debug"]):
            checked = flow.with_options(validate_parameters=False)  # the options have been checked
            return dict(_result_of(lambda: checked(**values)))
    except CancelledRun as stop:
        raise KeyboardInterrupt(str(stop)) from None
    except httpx.HTTPError as error:
        if terminal.outcome is None:
            raise InputError(_no_answer(error)) from None
        terminal.say(f"{_no_answer(error)}: it was not told how the run ended")
        if isinstance(terminal.outcome, BaseException):
            raise terminal.outcome from None
        return terminal.outcome
    finally:
        _terminal.reset(token)


def _result_of[T](call: Callable[[], T]) -> T:
    """Return the result of a call of Prefect's; a `Failure` becomes the error that it stands for."""
    try:
        return call()
    except Failure as failure:
        error = failure.error
    raise error  # outside of the handler: with the causes that it had


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
        except Exception as error:  # as a state, so that one line tells it and not a traceback
            return Failed(message=_in_a_line(error), data=Failure(error))

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
        _result_of(outcome.result)  # raises the error
    return dict(outcome)


def _may_be_tried_again(task: Any, run: Any, state: Any) -> bool:  # noqa: ARG001
    # A wrong file is as wrong the second time; a cluster may be there again.
    error = state.result(raise_on_failure=False).error
    return isinstance(error, ClusterLost) or not isinstance(error, InputError)


def _in_flow[O: CommonOptions](work: Callable[[O, Events], Result], kind: type[O], values: Mapping[str, Any]) -> Any:
    """Do the work of a flow run; what it returns decides the run's final state."""
    terminal = _terminal.get() or _Terminal()
    log = RunLog()
    events = Tee(log) if terminal.events is None else Tee(terminal.events, log)
    logger = get_run_logger()
    _FLOW_LOGGER.addFilter(_is_news)
    if address := flow_run.get_flow_run_ui_url():
        terminal.say(f"Prefect flow run {flow_run.get_name()}: {address}")
    try:
        # SIGTERM, which is also how a Prefect worker cancels, ends a run as Ctrl-C does: Dask's work is stopped first.
        with raised(), nullcontext() if terminal.events else _main_hidden():
            options = terminal.options if isinstance(terminal.options, kind) else kind(**values)
            with place_on(options.cluster, events.message, log.stop_if_cancelled):
                result = work(options, events)
        terminal.outcome = result
        return result
    except OnlyPlanned as planned:
        logger.info(printable(str(planned)))
        return Completed(message=printable(str(planned)))
    except InputError as error:
        terminal.outcome = error
        logger.error(str(error))
        return Failed(message=str(error), data=error)
    except KeyboardInterrupt as stop:
        terminal.outcome = stop
        again = f"; {printable(str(stop))} to resume" if str(stop) else ""
        logger.warning(f"interrupted{again}")
        if is_cancelled():
            return Cancelled(message=f"cancelled{again}", data=str(stop))
        raise
    except Exception as error:
        logger.error(printable(traceback.format_exc(), keep="\n"))
        raise Failure(error) from None


def _is_news(record: logging.LogRecord) -> bool:
    """Drop the traceback with which Prefect's engine repeats what the log already says in one line."""
    return not (record.exc_info and isinstance(record.exc_info[1], InputError | CancelledRun | Failure))


_FLOW_LOGGER = logging.getLogger("prefect.flow_runs")


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


def _resumable(options: BatchOptions) -> BatchOptions:
    """Return options with a run directory that a retry finds again, for a run that no command has started."""
    if _terminal.get() is not None or options.run_dir is not None:
        return options
    name = re.sub(r"[^\w.-]+", "-", f"{flow_run.get_name()}-{str(flow_run.get_id())[:8]}")
    return replace(options, run_dir=f"runs/{name}")


def _check_api() -> None:
    """Say in one line that nobody answers, before Prefect says it in many."""
    try:
        asked = get_client(sync_client=True)
    except (httpx.InvalidURL, ImportError, ValueError) as error:  # whose text may repeat half a password
        raise InputError(
            f"{get_current_settings().api.url}: its client cannot be made ({type(error).__name__}), expected addresses "
            "in PREFECT_API_URL, and in http_proxy, https_proxy and all_proxy those of proxies of the web"
        ) from None
    with asked as client:
        failure = client.api_healthcheck()
    if failure is not None:
        raise InputError(
            f"{_no_answer(failure)}; start it (prefect server start), or run without: unset PREFECT_API_URL "
            "and the profile's"
        )


def _no_answer(failure: Exception) -> str:
    return f"{get_current_settings().api.url}: no Prefect API answers ({type(failure).__name__})"


@contextmanager
def _quiet_console(*, errors: bool) -> Iterator[None]:
    """Keep Prefect's lines off the terminal, on which the command itself tells what happens; `errors` may show."""
    ensure_logging_setup()

    def wanted(record: logging.LogRecord) -> bool:
        return not record.name.startswith("prefect") or (errors and record.levelno >= logging.ERROR)

    handlers = [*logging.getLogger().handlers, *logging.getLogger("prefect._internal").handlers]
    for handler in handlers:
        handler.addFilter(wanted)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(wanted)
