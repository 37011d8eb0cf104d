"""What a run says while it runs: one small seam of events, and the ways to show them.

Stages report to an `Events`; whether that ends as bars on a terminal, as log lines or as nothing is the
caller's choice (`choose_progress`). All of it goes to stderr; the tables of results (`print_result`) go to
stdout.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from types import TracebackType
from typing import IO, Any, Protocol, Self

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ikmap.tasks import Figure, task_of
from pipeline.plain_text import printable

Clock = Callable[[], float]


class Events(Protocol):
    """Where stages report. A context manager: leaving it gives the terminal back, whatever happened."""

    def stage_started(self, name: str, total_tasks: int | None = None, total_rows: int | None = None) -> None:
        """A stage begins; None where a total is not known."""

    def task_done(self, name: str, record: Mapping[str, Any]) -> None:
        """A task of stage ``name`` is done; of its record, ``rows``, ``skipped`` (done in an earlier run), ``note``
        (how it stands, in words) and ``left`` (seconds, where the stage knows better) are looked at, all optional."""

    def stage_finished(self, name: str, summary: Mapping[str, Any]) -> None:
        """A stage is done; of its summary, ``seconds``, ``rows`` and ``rows_per_second`` are looked at."""

    def message(self, text: str) -> None:
        """One line for the user."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class _Base:
    """The context manager of an `Events` that holds nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give back what is held."""


class QuietProgress(_Base):
    """Says nothing."""

    def stage_started(self, name: str, total_tasks: int | None = None, total_rows: int | None = None) -> None:
        """Nothing."""

    def task_done(self, name: str, record: Mapping[str, Any]) -> None:
        """Nothing."""

    def stage_finished(self, name: str, summary: Mapping[str, Any]) -> None:
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

    def add(self, record: Mapping[str, Any]) -> None:
        """Count one task."""
        rows = int(record.get("rows") or 0)
        self.tasks += 1
        self.rows += rows
        self.note = record.get("note", "")
        if record.get("skipped"):
            self.tasks_skipped += 1
            self.rows_skipped += rows

    def finish(self, summary: Mapping[str, Any], now: float) -> None:
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


def _whole_seconds(seconds: float) -> str:
    """As `format_seconds`, for a figure that changes all the time: finer digits would only flicker."""
    return f"{seconds:.0f} s" if seconds < 59.5 else format_seconds(seconds)


def format_rate(rate: float | None, unit: str = "rows/s") -> str:
    """``12,345 rows/s``; nothing when not known."""
    if rate is None:
        return ""
    return f"{rate:,.0f} {unit}" if rate >= 10 else f"{rate:.2g} {unit}"


class _Stages(_Base):
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

    def task_done(self, name: str, record: Mapping[str, Any]) -> None:
        """Count a task; a stage nobody announced begins here."""
        if name not in self.stages:
            self.stage_started(name)
        self.stages[name].add(record)
        if "left" in record:
            self.stages[name].until = self._clock() + record["left"]
        self._show_task(self.stages[name])

    def stage_finished(self, name: str, summary: Mapping[str, Any]) -> None:
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


class LogProgress(_Stages):
    """Plain lines: start and end of each stage, and between them at most one per ``every`` seconds."""

    def __init__(self, stream: IO[str] | None = None, every: float = 5.0, clock: Clock = time.monotonic) -> None:
        super().__init__(clock)
        self._stream = sys.stderr if stream is None else stream
        self._every = every
        self._last: dict[str, float] = {}
        self._broken = False

    def message(self, text: str) -> None:
        """Write one line, with the time of day."""
        if self._broken:
            return
        try:
            print(time.strftime("%H:%M:%S"), printable(text), file=self._stream, flush=True)
        except BrokenPipeError:
            self._broken = True  # nobody listens any more: the work goes on

    def _show_start(self, stage: StageState) -> None:
        self._last[stage.name] = self._clock()
        totals = [
            f"{total:,} {unit if total != 1 else unit[:-1]}"
            for total, unit in ((stage.total_tasks, "tasks"), (stage.total_rows, "rows"))
            if total is not None
        ]
        self.message(f"{stage.name}: started" + (f", {', '.join(totals)}" if totals else ""))

    def _show_task(self, stage: StageState) -> None:
        now, first = self._clock(), stage.tasks == 1 and stage.until is not None
        if now - self._last[stage.name] < self._every and not first:
            return  # what is known of a long search is said as soon as it is
        self._last[stage.name] = now
        left = stage.seconds_left(now)
        parts = [stage.counts(), format_rate(stage.rate(now))]
        parts.append("" if left is None else f"{format_seconds(left)} left")
        parts.append(stage.note)
        self.message(f"{stage.name}: " + ", ".join(part for part in parts if part))

    def _show_end(self, stage: StageState) -> None:
        now = self._clock()
        parts = [stage.counts(), format_rate(stage.rate(now)), format_seconds(stage.elapsed(now))]
        self.message(f"{stage.name}: done, " + ", ".join(part for part in parts if part))


class TerminalProgress(_Stages):
    """A bar per stage that stays when the stage is done, with rows per second and the time left."""

    def __init__(self, stream: IO[str] | None = None, clock: Clock = time.monotonic) -> None:
        super().__init__(clock)
        self._console = Console(file=sys.stderr if stream is None else stream, highlight=False)
        self._live: Live | None = None

    def message(self, text: str) -> None:
        """Print one line above the bars."""
        self._console.print(Text(printable(text)), soft_wrap=True)

    def close(self) -> None:
        """Leave the bars as they are and give the terminal back."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _show_start(self, stage: StageState) -> None:  # noqa: ARG002
        if self._live is None:
            self._live = Live(console=self._console, get_renderable=self.screen, refresh_per_second=5)
            self._live.start()

    def _show_task(self, stage: StageState) -> None:
        pass  # the display refreshes itself

    def _show_end(self, stage: StageState) -> None:  # noqa: ARG002
        if self._live is not None:
            self._live.refresh()

    def screen(self) -> Group:
        """The bars, and how the stages that are not done stand."""
        notes = [Text(stage.note) for stage in list(self.stages.values()) if stage.note and stage.seconds is None]
        return Group(self.render(), *notes)

    def render(self) -> Table:
        """The bars as they stand."""
        now, wide = self._clock(), self._console.width >= 100
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(no_wrap=True)
        grid.add_column(width=24 if wide else 12)
        for _ in range(3):
            grid.add_column(no_wrap=True, justify="right")
        for stage in list(self.stages.values()):
            done, fraction, left = stage.seconds is not None, stage.fraction, stage.seconds_left(now)
            bar = ProgressBar(
                total=None if fraction is None else 1.0,
                completed=fraction or 0.0,
                pulse=fraction is None,
                animation_time=now,
            )
            if done:
                timing = format_seconds(stage.elapsed(now))
            else:
                timing = _whole_seconds(stage.elapsed(now)) if left is None else f"{_whole_seconds(left)} left"
            grid.add_row(
                Text(stage.name, style="green" if done else "bold"),
                bar,
                Text(stage.counts(short=not wide)),
                Text(format_rate(stage.rate(now)), style="cyan"),
                Text(timing, style="" if done else "yellow"),
            )
        return grid


def choose_progress(quiet: bool = False, stream: IO[str] | None = None) -> Events:
    """Bars on a terminal, log lines elsewhere, nothing when ``quiet``; on ``stream``, by default stderr."""
    if quiet:
        return QuietProgress()
    target = sys.stderr if stream is None else stream
    if target.isatty() and os.environ.get("TERM") not in ("dumb", "unknown"):
        return TerminalProgress(target)
    return LogProgress(target)


def print_result(metrics: Mapping[str, Any], stream: IO[str] | None = None) -> None:
    """Print the stages and the learners of a ``metrics.json`` as tables, by default on stdout."""
    target = sys.stdout if stream is None else stream
    # A pipe has no width: nothing is cut there.
    width = None if target.isatty() else 120
    console = Console(file=target, highlight=False, width=width)

    stages = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    stages.add_column("stage", no_wrap=True)
    for title in ("seconds", "rows", "rows/s", "tasks", "done before"):
        stages.add_column(title, justify="right", no_wrap=True)
    for stage in metrics.get("stages", []):
        stages.add_row(
            Text(printable(stage["name"])),
            _number(stage.get("seconds"), ".2f"),
            _number(stage.get("rows"), ",.0f"),
            _number(stage.get("rows_per_second"), ",.0f"),
            _number(stage.get("tasks"), ",.0f"),
            _number(stage.get("tasks_skipped") or None, ",.0f"),
        )

    learners = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    learners.add_column("learner", no_wrap=True)
    figure = task_of(metrics).figure
    for title in (figure.key, "train s", "predict s"):
        learners.add_column(title, justify="right", no_wrap=True)
    for name, figures in metrics.get("learners", {}).items():
        learners.add_row(
            Text(printable(name)),
            _number(figures.get(figure.key), ".4f"),
            _number(figures.get("train_seconds"), ".2f"),
            _number(figures.get("predict_seconds"), ".2f"),
        )

    for table in (stages, learners):
        if table.row_count:
            console.print(table)
    if learners.row_count and (said := _of_which_rows(metrics, figure)):
        console.print(Text(f"{figure.key}: {said}"), soft_wrap=True)
    if times := _of_which_seconds(metrics.get("run", {})):
        console.print(Text(f"time: {times}"), soft_wrap=True)


def _of_which_seconds(run: Mapping[str, Any]) -> str:
    """Where the time of the clock on the wall went; empty where that is not known."""
    if "wall_seconds" not in run:
        return ""
    compiling = run.get("compile_seconds", 0.0)
    parts = [
        ("starting", run["start_seconds"]),
        ("compiling, once per installation", compiling),
        ("work", run["seconds"] - compiling),
        ("stopping", run["stop_seconds"]),
    ]
    shown = ", ".join(f"{what} {format_seconds(seconds)}" for what, seconds in parts if seconds)
    return f"{format_seconds(run['wall_seconds'])}: {shown}"


def _of_which_rows(metrics: Mapping[str, Any], figure: Figure) -> str:
    """What the task's figure is, and of which rows; empty where that is not known."""
    from pipeline.report.words import words_for_test_rows

    data, online = metrics.get("data", {}), metrics.get("online")
    if online:
        return figure.of_stream
    which = words_for_test_rows(data)
    return figure.of_test.format(rows=f"{data['rows_test']:,}", which=which) if which else ""


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
