"""Alerts of a stream: a JSON line for each row that a learner alerts of, while the stream runs, each exactly once.

The records of finished chunks list the rows. Lines go out in the order of the rows, and for one row in the order of the
learners: a line waits until all learners have come as far. So lines come in the same order however rows are put
together to chunks and whenever a run was killed. On resuming, the lines that are in the file are passed over, a torn
line at its end is cut off, and the missing lines follow.
"""

from __future__ import annotations

import json
import os
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

import numpy as np

from ikmap.json_values import JsonObject, MutableJsonObject
from ikmap.tasks.capabilities import AlertsRows, capability
from pipeline.errors import Damaged, InputError, writing
from pipeline.record_types import Alert, LearnRecord
from pipeline.storage.durable import read_json, write_json
from pipeline.storage.rundir import RunDirectory
from pipeline.streams.participant import Participant, Standing, StreamBlock

STANDARD_OUTPUT = "-"
OWN_FILE = "alerts.jsonl"
"""File in the run directory with the lines that have gone to standard output."""
MARK = "alerts.json"
"""File in the run directory that names the file of its alerts."""


class AlertedRows(Participant):
    """The rows of a chunk that a learner alerts of."""

    def begin_chunk(self, standing: Standing, k: int) -> None:
        self._ids = standing.stream.ids(k)
        self._alerts: list[Alert] = []

    def rows_predicted(self, standing: Standing, block: StreamBlock) -> None:
        alerting = capability(standing.task, AlertsRows)
        if alerting is None or block.decision is None:
            return
        alerted = np.flatnonzero(alerting.alerted(block.decision)).tolist()
        # The threshold is that by which the decisions were made: the learner has not learned from the rows yet.
        threshold, number = getattr(standing.learner, "threshold", None), block.first // standing.stream.block_rows
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        for k in alerted:
            row, score = block.numbers[k].item(), float(block.decision[k, 0])
            alert = block.first + k, row, score, threshold, number, now
            self._alerts.append(alert if self._ids is None else (*alert, self._ids[block.at.start + k]))

    def end_chunk(self) -> LearnRecord:
        return {"alerts": self._alerts}


class Alerts:
    """The file of alerts of a run. A context manager.

    Parameters
    ----------
    run : RunDirectory
    path : str
        A file, or "-" for standard output.
    learners : sequence of str
    warm_up : int
        Number of rows at the beginning of the stream for which no alert goes out.

    Raises
    ------
    InputError
        The file holds something that is not of this run.
    """

    def __init__(self, run: RunDirectory, path: str, learners: Sequence[str], warm_up: int = 0) -> None:
        self.learners, self.warm_up, self.said = list(learners), warm_up, path
        self.sent, self.held_back = dict.fromkeys(learners, 0), dict.fromkeys(learners, 0)
        self.to_output = path == STANDARD_OUTPUT
        self.path = (run.path / OWN_FILE if self.to_output else Path(path).expanduser()).resolve()
        self._waiting: dict[str, deque[Alert]] = {name: deque() for name in learners}
        self._there = self._take_up(run.path / MARK)
        self._line = 0
        self._file = self.path.open("ab")

    def _take_up(self, mark: Path) -> deque[tuple[str, int | str]]:
        """Return learner and row of each complete line of the file; a torn line at its end is cut off."""
        text = self.path.read_bytes() if self.path.exists() else b""
        try:
            is_ours = mark.exists() and self._is_ours(mark)
        except Damaged as damaged:
            is_ours = False
            if text:
                raise InputError(
                    f"{damaged}, which says that {self.path} is of this run; move that file away, and give the same "
                    "command again: all alerts are written anew"
                ) from None
        if text and not is_ours:
            raise InputError(f"--alerts {self.said}: found a file that is not empty, expected a new one for a new run")
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            n_complete = text.rfind(b"\n") + 1
            if n_complete < len(text):
                os.truncate(self.path, n_complete)
            self.path.touch()
            write_json(mark, {"file": str(self.path)})
        lines: deque[tuple[str, int | str]] = deque()
        for number, line in enumerate(text[:n_complete].splitlines(), 1):
            try:
                line_values = json.loads(line)
                lines.append((line_values["learner"], line_values["row"]))
            except (ValueError, TypeError, KeyError):
                raise InputError(f"{self.path}: line {number} is no alert; move the file away, and resume") from None
        return lines

    def _is_ours(self, mark: Path) -> bool:
        """Return whether a mark names the file; that in the run directory goes with it, wherever it is moved."""
        named = Path(read_json(mark)["file"])
        return named.name == OWN_FILE if self.to_output else named.resolve() == self.path

    def note(self, learner: str, alerts: Iterable[Alert]) -> None:
        """Take in the alerts of a learner's next chunk; they wait for the other learners."""
        self._waiting[learner].extend(alerts)

    def send(self, rows: int) -> None:
        """Let the alerts of the first `rows` rows of the stream go out."""
        ready = [
            (alert, number, name)
            for number, name in enumerate(self.learners)
            for alert in self._ready(self._waiting[name], rows)
        ]
        lines = []
        for alert, _, name in sorted(ready, key=lambda entry: (entry[0][0], entry[1])):
            if alert[0] < self.warm_up:
                self.held_back[name] += 1
                continue
            self.sent[name] += 1
            self._line += 1
            if self._there:
                self._pass_over(name, alert[1])
            else:
                lines.append(line_of(name, alert))
        if lines:
            text = b"".join(lines)
            if self.to_output:  # first: after a kill, some may come twice, but none is lost
                sys.stdout.flush()
                sys.stdout.buffer.write(text)
                sys.stdout.buffer.flush()
            with writing(self.path):
                self._file.write(text)
                self._file.flush()

    @staticmethod
    def _ready(waiting: deque[Alert], rows: int) -> list[Alert]:
        taken = []
        while waiting and waiting[0][0] < rows:
            taken.append(waiting.popleft())
        return taken

    def _pass_over(self, name: str, row: int | str) -> None:
        there = self._there.popleft()
        if there != (name, row):
            found = f"row {there[1]} by {there[0]}"
            raise InputError(
                f"{self.path}: line {self._line} is of {found}, expected row {row} by {name}; move the file away, and "
                "resume"
            )

    def about(self) -> JsonObject:
        """Return the entry ``alerts`` of ``metrics.json``."""
        return {"file": self.said, "sent": self.sent, "held_back": self.held_back}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def line_of(learner: str, alert: Alert) -> bytes:
    """Return an alert as a line of JSON."""
    _, row, score, threshold, block, when, *ids = alert
    line_values: MutableJsonObject = {"row": row, "learner": learner, "score": score}
    line_values |= {"threshold": threshold, "block": block, "time": when}
    if ids:
        line_values["id"] = ids[0]
    return json.dumps(line_values).encode() + b"\n"
