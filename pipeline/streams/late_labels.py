"""Labels that come after their rows: lines ``ROW,LABEL`` that are added to a file as they become known.

A row is predicted when it comes, and learned from when its label comes. Labels are taken in the order of the file,
none before its row: at a row that has not come yet reading waits, unless it is further ahead than rows may wait. What
was taken with a chunk is stored with the chunk, and with it how far the file was read: so a run that is resumed
learns the same labels at the same places. Of the rows that wait for their label only those that got one are kept in
mind, and no more than `limit`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ikmap.tasks import BadLabel, Task
from pipeline.errors import InputError
from pipeline.record_types import Record
from pipeline.rows.parts import LATE
from pipeline.running.side_by_side import stop_on_request

LABEL_LIMIT = 100_000
IDLE_SECONDS = 60.0
"""So long the initial rows wait for another label."""
TICK_SECONDS = 0.05


@dataclass
class Counts:
    """Labels by what became of them.

    Attributes
    ----------
    learned : int
    again : int
        Of rows that had one already; the first counts.
    expired : int
        Of rows that came longer ago than rows wait.
    unknown : int
        Of rows that never came.
    """

    learned: int = 0
    again: int = 0
    expired: int = 0
    unknown: int = 0


@dataclass(frozen=True, eq=False)
class Batch:
    """Labels that came with a chunk, in the order in which they are learned.

    Attributes
    ----------
    places : ndarray of int64
        In the stream, after the initial rows, from 0.
    before : ndarray of int64
        Ascending: the block of the chunk before which each is learned; the number of blocks: after the last.
    labels : ndarray
        As read: float64, or object of str.
    lines : ndarray of int64
        Of the file, from 1.
    """

    places: np.ndarray
    before: np.ndarray
    labels: np.ndarray
    lines: np.ndarray


class LateLabels:
    """The file of labels, and which rows have theirs.

    Parameters
    ----------
    path : str
    n_initial : int
        Rows that wait for all their labels before anything is learned.
    limit : int
        The last rows that wait for their label, so many.
    say : callable
        Told, in one line, what the user should know.
    """

    def __init__(self, path: str, n_initial: int, limit: int, say: Callable[[str], None]) -> None:
        self.url, self.limit, self.counts = path, limit, Counts()
        self.idle_seconds = IDLE_SECONDS
        self._path, self._say = Path(path).expanduser(), say
        self._offset, self._line = 0, 0
        self._n_initial = n_initial
        self._ahead: dict[int, tuple[str, int]] = {}
        self._have: set[int] = set()
        self._text: bool | None = None

    # --- reading

    def _pairs(self) -> Iterator[tuple[int, str, int]]:
        """Row, label and line of each whole line that is there and was not taken; the next is asked for to take it."""
        try:
            stream = self._path.open("rb")
        except FileNotFoundError:
            return
        except OSError as error:
            raise InputError(f"--labels-input {self.url}: cannot be read: {error.strerror}") from error
        with stream:
            stream.seek(self._offset)
            for line in stream:
                if not line.endswith(b"\n"):
                    return
                number = self._line + 1
                found = self._parse(line, number)
                if found is not None:
                    yield *found, number
                self._offset, self._line = self._offset + len(line), number

    def _parse(self, line: bytes, number: int) -> tuple[int, str] | None:
        text = line.decode("utf-8", errors="replace").strip()
        if not text:
            return None
        word, comma, label = text.partition(",")
        row = word.strip()
        if not comma or not row.isdecimal() or not label.strip():
            if number == 1 and comma and not row[:1].isdecimal():
                return None  # a header
            raise InputError(
                f"{self.url}: line {number}: found {text[:60]!r}, expected ROW,LABEL, such as 17,1: the number of "
                "a row as it came, from 0, and its label"
            )
        return int(row), label.strip()

    def _as_read(self, labels: Sequence[str], lines: Sequence[int]) -> np.ndarray:
        """Labels as readers give them: numbers if the first were, else text."""
        if self._text is None and labels:
            self._text = not all(map(_is_number, labels))
        if self._text:
            return np.array(list(labels), dtype=object)
        for label, line in zip(labels, lines, strict=True):
            if not _is_number(label):
                raise InputError(
                    f"{self.url}: line {line}: found label {label!r}, expected a number as in the lines before"
                )
        return np.array([float(label) for label in labels])

    # --- the initial rows

    def of_initial(self, first: int, n: int) -> np.ndarray:
        """Labels of the initial rows ``first .. first + n - 1``, which are waited for.

        Raises
        ------
        InputError
            No label came for a while.
        """
        rows, found = range(first, first + n), self._ahead
        since, said = time.monotonic(), False
        while True:
            before = len(found)
            for row, label, line in self._pairs():
                if row >= self._n_initial:
                    break
                if row < first or row in found:
                    self.counts.again += 1
                else:
                    found[row] = (label, line)
            if len(found) > before:
                since = time.monotonic()
            missing = next((row for row in rows if row not in found), None)
            if missing is None:
                break
            if time.monotonic() - since > self.idle_seconds:
                raise InputError(
                    f"--labels-input {self.url}: found no label of row {missing} in {self.idle_seconds:g} seconds, "
                    "expected one for each of the --initial rows, before those of other rows"
                )
            if not said:
                self._say(f"{self.url}: waiting for labels of the initial rows, such as that of row {missing}")
                said = True
            stop_on_request()
            time.sleep(TICK_SECONDS)
        self.counts.learned += n
        labels, lines = zip(*(found.pop(row) for row in rows), strict=True)
        return self._as_read(labels, lines)

    # --- the stream

    def take(self, first: int, n: int, block_rows: int, *, last: bool = False) -> Batch:
        """Labels that have come, as the rows ``first .. first + n - 1`` of the stream are taken in.

        Parameters
        ----------
        last : bool
            No more rows will come.
        """
        end = self._n_initial + first + n
        places: list[int] = []
        before: list[int] = []
        labels: list[str] = []
        lines: list[int] = []
        for row, label, line in self._pairs():
            if row >= end:
                if not last and row < end + self.limit:
                    break
                self.counts.unknown += 1
            elif row < end - self.limit and row >= self._n_initial:
                self.counts.expired += 1
            elif row < self._n_initial or row in self._have:
                self.counts.again += 1
            else:
                place = row - self._n_initial
                self._have.add(row)
                self.counts.learned += 1
                places.append(place)
                before.append(0 if place < first else (place - first) // block_rows + 1)
                labels.append(label)
                lines.append(line)
        self._forget(end)
        order = np.argsort(np.array(before, dtype=np.int64), kind="stable")
        return Batch(
            np.array(places, dtype=np.int64)[order],
            np.array(before, dtype=np.int64)[order],
            self._as_read(labels, lines)[order],
            np.array(lines, dtype=np.int64)[order],
        )

    def _forget(self, end: int) -> None:
        if len(self._have) > 2 * self.limit:
            self._have = {row for row in self._have if row >= end - self.limit}

    # --- where it was

    def as_json(self) -> Record:
        """How far the file was read, and what was found."""
        at = {"offset": self._offset, "line": self._line, "text": self._text}
        return {**at, "counts": asdict(self.counts)}

    def go_on(self, kept: Record, places: Sequence[np.ndarray]) -> None:
        """Be as it was when :meth:`as_json` gave this; `places`: those of the labels that each chunk had by then."""
        self._offset, self._line, self._text = kept["offset"], kept["line"], kept["text"]
        self.counts = Counts(**kept["counts"])
        self._have = {self._n_initial + place for one in places for place in one.tolist()}

    def about(self, rows: int) -> Record:
        """What ``metrics.json`` says, of a stream of so many rows."""
        learned = self.counts.learned - self._n_initial
        counts = {**asdict(self.counts), "learned": learned, "without": rows - learned}
        return {"labels": {"file": self.url, "limit": self.limit, **counts}}


def stored(batch: Batch, task: Task, url: str) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Arrays and attributes of a batch, as the store has them with a chunk.

    Raises
    ------
    InputError
        A label is none of the task's.
    """
    try:
        targets = task.codec.encode(batch.labels, batch.labels.size) if batch.labels.size else None
        unknown = np.zeros(0, bool) if targets is None else task.codec.unknown(targets)
    except BadLabel as error:
        raise InputError(f"{url}: line {batch.lines[error.row]}: {error}") from None
    if unknown.any():
        at = int(np.argmax(unknown))
        label = batch.labels[at]
        said = label if isinstance(label, str) else f"{label:g}"
        expected = task.codec.summary.expected
        raise InputError(
            f"{url}: line {batch.lines[at]}: found label {said}, expected one of the initial rows: {expected}"
        )
    labels, found = task.kind.read(batch.labels, batch.labels.size)
    arrays = {f"{LATE}places": batch.places, f"{LATE}before": batch.before, f"{LATE}labels": labels}
    return arrays, {f"{LATE}found": dict(found)}


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
