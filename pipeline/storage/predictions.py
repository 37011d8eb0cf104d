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
    """A file of a learner's predictions on a stream: for each row a value of the task's type.

    Writing the same rows again is harmless: an attempt that is repeated predicts the same.

    Parameters
    ----------
    path : str
        Path that workers and client see.
    dtype : str
    """

    def __init__(self, path: str, dtype: str) -> None:
        self.path, self.dtype = path, np.dtype(dtype).newbyteorder("<")

    def write(self, first: int, predicted: np.ndarray) -> None:
        """Write the predictions of rows ``first, first + 1, ...`` to disk."""
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
        """Read the predictions of n rows from row `first` on, or of as many as there are; n = -1: of all."""
        if len(self) <= first:
            return np.zeros(0, dtype=self.dtype)
        return np.fromfile(self.path, dtype=self.dtype, offset=self.dtype.itemsize * first, count=n)

    def __len__(self) -> int:
        """Return the number of rows up to the last one that was written."""
        return Path(self.path).stat().st_size // self.dtype.itemsize if Path(self.path).exists() else 0


def promise_of_predictions(path: str, dtype: str, first: int, n: int) -> Promise:
    """Return the promise of predictions for the record of a chunk."""
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
    """Sum up the promises of all chunks in one.

    Raises
    ------
    Damaged
        The file does not have the predictions that were promised.
    """
    file, digest, rows = PredictionFile(path, dtype), hashlib.sha256(), 0
    for promise in chunks:
        raw = file.read(rows, promise["rows"]).tobytes()
        if hashlib.sha256(raw).hexdigest() != promise["sha256"]:
            raise Damaged(path, WRONG)
        digest.update(raw)
        rows += promise["rows"]
    name = f"{Path(path).parent.name}/{Path(path).name}"
    return {"file": name, "dtype": dtype, "first": 0, "rows": rows, "sha256": digest.hexdigest()}


def read_predictions(run: Path, promise: Promise) -> np.ndarray:
    """Read predictions, which must be those that were promised.

    Raises
    ------
    Damaged
    """
    path = run / promise["file"]
    with reading(path):
        predicted = PredictionFile(str(path), promise["dtype"]).read(promise["first"], promise["rows"])
        if hashlib.sha256(predicted.tobytes()).hexdigest() != promise["sha256"]:
            raise Damaged(str(path), WRONG)
        return predicted


def digest_of_predictions(run: Path, promise: Promise) -> str:
    """Return the SHA-256 of some predictions as they are on the disk."""
    predicted = PredictionFile(str(run / promise["file"]), promise["dtype"]).read(promise["first"], promise["rows"])
    return hashlib.sha256(predicted.tobytes()).hexdigest()
