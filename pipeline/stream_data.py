"""A stream in the store: rows in the order of their arrival, chunk by chunk, each chunk whole blocks of rows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from ikmap.tasks import LearningTask
from pipeline.durable import written
from pipeline.errors import InputError
from pipeline.prepared import Preparation, PreparedRows, load_scaling, read_targets, read_values
from pipeline.store import Store

CHUNKS = "stream/chunks"


def chunk_name(k: int) -> str:
    """Where chunk k stands in the store."""
    return f"{CHUNKS}/{k:06d}"


class PredictionFile:
    """What a learner has predicted of the rows of a stream, a value of the task's type for each, row after row.

    Writing the same rows again is harmless: an attempt that is repeated predicts the same.

    Parameters
    ----------
    path : str
        Workers and client must see it.
    dtype : str
    """

    def __init__(self, path: str, dtype: str) -> None:
        self.path, self.dtype = path, np.dtype(dtype).newbyteorder("<")

    def write(self, first: int, predicted: np.ndarray) -> None:
        """Put the predictions of rows ``first, first + 1, ...`` on disk."""
        Path(self.path).parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(self.path, os.O_WRONLY | os.O_CREAT, 0o666)
        try:
            raw = np.ascontiguousarray(predicted, dtype=self.dtype).tobytes()
            if os.pwrite(handle, raw, self.dtype.itemsize * first) != len(raw):
                raise InputError(f"{self.path}: predictions could not be written whole; is the disk full?")
        finally:
            os.close(handle)
        written(self.path, Path(self.path).parent, Path(self.path).parent.parent)

    def read(self, first: int = 0, n: int = -1) -> np.ndarray:
        """Predictions of n rows from row `first` on, or of as many as there are; n = -1: of all."""
        if len(self) <= first:
            return np.zeros(0, dtype=self.dtype)
        return np.fromfile(self.path, dtype=self.dtype, offset=self.dtype.itemsize * first, count=n)

    def __len__(self) -> int:
        """Rows up to the last one that was written."""
        return Path(self.path).stat().st_size // self.dtype.itemsize if Path(self.path).exists() else 0


def promise_of_predictions(path: str, dtype: str, first: int, n: int) -> dict[str, Any]:
    """What the record of a chunk says of its predictions."""
    file = Path(path)
    promise = {"file": f"{file.parent.name}/{file.name}", "dtype": dtype, "first": first, "rows": n}
    return {**promise, "sha256": digest_of_predictions(file.parent.parent, promise)}


def digest_of_predictions(run: Path, promise: Mapping[str, Any]) -> str:
    """SHA-256 of some predictions as they are on the disk."""
    found = PredictionFile(str(run / promise["file"]), promise["dtype"]).read(promise["first"], promise["rows"])
    return hashlib.sha256(found.tobytes()).hexdigest()


class HiddenLabels:
    """The labels of a chunk, given out block by block, each in exchange for the predictions of its rows.

    There is no other way to them here: a learner is shown the labels of a block when its predictions are on disk
    (algorithms.md 9.4, PR1).
    """

    def __init__(self, store: Store, chunk: int, first: int, preparation: Preparation, file: PredictionFile) -> None:
        self._open = lambda start, stop: read_targets(store, chunk_name(chunk), preparation, start, stop)
        self._first, self._file = first, file

    def reveal(self, start: int, stop: int, predicted: np.ndarray) -> np.ndarray:
        """Store the predictions of rows ``start .. stop - 1`` of the chunk and return these rows' targets.

        Raises
        ------
        ValueError
            If there is not one prediction for each row.
        """
        if np.shape(predicted) != (stop - start,):
            raise ValueError(f"predictions have shape {np.shape(predicted)}, expected ({stop - start},)")
        self._file.write(self._first + start, predicted)
        return self._open(start, stop)


@dataclass(frozen=True)
class Stream:
    """What is known of a stream whose beginning has been taken in. Small and picklable.

    Attributes
    ----------
    store : Store
    block_rows : int
        Rows of a block: predicted together, then learned from. A chunk is whole blocks, except the last one.
    """

    store: Store
    block_rows: int

    def features(self, k: int) -> Any:
        """Rows of chunk k, without their labels."""
        rows = PreparedRows(self.store, "train")  # the initial rows: what was prepared for them holds for all
        scaling = load_scaling(self.store) if rows.preparation.scale == "minmax" else None
        return rows.preparation.features(read_values(self.store, chunk_name(k), rows.preparation), scaling)

    def labels(self, k: int, predictions: str) -> HiddenLabels:
        """Labels of chunk k, for a learner whose predictions go to a file of that path."""
        preparation = PreparedRows(self.store, "train").preparation
        file = PredictionFile(predictions, preparation.task.predicted)
        return HiddenLabels(self.store, k, self._about(k, "first"), preparation, file)

    def task(self) -> LearningTask:
        """What is learned."""
        return PreparedRows(self.store, "train").preparation.task

    def predicted(self, k: int, predictions: str) -> np.ndarray:
        """What a learner has predicted for the rows of chunk k."""
        return PredictionFile(predictions, self.task().predicted).read(self._about(k, "first"), self.rows_of(k))

    def promise(self, k: int, predictions: str) -> dict[str, Any]:
        """What the record of chunk k says of the predictions in a file."""
        return promise_of_predictions(predictions, self.task().predicted, self._about(k, "first"), self.rows_of(k))

    def rows_of(self, k: int) -> int:
        """Number of rows of chunk k."""
        return self._about(k, "rows")

    def _about(self, k: int, what: str) -> int:
        return int(self.store.need(chunk_name(k))[what])


@dataclass
class Stored:
    """A stream that is in the store from its first chunk to its last (:class:`~pipeline.race.Arrivals`)."""

    chunks: int
    rows: int
    nnz: int = 0
    ended: bool = True

    def start(self) -> None:
        """Nothing."""

    def learned(self, chunks: int) -> None:
        """Nothing."""

    def check(self) -> None:
        """Nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass
