"""The way of a block of rows past a learner: the one loop of a stream, as it happens and when it is gone over again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from ikmap.methods.learner import State
from ikmap.tasks import Task, criterion_of
from pipeline.record_types import LearnRecord
from pipeline.rows.row_weights import weights_of
from pipeline.rows.stream_data import Stream
from pipeline.running.foreign import checked_decisions
from pipeline.running.working_clock import working_clock
from pipeline.streams.labels import scores_of, tally_of
from pipeline.streams.participant import Answers, Block, Participant
from pipeline.streams.predictions import Predictions
from pipeline.training.traces import traces_of


@dataclass
class Standing:
    """A learner on its stream, between two blocks.

    Attributes
    ----------
    learner : state of a StreamLearner
    task : Task
        Task that reads the decisions of the learner.
    predictions : Predictions
    participants : sequence of Participant
        All that take part beside it, in the order in which they are told.
    """

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

    def restore(self, arrays: Mapping[str, np.ndarray], stream: Stream, chunks: int) -> Self:
        """Return the standing after so many chunks, from the arrays of :meth:`checkpoint`."""
        left = dict(arrays)
        for participant in self.participants:
            prefix = participant.prefix
            own = {name: left.pop(name) for name in list(left) if prefix and name.startswith(prefix)}
            participant.restore({name.removeprefix(prefix): array for name, array in own.items()}, stream, chunks)
        self.learner = self.learner.restore(left)
        return self


class Witness(Participant, ABC):
    """Something that sees to the predictions of a block.

    Attributes
    ----------
    beside : sequence of Participant
        Participants that only tell of the stream: what is learned does not depend on them.
    """

    beside: Sequence[Participant] = ()

    @abstractmethod
    def predict(self, learner: State, block: Block) -> None:
        """Give a block its predictions, which are on disk from then on."""


class Live(Witness):
    """The witness of a learner that sees rows for the first time: it asks the learner, and writes down what it says.

    Parameters
    ----------
    name : str
        Name of the learner.
    task : Task
        Task that reads the decisions of the learner.
    traced : sequence of str
        Names of the learner's traces.
    predictions : Predictions
    beside : sequence of Participant
    """

    def __init__(
        self,
        name: str,
        task: Task,
        traced: Sequence[str],
        predictions: Predictions,
        beside: Sequence[Participant],
    ) -> None:
        self.name, self.task, self.traced, self.predictions, self.beside = name, task, traced, predictions, beside
        self.criterion = criterion_of(task)
        self.seconds = 0.0
        self._blocks: list[list[float | None]] = []
        self._answers: list[Answers] = []

    def predict(self, learner: State, block: Block) -> None:
        began = working_clock()
        block.decision = checked_decisions(learner, block.rows, self.name, self.task.decisions.outputs)
        block.predicted = self.task.decisions.predict(block.decision)
        block.predict_seconds += working_clock() - began
        self.predictions.write(block.first, len(block), block.predicted, block.decision)

    def rows_learned(self, learner: State, block: Block) -> None:
        self._answers += block.answers
        seconds = round(block.predict_seconds, 6), round(block.learn_seconds, 6)
        self.seconds += sum(seconds) + block.map_seconds
        scored = scores_of(self.criterion, block.answers)
        traces = traces_of(self.traced, learner)
        self._blocks.append([len(block), scored, *seconds, int(learner.n_support), *traces])

    def end_chunk(self) -> LearnRecord:
        return {"blocks": self._blocks, "tally": tally_of(self.task, self._answers)}


class Replay(Witness):
    """The witness of a learner that goes over rows again: it reads what was predicted when they came.

    Parameters
    ----------
    predictions : Predictions
    """

    def __init__(self, predictions: Predictions) -> None:
        self.predictions = predictions
        self._predicted = np.zeros(0)

    def begin_chunk(self, stream: Stream, k: int) -> None:
        self._predicted = self.predictions.read(stream.first_of(k), stream.rows_of(k))

    def predict(self, learner: State, block: Block) -> None:
        block.predicted = self._predicted[block.at]


def advance(standing: Standing, block: Block, witness: Witness) -> Standing:
    """Take a learner past a block of rows: they are predicted, then labels are shown, then they are learned from.

    1. The rows come. Late labels of earlier rows, which were there before, are learned; a map that grows takes in new
       cells; the rows are turned into what the learner takes.
    2. The rows are predicted. A live witness asks the learner and writes its predictions to disk; in a replay they are
       read from there.
    3. With the predictions on disk, alerts are listed, and labels are shown and learned from: those of the rows
       (:class:`~pipeline.streams.labels.ShownLabels`), or those of any rows that have come by now
       (:class:`~pipeline.streams.labels.LateLabels`).
    4. With the labels learned, losses are watched for drift, partitionings are redrawn, and the witness notes figures.

    Whatever is learned depends on the blocks alone: not on chunks, processes, checkpoints or the witness.
    """
    learner, everyone = standing.learner, (*witness.beside, *standing.participants, witness)
    for participant in everyone:
        participant.rows_come(learner, block)
    witness.predict(learner, block)
    for participant in everyone:
        participant.rows_predicted(learner, block)
    for participant in everyone:
        participant.rows_learned(learner, block)
    return standing


def go_through(standing: Standing, stream: Stream, k: int, witness: Witness) -> tuple[Standing, LearnRecord]:
    """Take a learner past all blocks of chunk k; return what those who take part say for its record."""
    everyone = (*witness.beside, *standing.participants, witness)
    for participant in everyone:
        participant.begin_chunk(stream, k)
    for block in blocks_of(stream, k):
        standing = advance(standing, block, witness)
    fields = LearnRecord()
    for participant in everyone:
        fields |= participant.end_chunk()
    return standing, fields


def blocks_of(stream: Stream, k: int) -> Iterator[Block]:
    """Yield the blocks of chunk k, before anything is known of them."""
    n, first, numbers, weights = stream.rows_of(k), stream.first_of(k), stream.numbers(k), stream.weights(k)
    for number, start in enumerate(range(0, n, stream.block_rows)):
        at = slice(start, min(start + stream.block_rows, n))
        yield Block(number, at, first + start, numbers[at], weights_of(weights, at))
