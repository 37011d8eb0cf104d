"""Learn from rows of a stream whose labels came after them: their cells are read again, their predictions are there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Int32s
from ikmap.cells import Cells
from ikmap.rows import Rows
from ikmap.tasks import LearningTask
from pipeline.errors import Damaged
from pipeline.record_types import Promise
from pipeline.rows.stream_data import LateBatch, Stream
from pipeline.storage.predictions import PredictionFile, promise_of_predictions


@dataclass(frozen=True, eq=False)
class Answers:
    """Rows whose labels were given to a learner, and what it had predicted when they came.

    Attributes
    ----------
    targets : ndarray, shape (n,)
    predicted : ndarray, shape (n,)
    decisions : ndarray of float64, shape (n, K), or None
        None where the task does without.
    numbers : ndarray of int64, shape (n,)
        Of the rows, as they came.
    """

    targets: np.ndarray
    predicted: np.ndarray
    decisions: np.ndarray | None
    numbers: np.ndarray


@dataclass(frozen=True)
class Predicted:
    """What a learner has predicted of the rows of a stream, before it saw any of their labels.

    Attributes
    ----------
    path : str
    task : LearningTask
        As the decisions of the learner are to be read.
    """

    path: str
    task: LearningTask

    def keep(self, first: int, predicted: np.ndarray, decision: np.ndarray) -> None:
        """Put predictions of some rows on disk, and the decisions behind them where the task needs these later."""
        PredictionFile(self.path, self.task.predicted).write(first, predicted)
        if self.task.tallies_streams:
            self._decisions.write(first * decision.shape[1], decision.ravel())

    def promise(self, first: int, n: int) -> Promise:
        """Return what the record of a chunk says of the decisions of its rows."""
        width = self.task.outputs
        return promise_of_predictions(self._decisions.path, self._decisions.dtype.name, first * width, n * width)

    @property
    def _decisions(self) -> PredictionFile:
        return PredictionFile(f"{self.path}.decisions", "float64")

    def answers(self, batch: LateBatch, at: slice, numbers: np.ndarray) -> Answers:
        """What was predicted of rows whose labels have come.

        Raises
        ------
        Damaged
            Something was not predicted yet: no learner is given the label of such a row.
        """
        places = batch.places[at]
        first, n = int(places.min()), int(places.max()) + 1 - int(places.min())
        predicted = PredictionFile(self.path, self.task.predicted).read(first, n)
        if predicted.size != n:
            raise Damaged(self.path, "some of it is missing")
        decisions, width = None, self.task.outputs
        if self.task.tallies_streams:
            found = self._decisions.read(first * width, n * width)
            if found.size != n * width:
                raise Damaged(self._decisions.path, "some of it is missing")
            decisions = found.reshape(n, width)[places - first]
        return Answers(batch.targets[at], predicted[places - first], decisions, numbers[at])


class LateRows:
    """The rows whose labels came with a chunk of a stream.

    Parameters
    ----------
    stream : Stream
    batch : LateBatch
    cells : callable, or None
        Where the cells of a chunk stand in the store; None: the learner is on the rows themselves.
    predicted : Predicted
    chunk : int
        No row is of a later one.
    """

    def __init__(
        self,
        stream: Stream,
        batch: LateBatch,
        cells: Callable[[int], str] | None,
        predicted: Predicted,
        chunk: int,
    ) -> None:
        self._stream, self._batch, self._cells, self._predicted = stream, batch, cells, predicted
        self._numbers = stream.rows_initial + batch.places
        self._chunk_of = np.zeros(batch.places.size, dtype=np.int64)
        self._rows: dict[int, Int32s | Rows] = {}
        if batch.places.size:
            firsts, k = [], chunk
            while True:
                firsts.append(stream.first_of(k))
                if firsts[-1] <= int(batch.places.min()):
                    break
                k -= 1
            self._first, self._firsts = k, np.array(firsts[::-1])
            self._chunk_of = k + np.searchsorted(self._firsts, batch.places, side="right") - 1

    def learn(self, state: Any, task: LearningTask, block: int, offsets: np.ndarray | None) -> list[Answers]:
        """Give the learner the labels that come before a block, in their order; return them in one, if there are any.

        Parameters
        ----------
        offsets : ndarray of int64, or None
            Of the cells that the state knows.
        """
        start, stop = np.searchsorted(self._batch.before, [block, block + 1])
        if start == stop:
            return []
        at = slice(int(start), int(stop))
        answers = self._predicted.answers(self._batch, at, self._numbers)
        learned, y = task.learned(answers.targets), answers.targets
        wanted = np.arange(at.start, at.stop)
        if learned is not None:
            wanted, y = wanted[learned], y[learned]
        if wanted.size:
            state.partial_fit(self._of(wanted, offsets), y)
        return [answers]

    def _of(self, wanted: np.ndarray, offsets: np.ndarray | None) -> Rows | Cells:
        """These rows, in their order."""
        chunks = self._chunk_of[wanted]
        inside = self._batch.places[wanted] - self._firsts[chunks - self._first]
        parts, order = [], []
        for k in np.unique(chunks):
            here = np.flatnonzero(chunks == k)
            parts.append(self._read(int(k))[inside[here]])
            order.append(here)
        back = np.argsort(np.concatenate(order), kind="stable")
        if sp.issparse(parts[0]):
            return sp.csr_array(sp.vstack(parts, format="csr"))[back]
        found = np.ascontiguousarray(np.concatenate(parts)[back])
        return found if offsets is None else Cells(found, offsets).packed()

    def _read(self, k: int) -> Int32s | Rows:
        if k not in self._rows:
            if self._cells is not None:
                self._rows[k] = self._stream.store.read_group(self._cells(k))[1]["codes"]
            else:
                self._rows[k] = self._stream.features(k)
        return self._rows[k]
