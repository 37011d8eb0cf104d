"""Events: what a run says while it works. All stages report here, whoever shows it.

The command chooses whether it becomes bars on a terminal, log lines or nothing
(:func:`pipeline.monitoring.progress.choose_progress`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from types import TracebackType
from typing import Protocol, Self

from pipeline.record_types import RecordView

Clock = Callable[[], float]


class Events(Protocol):
    """Where stages report. A context manager: leaving it gives the terminal back, whatever happened."""

    def stage_started(self, name: str, total_tasks: int | None = None, total_rows: int | None = None) -> None:
        """A stage begins; None where a total is not known."""

    def task_done(self, name: str, record: RecordView) -> None:
        """A task of stage ``name`` is done; of its record, ``rows``, ``skipped`` (done in an earlier run), ``note``
        (how it stands, in words), ``left`` (seconds, where the stage knows better) and ``total_tasks`` (where there
        are more than were known at the start) are looked at, all optional."""

    def stage_finished(self, name: str, summary: RecordView) -> None:
        """A stage is done; of its summary, ``seconds``, ``rows`` and ``rows_per_second`` are looked at."""

    def message(self, text: str) -> None:
        """One line for the user."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Base:
    """Base of those `Events` that have nothing to give back at their end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back what is held."""


class QuietProgress(Base):
    """Says nothing."""

    def stage_started(self, name: str, total_tasks: int | None = None, total_rows: int | None = None) -> None:
        """Nothing."""

    def task_done(self, name: str, record: RecordView) -> None:
        """Nothing."""

    def stage_finished(self, name: str, summary: RecordView) -> None:
        """Nothing."""

    def message(self, text: str) -> None:
        """Nothing."""


@dataclass
class StageState:
    """How far a stage is."""

    name: str
    total_tasks: int | None
    total_rows: int | None
    started: float
    tasks: int = 0
    tasks_skipped: int = 0
    rows: int = 0
    rows_skipped: int = 0
    seconds: float | None = None
    final_rate: float | None = None
    note: str = ""
    until: float | None = None
    """When the stage itself expects to be done."""

    def add(self, record: RecordView) -> None:
        """Count one task."""
        rows = int(record.get("rows") or 0)
        self.tasks += 1
        self.rows += rows
        self.note = record.get("note", "")
        self.total_tasks = record.get("total_tasks", self.total_tasks)
        if record.get("skipped"):
            self.tasks_skipped += 1
            self.rows_skipped += rows

    def finish(self, summary: RecordView, now: float) -> None:
        """Take the final figures; what the summary lacks is our own count."""
        self.seconds = float(summary.get("seconds", now - self.started))
        self.rows = int(summary.get("rows") or self.rows)
        self.final_rate = summary.get("rows_per_second") or self._rate(self.seconds)

    def elapsed(self, now: float) -> float:
        """Seconds since the start, or those the stage took."""
        return now - self.started if self.seconds is None else self.seconds

    def rate(self, now: float) -> float | None:
        """Rows per second of this run (rows of an earlier run do not count), None when not known."""
        return self._rate(now - self.started) if self.seconds is None else self.final_rate

    def _rate(self, seconds: float) -> float | None:
        worked = self.rows - self.rows_skipped
        return worked / seconds if worked > 0 and seconds > 0 else None

    @property
    def fraction(self) -> float | None:
        """Share that is done, by rows if they are known, else by tasks; None when no total is known."""
        if self.seconds is not None:
            return 1.0
        if self.total_rows and self.rows:
            return min(1.0, self.rows / self.total_rows)
        if self.total_tasks:
            return min(1.0, self.tasks / self.total_tasks)
        return None

    def seconds_left(self, now: float) -> float | None:
        """Seconds left at the rate so far, None when that cannot be told."""
        if self.until is not None and self.seconds is None:
            return max(0.0, self.until - now)
        worked, elapsed = self.tasks - self.tasks_skipped, now - self.started
        if self.seconds is not None or worked <= 0 or elapsed <= 0:
            return None
        rate = self._rate(elapsed)
        if self.total_rows and rate:
            return max(0.0, (self.total_rows - self.rows) / rate)
        if self.total_tasks:
            return max(0.0, (self.total_tasks - self.tasks) * elapsed / worked)
        return None

    def counts(self, *, short: bool = False) -> str:
        """Tasks and rows, against their totals where known; ``short`` leaves out the rows."""
        parts = []
        if self.tasks or self.total_tasks:
            total = f"/{self.total_tasks:,}" if self.total_tasks else ""
            unit = "task" if (self.total_tasks or self.tasks) == 1 else "tasks"
            parts.append(f"{self.tasks:,}{total} {unit}")
        if self.tasks_skipped and not short:
            parts[0] += f" ({self.tasks_skipped:,} done before)"
        if self.rows and not (short and parts):
            total = f"/{self.total_rows:,}" if self.total_rows and self.seconds is None else ""
            parts.append(f"{self.rows:,}{total} rows")
        return ", ".join(parts)


def format_seconds(seconds: float) -> str:
    """``0.42 s``, ``12.3 s``, ``3:05``, ``2:03:05``."""
    if seconds < 59.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def whole_seconds(seconds: float) -> str:
    """As `format_seconds`, for a figure that changes all the time: finer digits would only flicker."""
    return f"{seconds:.0f} s" if seconds < 59.5 else format_seconds(seconds)


def format_rate(rate: float | None, unit: str = "rows/s") -> str:
    """``12,345 rows/s``; nothing when not known."""
    if rate is None:
        return ""
    return f"{rate:,.0f} {unit}" if rate >= 10 else f"{rate:.2g} {unit}"


class Stages(Base):
    """Keeps the states; subclasses show them."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._starting = Lock()  # stages may start at the same time, and there is one terminal
        self.stages: dict[str, StageState] = {}

    def stage_started(self, name: str, total_tasks: int | None = None, total_rows: int | None = None) -> None:
        """Begin (or begin again) a stage."""
        with self._starting:
            self.stages[name] = StageState(name, total_tasks, total_rows, self._clock())
            self._show_start(self.stages[name])

    def task_done(self, name: str, record: RecordView) -> None:
        """Count a task; a stage nobody announced begins here."""
        if name not in self.stages:
            self.stage_started(name)
        self.stages[name].add(record)
        if "left" in record:
            self.stages[name].until = self._clock() + record["left"]
        self._show_task(self.stages[name])

    def stage_finished(self, name: str, summary: RecordView) -> None:
        """Close a stage."""
        if name not in self.stages:
            self.stage_started(name)
        self.stages[name].finish(summary, self._clock())
        self._show_end(self.stages[name])

    def _show_start(self, stage: StageState) -> None:
        raise NotImplementedError

    def _show_task(self, stage: StageState) -> None:
        raise NotImplementedError

    def _show_end(self, stage: StageState) -> None:
        raise NotImplementedError
