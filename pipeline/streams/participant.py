"""Participants of a stream beside the state of the learner, and the block that they are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from ikmap.arrays import Floats
from ikmap.learners.rows import Rows as LearnerRows
from ikmap.methods.learner import State
from ikmap.tasks import Task
from pipeline.record_types import EndRecord, LearnRecord
from pipeline.rows.stream_data import Stream
from pipeline.streams.predictions import Predictions


@dataclass(frozen=True, eq=False)
class Answers:
    """Rows whose labels were shown to a learner, and its predictions when the rows came.

    Attributes
    ----------
    targets : ndarray, shape (n,)
    predicted : ndarray, shape (n,)
    decisions : ndarray of float64, shape (n, K), or None
        None where a learner learns again from rows whose metrics are known.
    numbers : ndarray of int64, shape (n,)
        Numbers of the rows, as they came.
    late : bool
        Whether the labels came after their rows.
    """

    targets: np.ndarray
    predicted: np.ndarray
    decisions: np.ndarray | None
    numbers: np.ndarray
    late: bool = False


@dataclass(eq=False)
class StreamBlock:
    """A block of rows on its way past a learner, and what has become of it so far.

    Attributes
    ----------
    number : int
        Number of the block in its chunk.
    at : slice
        The rows of the chunk that are in the block.
    first : int
        Place in the stream, after the initial rows, of the first row.
    numbers : ndarray of int64
        Numbers of the rows, as they came.
    weights : ndarray of float64, or None
    rows : Cells, float64 ndarray or csr_array
        The rows as the learner takes them, once they have come.
    predicted : ndarray
        The predictions, once the rows are predicted.
    decision : ndarray of float64, or None
        Decisions of the learner; None where it goes over the block again.
    answers : list of Answers
        Rows whose labels the learner has been shown since the block before.
    alarmed : bool
        Whether losses of these answers have raised an alarm.
    map_seconds, predict_seconds, learn_seconds : float
    """

    number: int
    at: slice
    first: int
    numbers: np.ndarray
    weights: Floats | None
    rows: LearnerRows = field(init=False)
    predicted: np.ndarray = field(init=False)
    decision: Floats | None = None
    answers: list[Answers] = field(default_factory=list)
    alarmed: bool = False
    map_seconds: float = 0.0
    predict_seconds: float = 0.0
    learn_seconds: float = 0.0

    def __len__(self) -> int:
        return self.numbers.size


class Participant:
    """A participant of the stream of a learner, which is told of each block in the order of the methods here.

    A participant that was not asked for is not in the list of those that take part. All methods do nothing by default.

    Attributes
    ----------
    prefix : str
        Beginning of the names of its arrays in a checkpoint.
    """

    prefix: ClassVar[str] = ""

    def begin_chunk(self, standing: Standing, k: int) -> None:
        """Take up chunk k."""

    def rows_come(self, standing: Standing, block: StreamBlock) -> None:
        """Act before the rows of a block are predicted."""

    def rows_predicted(self, standing: Standing, block: StreamBlock) -> None:
        """Act when the predictions of a block are on disk."""

    def rows_learned(self, standing: Standing, block: StreamBlock) -> None:
        """Act when the learner has learned from all labels that are known by now."""

    def end_chunk(self) -> LearnRecord:
        """Let go of the chunk; return fields for its record."""
        return {}

    def at_end(self, standing: Standing, chunks: int, ended: bool, offsets: np.ndarray | None) -> EndRecord:
        """Act after all chunks, before the learner is stored as a model; return fields for its record.

        Parameters
        ----------
        chunks : int
            Number of chunks that the learner has gone through.
        ended : bool
            Whether the stream has ended there; else the learner is stopped.
        offsets : ndarray of int64, or None
            Offsets of the cells of a map that has grown, at the end.
        """
        return {}

    def checkpoint(self) -> Mapping[str, np.ndarray]:
        """Return what has to be kept between chunks, as arrays by name."""
        return {}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go on from the arrays of :meth:`checkpoint`."""


@dataclass
class Standing:
    """A learner on its stream, between two blocks, with all that takes part.

    Attributes
    ----------
    stream : Stream
    learner : state of a StreamLearner
    task : Task
        Task that reads the decisions of the learner.
    predictions : Predictions
    participants : sequence of Participant
        In the order in which they are told.
    """

    stream: Stream
    learner: State
    task: Task
    predictions: Predictions
    participants: Sequence[Participant]

    def checkpoint(self) -> dict[str, np.ndarray]:
        """Return all that has to be kept between two chunks, as arrays by name."""
        arrays = dict(self.learner.checkpoint())
        for participant in self.participants:
            arrays |= {participant.prefix + name: array for name, array in participant.checkpoint().items()}
        return arrays

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go on from the arrays of :meth:`checkpoint`."""
        left = dict(arrays)
        for participant in self.participants:
            prefix = participant.prefix
            names = [name for name in left if prefix and name.startswith(prefix)]
            participant.restore({name.removeprefix(prefix): left.pop(name) for name in names})
        self.learner = self.learner.restore(left)
