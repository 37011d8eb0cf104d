"""A stream in the store: rows in the order of their arrival, in chunks of whole blocks."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from ikmap.arrays import Floats
from ikmap.json_values import Json
from ikmap.rows import Rows
from ikmap.tasks import Task
from pipeline.record_types import LabelsResult
from pipeline.rows.encoding import load_encoder
from pipeline.rows.parts import IDS, LATE, WEIGHTS, read_cells, read_column, read_targets, read_values
from pipeline.rows.permutation import row_in_shuffle
from pipeline.rows.preparation import Preparation
from pipeline.rows.prepared import PreparedRows, load_scaling
from pipeline.storage.predictions import PredictionFile
from pipeline.storage.store import Store

CHUNKS = "stream/chunks"
LABELS_AT_END = "stream/labels-at-end"
"""Group of the store with the labels that came after the last chunk."""


def chunk_name(k: int) -> str:
    """Return the name of chunk k in the store."""
    return f"{CHUNKS}/{k:06d}"


class HiddenLabels:
    """The labels of a chunk, which are given out block by block, each when the predictions of its rows are on disk.

    There is no other access to them (algorithms.md 9.4, PR1).
    """

    def __init__(self, store: Store, chunk: int, first: int, preparation: Preparation, file: PredictionFile) -> None:
        self._open = lambda start, stop: read_targets(store, chunk_name(chunk), preparation, start, stop)
        self._first, self._file = first, file

    def reveal(self, start: int, stop: int) -> np.ndarray:
        """Return the targets of rows ``start .. stop - 1`` of the chunk.

        Raises
        ------
        ValueError
            If the rows have no predictions on disk.
        """
        if len(self._file) < self._first + stop:
            raise ValueError(f"{self._file.path}: rows {start} to {stop - 1} of the chunk have no predictions yet")
        return self._open(start, stop)


@dataclass(frozen=True, eq=False)
class LateBatch:
    """Labels that came with a chunk, of rows that were predicted before, in the order in which they are learned.

    Attributes
    ----------
    places : ndarray of int64
        Places of the rows in the stream, after the initial ones.
    before : ndarray of int64
        Ascending: the block of the chunk before which each label is learned; the number of blocks: after the last.
    targets : ndarray
    """

    places: np.ndarray
    before: np.ndarray
    targets: np.ndarray


@dataclass(frozen=True)
class Stream:
    """A stream whose beginning has been taken in. Small and picklable.

    Attributes
    ----------
    store : Store
    block_rows : int
        Number of rows of a block: they are predicted together, then learned from. A chunk is whole blocks, except the
        last one.
    rows_initial : int
    shuffled : tuple of int, or None
        Number of all rows, initial ones too, and seed of the shuffle; None: rows are in the order in which they came.
    late : bool
        Whether labels come after their rows: :meth:`labels_with` has them, not :meth:`labels`.
    """

    store: Store
    block_rows: int
    rows_initial: int = 0
    shuffled: tuple[int, int] | None = None
    late: bool = False

    def features(self, k: int) -> Rows:
        """Return the rows of chunk k, without their labels."""
        rows = PreparedRows(self.store, "train")  # the preparation of the initial rows holds for all rows
        preparation, name = rows.preparation, chunk_name(k)
        scaling = load_scaling(self.store) if preparation.scale == "minmax" else None
        if preparation.encoded:
            X = load_encoder(self.store).features(read_cells(self.store, name, preparation))
        else:
            X = read_values(self.store, name, preparation)
        return preparation.features(X, scaling)

    def weights(self, k: int) -> Floats | None:
        """Return the weights of the rows of chunk k, or None if all rows weigh the same."""
        return read_column(self.store, chunk_name(k), WEIGHTS)

    def ids(self, k: int) -> list[Json] | None:
        """Return the ids of the rows of chunk k, or None if no column tells rows apart."""
        stored = read_column(self.store, chunk_name(k), IDS)
        return None if stored is None else json.loads(stored.tobytes())

    def ids_of(self, numbers: Sequence[int], chunks: int) -> dict[int, Json]:
        """Return the ids of rows of the first chunks, by their numbers as they came; of rows without ids, nothing."""
        ids: dict[int, Json] = {}
        if not chunks or self.ids(0) is None:
            return ids
        for number in numbers:
            place = number - self.rows_initial
            k = bisect_right(range(chunks), place, key=self.first_of) - 1
            ids[number] = (self.ids(k) or [])[place - self.first_of(k)]
        return ids

    def labels(self, k: int, predictions: str) -> HiddenLabels:
        """Return the labels of chunk k, for a learner whose predictions go to a file."""
        preparation = PreparedRows(self.store, "train").preparation
        file = PredictionFile(predictions, preparation.task.decisions.dtype)
        return HiddenLabels(self.store, k, self._about(k, "first"), preparation, file)

    def labels_with(self, k: int | None) -> LateBatch:
        """Return the labels that came with chunk k; None: after the last chunk."""
        attributes, arrays = self.store.read_group(LABELS_AT_END if k is None else chunk_name(k))
        targets = self.task().codec.targets(arrays[f"{LATE}labels"], attributes[f"{LATE}found"])
        return LateBatch(arrays[f"{LATE}places"], arrays[f"{LATE}before"], targets)

    def task(self) -> Task:
        """Return the task of the run."""
        return PreparedRows(self.store, "train").preparation.task

    def numbers(self, k: int) -> np.ndarray:
        """Return the numbers of the rows of chunk k in their files, or as they came, from 0."""
        first = self.rows_initial + self._about(k, "first")
        places = np.arange(first, first + self.rows_of(k), dtype=np.int64)
        return places if self.shuffled is None else row_in_shuffle(places, *self.shuffled)

    def first_of(self, k: int) -> int:
        """Return the place in the stream, after the initial rows, of the first row of chunk k."""
        return self._about(k, "first")

    def rows_of(self, k: int) -> int:
        """Return the number of rows of chunk k."""
        return self._about(k, "rows")

    def _about(self, k: int, what: str) -> int:
        return int(self.store.need(chunk_name(k))[what])


@dataclass
class StreamSupply:
    """The rows of a stream that are in the store: all of them, from the first chunk to the last.

    A subclass, such as :class:`~pipeline.streams.intake.Intake`, brings further rows there between :meth:`start` and
    the end of the ``with`` block.

    Attributes
    ----------
    chunks, rows : int
        Numbers of chunks and rows in the store.
    nnz : int
        Number of values other than zero in the rows that were received while the learners ran. Files that were read
        before are counted by ``ingest``.
    ended : bool
        Whether no more rows will come.
    """

    chunks: int = 0
    rows: int = 0
    nnz: int = 0
    ended: bool = True

    def start(self) -> None:
        """Begin to receive rows."""

    def learned(self, chunks: int) -> None:
        """Note how many chunks the slowest learner has done, to limit the rows that are received ahead of it."""

    def check(self) -> None:
        """Raise the error that has kept rows from arriving, if there is one."""

    def about(self) -> LabelsResult:
        """Return the entry ``labels`` of ``metrics.json``, at the end, if labels came after their rows."""
        return {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass
