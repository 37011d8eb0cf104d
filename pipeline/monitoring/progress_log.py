"""Progress as lines of a log."""

from __future__ import annotations

import sys
import time
from typing import IO

from pipeline.monitoring.events import Clock, Stages, StageState, format_rate, format_seconds
from pipeline.monitoring.plain_text import printable


class LogProgress(Stages):
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
            self._broken = True  # the reader has gone: the work goes on

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
            return  # only the first note of a long search is shown at once
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
