"""Training and test rows, read from the parts that ingest has stored and prepared for learning."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import scipy.sparse as sp

from ikmap.json_values import Json, JsonObject
from ikmap.learners.rows import Block
from ikmap.methods import Sample
from ikmap.rows import Rows
from ikmap.tables import RawTable
from ikmap.tasks import Task
from ikmap.tasks.capabilities import census_of, unseen_labels
from ikmap.tasks.capabilities import counted as counted_by
from pipeline.errors import InputError
from pipeline.record_types import RecordView, TargetsRecord
from pipeline.rows.encoding import load_encoder
from pipeline.rows.fitted_split import FittedSplit, encoding_folds, keys_of
from pipeline.rows.parts import WEIGHTS, learned_of, read_column, read_levels, read_part, read_targets, read_weights
from pipeline.rows.preparation import Preparation
from pipeline.rows.split import Part, Split
from pipeline.rows.split_rule import SplitRule
from pipeline.storage.store import Store

DATA = "data"
STREAM_DATA = "stream"
"""Group of the store that describes the initial rows of a stream, which then are the training rows."""
SCALE = "data/scale"
READ_BYTES = 16 << 20
"""Bytes of the blocks in which rows are read, about."""


class PreparedRows:
    """Training or test rows, read from the store on demand.

    Parameters
    ----------
    store : Store
    name : {"train", "test"}
    group : str, optional
        Group of the store that describes the rows; default: the stream, if there is one, else the files ingested.

    Attributes
    ----------
    n_rows : int
    preparation : Preparation
    """

    def __init__(self, store: Store, name: str, group: str | None = None) -> None:
        attributes = None if group else store.attributes(STREAM_DATA)
        if attributes is None:
            attributes = store.need(group or DATA)
        side = attributes["sides"][name]
        self.store = store
        self.preparation = Preparation.from_json(attributes["preparation"])
        self._parts = [Part(**part) for part in side["parts"]]
        self._split = Split(**side["split"])
        self._learned = bool(side.get("learned", False))
        self._fitted_split = FittedSplit.from_json(side["divided"]) if side.get("divided") else None
        self._latest = self._folds = (-1, np.zeros(0, dtype=np.int64))
        self._url = side.get("url", name)
        self._first = np.r_[0, np.cumsum([part.rows for part in self._parts])]
        self._begin = np.r_[0, np.cumsum(side["counts"])]
        self.n_rows = int(self._begin[-1])
        self._encoder = load_encoder(store) if self.preparation.encoded else None
        self._trains = name == "train"
        self._scaling: tuple[np.ndarray, np.ndarray] | None = None
        if self.preparation.scale == "minmax":
            self._scaling = load_scaling(store)

    def read(self, start: int, stop: int) -> Block:
        """Return rows ``start .. stop - 1``: features, targets and numbers."""
        return self.take(np.arange(start, stop))

    def sample(self, seed: int, offsets: np.ndarray | None = None, *, reaches_all: bool = True) -> Sample:
        """Return all rows for a method that looks at some before it learns; they are read on demand."""
        preparation = self.preparation
        return Sample(
            self.n_rows,
            preparation.n_columns,
            preparation.task,
            lambda numbers: self.take(numbers).rows,
            seed,
            offsets,
            reaches_all=reaches_all,
            targets=lambda numbers: self.take(numbers).y,
        )

    def where(self, row: int) -> str:
        """Return file and row of a row, for people: rows that hold data are counted, from 1."""
        return f"{self._url}: row {int(self.numbers(row, row + 1)[0]) + 1}"

    def numbers(self, start: int, stop: int) -> np.ndarray:
        """Return the numbers in their file, from 0, of rows ``start .. stop - 1``."""
        rows = np.arange(start, stop)
        part_of = np.searchsorted(self._begin, rows, side="right") - 1
        numbers_of_parts = [
            self._first[p] + self._of_part(p)[rows[part_of == p] - self._begin[p]] for p in np.unique(part_of)
        ]
        return np.concatenate([np.zeros(0, dtype=np.int64), *numbers_of_parts])

    def _of_part(self, p: int) -> np.ndarray:
        """Return the ascending numbers, within part p, of its rows that belong to these rows."""
        part = self._parts[p]
        if self._fitted_split is None and not self._learned:
            return self._split.of_part(int(self._first[p]), part.rows)
        if self._latest[0] != p:
            self._latest = p, self._chosen_of_part(p)
        return self._latest[1]

    def _chosen_of_part(self, p: int) -> np.ndarray:
        part, first = self._parts[p], int(self._first[p])
        if self._fitted_split is None:
            numbers = self._split.of_part(first, part.rows)
        else:
            keys = keys_of(self._fitted_split.rule, self.store, part.name, self.preparation.task)
            numbers = np.flatnonzero(self._fitted_split.trains(first, keys) == self._split.train)
        return learned_of(self.store, part.name, numbers, self.preparation) if self._learned else numbers

    def places(self, numbers: Sequence[int]) -> list[tuple[str, int]]:
        """Return the part, and the row in it, of rows by their numbers in their file."""
        part_of = np.searchsorted(self._first, numbers, side="right") - 1
        return [(self._parts[p].name, int(n - self._first[p])) for n, p in zip(numbers, part_of.tolist(), strict=True)]

    def keys(self, split_rule: SplitRule, rows: np.ndarray) -> np.ndarray:
        """Return the keys by which rows, by ascending number, are split: their time, group or target."""
        task = self.preparation.task
        keys_of_parts = [
            keys_of(split_rule, self.store, part.name, task)[inside] for part, inside in self.within_parts(rows)
        ]
        return np.concatenate(keys_of_parts)

    @property
    def row_bytes(self) -> int:
        """Bytes of a row in memory; an estimate if rows are sparse."""
        return row_bytes(self.preparation.n_columns)

    def blocks(self, start: int, stop: int) -> Iterator[tuple[int, Block]]:
        """Yield the first row's number, features and targets of consecutive rows, a bounded number of bytes each."""
        step = max(1, READ_BYTES // self.row_bytes)
        for begin in range(start, stop, step):
            yield begin, self.read(begin, min(begin + step, stop))

    def targets(self) -> Iterator[np.ndarray]:
        """Yield the targets of the rows of one part after the other."""
        for p, part in enumerate(self._parts):
            yield read_targets(self.store, part.name, self.preparation)[self._of_part(p)]

    def targets_of(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the targets of rows by ascending number, and their weights if the data has some; read no features."""
        targets: list[np.ndarray] = []
        weights: list[np.ndarray] = []
        for part, inside in self.within_parts(rows):
            targets.append(read_targets(self.store, part.name, self.preparation)[inside])
            if self.preparation.weighted and (weight := read_column(self.store, part.name, WEIGHTS)) is not None:
                weights.append(weight[inside])
        return np.concatenate(targets), np.concatenate(weights) if weights else None

    @property
    def part_rows(self) -> list[int]:
        """Number of these rows in each part."""
        counts: list[int] = np.diff(self._begin).tolist()
        return counts

    def raw_part(self, p: int) -> tuple[int, np.ndarray, RawTable, np.ndarray]:
        """Read the rows of part p, not encoded: position of the first row, numbers in the file, cells and targets."""
        part = self._parts[p]
        numbers = self._of_part(p)
        X, y = read_part(self.store, part.name, 0, part.rows, self.preparation)
        table = RawTable(np.asarray(X), read_levels(self.store, part.name, X.shape[1])).take(numbers)
        return int(self._begin[p]), self._first[p] + numbers, table, y[numbers]

    def encoding_folds(self, p: int, split_by: str | None, seed: int) -> np.ndarray:
        """Return the folds of the rows of part p, for encodings by targets."""
        part_args = self._parts[p].name, self.preparation.task, int(self._first[p]), self._of_part(p)
        return encoding_folds(split_by, seed, self.store, *part_args)

    def _own_folds(self, p: int) -> np.ndarray:
        """Return the folds of the rows of part p with which the encoder was fitted."""
        assert self._encoder is not None
        if self._folds[0] != p:
            self._folds = p, self.encoding_folds(p, self._encoder.split_by, self._encoder.seed)
        return self._folds[1]

    def within_parts(self, rows: np.ndarray) -> Iterator[tuple[Part, np.ndarray]]:
        """Yield each part that has some of the given rows, by ascending number, and their numbers in it."""
        part_of = np.searchsorted(self._begin, rows, side="right") - 1
        for p in np.unique(part_of).tolist():
            yield self._parts[p], self._of_part(p)[rows[part_of == p] - self._begin[p]]

    def take(self, rows: np.ndarray) -> Block:
        """Read rows by ascending number: features, targets and the numbers. One part is in memory at a time."""
        features: list[Rows] = []
        targets: list[np.ndarray] = []
        weights: list[np.ndarray] = []
        part_of = np.searchsorted(self._begin, rows, side="right") - 1
        for p in np.unique(part_of):
            part = self._parts[p]
            wanted = rows[part_of == p] - self._begin[p]
            numbers = self._of_part(int(p))[wanted]
            X, y = read_part(self.store, part.name, int(numbers[0]), int(numbers[-1]) + 1, self.preparation)
            if self._encoder is not None:
                table = RawTable(np.asarray(X), read_levels(self.store, part.name, X.shape[1]))
                if numbers.size != y.size:
                    table, y = table.take(numbers - numbers[0]), y[numbers - numbers[0]]
                X = self._encoder.features(table, self._own_folds(int(p))[wanted] if self._trains else None)
            elif numbers.size != y.size:
                X, y = X[numbers - numbers[0]], y[numbers - numbers[0]]
            features.append(self.preparation.features(X, self._scaling))
            targets.append(y)
            if self.preparation.weighted:
                weights.append(read_weights(self.store, part.name)[numbers])
        weight = np.concatenate([np.zeros(0), *weights]) if self.preparation.weighted else None
        if not features:
            no_rows = np.zeros((0, self.preparation.n_columns))
            no_targets = np.zeros(0, dtype=self.preparation.task.codec.dtype)
            return Block(no_rows if self.preparation.dense else sp.csr_array(no_rows), no_targets, weight, rows)
        if len(features) == 1:
            return Block(features[0], targets[0], weight, rows)
        joined = np.concatenate(features) if self.preparation.dense else sp.csr_array(sp.vstack(features))
        return Block(joined, np.concatenate(targets), weight, rows)


def row_bytes(n_columns: int) -> int:
    """Return the bytes of a row in memory; an estimate for many columns, as such rows are sparse."""
    return 8 * min(n_columns, 4096)


def count_targets(store: Store) -> TargetsRecord:
    """Task: count the training targets as their :class:`~ikmap.tasks.capabilities.Census` does."""
    rows = PreparedRows(store, "train")
    task = rows.preparation.task
    return {"counted": counted(task, [census_of(task, y) for y in rows.targets()])}


def counted(task: Task, censuses: list[Json]) -> JsonObject:
    """Add up the counts of a task in each part of the targets.

    Raises
    ------
    InputError
        Nothing can be learned from the targets.
    """
    try:
        return counted_by(task, censuses)
    except ValueError as error:
        raise InputError(str(error)) from None


def load_scaling(store: Store) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest training value of each column, and the width of its range, or 1 in place of 0."""
    _, arrays = store.read_group(SCALE)
    width = arrays["high"] - arrays["low"]
    return arrays["low"], np.where(width > 0, width, 1.0)


def refuse_unseen_labels(found: Sequence[RecordView], task: Task, url: str) -> None:
    """Refuse labels that the task knows no target for, such as classes that no training row has.

    Raises
    ------
    InputError
        Naming up to five of them.
    """
    unseen = unseen_labels(task, found)
    if unseen:
        shown = ", ".join(repr(label) for label in unseen[:5]) + (", ..." if len(unseen) > 5 else "")
        raise InputError(f"{url}: found label {shown}, expected the training labels: {task.codec.summary.expected}")
