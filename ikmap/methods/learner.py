"""Learners: configured objects, each of one of five kinds that say how it is trained.

Everything that has to do with one learner stands in its class, in a file of this folder: commands, cross-validation,
plan, training and report ask the object and never its name. The modules import nothing heavy before it is used, so that
``--help`` answers at once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, Self

from annotated_types import Ge, Gt

from ikmap.methods.about import LearnerAbout
from ikmap.methods.fields import Doc, FieldError, Searched, Symbol
from ikmap.methods.map import Map
from ikmap.methods.method import Method
from ikmap.methods.sample import Sample, Shape, Training

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ikmap.json_values import Json, JsonObject, Label
    from ikmap.learners.rows import Block, Rows
    from ikmap.model import Model

    type Arrays = Mapping[str, NDArray[np.generic]]
    type Counts = dict[str, NDArray[Any]]
    """Whole numbers, or sums of fractions."""
    type Summary = dict[str, Json]
    """What a learner reports of itself at the end, beside what all of its kind do."""

C_SYMBOL = Symbol(
    "C",
    "weight of errors",
    "How much an error on a training row counts against a simple rule: a large C follows the training rows closely, a "
    "small one keeps the rule simple.",
)
C_DOC = (
    "weight of the loss of the batch learners, for features scaled so that K(x, x) = 1; auto chooses that of svm and "
    "logistic by cross-validation, with psi (default: for these two auto with {psi} auto, else 5; for others 1)"
)
type Tolerance = Annotated[
    float, Gt(0), Doc("tolerance to stop at; for linear learners the certified relative duality gap")
]
type ClassWeight = Annotated[Literal["none", "balanced"], Doc("balanced weighs each class by the inverse of its share")]
type StepSize = Annotated[
    float,
    Gt(0),
    Doc("step size of the online learners (default: 0.5)"),
    Symbol(
        "η",
        "step size",
        "How far one row that is predicted badly moves the weights of a learner that sees row after row.",
    ),
]
type Solver = Annotated[
    Literal["auto", "memory", "block", "distributed"],
    Doc(
        "how svm, logistic and svr are solved: all rows in memory, block by block from a file, or in parts by many "
        "workers; auto goes by size"
    ),
]
type Parts = Annotated[int | None, Ge(2), Doc("parts of the rows for {solver} distributed (default: by size, 8 to 64)")]
type CWithMap = Annotated[float, Gt(0), Doc(C_DOC), Searched(with_map=True), C_SYMBOL]
"""C of a learner that chooses it by cross-validation where its map is chosen."""
type FixedC = Annotated[float, Gt(0), Doc(C_DOC), C_SYMBOL]


class Learner(Method):
    """Base of all learners. A learner is of one of the kinds below, which say how it is trained.

    Attributes
    ----------
    about : LearnerAbout
    """

    about: ClassVar[LearnerAbout]

    def for_task(self, task: str) -> Self:
        """Return the learner with what follows from a word of ``--task``, which "auto" may be."""
        return self

    def check_task(self, task: str) -> None:
        """Refuse a task of that name if the fields do not suit it, by a :class:`FieldError`."""

    def replaces_search(self, of_map: Map, searched: frozenset[str]) -> bool:
        """Return whether the learner says itself what the map has for the fields that are to be chosen.

        Then it has :meth:`map_on`. Whether it does is the same for any number of rows.
        """
        return False

    def map_on(self, of_map: Map, searched: frozenset[str], n_rows: int) -> Map | None:
        """Return the map for this learner on so many rows, of one that :meth:`replaces_search`."""
        return None

    def memory(self, shape: Shape, rows: int | None = None) -> int:
        """Return the bytes that training takes in a worker, beside what every task has.

        Parameters
        ----------
        rows : int, optional
            Of one with a working set, the rows in it; without it, the least that training takes.
        """
        return 0

    def takes_weights(self, task: str) -> bool:
        """Return whether it heeds what rows weigh (``Block.sample_weight``), in a task of that name.

        Then weights that are whole numbers are as good as rows that stand there as often. One that does not is refused
        for a task whose rows weigh differently.
        """
        return False

    def refused(self, rows: Rows) -> tuple[int, int, float, str] | None:
        """Return row, column (from 0), value and what is expected instead, of the first value that it cannot take."""
        return None

    @property
    def log_odds(self) -> bool:
        """Whether decisions are log odds of the classes, so that they are probabilities without a calibration."""
        return False


# One row after the other


class Progress(Protocol):
    """Report of a state on rows that it has learned from."""

    @property
    def predicted(self) -> NDArray[np.generic]:
        """Prediction for each row before it was learned from, shape (n,)."""


class State(Protocol):
    """State of a :class:`StreamLearner` between two rows.

    `rows` are :class:`~ikmap.cells.Cells`, whose ``columns()`` has -1 where a row has no cell, or dense or CSR rows, as
    ``about.on`` says. `y` are targets: of classes their numbers, int32 from 0. K is 1 with two classes, of which a
    decision of 0 and above means the second, and with other tasks what ``task.decisions.outputs`` says.

    A learner that :attr:`~StreamLearner.grows` has ``grow(old, new)``: offsets of the cells before and from now on,
    each int64 of shape (t + 1,). A cell keeps its number within its partitioning, and what was learned of it; new ones
    are as if there had been no row in them (:func:`ikmap.cells.in_wider_layout`). Sizes are not part of the fields:
    ``restore`` takes them from the arrays.

    A learner that :attr:`~StreamLearner.carries` has ``carry(matrix, offsets)``: each value that it keeps by feature
    column becomes the matrix times those before (:func:`ikmap.partitioners.redrawn.carry_matrix`), and the cells have
    these offsets from now on.

    A learner that alerts of rows has ``threshold``, the score above which it does, as it is now. One with
    :attr:`~StreamLearner.traced` has ``traces()``: for each of its names a number, as it is now. They are recorded
    after each block of a stream, and at the points of the curve of a pass over a training set.
    """

    @property
    def n_seen(self) -> int:
        """Rows learned from."""

    @property
    def n_support(self) -> int:
        """Rows that changed the state, or that it keeps."""

    def partial_fit(self, rows: Rows, y: NDArray[np.generic]) -> Progress:
        """Learn from the rows one after the other; a learner that takes weights also takes ``sample_weight``."""

    def decision_function(self, rows: Rows) -> NDArray[np.float64]:
        """Return the decisions, shape (n, K)."""

    def model(self, classes: list[Label], params: JsonObject) -> Model:
        """Return what is kept at the end; its decisions are those of the state. `classes` may be empty."""

    def checkpoint(self) -> Arrays:
        """Return the state as arrays by name."""

    def restore(self, arrays: Arrays) -> Self:
        """Return the state that goes on from a checkpoint."""


class StreamLearner(Learner):
    """A learner that learns from one row after the other.

    Attributes
    ----------
    grows : bool
        On cells: it goes on where the map gets more of them as a stream runs (:class:`Growable`).
    carries : bool
        On cells: it goes on where partitionings are drawn anew as a stream runs (:class:`Redrawable`).
    traced : mapping of str to str
        What its states tell of themselves as they learn, by name: the title of each in the report.
    requested_alerts : str
        Of one that alerts of rows: which of these names is the share of alerts that it is asked for.
    """

    grows: ClassVar[bool] = False
    carries: ClassVar[bool] = False
    traced: ClassVar[Mapping[str, str]] = {}
    requested_alerts: ClassVar[str] = ""

    @abstractmethod
    def start(self, sample: Sample, n_threads: int = 1) -> State:
        """Return the state before the first row."""

    def summary(self, state: State) -> Summary:
        """Return what it reports of itself at the end, beside its support points."""
        return {}


class GradientLearner(StreamLearner):
    """Base of stream learners whose steps have a size.

    Attributes
    ----------
    eta : float
    """

    eta: StepSize = 0.5


# Linear problems on cells


@dataclass(frozen=True)
class DualProblem:
    """A linear problem on cells, of which the dual is solved.

    Attributes
    ----------
    loss : str
    C, tol : float
    class_weight : {"balanced"} or None
    epsilon : float or None
        Width of an insensitive loss.
    """

    loss: str
    C: float
    tol: float
    class_weight: Literal["balanced"] | None = None
    epsilon: float | None = None


class BatchClassifier(Learner):
    """Base of learners of classes from all rows at once.

    Attributes
    ----------
    C, tol, class_weight
    """

    C: FixedC = 1.0
    tol: Tolerance = 1e-3
    class_weight: ClassWeight = "none"

    @property
    def weight_of_classes(self) -> Literal["balanced"] | None:
        """The class weight as scikit-learn spells it."""
        return "balanced" if self.class_weight == "balanced" else None


class DualLearner(Learner):
    """A linear learner on cells, of which the dual problem is solved: in memory, block by block, or in parts.

    Attributes
    ----------
    C, tol, solver, parts
    """

    C: CWithMap = 5.0
    tol: Tolerance = 1e-3
    solver: Solver = "auto"
    parts: Parts = None

    @property
    @abstractmethod
    def problem(self) -> DualProblem:
        """The linear problem that is to be solved."""

    def check(self, searched: frozenset[str]) -> None:
        super().check(searched)
        if self.parts is not None and self.solver not in ("auto", "distributed"):
            raise FieldError("parts", f"{{solver}} {self.solver}", "distributed", value=self.parts)

    def takes_weights(self, task: str) -> bool:
        return True


# All rows in one task


class WholeLearner(Learner):
    """A learner that learns from all rows at once, in one task.

    Attributes
    ----------
    compared_on : int or None
        Cross-validation trains it on no more rows than this.
    working_set : bool
        It keeps kernel values of as many rows as it turns out to need.
    """

    compared_on: ClassVar[int | None] = None
    working_set: ClassVar[bool] = False

    @abstractmethod
    def fit(self, training: Training) -> tuple[Model, Summary]:
        """Return the model, and what it reports of itself.

        Raises
        ------
        ValueError
            The rows do not suit the learner.
        WorkingSetTooLarge
            More rows of them are needed.
        """


# Counts


class CountsLearner(WholeLearner):
    """A learner from counts, or sums, over the rows: many workers count blocks, and the counts are merged.

    A run cuts the rows into blocks by their number and size only, and merges the counts of blocks in the order of the
    rows: sums of fractions have the same bits on any cluster and for any ``--shard-rows``. Where :meth:`count` heeds
    ``block.sample_weight``, :meth:`takes_weights` is to say so.

    Attributes
    ----------
    twice : bool
        It looks at the rows a second time, once the counts of all are known (:meth:`count_again`).
    """

    twice: ClassVar[bool] = False

    @abstractmethod
    def count(self, block: Block, sample: Sample) -> Counts:
        """Return what some rows add: arrays of the same names and shapes for any rows.

        Parameters
        ----------
        block : Block
            The rows, with their targets, and what they weigh.
        sample : Sample
            What is known of all rows: how many there are, their columns or the offsets of their cells, and the task.
        """

    def merge(self, a: Counts, b: Counts) -> Counts:
        """Return the counts of the rows of `a` and of `b`, which come after them: by default their sums.

        Both are of :meth:`count`, or both of :meth:`count_again`.
        """
        return {name: array + b[name] for name, array in a.items()}

    def count_again(self, block: Block, sample: Sample, counts: Counts) -> Counts:
        """Return what some rows add in the second look; `counts` are those of all rows in the first."""
        raise NotImplementedError

    @abstractmethod
    def finish(self, counts: Counts, sample: Sample) -> tuple[Model, Summary]:
        """Return the model of all rows by their counts, and what it reports of itself.

        Of one that looks twice, `counts` has those of both looks.
        """

    def fit(self, training: Training) -> tuple[Model, Summary]:
        """Count all rows at once: for cross-validation."""
        rows = training.rows
        offsets = getattr(rows, "offsets", None)
        n_columns = rows.shape[1] if offsets is None else rows.n_partitions
        sample = Sample(
            training.y.size, n_columns, training.task, rows.__getitem__, training.seed, offsets, training.tables
        )
        counts = self.count(training.block, sample)
        if self.twice:
            counts |= self.count_again(training.block, sample, counts)
        return self.finish(counts, sample)


# Rounds


class RoundState(Protocol):
    """The state of a :class:`RoundsLearner` between two rounds. Orders and sums are of any type that it has."""

    @property
    def order(self) -> Any:
        """The sums that are wanted next, as an object that can be pickled; None once it is done."""

    def absorb(self, sums: Any) -> None:
        """Go on with the sums over all rows."""

    def checkpoint(self) -> Arrays:
        """Return the state as arrays by name."""


class RoundsLearner(WholeLearner):
    """A learner that goes over all rows again and again: a state says what is to be summed up over all rows.

    A run cuts the rows into pieces (:meth:`pieces`) and adds up the sums of the pieces in their order, whether all rows
    are in memory, in a file, or on many workers: the model has the same bits.
    """

    @abstractmethod
    def begin(self, offsets: NDArray[np.int64], arrays: Arrays | None = None) -> RoundState:
        """Return the state before the first round, or that of which ``checkpoint`` made these arrays.

        Parameters
        ----------
        offsets : ndarray of int64, shape (t + 1,)
            Of the cells of the rows.
        """

    @abstractmethod
    def pieces(self, n_rows: int, offsets: NDArray[np.int64]) -> list[tuple[int, int]]:
        """Return consecutive pieces of so many rows, by the sizes only."""

    @abstractmethod
    def held(self, block: Block) -> Sequence[Any]:
        """Return some rows as :meth:`sums` takes them, in parts."""

    @abstractmethod
    def sums(self, order: Any, parts: Iterable[Any]) -> Any:
        """Return sums over the rows of a piece, part after part, whose cuts change no bit; they add up by ``+=``."""

    @abstractmethod
    def finish(self, state: RoundState, offsets: NDArray[np.int64]) -> tuple[Model, Summary]:
        """Return the model, and what it reports of itself."""

    @abstractmethod
    def path(self, training: Training, Cs: Sequence[float]) -> Iterator[Model]:
        """Yield models for ascending values of C, for cross-validation; the next one only when it is asked for."""

    def takes_weights(self, task: str) -> bool:
        return True
