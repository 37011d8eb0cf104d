"""Alerts of a stream: a JSON line for each row that a learner alerts of, while the stream runs, each exactly once.

The records of finished chunks say which rows these are. From them, lines go out in the order of the rows, and of
several learners in their order for one row: a line waits until all learners have come as far. So lines come in the
same order however rows are put together to chunks and whenever a run was killed. On resuming, the lines that are in
the file are passed over, what is torn at its end is cut off, and those that are missing follow.
"""

from __future__ import annotations

import json
import os
import sys
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import numpy as np

from ikmap.tasks import LearningTask
from pipeline.errors import Damaged, InputError, writing
from pipeline.record_types import Record
from pipeline.storage.durable import read_json, write_json
from pipeline.storage.rundir import RunDirectory

STANDARD_OUTPUT = "-"
OWN_FILE = "alerts.jsonl"
"""In the run directory: what has gone to standard output."""
MARK = "alerts.json"
"""In the run directory: which file the alerts of this run go to."""

type Alert = list[Any]
"""Place in the stream from 0, row id, score above the threshold, threshold or None, block from 0, time."""


def alerts_in(
    task: LearningTask, decision: np.ndarray, first: int, ids: np.ndarray, threshold: float | None, block: int
) -> list[Alert]:
    """The alerts among the rows of a block, which begins at place `first` of the stream.

    Parameters
    ----------
    threshold : float or None
        That of the learner when it made these decisions, where it has one.
    """
    alerted = task.alerted(decision)
    if alerted is None or not alerted.any():
        return []
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return [
        [first + int(k), ids[k].item(), float(decision[k, 0]), threshold, block, now] for k in np.flatnonzero(alerted)
    ]


class Alerts:
    """Writes them. A context manager.

    Parameters
    ----------
    run : RunDirectory
    path : str
        A file, or "-" for standard output.
    learners : sequence of str
    warm_up : int
        No alert goes out of the first rows of the stream, so many.

    Raises
    ------
    InputError
        The file holds something that is not of this run.
    """

    def __init__(self, run: RunDirectory, path: str, learners: Sequence[str], warm_up: int = 0) -> None:
        self.learners, self.warm_up, self.said = list(learners), warm_up, path
        self.sent, self.held_back = dict.fromkeys(learners, 0), dict.fromkeys(learners, 0)
        self.to_output = path == STANDARD_OUTPUT
        self.path = run.path / OWN_FILE if self.to_output else Path(path).expanduser().absolute()
        self._waiting: dict[str, deque[Alert]] = {name: deque() for name in learners}
        self._there = self._take_up(run.path / MARK)
        self._line = 0
        self._file = self.path.open("ab")

    def _take_up(self, mark: Path) -> deque[tuple[str, int | str]]:
        """Learner and row of each whole line of the file; what comes after the last of them is cut off."""
        found = self.path.read_bytes() if self.path.exists() else b""
        try:
            ours = mark.exists() and read_json(mark)["file"] == str(self.path)
        except Damaged as damaged:
            ours = False
            if found:
                raise InputError(
                    f"{damaged}, which says that {self.path} is of this run; move that file away, and give the same "
                    "command again: all alerts are written anew"
                ) from None
        if found and not ours:
            raise InputError(f"--alerts {self.said}: found a file that is not empty, expected a new one for a new run")
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            whole = found.rfind(b"\n") + 1
            if whole < len(found):
                os.truncate(self.path, whole)
            self.path.touch()
            write_json(mark, {"file": str(self.path)})
        there: deque[tuple[str, int | str]] = deque()
        for number, line in enumerate(found[:whole].splitlines(), 1):
            try:
                about = json.loads(line)
                there.append((about["learner"], about["row"]))
            except (ValueError, TypeError, KeyError):
                raise InputError(f"{self.path}: line {number} is no alert; move the file away, and resume") from None
        return there

    def note(self, learner: str, found: Iterable[Alert]) -> None:
        """Take in the alerts of a learner's next chunk; they wait for the other learners."""
        self._waiting[learner].extend(found)

    def send(self, rows: int) -> None:
        """Let the alerts of the first rows of the stream, so many, go out."""
        ready = [
            (alert, number, name)
            for number, name in enumerate(self.learners)
            for alert in self._ready(self._waiting[name], rows)
        ]
        lines = []
        for alert, _, name in sorted(ready, key=lambda one: (one[0][0], one[1])):
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

    def about(self) -> Record:
        """What ``metrics.json`` says of them."""
        return {"file": self.said, "sent": self.sent, "held_back": self.held_back}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def line_of(learner: str, alert: Alert) -> bytes:
    """An alert as a line of JSON."""
    _, row, score, threshold, block, when = alert
    about = {"row": row, "learner": learner, "score": score, "threshold": threshold, "block": block, "time": when}
    return json.dumps(about).encode() + b"\n"
