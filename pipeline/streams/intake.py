"""Intake: store the rows of a source without an end as they arrive, at most a few chunks ahead of the learners."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from threading import Condition, Thread
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from ikmap.rows import Rows
from ikmap.tasks import BadLabel, LearningTask, plain_label
from pipeline.errors import InputError
from pipeline.readers.base import other_columns
from pipeline.readers.feed import Arrival, Feed
from pipeline.rows.prepared import STREAM_DATA, Preparation, PreparedRows
from pipeline.rows.stream_data import chunk_name
from pipeline.running.side_by_side import stop_when_told
from pipeline.running.stage import Record
from pipeline.stages.ingest import store_block
from pipeline.stages.shuffle import chunk_rows_of
from pipeline.storage.store import Store

AHEAD = 8
"""Chunks that are taken in before the slowest learner needs them; then the source is not read."""
LOOK_SECONDS = 0.5


def initial_name(k: int) -> str:
    """Where part k of the initial rows stands in the store."""
    return f"stream/initial/{k:06d}"


class Intake:
    """Rows of an unbounded source on their way into the store; of the stream, in a thread. A context manager.

    A chunk is whole blocks, as many as have come when the learners need one, and at most `chunk_rows`: how rows are
    cut into chunks depends on time, how they are cut into blocks does not. Only the last block may be short.

    Parameters
    ----------
    store : Store
    feed : Feed
    block_rows : int
    kind : type of LearningTask
    say : callable
        Told, in one line, what the user should know.

    Attributes
    ----------
    chunks, rows, nnz : int
        Of the stream, in the store so far.
    ended : bool
        No more will come.
    promised : int
        Chunks of which records speak already.
    """

    def __init__(
        self, store: Store, feed: Feed, block_rows: int, kind: type[LearningTask], say: Callable[[str], None]
    ) -> None:
        self.store, self.feed, self.block_rows, self.kind = store, feed, block_rows, kind
        self.chunks = self.rows = self.nnz = self.promised = 0
        self.ended = False
        self._say = say
        self._items: Iterator[Arrival | None] | None = None
        self._exhausted = False
        self._waiting: deque[Arrival] = deque()
        self._n_waiting = 0
        self._chunk_rows = block_rows
        self._changed = Condition()
        self._replayed: deque[str] = deque()
        self._n_replayed, self._first_replayed = 0, 1
        self._learned, self._stopping = -1, False
        self._error: BaseException | None = None
        self._thread: Thread | None = None

    # --- the initial rows

    def initial(self, n: int, part_rows: Callable[[int], int], told: Callable[[int], None]) -> list[Record]:
        """Take in the first n rows, in parts; return what is known of each.

        Parameters
        ----------
        part_rows : callable
            Rows of a part, by the number of columns.
        told : callable
            Called with the number of rows, as they come.

        Raises
        ------
        InputError
            There are not as many, or something is wrong with them.
        """
        self._items = self.feed.arrivals({})
        parts: list[Record] = []
        left = size = n
        while left:
            while self._n_waiting < size and not self._exhausted:
                stop_when_told()
                told(self._next())
                if self._n_waiting:
                    size = min(left, part_rows(int(self._waiting[0].X.shape[1])))
            if self._n_waiting < size:
                found = n - left + self._n_waiting
                raise InputError(f"{self.feed.url}: found {found} rows, expected more than --initial {n}")
            parts.append(self._store(initial_name(len(parts)), self._take(size), {}))
            left -= size
            size = min(left, size)
        return parts

    # --- the stream

    @property
    def chunk_rows(self) -> int:
        """The most rows that a chunk may have; known when the initial rows are there."""
        return chunk_rows_of(self.block_rows, PreparedRows(self.store, "train").row_bytes)

    def start(self) -> None:
        """Begin to take in the stream, after the chunks that are there."""
        self._chunk_rows = self.chunk_rows
        self.chunks = self.rows = self.nnz = 0
        self.ended, self._stopping, self._error = False, False, None
        initial = {part["name"] for part in self.store.need(STREAM_DATA)["sides"]["train"]["parts"]}
        taken: dict[str, int] = {}
        stored: list[str] = []
        for name in self._names():
            if name not in initial and self.chunks >= self.promised:
                if not self.store.is_whole(name):
                    self._drop(self.chunks)
                    break
                self.store.keep(name)
            attributes = self.store.need(name)
            for origin, rows in attributes["from"]:
                taken[origin] = taken.get(origin, 0) + rows
            if "first" in attributes:
                self._count(attributes["part"])
            stored.append(name)
        if self.rows % self.block_rows:  # a short block is the last one
            self.ended = True
            return
        again = self._items is None
        if again:
            self._items = self.feed.arrivals(taken)
        if again and self.feed.replays:
            self._replayed, self._n_replayed = deque(stored), sum(taken.values())
        self._thread = Thread(target=self._work, name="intake", daemon=True)
        self._thread.start()

    def _drop(self, chunk: int) -> None:
        """Remove this chunk and those after it; their rows are taken in again, perhaps in other chunks."""
        while Path(self.store.path, chunk_name(chunk)).exists():
            self.store.delete(chunk_name(chunk))
            chunk += 1

    def _names(self) -> Iterator[str]:
        """Names of the parts, in order of arrival: those of the initial rows, then as many chunks as there may be."""
        attributes = self.store.need(STREAM_DATA)
        yield from (part["name"] for part in attributes["sides"]["train"]["parts"])
        k = 0
        while True:
            yield chunk_name(k)
            k += 1

    def learned(self, chunks: int) -> None:
        """Note how many chunks the slowest learner has done."""
        with self._changed:
            self._learned = chunks
            self._changed.notify_all()

    def check(self) -> None:
        """Raise what went wrong."""
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        try:
            preparation = PreparedRows(self.store, "train").preparation
            if self._replay():
                while not self._stopping and not self._exhausted:
                    self._next()
                    while self._n_waiting >= (self.block_rows if self._hungry() else self._chunk_rows):
                        whole = self._n_waiting // self.block_rows * self.block_rows
                        self._append(min(whole, self._chunk_rows), preparation)
                        if not self._room():
                            return
                if self._stopping:
                    return
                if self._n_waiting:
                    self._append(self._n_waiting, preparation)
            self.ended = True
        except BaseException as error:
            self._error = error

    def _hungry(self) -> bool:
        """Whether all learners wait for rows."""
        return self._learned >= self.chunks

    def _room(self) -> bool:
        """Wait until a learner needs more rows; return False if no more are wanted."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self.chunks - max(0, self._learned) < AHEAD)
        return not self._stopping

    def _replay(self) -> bool:
        """Compare the first rows of the source with those in the store, which must be equal; whether more may come."""
        while self._replayed:
            name, first, n = self._replayed[0], self._first_replayed, self._n_replayed
            attributes = self.store.need(name)
            rows = int(attributes["part"]["rows"])
            while self._n_waiting < rows and not self._exhausted and not self._stopping:
                self._next()
            if self._stopping:
                return False
            found = first - 1 + self._n_waiting
            if self._n_waiting < rows and found == 0:
                self._say(f"{self.feed.url}: nothing came; the stream ends with what was taken in before")
                return False
            if self._n_waiting < rows:
                raise InputError(f"{self.feed.url}: found {found} rows, expected the {n} taken in before, and more")
            if not self._same(name, self._take(rows)):
                raise InputError(
                    f"{self.feed.url}: rows {first} to {first + rows - 1} are not those taken in before; give the same "
                    "rows from the first on, or --fresh"
                )
            self._replayed.popleft()
            self._first_replayed += rows
        return True

    def _same(self, name: str, rows: Sequence[Arrival]) -> bool:
        X, y = joined(rows)
        attributes, arrays = self.store.read_group(name)
        labels, about = self.kind.store(y, X.shape[0])
        found = {"labels": labels, "values": X} if isinstance(X, np.ndarray) else {
            "labels": labels, "values": X.data, "indices": X.indices, "indptr": X.indptr
        }  # fmt: skip
        return (
            dict(about) == attributes["found"]
            and found.keys() == arrays.keys()
            and all(np.array_equal(found[key], arrays[key]) for key in found)
        )

    # --- rows that wait

    def _next(self) -> int:
        """Let the source give more rows, or nothing for the moment; return how many."""
        assert self._items is not None
        try:
            item = next(self._items)
        except StopIteration:
            self._exhausted = True
            return 0
        if item is None:
            return 0
        self._waiting.append(item)
        self._n_waiting += item.rows
        return item.rows

    def _take(self, n: int) -> list[Arrival]:
        """The first n rows that wait."""
        taken: list[Arrival] = []
        self._n_waiting -= n
        while n:
            item = self._waiting.popleft()
            if item.rows > n:
                self._waiting.appendleft(item.part(n, item.rows))
                item = item.part(0, n)
            taken.append(item)
            n -= item.rows
        return taken

    def _append(self, n: int, preparation: Preparation) -> None:
        """Make the next chunk of the first n rows that wait."""
        rows = self._take(n)
        names = preparation.column_names
        if names is not None and self.feed.column_names is not None and list(self.feed.column_names) != names:
            raise InputError(other_columns(rows[0].url, self.feed.column_names, names))
        for arrival in rows:
            check(arrival, preparation)
        self._count(self._store(chunk_name(self.chunks), rows, {"rows": n, "first": self.rows}))

    def _count(self, part: Record) -> None:
        self.rows += part["rows"]
        self.nnz += part["nnz"]
        self.chunks += 1

    def _store(self, name: str, rows: Sequence[Arrival], more: dict[str, Any]) -> Record:
        X, y = joined(rows)
        origins: dict[str, int] = {}
        for arrival in rows:
            origins[arrival.origin] = origins.get(arrival.origin, 0) + arrival.rows
        more = {**more, "from": list(origins.items())}
        part, written = store_block(self.store, name, X, y, rows[0].url, self.kind, partial(place, rows), **more)
        return {**part, "bytes_written": written}


def place(arrivals: Sequence[Arrival], row: int) -> str:
    """Source of a row, and its number there."""
    for arrival in arrivals:
        if row < arrival.rows:
            break
        row -= arrival.rows
    return f"{arrival.url}: row {arrival.first_row + row}"


def joined(arrivals: Sequence[Arrival]) -> tuple[Rows, np.ndarray | None]:
    """Rows and labels of all; sparse rows as wide as their largest index.

    Raises
    ------
    InputError
        Labels are numbers in some rows and text in others.
    """
    for arrival in arrivals[1:]:
        if arrival.y is None or arrivals[0].y is None:
            continue
        if arrival.y.dtype != arrivals[0].y.dtype:
            found, expected = ("text", "numbers") if arrival.y.dtype == object else ("numbers", "text")
            raise InputError(
                f"{arrival.url}: row {arrival.first_row}: found {found} as labels, expected {expected} as in the rows "
                "before"
            )
    labels = [arrival.y for arrival in arrivals if arrival.y is not None]
    # The columns of all rows are the same: either all have a label or none has.
    y = np.concatenate(labels) if labels else None
    parts: list[Any] = [arrival.X for arrival in arrivals]
    if isinstance(parts[0], np.ndarray):
        return (parts[0] if len(parts) == 1 else np.concatenate(parts)), y
    shape = max(_width(X) for X in parts)
    parts = [sp.csr_array((X.data, X.indices, X.indptr), shape=(X.shape[0], shape)) for X in parts]
    return (parts[0] if len(parts) == 1 else sp.csr_array(sp.vstack(parts, format="csr"))), y


def _width(X: Any) -> int:
    return int(X.indices.max(initial=-1)) + 1


def check(arrival: Arrival, preparation: Preparation) -> None:
    """Refuse rows that do not suit the initial rows.

    Raises
    ------
    InputError
        Naming the first row with an unknown label, or an index that is too large.
    """
    X: Any = arrival.X
    if not isinstance(X, np.ndarray) and _width(X) > preparation.n_columns:
        at = int(np.flatnonzero(X.indices >= preparation.n_columns)[0])
        row = int(np.searchsorted(X.indptr, at, side="right")) - 1
        raise InputError(
            f"{arrival.url}: row {arrival.first_row + row}: found index {X.indices[at] + 1}, expected at most "
            f"{preparation.n_columns}, the largest of the initial rows; give --columns"
        )
    task = preparation.task
    if not task.needs_labels or arrival.y is None:
        return
    try:
        unknown = task.unknown(task.encode(arrival.y, arrival.rows))
    except BadLabel as error:
        raise InputError(f"{place([arrival], error.row)}: {error}") from None
    if unknown.any():
        row = int(np.argmax(unknown))
        raise InputError(
            f"{arrival.url}: row {arrival.first_row + row}: found label {plain_label(arrival.y[row])!r}, expected one "
            f"of the initial rows: {task.known}"
        )
