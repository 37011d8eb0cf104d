"""Files of a learner's predictions on a stream, and the checksums that records keep of them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from pipeline.errors import Damaged, InputError
from pipeline.record_types import Promise
from pipeline.storage.durable import reading, written

WRONG = "its SHA-256 is wrong"


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


def promise_of_predictions(path: str, dtype: str, first: int, n: int) -> Promise:
    """What the record of a chunk says of its predictions."""
    file = Path(path)
    promise: Promise = {
        "file": f"{file.parent.name}/{file.name}",
        "dtype": dtype,
        "first": first,
        "rows": n,
        "sha256": "",
    }
    return {**promise, "sha256": digest_of_predictions(file.parent.parent, promise)}


def promise_of_stream(path: str, dtype: str, chunks: Iterable[Promise]) -> Promise:
    """Sum up in one promise what the records of all chunks say of a learner's predictions.

    Raises
    ------
    Damaged
        The file is no longer what the records say.
    """
    file, whole, rows = PredictionFile(path, dtype), hashlib.sha256(), 0
    for promise in chunks:
        found = file.read(rows, promise["rows"]).tobytes()
        if hashlib.sha256(found).hexdigest() != promise["sha256"]:
            raise Damaged(path, WRONG)
        whole.update(found)
        rows += promise["rows"]
    name = f"{Path(path).parent.name}/{Path(path).name}"
    return {"file": name, "dtype": dtype, "first": 0, "rows": rows, "sha256": whole.hexdigest()}


def read_predictions(run: Path, promise: Promise) -> np.ndarray:
    """Read predictions, which must be those that were promised.

    Raises
    ------
    Damaged
    """
    path = run / promise["file"]
    with reading(path):
        found = PredictionFile(str(path), promise["dtype"]).read(promise["first"], promise["rows"])
        if hashlib.sha256(found.tobytes()).hexdigest() != promise["sha256"]:
            raise Damaged(str(path), WRONG)
        return found


def digest_of_predictions(run: Path, promise: Promise) -> str:
    """SHA-256 of some predictions as they are on the disk."""
    found = PredictionFile(str(run / promise["file"]), promise["dtype"]).read(promise["first"], promise["rows"])
    return hashlib.sha256(found.tobytes()).hexdigest()
