"""Events: all stages report here while they work, whoever shows it.

The command chooses whether events become bars on a terminal, log lines or nothing
(:func:`pipeline.monitoring.progress.choose_progress`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from types import TracebackType
from typing import Protocol, Self

from pipeline.record_types import StageProgress, TaskProgress

Clock = Callable[[], float]


class Events(Protocol):
    """The receiver of reports. A context manager: leaving it gives the terminal back, whatever happened."""

    def stage_started(self, name: str, total_tasks: int | None = None, total_rows: int | None = None) -> None:
        """Take in that a stage begins; None where a total is not known."""

    def task_done(self, name: str, record: TaskProgress) -> None:
        """Take in that a task of stage ``name`` is done.

        Of its record, ``rows``, ``skipped`` (done in an earlier run), ``note`` (how it stands, in words), ``left``
        (seconds, where the stage knows better), ``total_tasks`` (where there are more than were known at the start) and
        ``compile_seconds`` (of the stage so far) are used, all optional.
        """

    def stage_finished(self, name: str, summary: StageProgress) -> None:
        """Take in that a stage is done; ``seconds``, ``rows`` and ``rows_per_second`` of its summary are used."""

    def message(self, text: str) -> None:
        """Show one line to the user."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Base:
    """Base of `Events` that close themselves at their end."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back resources such as the terminal."""


class QuietProgress(Base):
    """Events that are shown to nobody."""

    def stage_started(self, name: str, total_tasks: int | None = None, total_rows: int | None = None) -> None:
        """Do nothing."""

    def task_done(self, name: str, record: TaskProgress) -> None:
        """Do nothing."""

    def stage_finished(self, name: str, summary: StageProgress) -> None:
        """Do nothing."""

    def message(self, text: str) -> None:
        """Do nothing."""


@dataclass
class StageState:
    """The progress of a stage."""

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
    """Time at which the stage itself expects to be done."""

    def add(self, record: TaskProgress) -> None:
        """Count one task."""
        rows = int(record.get("rows") or 0)
        self.tasks += 1
        self.rows += rows
        self.note = record.get("note", "")
        self.total_tasks = record.get("total_tasks", self.total_tasks)
        if record.get("skipped"):
            self.tasks_skipped += 1
            self.rows_skipped += rows

    def finish(self, summary: StageProgress, now: float) -> None:
        """Take the final numbers; the own count stands in for those that the summary lacks."""
        self.seconds = float(summary.get("seconds", now - self.started))
        self.rows = int(summary.get("rows") or self.rows)
        self.final_rate = summary.get("rows_per_second") or self._rate(self.seconds)

    def elapsed(self, now: float) -> float:
        """Return the seconds since the start, or those that the stage took."""
        return now - self.started if self.seconds is None else self.seconds

    def rate(self, now: float) -> float | None:
        """Return the rows per second of this run, without rows of an earlier run; None if it is not known."""
        return self._rate(now - self.started) if self.seconds is None else self.final_rate

    def _rate(self, seconds: float) -> float | None:
        worked = self.rows - self.rows_skipped
        return worked / seconds if worked > 0 and seconds > 0 else None

    @property
    def fraction(self) -> float | None:
        """Share of the stage that is done, by rows if they are known, else by tasks; None if no total is known."""
        if self.seconds is not None:
            return 1.0
        if self.total_rows and self.rows:
            return min(1.0, self.rows / self.total_rows)
        if self.total_tasks:
            return min(1.0, self.tasks / self.total_tasks)
        return None

    def seconds_left(self, now: float) -> float | None:
        """Return the seconds left at the rate so far, or None if they are not known."""
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
        """Return tasks and rows as text, against their totals where known; ``short`` leaves out the rows."""
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
    """Return seconds as text: ``0.42 s``, ``12.3 s``, ``3:05``, ``2:03:05``."""
    if seconds < 59.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    whole = round(seconds)
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def whole_seconds(seconds: float) -> str:
    """Return seconds as text, without the finer digits of `format_seconds`, which would only flicker."""
    return f"{seconds:.0f} s" if seconds < 59.5 else format_seconds(seconds)


def format_rate(rate: float | None, unit: str = "rows/s") -> str:
    """Return a rate as text, ``12,345 rows/s``, or an empty text if it is not known."""
    if rate is None:
        return ""
    return f"{rate:,.0f} {unit}" if rate >= 10 else f"{rate:.2g} {unit}"


class Stages(Base):
    """Base of events that keep the state of each stage; subclasses show it."""

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._starting = Lock()  # stages may start at the same time, and there is one terminal
        self.stages: dict[str, StageState] = {}

    def stage_started(self, name: str, total_tasks: int | None = None, total_rows: int | None = None) -> None:
        """Begin (or begin again) a stage."""
        with self._starting:
            self.stages[name] = StageState(name, total_tasks, total_rows, self._clock())
            self._show_start(self.stages[name])

    def task_done(self, name: str, record: TaskProgress) -> None:
        """Count a task; a stage nobody announced begins here."""
        if name not in self.stages:
            self.stage_started(name)
        self.stages[name].add(record)
        if "left" in record:
            self.stages[name].until = self._clock() + record["left"]
        self._show_task(self.stages[name])

    def stage_finished(self, name: str, summary: StageProgress) -> None:
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
