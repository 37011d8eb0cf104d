"""Problems that are solved in rounds: each round asks something of every piece of the rows, and goes by the answers.

:mod:`pipeline.training.engine` solves them: in one task, or in a task for each piece and round.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, cast

import numpy as np

from ikmap.json_values import JsonObject
from ikmap.methods import Learner
from ikmap.methods.values import Value
from ikmap.model import Model
from pipeline.params import Params
from pipeline.record_types import TaskRecord, TrainedRecord, TrainResult
from pipeline.rows.prepared import PreparedRows
from pipeline.running.stage import Stage
from pipeline.storage.fitted import Fitted
from pipeline.storage.models import MODELS, save_model
from pipeline.storage.store import Store
from pipeline.training.runner import CellSizes, TrainingJob

if TYPE_CHECKING:
    from ikmap.methods.learner import Summary

type Arrays = Mapping[str, np.ndarray]
type Generations = tuple[Arrays, Arrays]
"""Arrays of a piece after the last round and after the one before; empty where there was no such round."""
SOLVER: Mapping[str, JsonObject] = {
    "solver": {
        "description": "All rows in one task, blocks of a file in one task, or parts of the rows side by side.",
        "enum": ["memory", "block", "distributed"],
    },
}
"""JSON Schema of the solver of a learner that has the choice."""
type RowsKey = tuple[str, str, Fitted | None]


class CountingSource(Protocol):
    """A source of rows that counts the bytes that are read from it."""

    bytes_read: int


@dataclass
class Held[Data]:
    """The rows of a piece, as a process keeps them from round to round.

    Attributes
    ----------
    data
        The rows in the form in which the work takes them.
    rows : int
    sources : tuple of CountingSource
        What the rows are read from, when they are opened and as the work goes on.
    rest : callable
        Function that releases until the next round what can be read again from a file.
    """

    data: Data
    rows: int
    sources: tuple[CountingSource, ...]
    rest: Callable[[], object] = lambda: None

    @property
    def bytes_read(self) -> int:
        """Number of bytes that have been read for the rows so far."""
        return sum(source.bytes_read for source in self.sources)


@dataclass(frozen=True)
class Rounds[State, Order, Data, Share](ABC):
    """A problem of a learner of a run that is solved in rounds, small enough to travel with every task.

    A round is :meth:`order`, :meth:`work` on every piece, and :meth:`absorb`. Pieces depend on the rows alone, and
    their shares are absorbed in the order of the pieces, so that the result has the same bits wherever work is done.

    Attributes
    ----------
    path : str
        Path of the store.
    learner : str
    fitted : Fitted or None
        Map of the cells; None for a learner on rows.
    value : number, tuple of numbers or None
        Value that was chosen or given for a learner on rows.
    params : Params
        Parameters of the run.
    durable : bool
        True if a round is a whole pass over the rows that takes long: each share is then stored, so that a run that
        was killed works on no piece again, and shares are absorbed by a task.
    owns : bool
        True if every piece has arrays of its own, which :meth:`work` is given and returns.
    metrics_schema : mapping of str to mapping
        JSON Schema of each field that solving adds to ``learners.NAME`` in ``metrics.json``.
    """

    path: str
    learner: str
    fitted: Fitted | None
    value: Value | None
    params: Params

    durable: ClassVar[bool] = False
    owns: ClassVar[bool] = False
    metrics_schema: ClassVar[Mapping[str, JsonObject]] = MappingProxyType({})

    @property
    def sends_orders(self) -> bool:
        """True if orders are small: they are sent with the tasks, and the state is written now and then.

        Else it is written in every round, and tasks make the order of it.
        """
        return False

    def rests(self, state: State) -> bool:  # noqa: ARG002
        """Return whether the arrays of a state have all that it knows: other states are not written.

        If orders are not sent with the tasks, each state is written, and it must always be so.
        """
        return True

    # The rounds

    @abstractmethod
    def begin(self) -> State:
        """Return the state before the first round."""

    @abstractmethod
    def order(self, state: State) -> Order | None:
        """Return the order of the next round; None when the problem is solved."""

    @abstractmethod
    def work(self, order: Order, piece: int, held: Held[Data], own: Generations) -> tuple[Share, Arrays]:
        """Do the work of a round on a piece; return its share, and the arrays that belong to the piece from now on."""

    @abstractmethod
    def absorb(self, state: State, order: Order, shares: Iterator[Share]) -> State:
        """Return the state after the round, from the shares of all pieces in their order."""

    @abstractmethod
    def checkpoint(self, state: State) -> Arrays:
        """Return the state as arrays by name."""

    @abstractmethod
    def restore(self, arrays: Arrays) -> State:
        """Return the state from which :meth:`checkpoint` made the arrays."""

    # The pieces

    @property
    @abstractmethod
    def n_pieces(self) -> int:
        """Number of pieces."""

    @abstractmethod
    def open(self, piece: int, in_memory: bool) -> Held[Data]:
        """Open a piece to be worked on: in memory, or from a file."""

    def size(self, piece: int) -> int:  # noqa: ARG002
        """Return the bytes of a piece in memory."""
        return 0

    def room(self) -> float:
        """Return the most bytes of pieces that this process may hold in memory."""
        return 0.0

    # The beginning and the end

    @classmethod
    def of(cls, job: TrainingJob) -> Sequence[Self]:
        """Return the problems of a learner, which are solved one after the other."""
        return [cls(job.context.store.path, job.learner, job.fitted, job.value, job.context.params)]

    @abstractmethod
    def finish(self, state: State) -> TaskRecord:
        """Store the solution and return a record."""

    @classmethod
    def result(cls, job: TrainingJob, stage: Stage, records: Sequence[TaskRecord], solver: str) -> TrainResult:
        """Finish the stage with the result of training, from the records of all problems."""
        (record,) = cast("Sequence[TrainedRecord]", records)
        solved_by = {"solver": solver} if solver else {}
        obsolete = [rounds_group(job.learner)] if cls.durable else []
        return stage.finish(job.result(record["content_hash"], {**record["learner"], **solved_by}), obsolete=obsolete)

    # The plan

    @classmethod
    def solver(cls, learner: Learner, held_bytes: int) -> str:  # noqa: ARG003
        """Return how a learner is trained on rows that take so many bytes: "memory", "block" or "distributed"."""
        return "distributed"

    @classmethod
    def needs(cls, learner: Learner, sizes: CellSizes, solver: str, blocks: float) -> tuple[float, str]:  # noqa: ARG003
        """Return the memory of a worker and how cells are held, as a runner does; `blocks`: to learn block by block."""
        return blocks, ""

    @classmethod
    def without_rounds(cls, job: TrainingJob, solver: str) -> tuple[Stage, Sequence[TaskRecord]] | None:  # noqa: ARG003
        """Solve the problems in one task each by a method of their own, or return None: they are solved in rounds."""
        return None

    # For all kinds

    def trained(self, model: Model, summary: Summary) -> TrainedRecord:
        """Store the model of the learner and return a record."""
        output = f"{MODELS}/{self.learner}"
        return {
            "content_hash": save_model(self.store, output, model),
            "bytes_written": model.nbytes,
            "outputs": [output],
            "learner": summary,
        }

    @property
    def name(self) -> str:
        """Name of the problem's record, unique within the stage."""
        return "solve"

    @property
    def rows_key(self) -> RowsKey:
        """Key of the rows of the pieces: problems with the same key share the pieces that are held."""
        return self.path, self.learner, self.fitted

    @property
    def store(self) -> Store:
        """Store of the run."""
        return Store(self.path)

    @property
    def train(self) -> PreparedRows:
        """Training rows of the run."""
        return PreparedRows(self.store, "train")

    @property
    def offsets(self) -> np.ndarray:
        """Offsets of the cells, int64 (t + 1,), for a learner on cells."""
        assert self.fitted is not None
        return self.fitted.offsets(self.store)


type AnyRounds = Rounds[Any, Any, Any, Any]


def rounds_group(learner: str) -> str:
    """Return the name in the store of the stored shares and states of a learner, until it is trained."""
    return f"{MODELS}/{learner}-counts"
