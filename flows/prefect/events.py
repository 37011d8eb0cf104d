"""Progress of a flow run: log lines and bars for Prefect, and the terminal of whoever started it."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import httpx
from prefect import get_client, get_run_logger
from prefect.context import FlowRunContext

from flows.prefect.artifacts import StageBars, tries
from pipeline.monitoring.events import Events, StageState
from pipeline.monitoring.plain_text import printable
from pipeline.monitoring.progress_log import LogProgress
from pipeline.record_types import StageProgress, TaskProgress

_LOG_SECONDS = 30.0
"""A long stage says how far it is this often."""
_CANCELLED_SECONDS = 10.0
"""Seconds between two questions of a run to the API whether it was cancelled, if no worker would tell it."""
_HAS_WORKER = "PREFECT__FLOW_RUN_ID" in os.environ
"""True if a worker of Prefect has started this process: the worker ends it when the run is cancelled."""


class RunLog(LogProgress):
    """Progress as log lines of the flow run, or of the task run within it."""

    def __init__(self) -> None:
        super().__init__(every=_LOG_SECONDS)
        self._looked = time.monotonic()
        self._bars = StageBars()

    def message(self, text: str) -> None:
        """Write one line."""
        get_run_logger().info(printable(text))

    def stage_started(self, name: str, total_tasks: int | None = None, total_rows: int | None = None) -> None:
        super().stage_started(name, total_tasks, total_rows)
        self.stop_if_cancelled()

    def task_done(self, name: str, record: TaskProgress) -> None:
        super().task_done(name, record)
        self.stop_if_cancelled()

    def _show_task(self, stage: StageState) -> None:
        super()._show_task(stage)
        self._bars.show(stage, self._clock())

    def _show_end(self, stage: StageState) -> None:
        super()._show_end(stage)
        self._bars.show(stage, self._clock())

    def stop_if_cancelled(self) -> None:
        """Ask now and then whether somebody has cancelled the run.

        Raises
        ------
        KeyboardInterrupt
            Somebody has.
        """
        if not _HAS_WORKER and time.monotonic() - self._looked >= _CANCELLED_SECONDS:
            self._looked = time.monotonic()
            if is_cancelled():
                raise KeyboardInterrupt


def is_cancelled() -> bool:
    """Return whether somebody has cancelled this flow run, as far as the API can be asked."""
    context = FlowRunContext.get()
    if context is None or context.flow_run is None:
        return False
    try:
        with tries(1), get_client(sync_client=True) as client:
            state = client.read_flow_run(context.flow_run.id).state
    except httpx.HTTPError:
        return False
    return state is not None and (state.is_cancelled() or state.is_cancelling())


class Tee:
    """Events for several listeners."""

    def __init__(self, *listeners: Events) -> None:
        self._listeners = listeners
        self._stack = ExitStack()

    def stage_started(self, name: str, total_tasks: int | None = None, total_rows: int | None = None) -> None:
        """Tell all."""
        for listener in self._listeners:
            listener.stage_started(name, total_tasks, total_rows)

    def task_done(self, name: str, record: TaskProgress) -> None:
        """Tell all."""
        for listener in self._listeners:
            listener.task_done(name, record)

    def stage_finished(self, name: str, summary: StageProgress) -> None:
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
