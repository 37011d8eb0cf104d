"""The way of a block of rows past a learner: the one loop of a stream, as it happens and when it is gone over again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from ikmap.tasks import criterion_of
from pipeline.record_types import LearnRecord
from pipeline.rows.row_weights import weights_of
from pipeline.rows.stream_data import Stream
from pipeline.running.foreign import checked_decisions
from pipeline.running.working_clock import working_clock
from pipeline.streams.labels import scores_of, tally_of
from pipeline.streams.participant import Answers, Participant, Standing, StreamBlock
from pipeline.training.traces import traces_of


class Witness(Participant, ABC):
    """A participant that gives the rows of a block their predictions.

    Attributes
    ----------
    beside : sequence of Participant
        Participants that only tell of the stream: what is learned does not depend on them.
    """

    beside: Sequence[Participant] = ()

    @abstractmethod
    def predict(self, standing: Standing, block: StreamBlock) -> None:
        """Give a block its predictions, which are on disk from then on."""


class Live(Witness):
    """The witness of a learner that sees rows for the first time: it asks the learner, and writes down what it says.

    Parameters
    ----------
    name : str
        Name of the learner.
    traced : sequence of str
        Names of the learner's traces.
    beside : sequence of Participant
    """

    def __init__(self, name: str, traced: Sequence[str], beside: Sequence[Participant]) -> None:
        self.name, self.traced, self.beside, self.seconds = name, traced, beside, 0.0
        self._figures: list[list[float | None]] = []
        self._answers: list[Answers] = []

    def begin_chunk(self, standing: Standing, k: int) -> None:
        self._task, self._criterion = standing.task, criterion_of(standing.task)

    def predict(self, standing: Standing, block: StreamBlock) -> None:
        began, decisions = working_clock(), self._task.decisions
        block.decision = checked_decisions(standing.learner, block.rows, self.name, decisions.outputs)
        block.predicted = decisions.predict(block.decision)
        block.predict_seconds += working_clock() - began
        standing.predictions.write(block.first, len(block), block.predicted, block.decision)

    def rows_learned(self, standing: Standing, block: StreamBlock) -> None:
        self._answers += block.answers
        seconds = round(block.predict_seconds, 6), round(block.learn_seconds, 6)
        self.seconds += sum(seconds) + block.map_seconds
        scored, traces = scores_of(self._criterion, block.answers), traces_of(self.traced, standing.learner)
        self._figures.append([len(block), scored, *seconds, int(standing.learner.n_support), *traces])

    def end_chunk(self) -> LearnRecord:
        return {"blocks": self._figures, "tally": tally_of(self._task, self._answers)}


class Replay(Witness):
    """The witness of a learner that goes over rows again: it reads what was predicted when they came."""

    def begin_chunk(self, standing: Standing, k: int) -> None:
        stream = standing.stream
        self._predicted = standing.predictions.read(stream.first_of(k), stream.rows_of(k))

    def predict(self, standing: Standing, block: StreamBlock) -> None:
        block.predicted = self._predicted[block.at]


def advance(standing: Standing, block: StreamBlock, witness: Witness) -> Standing:
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
    everyone = (*witness.beside, *standing.participants, witness)
    for participant in everyone:
        participant.rows_come(standing, block)
    witness.predict(standing, block)
    for participant in everyone:
        participant.rows_predicted(standing, block)
    for participant in everyone:
        participant.rows_learned(standing, block)
    return standing


def go_through(standing: Standing, k: int, witness: Witness) -> tuple[Standing, LearnRecord]:
    """Take a learner past all blocks of chunk k; return what those who take part say for its record."""
    everyone = (*witness.beside, *standing.participants, witness)
    for participant in everyone:
        participant.begin_chunk(standing, k)
    for block in blocks_of(standing.stream, k):
        standing = advance(standing, block, witness)
    fields = LearnRecord()
    for participant in everyone:
        fields |= participant.end_chunk()
    return standing, fields


def blocks_of(stream: Stream, k: int) -> Iterator[StreamBlock]:
    """Yield the blocks of chunk k, before anything is known of them."""
    n, first, numbers, weights = stream.rows_of(k), stream.first_of(k), stream.numbers(k), stream.weights(k)
    for number, start in enumerate(range(0, n, stream.block_rows)):
        at = slice(start, min(start + stream.block_rows, n))
        yield StreamBlock(number, at, first + start, numbers[at], weights_of(weights, at))
