"""Intake: store the rows of a source without an end as they arrive, at most a few chunks ahead of the learners."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Condition, Thread

import numpy as np

from ikmap.tables.statistics import packed
from ikmap.tasks import TaskKind
from pipeline.errors import InputError
from pipeline.record_types import LabelsResult, PartRecord, Record
from pipeline.rows.encoding import load_encoder
from pipeline.rows.parts import IDS, LATE, arrays_of_part, read_column
from pipeline.rows.preparation import Preparation
from pipeline.rows.prepared import STREAM_DATA, PreparedRows
from pipeline.rows.stream_data import LABELS_AT_END, StreamSupply, chunk_name
from pipeline.running.side_by_side import stop_on_request
from pipeline.sources.columns.checks import other_columns
from pipeline.sources.columns.plan import Plan
from pipeline.sources.columns.raw_rows import RawRows
from pipeline.sources.feeds.feed import Arrival, Feed
from pipeline.stages.read import beside_of, store_block
from pipeline.stages.shuffle import chunk_rows_of
from pipeline.storage.durable import flushed_at_once
from pipeline.storage.store import Store
from pipeline.streams.arrived import check, ids_of, joined, place
from pipeline.streams.label_file import LabelFile, stored

AHEAD = 8
"""Chunks that are taken in before the slowest learner needs them; then the source is not read."""
STOP_SECONDS = 0.25
"""Time between the end of a pipe and its last rows, if they fill no block: Ctrl-C ends it before it stops the run."""
COLUMNS = "stream/columns"
"""Group of the store with the columns of a table that arrives, as they were found with its first rows."""


def initial_name(k: int) -> str:
    """Return the name in the store of part k of the initial rows."""
    return f"stream/initial/{k:06d}"


def entries_of(store: Store) -> int | None:
    """Return the number of features of an encoded row that are not 0, at most; None where they are to be counted."""
    preparation = PreparedRows(store, "train").preparation
    return None if preparation.dense or not preparation.encoded else load_encoder(store).encoder.entries


def _equal(arrived: np.ndarray, stored_array: np.ndarray) -> bool:
    """Return whether two arrays are the same; missing cells are."""
    return np.array_equal(arrived, stored_array, equal_nan=arrived.dtype.kind == "f")


class Intake(StreamSupply):
    """The way of the rows of an unbounded source into the store; a thread takes in the stream. A context manager.

    A chunk is whole blocks, as many as have come when the learners need one, and at most `chunk_rows` rows: how rows
    are cut into chunks depends on time, how they are cut into blocks does not. Only the last block may be short.

    Parameters
    ----------
    store : Store
    feed : Feed
    block_rows : int
    kind : TaskKind
    say : callable
        Function that shows one line to the user.
    late : LabelFile, optional
        Labels that come after their rows; labels that rows bring are ignored then.

    Attributes
    ----------
    promised : int
        Number of chunks that have records already.
    """

    def __init__(
        self,
        store: Store,
        feed: Feed,
        block_rows: int,
        kind: TaskKind,
        say: Callable[[str], None],
        late: LabelFile | None = None,
    ) -> None:
        super().__init__(ended=False)
        self.store, self.feed, self.block_rows, self.kind = store, feed, block_rows, kind
        self.promised = 0
        self._say, self.late = say, late
        self._items: Iterator[Arrival | None] | None = None
        self._exhausted = False
        self._waiting: deque[Arrival] = deque()
        self._n_waiting = self._n_given = 0
        self._chunk_rows = block_rows
        self._entries: int | None = None
        self._changed = Condition()
        self._replayed: deque[str] = deque()
        self._n_replayed, self._first_replayed = 0, 1
        self._learned, self._stopping = -1, False
        self._error: BaseException | None = None
        self._thread: Thread | None = None

    # --- the initial rows

    def initial(self, n: int, part_rows: Callable[[int], int], say_rows: Callable[[int], None]) -> list[PartRecord]:
        """Take in the first n rows, in parts; return the records of the parts.

        Parameters
        ----------
        part_rows : callable
            Function from the number of columns to the rows of a part.
        say_rows : callable
            Function that is called with the number of rows, as they come.

        Raises
        ------
        InputError
            There are fewer rows, or something is wrong with them.
        """
        self._items = self.feed.arrivals({})
        parts: list[PartRecord] = []
        left = size = n
        while left:
            while self._n_waiting < size and not self._exhausted:
                stop_on_request()
                say_rows(self._next())
                if self._n_waiting:
                    size = min(left, part_rows(int(self._waiting[0].X.shape[1])))
            if self._n_waiting < size:
                n_rows = n - left + self._n_waiting
                raise InputError(f"{self.feed.url}: found {n_rows} rows, expected more than --initial {n}")
            late_labels = None if self.late is None else self.late.of_initial(n - left, size)
            attributes: Record = {} if self.late is None else {"late": self.late.as_json()}
            parts.append(self._store(initial_name(len(parts)), self._take(size), attributes, labels=late_labels))
            left -= size
            size = min(left, size)
        return parts

    # --- the stream

    @property
    def chunk_rows(self) -> int:
        """Most rows that a chunk may have; known when the initial rows are there."""
        return chunk_rows_of(self.block_rows, PreparedRows(self.store, "train").row_bytes)

    def start(self) -> None:
        """Begin to take in the stream, after the chunks that are there; also once more, after some were damaged.

        Raises
        ------
        InputError
            Rows of a pipe that were stored are lost: it does not give them again.
        """
        self._chunk_rows, self._entries = self.chunk_rows, entries_of(self.store)
        self.chunks = self.rows = self.nnz = 0
        self.ended, self._stopping, self._error = False, False, None
        initial = {part["name"] for part in self.store.need(STREAM_DATA)["sides"]["train"]["parts"]}
        taken: dict[str, int] = {}
        names: list[str] = []
        for name in self._names():
            if name not in initial and self.chunks >= self.promised:
                if not self.store.is_verified(name) or self._may_go_on(name):
                    self._drop(self.chunks)
                    break
                self.store.keep(name)
            attributes = self.store.need(name)
            for origin, rows in attributes["from"]:
                taken[origin] = taken.get(origin, 0) + rows
            if "first" in attributes:
                self._count(attributes["part"])
            names.append(name)
        if self.late is not None:
            state, of_chunks = self.store.need(names[-1])["late"], names[len(initial) :]
            self.late.go_on(state, self._labelled(of_chunks, self.rows - self.late.limit))
        if self.rows % self.block_rows:  # a short block is the last one
            self._end()
            return
        self.store.delete(LABELS_AT_END)  # as more rows may come
        if self._thread is not None:
            self._begin_again(sum(taken.values()))
        starts_anew = self._items is None
        if starts_anew:
            if (known := self.store.attributes(COLUMNS)) is not None:
                self.feed.known = Plan.from_json(known)
            self._items = self.feed.arrivals(taken)
        if starts_anew and self.feed.replays:
            self._replayed, self._n_replayed = deque(names), sum(taken.values())
        # In a copy of the context, by which Prefect knows whose lines the thread says.
        self._thread = Thread(target=copy_context().run, args=(self._work,), name="intake", daemon=True)
        self._thread.start()

    def _labelled(self, chunks: Sequence[str], first: int) -> Iterator[np.ndarray]:
        """Yield the places of the rows that have a label, from place `first` of the stream on."""
        for name in reversed(chunks):
            about = self.store.need(name)
            if about["first"] + about["rows"] <= first:
                break
            places = read_column(self.store, name, f"{LATE}places")
            assert places is not None
            yield places[places >= first]

    def _begin_again(self, n_stored: int) -> None:
        """Have the source give what it gave to this process and is not stored, if a stored chunk was damaged."""
        if not self.feed.replays:
            self._items, self._exhausted = None, False
            self._waiting.clear()
            self._n_waiting = 0
            return
        # While the first rows are compared, all those of before are still in the store; then all that came are.
        expected = self._n_replayed if self._replayed else self._n_given - self._n_waiting
        if n_stored != expected:
            raise InputError(
                f"{self.feed.url}: rows that were taken in are damaged in the store; give the same command again, with "
                "the same rows from the first on"
            )

    def _may_go_on(self, name: str) -> bool:
        """Return whether a chunk is short, and may be so only because the source was stopped together with the run.

        Ctrl-C stops the program that writes into a pipe too. The pipe gives these rows again, and those behind them.
        """
        return self._items is None and self.feed.replays and self.store.need(name)["rows"] % self.block_rows > 0

    def _drop(self, chunk: int) -> None:
        """Remove a chunk and those after it; their rows are taken in again, perhaps in other chunks."""
        while Path(self.store.path, chunk_name(chunk)).exists():
            self.store.delete(chunk_name(chunk))
            chunk += 1

    def _names(self) -> Iterator[str]:
        """Yield the names of the parts, in order of arrival: of the initial rows, then of chunks without end."""
        attributes = self.store.need(STREAM_DATA)
        yield from (part["name"] for part in attributes["sides"]["train"]["parts"])
        k = 0
        while True:
            yield chunk_name(k)
            k += 1

    def learned(self, chunks: int) -> None:
        with self._changed:
            self._learned = chunks
            self._changed.notify_all()

    def check(self) -> None:
        if self._error is not None:
            raise self._error

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        try:
            # The stage has not promised these chunks: they are on the disk before a learner is given them.
            with flushed_at_once():
                self._take_in()
        except BaseException as error:
            self._error = error

    def _take_in(self) -> None:
        """Store the rows of the source in chunks, until it ends or the run stops."""
        preparation = PreparedRows(self.store, "train").preparation
        if self._replay():
            while not self._stopping and not self._exhausted:
                self._next()
                while self._n_waiting >= (self.block_rows if self._hungry() else self._chunk_rows):
                    n_rows = self._n_waiting // self.block_rows * self.block_rows
                    self._append(min(n_rows, self._chunk_rows), preparation)
                    if not self._room():
                        return
            if self._n_waiting and not self._stops_with_source():
                self._append(self._n_waiting, preparation)
        if not self._stopping:
            self._end()

    def _end(self) -> None:
        """End the stream: take in the labels that are there by now."""
        if self.late is not None and self.store.attributes(LABELS_AT_END) is None:
            task = PreparedRows(self.store, "train").preparation.task
            batch = self.late.take(self.rows, 0, self.block_rows, last=True)
            arrays, attributes = stored(batch, task, self.late.url)
            self.store.write_group(LABELS_AT_END, arrays, {**attributes, "late": self.late.as_json()})
        elif self.late is not None:
            self.late.go_on(self.store.need(LABELS_AT_END)["late"], [])
        self.ended = True

    def about(self) -> LabelsResult:
        return {} if self.late is None else self.late.about(self.rows)

    def _hungry(self) -> bool:
        """Return whether all learners wait for rows."""
        return self._learned >= self.chunks

    def _room(self) -> bool:
        """Wait until a learner needs more rows; return False if no more are wanted."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopping or self.chunks - max(0, self._learned) < AHEAD)
        return not self._stopping

    def _stops_with_source(self) -> bool:
        """Return whether the run is stopping; wait a moment where both are stopped by the same key."""
        with self._changed:
            return self._changed.wait_for(lambda: self._stopping, STOP_SECONDS if self.feed.replays else 0)

    def _replay(self) -> bool:
        """Compare the first rows of the source with those in the store; return whether more may come."""
        while self._replayed:
            name, first, n = self._replayed[0], self._first_replayed, self._n_replayed
            attributes = self.store.need(name)
            rows = int(attributes["part"]["rows"])
            while self._n_waiting < rows and not self._exhausted and not self._stopping:
                self._next()
            if self._stopping:
                return False
            n_found = first - 1 + self._n_waiting
            if self._n_waiting < rows and n_found == 0:
                self._say(f"{self.feed.url}: nothing came; the stream ends with what was taken in before")
                return False
            if self._n_waiting < rows:
                raise InputError(f"{self.feed.url}: found {n_found} rows, expected the {n} taken in before, and more")
            if not self._same(name, self._take(rows)):
                raise InputError(
                    f"{self.feed.url}: rows {first} to {first + rows - 1} are not those taken in before; give the same "
                    "rows from the first on, or --fresh"
                )
            self._replayed.popleft()
            self._first_replayed += rows
        return True

    def _same(self, name: str, rows: Sequence[Arrival]) -> bool:
        together = joined(rows)
        attributes, arrays = self.store.read_group(name)
        # Labels that came after their rows are stored, with their times: they are not compared.
        labels, part_labels = (arrays["labels"], attributes["found"]) if self.late else self.kind.read(
            together.y, together.X.shape[0]
        )  # fmt: skip
        arrays = {key: array for key, array in arrays.items() if not key.startswith(LATE)}
        arrived = arrays_of_part(together.X, labels, self._beside(rows, together))
        return (
            dict(part_labels) == attributes["found"]
            and arrived.keys() == arrays.keys()
            and all(_equal(arrived[key], arrays[key]) for key in arrived)
        )

    @staticmethod
    def _beside(rows: Sequence[Arrival], together: RawRows) -> dict[str, np.ndarray]:
        """Return the arrays that stand beside rows in the store: words, weights and ids."""
        beside = dict(beside_of(None, together, partial(place, rows)).get("beside", {}))
        if (ids := ids_of(rows)) is not None:
            beside[IDS] = packed(ids)
        return beside

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
        if self.late is not None and item.y is not None:
            item = replace(item, y=None)
        self._waiting.append(item)
        self._n_waiting += item.rows
        self._n_given += item.rows
        return item.rows

    def _take(self, n: int) -> list[Arrival]:
        """Take out the first n rows that wait."""
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
        names = None if preparation.encoded else preparation.column_names
        if names is not None and self.feed.column_names is not None and list(self.feed.column_names) != names:
            raise InputError(other_columns(rows[0].url, self.feed.column_names, names))
        for arrival in rows:
            check(arrival, preparation)
        attributes: Record = {"rows": n, "first": self.rows}
        arrays: dict[str, np.ndarray] = {}
        if self.late is not None:
            arrays, late_attributes = stored(
                self.late.take(self.rows, n, self.block_rows), preparation.task, self.late.url
            )
            attributes |= {**late_attributes, "late": self.late.as_json()}
        # Rows without labels are stored with zeros in their place, which nothing reads.
        labels = None if self.late is None else np.zeros(n)
        self._count(self._store(chunk_name(self.chunks), rows, attributes, labels=labels, beside=arrays))

    def _count(self, part: PartRecord) -> None:
        self.rows += part["rows"]
        self.nnz += part["nnz"] if self._entries is None else part["rows"] * self._entries
        self.chunks += 1

    def _store(
        self,
        name: str,
        rows: Sequence[Arrival],
        attributes: Record,
        *,
        labels: np.ndarray | None = None,
        beside: Mapping[str, np.ndarray] | None = None,
    ) -> PartRecord:
        together = joined(rows)
        y = together.y if labels is None else labels
        origins: dict[str, int] = {}
        for arrival in rows:
            origins[arrival.origin] = origins.get(arrival.origin, 0) + arrival.rows
        attributes = {**attributes, "from": list(origins.items())}
        part, written = store_block(
            self.store,
            name,
            together.X,
            y,
            rows[0].url,
            self.kind,
            partial(place, rows),
            beside={**self._beside(rows, together), **(beside or {})},
            **attributes,
        )
        return {**part, "bytes_written": written}
