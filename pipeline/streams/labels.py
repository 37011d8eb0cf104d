"""Labels of a stream, as a learner is shown them: those of a block when it is predicted, or any when they come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Floats
from ikmap.json_values import Json
from ikmap.learners.rows import Rows as LearnerRows
from ikmap.tasks import Criterion, Task, criterion_of
from ikmap.tasks.capabilities import learned_rows
from ikmap.tasks.scoring import accumulate, state_from
from pipeline.record_types import EndRecord, LearnRecord
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.row_weights import weight_given, weights_of
from pipeline.rows.stream_data import LateBatch, Stream
from pipeline.running.working_clock import working_clock
from pipeline.streams.participant import Answers, Participant, Standing, StreamBlock
from pipeline.streams.rows import StoredRows, StreamRows

TOGETHER, TOGETHER_BYTES = 65_536, 64 << 20
"""Most rows, and bytes of them, that are read again at the same time because their labels have come."""
NOTHING = np.empty((0, 0))

type RowsAt = Callable[[np.ndarray | None], tuple[LearnerRows, Floats | None]]
"""A function from positions among some rows, or None for all, to these rows as a learner takes them and weights."""


def learn(standing: Standing, targets: np.ndarray, rows_at: RowsAt) -> None:
    """Let a learner learn from those of some rows that its task learns from."""
    mask = learned_rows(standing.task, targets)
    wanted = None if mask is None or mask.all() else np.flatnonzero(mask)
    y = targets if wanted is None else targets[wanted]
    if y.size:
        rows, weight = rows_at(wanted)
        standing.learner.partial_fit(rows, y, *weight_given(weight))


def scores_of(criterion: Criterion, answers: Sequence[Answers]) -> float:
    """Return the sum of the scores of rows whose labels were shown."""
    scores = (criterion.row_scores(answer.targets, answer.predicted).sum().item() for answer in answers)
    return cast("float", sum(scores))


def tally_of(task: Task, answers: Sequence[Answers]) -> Json:
    """Return the accumulated metrics of rows whose labels were shown, for a record."""
    if not answers:
        return state_from(task, None).as_json()
    targets, decisions, numbers = (
        np.concatenate([getattr(answer, name) for answer in answers]) for name in ("targets", "decisions", "numbers")
    )
    return accumulate(task, targets, decisions, numbers).as_json()


class ShownLabels(Participant):
    """Labels that rows bring: a learner is shown those of a block as soon as the block is predicted."""

    def begin_chunk(self, standing: Standing, k: int) -> None:
        self._hidden = standing.stream.labels(k, standing.predictions.path)

    def rows_predicted(self, standing: Standing, block: StreamBlock) -> None:
        y = self._hidden.reveal(block.at.start, block.at.stop)

        def rows_at(wanted: np.ndarray | None) -> tuple[LearnerRows, Floats | None]:
            if wanted is None:
                return block.rows, block.weights
            return block.rows[wanted], weights_of(block.weights, wanted)

        began = working_clock()
        learn(standing, y, rows_at)
        block.learn_seconds += working_clock() - began
        block.answers.append(Answers(y, block.predicted, block.decision, block.numbers))


class LateLabels(Participant):
    """Labels that come after their rows: a learner is shown them in the order and at the blocks with which they came.

    Rows whose labels have come are read again, and what was predicted of them.

    Parameters
    ----------
    rows : StreamRows
        The participant that turns rows into what the learner takes.
    """

    def __init__(self, rows: StreamRows) -> None:
        self._rows = rows

    def begin_chunk(self, standing: Standing, k: int) -> None:
        self._come = self._late_rows(standing.stream, k, k)
        self._labelled: list[int] = []

    def rows_come(self, standing: Standing, block: StreamBlock) -> None:
        if block.number == 0:
            self._learn(standing, block, 0)

    def rows_predicted(self, standing: Standing, block: StreamBlock) -> None:
        self._learn(standing, block, block.number + 1)
        self._labelled.append(sum(answer.targets.size for answer in block.answers))

    def end_chunk(self) -> LearnRecord:
        del self._come
        return {"labelled": self._labelled}

    def at_end(self, standing: Standing, chunks: int, ended: bool, offsets: np.ndarray | None) -> EndRecord:
        if not ended or not chunks:
            return {}
        come = self._late_rows(standing.stream, None, chunks - 1)
        answers, task = self._shown(standing, come, 0), standing.task
        labelled, scored = sum(answer.targets.size for answer in answers), scores_of(criterion_of(task), answers)
        return {"at_end": {"labelled": labelled, "scored": scored, "tally": tally_of(task, answers)}}

    def _late_rows(self, stream: Stream, k: int | None, last: int) -> LateRows:
        """Return the rows whose labels came with chunk k; None: after the last chunk."""
        together = min(TOGETHER, max(1, TOGETHER_BYTES // PreparedRows(stream.store, "train").row_bytes))
        return LateRows(stream, stream.labels_with(k), self._rows, last, together)

    def _learn(self, standing: Standing, block: StreamBlock, before: int) -> None:
        began = working_clock()
        block.answers += self._shown(standing, self._come, before)
        block.learn_seconds += working_clock() - began

    @staticmethod
    def _shown(standing: Standing, come: LateRows, before: int) -> list[Answers]:
        """Show the learner the labels that come before a block; return them, if there are any."""
        at = come.at(before)
        if at.start == at.stop:
            return []
        places, targets = come.places[at], come.targets[at]
        first, n = int(places.min()), int(places.max()) + 1 - int(places.min())
        predicted = standing.predictions.read(first, n)[places - first]
        decisions = standing.predictions.decisions(first, n)[places - first]
        for start in range(at.start, at.stop, come.together):
            together = np.arange(start, min(start + come.together, at.stop))

            def rows_at(wanted: np.ndarray | None, among: np.ndarray = together) -> tuple[LearnerRows, Floats | None]:
                numbers = among if wanted is None else among[wanted]
                return come.rows(numbers), come.weights(numbers)

            learn(standing, come.targets[together], rows_at)
        return [Answers(targets, predicted, decisions, come.numbers[at], late=True)]


class LateRows:
    """The rows whose labels came with a chunk of a stream, in the order of their labels.

    Parameters
    ----------
    stream : Stream
    batch : LateBatch
    rows : StreamRows
        The participant that turns rows into what the learner takes.
    chunk : int
        Last chunk that any of the rows is in.
    together : int
        Number of rows that are read at the same time.

    Attributes
    ----------
    places, numbers : ndarray of int64
        Places of the rows in the stream after the initial rows, and their numbers as they came.
    targets : ndarray
    together : int
    """

    def __init__(self, stream: Stream, batch: LateBatch, rows: StreamRows, chunk: int, together: int) -> None:
        self.places, self.targets, self.numbers = batch.places, batch.targets, stream.rows_initial + batch.places
        self._stream, self._before, self._taking, self.together = stream, batch.before, rows, together
        self._group = -1
        self._stored: StoredRows = NOTHING
        first, begins = chunk, []
        while batch.places.size:
            begins.append(stream.first_of(first))
            if begins[-1] <= int(batch.places.min()):
                break
            first -= 1
        begins_of_chunks = np.array(begins[::-1], dtype=np.int64)
        chunks = np.searchsorted(begins_of_chunks, batch.places, side="right") - 1
        self._chunk_of, self._inside = first + chunks, batch.places - begins_of_chunks[chunks]

    def at(self, block: int) -> slice:
        """Return which of the rows have labels that come before a block."""
        start, stop = np.searchsorted(self._before, [block, block + 1])
        return slice(int(start), int(stop))

    def rows(self, wanted: np.ndarray) -> LearnerRows:
        """Return some of the rows, in their order, as the learner takes them now."""
        groups = wanted // self.together
        parts = [self._stored_of(g)[wanted[groups == g] - g * self.together] for g in np.unique(groups).tolist()]
        return self._taking.taken(_joined(parts))

    def _stored_of(self, group: int) -> StoredRows:
        """Return a group of the rows, in their order, as they are stored: the chunks that they are in are read once."""
        if group != self._group:
            self._group, self._stored = -1, NOTHING  # before the next is read: never two in memory
            wanted = np.arange(group * self.together, min((group + 1) * self.together, self.places.size))
            parts, order = [], []
            for k in np.unique(self._chunk_of[wanted]).tolist():
                here = np.flatnonzero(self._chunk_of[wanted] == k)
                parts.append(self._taking.stored(self._stream, k)[self._inside[wanted[here]]])
                order.append(here)
            self._group, self._stored = group, _joined(parts)[np.argsort(np.concatenate(order), kind="stable")]
        return self._stored

    def weights(self, wanted: np.ndarray) -> Floats | None:
        """Return the weights of some of the rows, in their order; None if all rows weigh the same."""
        weights = np.empty(wanted.size)
        for k in np.unique(self._chunk_of[wanted]).tolist():
            here = np.flatnonzero(self._chunk_of[wanted] == k)
            of_chunk = self._stream.weights(k)
            if of_chunk is None:
                return None
            weights[here] = of_chunk[self._inside[wanted[here]]]
        return weights


def _joined(parts: Sequence[StoredRows]) -> StoredRows:
    if sp.issparse(parts[0]):
        return sp.csr_array(sp.vstack(parts, format="csr"))
    return np.concatenate(cast("Sequence[np.ndarray]", parts))
