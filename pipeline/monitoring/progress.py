"""Progress as bars on a terminal, and the choice between bars and lines. All of it goes to stderr."""

from __future__ import annotations

import os
import sys
import time
from typing import IO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from pipeline.monitoring.events import (
    Clock,
    Events,
    QuietProgress,
    Stages,
    StageState,
    format_rate,
    format_seconds,
    whole_seconds,
)
from pipeline.monitoring.plain_text import printable
from pipeline.monitoring.progress_log import LogProgress


class TerminalProgress(Stages):
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
        """Return the bars, and the notes of the stages that are not done."""
        notes = [Text(stage.note) for stage in list(self.stages.values()) if stage.note and stage.seconds is None]
        return Group(self.render(), *notes)

    def render(self) -> Table:
        """Return the bars as they are now."""
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
                timing = whole_seconds(stage.elapsed(now)) if left is None else f"{whole_seconds(left)} left"
            grid.add_row(
                Text(stage.name, style="green" if done else "bold"),
                bar,
                Text(stage.counts(short=not wide)),
                Text(format_rate(stage.rate(now)), style="cyan"),
                Text(timing, style="" if done else "yellow"),
            )
        return grid


def choose_progress(quiet: bool = False, stream: IO[str] | None = None) -> Events:
    """Return bars for a terminal, log lines elsewhere, nothing if ``quiet``; on ``stream``, by default stderr."""
    if quiet:
        return QuietProgress()
    target = sys.stderr if stream is None else stream
    if target.isatty() and os.environ.get("TERM") not in ("dumb", "unknown"):
        return TerminalProgress(target)
    return LogProgress(target)
