"""Learn from rows of a stream whose labels came after them: their cells are read again, their predictions are kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Floats, Int32s
from ikmap.cells import Cells
from ikmap.methods.learner import State
from ikmap.rows import Rows
from ikmap.tasks import Task
from ikmap.tasks.capabilities import learned_rows
from pipeline.errors import Damaged
from pipeline.record_types import Promise
from pipeline.rows.row_weights import weight_given
from pipeline.rows.stream_data import LateBatch, Stream
from pipeline.storage.predictions import PredictionFile, promise_of_predictions


@dataclass(frozen=True, eq=False)
class Answers:
    """Rows whose labels were given to a learner, and its predictions when the rows came.

    Attributes
    ----------
    targets : ndarray, shape (n,)
    predicted : ndarray, shape (n,)
    decisions : ndarray of float64, shape (n, K), or None
        None where a learner learns again from rows whose metrics are known.
    numbers : ndarray of int64, shape (n,)
        Numbers of the rows, as they came.
    """

    targets: np.ndarray
    predicted: np.ndarray
    decisions: np.ndarray | None
    numbers: np.ndarray


@dataclass(frozen=True)
class Predicted:
    """The predictions of a learner for the rows of a stream, before it saw any of their labels.

    Attributes
    ----------
    path : str
    task : Task
        Task that reads the decisions of the learner.
    """

    path: str
    task: Task

    def keep(self, first: int, predicted: np.ndarray, decision: np.ndarray) -> None:
        """Write predictions of some rows to disk, and the decisions behind them."""
        PredictionFile(self.path, self.task.decisions.dtype).write(first, predicted)
        self._decisions.write(first * decision.shape[1], decision.ravel())

    def promise(self, first: int, n: int) -> Promise:
        """Return the promise of the decisions of some rows, for the record of a chunk."""
        width = self.task.decisions.outputs
        return promise_of_predictions(self._decisions.path, self._decisions.dtype.name, first * width, n * width)

    @property
    def _decisions(self) -> PredictionFile:
        return PredictionFile(f"{self.path}.decisions", "float64")

    def answers(self, batch: LateBatch, at: slice, numbers: np.ndarray) -> Answers:
        """Return the predictions of rows whose labels have come.

        Raises
        ------
        Damaged
            A row has no prediction yet: no learner is given the label of such a row.
        """
        places = batch.places[at]
        first, n = int(places.min()), int(places.max()) + 1 - int(places.min())
        predicted = PredictionFile(self.path, self.task.decisions.dtype).read(first, n)
        if predicted.size != n:
            raise Damaged(self.path, "some of it is missing")
        width = self.task.decisions.outputs
        values = self._decisions.read(first * width, n * width)
        if values.size != n * width:
            raise Damaged(self._decisions.path, "some of it is missing")
        decisions = values.reshape(n, width)[places - first]
        return Answers(batch.targets[at], predicted[places - first], decisions, numbers[at])


class LateRows:
    """The rows whose labels came with a chunk of a stream.

    Parameters
    ----------
    stream : Stream
    batch : LateBatch
    cells : callable, or None
        Function from a chunk to the name of its cells in the store; None: the learner is on the rows themselves.
    predicted : Predicted
    chunk : int
        Last chunk that any of the rows is in.
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

    def learn(self, state: State, task: Task, block: int, offsets: np.ndarray | None) -> list[Answers]:
        """Give the learner the labels that come before a block, in their order; return them, if there are any.

        Parameters
        ----------
        offsets : ndarray of int64, or None
            Offsets of the cells that the state knows.
        """
        start, stop = np.searchsorted(self._batch.before, [block, block + 1])
        if start == stop:
            return []
        at = slice(int(start), int(stop))
        answers = self._predicted.answers(self._batch, at, self._numbers)
        learned, y = learned_rows(task, answers.targets), answers.targets
        wanted = np.arange(at.start, at.stop)
        if learned is not None:
            wanted, y = wanted[learned], y[learned]
        if wanted.size:
            state.partial_fit(self._rows_of(wanted, offsets), y, *weight_given(self._weights_of(wanted)))
        return [answers]

    def _rows_of(self, wanted: np.ndarray, offsets: np.ndarray | None) -> Rows | Cells:
        """Return some of the rows, in their order."""
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
        rows = np.ascontiguousarray(np.concatenate(parts)[back])
        return rows if offsets is None else Cells(rows, offsets).packed()

    def _weights_of(self, wanted: np.ndarray) -> Floats | None:
        """Return the weights of some of the rows, in their order; None if all rows weigh the same."""
        chunks = self._chunk_of[wanted]
        inside = self._batch.places[wanted] - self._firsts[chunks - self._first]
        weights = np.empty(wanted.size)
        for k in np.unique(chunks).tolist():
            here = np.flatnonzero(chunks == k)
            of_chunk = self._stream.weights(k)
            if of_chunk is None:
                return None
            weights[here] = of_chunk[inside[here]]
        return weights

    def _read(self, k: int) -> Int32s | Rows:
        if k not in self._rows:
            if self._cells is not None:
                self._rows[k] = self._stream.store.read_group(self._cells(k))[1]["codes"]
            else:
                self._rows[k] = self._stream.features(k)
        return self._rows[k]
