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

from pipeline.monitoring.events import Events
from pipeline.monitoring.process_metrics import COUNTED, STAGES
from pipeline.record_types import Record, RecordView
from pipeline.running.stage import stage_label

TOPIC = "ikmap-stages"
TELL_SECONDS = 0.5
"""How often a client tells the scheduler how far a stage is, at most."""

_tokens = count()


class StageMetrics(SchedulerPlugin):
    """On the scheduler: adds up what clients say of their stages."""

    name = "ikmap-stages"
    idempotent = True

    def __init__(self) -> None:
        self._said: dict[str, Record] = {}  # of stages at work, what was said last

    async def start(self, scheduler: Scheduler) -> None:  # noqa: ARG002
        """Called by Dask when the plugin is registered."""
        STAGES.expose()

    def log_event(self, topic: str, msg: Record) -> None:
        """Called by Dask for every message to the scheduler; sums in ours are those of one stage of one run so far."""
        if topic != TOPIC:
            return
        before = self._said.pop(msg["token"], {})
        names = (*STAGES.counters, *STAGES.gauges)
        STAGES.add(msg["stage"], **{name: msg[name] - before.get(name, 0) for name in names})
        if msg["running"]:
            self._said[msg["token"]] = msg

    def remove_client(self, scheduler: Scheduler, client: str) -> None:  # noqa: ARG002
        """Called by Dask: stages of a client that has gone, killed perhaps, are no longer at work."""
        for token, said in list(self._said.items()):
            if said["client"] == client:
                del self._said[token]
                STAGES.add(said["stage"], **{name: -said[name] for name in STAGES.gauges})


@dataclass
class _Told:
    """Sums of a stage so far, without what an earlier process has done."""

    label: str
    expected: int
    began: float
    token: str
    sums: dict[str, float] = field(default_factory=lambda: dict.fromkeys((*COUNTED, "tasks", "tasks_skipped"), 0))
    skipped: dict[str, float] = field(default_factory=lambda: dict.fromkeys(COUNTED, 0))
    told: float = 0.0


class ToldEvents:
    """Events that are told to the scheduler too. Leaving it ends stages still at work; `events` stay open.

    Parameters
    ----------
    client : Client
    events : Events
        Where everything goes as before.
    """

    def __init__(self, client: Client, events: Events) -> None:
        self._client, self._events = client, events
        self._stages: dict[str, _Told] = {}

    def stage_started(self, name: str, total_tasks: int | None = None, total_rows: int | None = None) -> None:
        """Tell both."""
        self._events.stage_started(name, total_tasks, total_rows)
        told = _Told(stage_label(name), total_tasks or 0, time.monotonic(), f"{self._client.id}-{next(_tokens)}")
        self._stages[name] = told
        self._tell(told)

    def task_done(self, name: str, record: RecordView) -> None:
        """Tell both, the scheduler now and then."""
        self._events.task_done(name, record)
        told = self._stages.get(name)
        if told is None:
            return
        told.expected = record.get("total_tasks") or told.expected
        skipped = bool(record.get("skipped"))
        told.sums["tasks_skipped" if skipped else "tasks"] += 1
        into = told.skipped if skipped else told.sums
        for key in COUNTED:
            into[key] += record.get(key) or 0
        if time.monotonic() - told.told >= TELL_SECONDS:
            self._tell(told)

    def stage_finished(self, name: str, summary: RecordView) -> None:
        """Tell both; the summary knows what tasks that share their rows did not say."""
        self._events.stage_finished(name, summary)
        told = self._stages.pop(name, None)
        if told is None:
            return
        if summary.get("tasks", 1) > summary.get("tasks_skipped", 0):
            for key in COUNTED:
                told.sums[key] = max(told.sums[key], summary.get(key, 0) - told.skipped[key])
        seconds = summary.get("seconds")
        if seconds is not None:
            seconds -= summary.get("seconds_before", 0.0)
        self._tell(told, running=False, seconds=seconds)

    def message(self, text: str) -> None:
        """One line for the user."""
        self._events.message(text)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._stages:
            _, told = self._stages.popitem()
            self._tell(told, running=False)

    def _tell(self, told: _Told, *, running: bool = True, seconds: float | None = None) -> None:
        """Tell the scheduler how a stage stands; `seconds`, once they are known, leave compiling out."""
        now = time.monotonic()
        told.told = now
        said = {
            **told.sums,
            "token": told.token,
            "client": self._client.id,
            "stage": told.label,
            "seconds": now - told.began if seconds is None else seconds,
            "running": int(running),
            "tasks_expected": told.expected if running else 0,
            "tasks_done": told.sums["tasks"] + told.sums["tasks_skipped"] if running and told.expected else 0,
        }
        with suppress(OSError, RuntimeError):  # no scheduler, no client: who waits for the tasks will say so
            self._client.log_event(TOPIC, said)


@contextmanager
def reported_to_scheduler(client: Client, events: Events) -> Iterator[Events]:
    """Wrap events so that the scheduler of a cluster is told of them too, if it takes plugins."""
    try:
        client.register_plugin(StageMetrics())
    except (ImportError, ValueError) as error:  # it has none of this software, or takes no pickles
        events.message(f"the scheduler will show no stages in its metrics: {' '.join(str(error).split())}")
        yield events
        return
    with ToldEvents(client, events) as told:
        yield told
