"""Labels that come after their rows: lines ``ROW,LABEL`` that are added to a file as they become known.

A row is predicted when it comes, and learned from when its label comes. Labels are taken in the order of the file,
none before its row: at a row that has not come yet reading waits, unless it is further ahead than rows may wait. Only
for the labels of the initial rows it goes on, and then begins again at the first label of another row. The labels that
were taken with a chunk are stored with the chunk, and with them how far the file was read: so a run that is resumed
learns the same labels at the same places. Of the rows that may have a label, only those that got one are kept in mind,
and no more than `limit`.
"""

from __future__ import annotations

import os
import re
import time
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ikmap.json_values import JsonObject
from ikmap.tasks import BadLabel, Task
from pipeline.errors import InputError
from pipeline.record_types import LabelsResult, LateState
from pipeline.rows.parts import LATE
from pipeline.running.side_by_side import stop_on_request

LABEL_LIMIT = 100_000
IDLE_SECONDS = 60.0
"""Seconds that the initial rows wait for another label."""
TICK_SECONDS = 0.05
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')


@dataclass
class Counts:
    """Counts of labels.

    Attributes
    ----------
    learned : int
    again : int
        Labels of rows that had one already; the first counts.
    expired : int
        Labels of rows that came longer ago than rows wait.
    unknown : int
        Labels of rows that never came.
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
        Places of the rows in the stream, after the initial rows, from 0.
    before : ndarray of int64
        Ascending: the block of the chunk before which each label is learned; the number of blocks: after the last.
    labels : ndarray
        Labels as they were read: float64, or object of str.
    lines : ndarray of int64
        Lines of the file, from 1.
    """

    places: np.ndarray
    before: np.ndarray
    labels: np.ndarray
    lines: np.ndarray


class LabelFile:
    """The file of labels, and the rows that have a label.

    Parameters
    ----------
    path : str
    n_initial : int
        Number of rows that wait for all their labels before anything is learned.
    limit : int
        Number of the last rows that wait for their labels.
    say : callable
        Function that shows one line to the user.
    """

    def __init__(self, path: str, n_initial: int, limit: int, say: Callable[[str], None]) -> None:
        self.url, self.limit, self.counts = path, limit, Counts()
        self.idle_seconds = IDLE_SECONDS
        self._path, self._say = Path(path).expanduser(), say
        self._offset, self._line = 0, 0
        self._n_initial = n_initial
        # Labels of initial rows may stand behind labels of later rows. From the first of the latter on the file is then
        # read once more, and labels of initial rows that stand before `_initial_end` are passed over.
        self._later: tuple[int, int] | None = None
        self._initial_end = 0
        self._ahead: dict[int, tuple[str, int]] = {}
        self._have: set[int] = set()
        self._text: bool | None = None
        self._unquotes = True

    # --- reading

    def _pairs(self, *, last: bool = False) -> Iterator[tuple[int, str, int]]:
        """Yield row, label and line number of each line that was not taken; going on takes the line.

        A line without an end may not be all there yet: it is left for later, unless it is the `last` and reads as one.
        """
        try:
            stream = self._path.open("rb")
        except FileNotFoundError:
            if self._offset:
                raise self._changed("no file any more") from None
            return
        except OSError as error:
            raise InputError(f"--labels-input {self.url}: cannot be read: {error.strerror}") from error
        with stream:
            if (size := stream.seek(0, os.SEEK_END)) < self._offset:
                raise self._changed(f"{size:,} bytes")
            stream.seek(self._offset)
            for line in stream:
                ended = line.endswith(b"\n")
                if not ended and not last:
                    return
                try:
                    pair = self._parse(line, self._line + 1)
                except InputError:
                    if ended:
                        raise
                    return
                if pair is not None:
                    yield *pair, self._line + 1
                self._offset, self._line = self._offset + len(line), self._line + ended

    def _changed(self, found: str) -> InputError:
        return InputError(
            f"--labels-input {self.url}: found {found}, expected the {self._offset:,} bytes that were read and "
            "perhaps more; only add lines to the file: put back what was there, and give the same command again"
        )

    def _parse(self, line: bytes, number: int) -> tuple[int, str] | None:
        if number == 1:
            line = line.removeprefix(BOM_UTF8)
        text = line.decode("utf-8", errors="replace").strip()
        if not text:
            return None
        word, comma, rest = text.partition(",")
        row, label = (_unquoted(cell) if self._unquotes else cell.strip() for cell in (word, rest))
        if not comma or not row.isdecimal() or not label:
            if number == 1 and comma and not row[:1].isdecimal():
                return None  # a header
            raise InputError(
                f"{self.url}: line {number}: found {text[:60]!r}, expected ROW,LABEL, such as 17,1: the number of "
                "a row as it came, from 0, and its label"
            )
        return int(row), label

    def _as_read(self, labels: Sequence[str], lines: Sequence[int]) -> np.ndarray:
        """Return labels as readers return them: numbers if the first labels were numbers, else text."""
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
        """Wait for the labels of the initial rows ``first .. first + n - 1``, and return them.

        Raises
        ------
        InputError
            No label came for a while.
        """
        rows, labels_by_row = range(first, first + n), self._ahead
        missing = {row for row in rows if row not in labels_by_row}
        since, has_said = time.monotonic(), False
        while True:
            before, is_idle = len(labels_by_row), time.monotonic() - since > self.idle_seconds
            for row, label, line in self._pairs(last=is_idle):
                if row >= self._n_initial:
                    if not missing:
                        break
                    self._later = self._later or (self._offset, self._line)
                elif row < first or row in labels_by_row:
                    self.counts.again += 1
                else:
                    labels_by_row[row] = (label, line)
                    missing.discard(row)
            if not missing:
                break
            if len(labels_by_row) > before:
                since = time.monotonic()
            elif is_idle:
                raise InputError(
                    f"--labels-input {self.url}: found no label of row {min(missing)} in {self.idle_seconds:g} "
                    "seconds, expected one for each of the --initial rows; add it to the file, and give the same "
                    "command again"
                )
            if not has_said:
                self._say(f"{self.url}: waiting for labels of the initial rows, such as that of row {min(missing)}")
                has_said = True
            stop_on_request()
            time.sleep(TICK_SECONDS)
        if self._later is not None and rows.stop == self._n_initial:
            self._initial_end, (self._offset, self._line) = self._offset, self._later
        self.counts.learned += n
        labels, lines = zip(*(labels_by_row.pop(row) for row in rows), strict=True)
        return self._as_read(labels, lines)

    # --- the stream

    def take(self, first: int, n: int, block_rows: int, *, last: bool = False) -> Batch:
        """Return the labels that have come, as the rows ``first .. first + n - 1`` of the stream are taken in.

        Parameters
        ----------
        last : bool
            Whether no more rows will come.
        """
        end = self._n_initial + first + n
        places: list[int] = []
        before: list[int] = []
        labels: list[str] = []
        lines: list[int] = []
        for row, label, line in self._pairs(last=last):
            if row < self._n_initial and self._offset < self._initial_end:
                continue  # the initial rows have taken it
            if row >= end:
                if not last and row < end + self.limit:
                    break
                self.counts.unknown += 1
            elif self._n_initial <= row < min(end - self.limit, self._n_initial + first):
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
        # In the order of the file: those behind a label that waits for its row wait too, however rows are cut.
        waits = np.maximum.accumulate(np.array(before, dtype=np.int64))
        return Batch(
            np.array(places, dtype=np.int64), waits, self._as_read(labels, lines), np.array(lines, dtype=np.int64)
        )

    def _forget(self, end: int) -> None:
        if len(self._have) > 2 * self.limit:
            self._have = {row for row in self._have if row >= end - self.limit}

    # --- the state

    def as_json(self) -> LateState:
        """Return how far the file was read, and the counts."""
        counts = asdict(self.counts)
        state: LateState = {"offset": self._offset, "line": self._line, "text": self._text, "counts": counts}
        state["unquoted"] = self._unquotes
        if self._offset < self._initial_end:
            state["initial_end"] = self._initial_end
        return state

    def go_on(self, kept: LateState, places: Iterable[np.ndarray]) -> None:
        """Restore a state of :meth:`as_json`, with the places of those of the last `limit` rows that have a label."""
        self._offset, self._line, self._text = kept["offset"], kept["line"], kept["text"]
        self._initial_end = kept.get("initial_end", 0)
        self._unquotes = kept.get("unquoted", False)  # the labels of a run of an earlier version have their quotes
        self.counts = Counts(**kept["counts"])
        self._have = {self._n_initial + place for chunk_places in places for place in chunk_places.tolist()}

    def about(self, rows: int) -> LabelsResult:
        """Return the entry ``labels`` of ``metrics.json`` for a stream of `rows` rows."""
        learned = self.counts.learned - self._n_initial
        counts = {**asdict(self.counts), "learned": learned, "without": rows - learned}
        return {"labels": {"file": self.url, "limit": self.limit, **counts}}


def stored(batch: Batch, task: Task, url: str) -> tuple[dict[str, np.ndarray], JsonObject]:
    """Return the arrays and attributes of a batch, as the store has them with a chunk.

    Raises
    ------
    InputError
        The task does not know a label.
    """
    try:
        targets = task.codec.encode(batch.labels, batch.labels.size) if batch.labels.size else None
        unknown = np.zeros(0, bool) if targets is None else task.codec.unknown(targets)
    except BadLabel as error:
        raise InputError(f"{url}: line {batch.lines[error.row]}: {error}") from None
    if unknown.any():
        at = int(np.argmax(unknown))
        label = batch.labels[at]
        shown_label = label if isinstance(label, str) else f"{label:g}"
        expected = task.codec.summary.expected
        raise InputError(
            f"{url}: line {batch.lines[at]}: found label {shown_label}, expected one of the initial rows: {expected}"
        )
    labels, part_labels = task.kind.read(batch.labels, batch.labels.size)
    arrays = {f"{LATE}places": batch.places, f"{LATE}before": batch.before, f"{LATE}labels": labels}
    return arrays, {f"{LATE}found": dict(part_labels)}


def _unquoted(cell: str) -> str:
    """Return a cell of CSV without blanks around it and, if it is quoted, without its quotes."""
    cell = cell.strip()
    quoted = _QUOTED.fullmatch(cell)
    return cell if quoted is None else quoted[1].replace('""', '"').strip()


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
