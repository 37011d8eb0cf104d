"""Report the progress of stages to Prometheus through the Dask scheduler.

Dask serves a page ``/metrics`` in every process that has a dashboard, if the package prometheus_client is installed.
The metrics themselves are declared in :mod:`pipeline.monitoring.process_metrics`. Workers count rows as they finish
tasks (:func:`pipeline.running.measured.measured`). The scheduler knows tasks but not rows, so the client sends it the
progress of each stage, a few times a second at most: one page then shows the whole run, wherever workers come and go.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from types import TracebackType
from typing import Self

from distributed import Client, Scheduler, SchedulerPlugin

from pipeline.errors import ClusterLost
from pipeline.monitoring.events import Events
from pipeline.monitoring.process_metrics import COUNTED, STAGES
from pipeline.record_types import Record, StageProgress, TaskProgress
from pipeline.running.stage import stage_label

type StageReport = Record
"""A report of a client on a stage: counters and gauges by name, and the token, client and name of the stage."""

TOPIC = "ikmap-stages"
TELL_SECONDS = 0.5
"""Least seconds between two reports of a client to the scheduler on a stage."""

_tokens = count()


class StageMetrics(SchedulerPlugin):
    """A plug-in of the scheduler: it adds up the reports of clients on their stages."""

    name = "ikmap-stages"
    idempotent = True

    def __init__(self) -> None:
        self._reports: dict[str, StageReport] = {}  # the latest of each stage at work

    async def start(self, scheduler: Scheduler) -> None:  # noqa: ARG002
        """Expose the metrics: Dask calls it when the plug-in is registered."""
        STAGES.expose()

    def log_event(self, topic: str, msg: StageReport) -> None:
        """Add a report: Dask calls it for every message to the scheduler; sums are those of a stage of a run so far."""
        if topic != TOPIC:
            return
        latest = self._reports.pop(msg["token"], {})
        names = (*STAGES.counters, *STAGES.gauges)
        STAGES.add(msg["stage"], **{name: msg[name] - latest.get(name, 0) for name in names})
        if msg["running"]:
            self._reports[msg["token"]] = msg

    def remove_client(self, scheduler: Scheduler, client: str) -> None:  # noqa: ARG002
        """End the stages of a client that has gone, perhaps killed: Dask calls it."""
        for token, message in list(self._reports.items()):
            if message["client"] == client:
                del self._reports[token]
                STAGES.add(message["stage"], **{name: -message[name] for name in STAGES.gauges})


@dataclass
class _StageSums:
    """Sums of a stage so far, without what an earlier process has done."""

    label: str
    expected: int
    began: float
    token: str
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys((*COUNTED, "tasks", "tasks_skipped"), 0))
    skipped: dict[str, float] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))
    reported: float = 0.0
    seconds: float = 0.0
    compiling: float = 0.0


class ReportedEvents:
    """Events that are reported to the scheduler too. Leaving it ends stages still at work; `events` stay open.

    Parameters
    ----------
    client : Client
    events : Events
        Receiver of all events as before.
    """

    def __init__(self, client: Client, events: Events) -> None:
        self._client, self._events = client, events
        self._stages: dict[str, _StageSums] = {}

    def stage_started(self, name: str, total_tasks: int | None = None, total_rows: int | None = None) -> None:
        """Report to both."""
        self._events.stage_started(name, total_tasks, total_rows)
        if (given_up := self._stages.pop(name, None)) is not None:  # an attempt before this one
            self._report(given_up, running=False)
        sums = _StageSums(stage_label(name), total_tasks or 0, time.monotonic(), f"{self._client.id}-{next(_tokens)}")
        self._stages[name] = sums
        self._report(sums)

    def task_done(self, name: str, record: TaskProgress) -> None:
        """Report to both, to the scheduler now and then."""
        self._events.task_done(name, record)
        sums = self._stages.get(name)
        if sums is None:
            return
        sums.expected = record.get("total_tasks") or sums.expected
        sums.compiling = record.get("compile_seconds", sums.compiling)
        skipped = bool(record.get("skipped"))
        sums.sums["tasks_skipped" if skipped else "tasks"] += 1
        counts = sums.skipped if skipped else sums.sums
        for key in COUNTED:
            counts[key] += record.get(key) or 0
        if time.monotonic() - sums.reported >= TELL_SECONDS:
            self._report(sums)

    def stage_finished(self, name: str, summary: StageProgress) -> None:
        """Report to both; the summary has the rows of tasks that share their rows."""
        self._events.stage_finished(name, summary)
        sums = self._stages.pop(name, None)
        if sums is None:
            return
        if summary.get("tasks", 1) > summary.get("tasks_skipped", 0):
            for key in COUNTED:
                sums.sums[key] = max(sums.sums[key], summary.get(key, 0) - sums.skipped[key])
        seconds = summary.get("seconds")
        if seconds is not None:
            seconds -= summary.get("seconds_before", 0.0)
        self._report(sums, running=False, seconds=seconds)

    def message(self, text: str) -> None:
        """Show one line to the user."""
        self._events.message(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, ClusterLost):  # nobody is there to be told
            self._stages.clear()
        while self._stages:
            _, sums = self._stages.popitem()
            self._report(sums, running=False)

    def _report(self, sums: _StageSums, *, running: bool = True, seconds: float | None = None) -> None:
        """Report a stage to the scheduler, with its `seconds` once they are known; compiling is left out."""
        now = time.monotonic()
        sums.reported = now
        # Counters never go down: Prometheus would take them to have begun anew.
        sums.seconds = max(sums.seconds, now - sums.began - sums.compiling if seconds is None else seconds)
        message = {
            **sums.sums,
            "token": sums.token,
            "client": self._client.id,
            "stage": sums.label,
            "seconds": sums.seconds,
            "running": int(running),
            "tasks_expected": sums.expected if running else 0,
            "tasks_done": sums.sums["tasks"] + sums.sums["tasks_skipped"] if running and sums.expected else 0,
        }
        if self._client.scheduler is None:  # the client is closed: waiting for the tasks will fail too
            return
        with suppress(OSError, RuntimeError):  # nor does the scheduler answer
            self._client.log_event(TOPIC, message)


@contextmanager
def reported_to_scheduler(client: Client, events: Events) -> Iterator[Events]:
    """Wrap events so that they are reported to the scheduler of a cluster too, if it takes plug-ins."""
    try:
        client.register_plugin(StageMetrics())
    except (ImportError, ValueError) as error:  # it lacks this software, or takes no pickles
        events.message(f"the scheduler will show no stages in its metrics: {' '.join(str(error).split())}")
        yield events
        return
    with ReportedEvents(client, events) as reported:
        yield reported
