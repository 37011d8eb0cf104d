"""Learners: configured objects, each of one of five kinds that decide how it is trained.

The kinds are :class:`StreamLearner`, :class:`DualLearner`, :class:`WholeLearner` and its subclasses
:class:`CountsLearner` and :class:`RoundsLearner`.

Everything that has to do with one learner stands in its class, in a file of this folder: commands, cross-validation,
plan, training and report ask the object and never for its name. The modules import nothing heavy before it is used, so
that ``--help`` is fast.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Protocol, Self

from annotated_types import Ge, Gt

from ikmap.methods.about import LearnerAbout
from ikmap.methods.fields import Doc, FieldError, Searched, Symbol
from ikmap.methods.method import InvalidValue, Method
from ikmap.methods.sample import Sample, Shape, Training

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ikmap.arrays import Array
    from ikmap.json_values import Json, JsonObject, Label
    from ikmap.learners.rows import Block, PieceRows, Rows
    from ikmap.model import Model

    type Arrays = Mapping[str, NDArray[np.generic]]
    type Counts = dict[str, Array]
    """Arrays of whole numbers or of sums, by name."""
    type Summary = dict[str, Json]
    """Fields that a learner reports at the end, beside those of all learners of its kind."""

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
"""C of a learner, which cross-validation chooses if it chooses the map."""
type FixedC = Annotated[float, Gt(0), Doc(C_DOC), C_SYMBOL]


class Learner(Method):
    """Base of all learners. A learner is of one of five kinds, which decide how it is trained.

    They are :class:`StreamLearner`, :class:`DualLearner`, :class:`WholeLearner`, :class:`CountsLearner` and
    :class:`RoundsLearner`.

    Attributes
    ----------
    about : LearnerAbout
    """

    about: ClassVar[LearnerAbout]

    def for_task(self, task: str) -> Self:
        """Return the learner with the fields that follow from a word of ``--task``, which can be "auto"."""
        return self

    def check_task(self, task: str) -> None:
        """Raise :class:`FieldError` if the fields do not suit the task of that name."""

    def unsearched_psi(self, n_rows: int) -> int | None:
        """Return the cells of a partitioning on so many rows for a learner without labels to choose them by.

        None: cross-validation chooses the fields of the map. It is None for all numbers of rows, or for none.
        """
        return None

    def memory(self, shape: Shape, rows: int | None = None) -> int:
        """Return the bytes that training takes in a worker, beside the memory of any task.

        Parameters
        ----------
        rows : int, optional
            Rows in the working set of a learner that has one; without it, the least memory of training is returned.
        """
        return 0

    def takes_weights(self, task: str) -> bool:
        """Return whether the learner uses sample weights (``Block.sample_weight``) in the task of that name.

        Whole numbers as weights are then equivalent to repeated rows. Other learners are refused for a task whose rows
        have weights.
        """
        return False

    def first_invalid(self, rows: Rows) -> InvalidValue | None:
        """Return the first value of the rows that the learner cannot take, or None."""
        return None

    @property
    def log_odds(self) -> bool:
        """True if decisions are log odds of the classes, which become probabilities without a calibration."""
        return False


# Learners from one row after the other


class Progress(Protocol):
    """The result of learning from some rows."""

    @property
    def predicted(self) -> NDArray[np.generic]:
        """Prediction for each row before it was learned from, shape (n,)."""


class State(Protocol):
    """State of a :class:`StreamLearner` between two rows.

    `rows` are :class:`~ikmap.cells.Cells`, whose ``columns()`` has -1 where a row has no cell, or dense or CSR rows,
    according to ``about.on``. `y` are targets; those of classes are class numbers, int32 from 0. K is
    ``task.decisions.outputs``: 1 with two classes, for which a decision >= 0 means the second class.

    The state of a learner that :attr:`~StreamLearner.grows` has ``grow(old, new)``, with the offsets of the cells
    before and from now on, each int64 of shape (t + 1,). A cell keeps its number within its partitioning, and what was
    learned in it; no row has been in a new cell (:func:`ikmap.cells.in_wider_layout`). Sizes are not part of the
    fields: ``restore`` takes them from the arrays.

    The state of a learner that :attr:`~StreamLearner.carries` has ``carry(matrix, offsets)``: the values by feature
    column become the matrix times the values before (:func:`ikmap.partitioners.redrawn.carry_matrix`), and the cells
    have the offsets from now on.

    The state of a learner with alerts has ``threshold``, the score above which it alerts. The state of a learner with
    :attr:`~StreamLearner.traced` has ``traces()``, a number for each name. Traces are recorded after each block of a
    stream, and at the points of the curve of a pass over a training set.
    """

    @property
    def n_seen(self) -> int:
        """Number of rows that it has learned from."""

    @property
    def n_support(self) -> int:
        """Number of rows that changed the state, or that it keeps."""

    def partial_fit(self, rows: Rows, y: NDArray[np.generic]) -> Progress:
        """Learn from the rows one after the other; a learner that takes weights also takes ``sample_weight``."""

    def decision_function(self, rows: Rows) -> NDArray[np.float64]:
        """Return the decisions, shape (n, K)."""

    def model(self, classes: list[Label], params: JsonObject) -> Model:
        """Return the model to keep at the end, with the decisions of the state. `classes` may be empty."""

    def checkpoint(self) -> Arrays:
        """Return the state as arrays by name."""

    def restore(self, arrays: Arrays) -> Self:
        """Return the state that continues from a checkpoint."""


class StreamLearner(Learner):
    """A learner that learns from one row after the other.

    Attributes
    ----------
    grows : bool
        True if a learner on cells can continue when the map gets new cells (:class:`Growable`).
    carries : bool
        True if a learner on cells can continue when partitionings are redrawn (:class:`Redrawable`).
    traced : mapping of str to str
        Title in the report of each number that its states trace, by name.
    requested_alerts : str
        Name of the trace with the requested share of alerts, for a learner with alerts.
    """

    grows: ClassVar[bool] = False
    carries: ClassVar[bool] = False
    traced: ClassVar[Mapping[str, str]] = {}
    requested_alerts: ClassVar[str] = ""

    @abstractmethod
    def start(self, sample: Sample, n_threads: int = 1) -> State:
        """Return the state before the first row."""

    def summary(self, state: State) -> Summary:
        """Return the fields that the learner reports at the end, beside its support points."""
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
    """A linear problem on cells, whose dual is solved.

    Attributes
    ----------
    loss : str
    C, tol : float
    class_weight : {"balanced"} or None
    epsilon : float or None
        Width of an epsilon-insensitive loss.
    """

    loss: str
    C: float
    tol: float
    class_weight: Literal["balanced"] | None = None
    epsilon: float | None = None


class BatchClassifier(Learner):
    """Base of classifiers that learn from all rows at once.

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
    """A linear learner on cells, whose dual problem is solved in memory, block by block, or in parts.

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
        """The linear problem to solve."""

    def check(self, searched: frozenset[str]) -> None:
        super().check(searched)
        if self.parts is not None and self.solver not in ("auto", "distributed"):
            raise FieldError("parts", f"{{solver}} {self.solver}", "distributed", value=self.parts)

    def takes_weights(self, task: str) -> bool:
        return True


# Learners from all rows in one task


class WholeLearner(Learner):
    """A learner that learns from all rows at once, in one task.

    Attributes
    ----------
    compared_on : int or None
        Largest number of rows on which cross-validation trains the learner.
    working_set : bool
        True if it keeps the kernel values of a set of rows that grows as needed.
    """

    compared_on: ClassVar[int | None] = None
    working_set: ClassVar[bool] = False

    @abstractmethod
    def fit(self, training: Training) -> tuple[Model, Summary]:
        """Return the model, and the fields to report.

        Raises
        ------
        ValueError
            The rows do not suit the learner.
        WorkingSetTooLarge
            The working set needs more rows than it may have.
        """


# Learners from counts


class CountsLearner(WholeLearner):
    """A learner from counts, or sums, over the rows: many workers count blocks, and the counts are merged.

    A run divides the rows into blocks by their number and size only, and merges the counts of blocks in the order of
    the rows, so that sums have the same bits on any cluster and for any ``--shard-rows``. If :meth:`count` uses
    ``block.sample_weight``, :meth:`takes_weights` must be true.

    Attributes
    ----------
    twice : bool
        True if it counts a second time, once the counts of all rows are known (:meth:`count_again`).
    """

    twice: ClassVar[bool] = False

    @abstractmethod
    def count(self, block: Block, sample: Sample) -> Counts:
        """Return the counts of some rows, with the same names and shapes for any rows.

        Parameters
        ----------
        block : Block
            The rows, with their targets and weights.
        sample : Sample
            Facts on all rows: their number, their columns or the offsets of their cells, and the task.
        """

    def merge(self, a: Counts, b: Counts) -> Counts:
        """Return the joint counts of rows with counts `a` and of the next rows with counts `b`: by default the sums.

        Both come from :meth:`count`, or both from :meth:`count_again`.
        """
        return {name: array + b[name] for name, array in a.items()}

    def count_again(self, block: Block, sample: Sample, counts: Counts) -> Counts:
        """Return the second counts of some rows, by the first counts of all rows."""
        raise NotImplementedError

    @abstractmethod
    def finish(self, counts: Counts, sample: Sample) -> tuple[Model, Summary]:
        """Return the model of all rows from their counts, and the fields to report.

        If the learner counts twice, `counts` has the arrays of both times.
        """

    def fit(self, training: Training) -> tuple[Model, Summary]:
        """Count all rows at once, for cross-validation."""
        from ikmap.cells import Cells

        rows, offsets = training.block.rows, None
        if isinstance(rows, Cells):
            n_columns, offsets = rows.n_partitions, rows.offsets
        else:
            n_columns = rows.shape[1]
        sample = Sample(
            training.y.size, n_columns, training.task, rows.__getitem__, training.seed, offsets, training.tables
        )
        counts = self.count(training.block, sample)
        if self.twice:
            counts |= self.count_again(training.block, sample, counts)
        return self.finish(counts, sample)


# Learners in rounds


class RoundState(Protocol):
    """State of a :class:`RoundsLearner` between two rounds. Each learner has types of its own for orders and sums."""

    @property
    def order(self) -> object:
        """Order of the next sums, an object that can be pickled; None when the learner is done."""

    def absorb(self, sums: Any) -> None:
        """Continue with the ordered sums over all rows."""

    def checkpoint(self) -> Arrays:
        """Return the state as arrays by name."""


type SumsOf = Callable[[Any], object]
"""The sums over the rows of a piece that an order asks for, which add up by ``+=``."""


class RoundsLearner(WholeLearner):
    """A learner in rounds, in each of which its state orders sums over all rows.

    A run divides the rows into pieces (:meth:`pieces`) and adds up the sums of the pieces in their order, so that the
    model has the same bits whether all rows are in memory, in a file, or on many workers.

    Attributes
    ----------
    small_orders : bool
        True if orders are small enough to be sent with every task. A state that goes on from a checkpoint may then give
        other orders than the one that wrote it, as long as the model is the same; else it gives the same order.
    most_in_memory : int
        Bytes of the rows, as pieces hold them, up to which one task holds all of them unless the solver is given.
    piece_bytes : int
        Bytes of a piece, for a learner that lets the run choose their number: of files, one piece at a time is mapped.
    """

    small_orders: ClassVar[bool] = False
    most_in_memory: ClassVar[int] = 64 << 20
    piece_bytes: ClassVar[int] = 256 << 20

    @abstractmethod
    def begin(self, sample: Sample, arrays: Arrays | None = None) -> RoundState:
        """Return the state before the first round, or the state from which ``checkpoint`` made the arrays.

        Parameters
        ----------
        sample : Sample
            Facts on all rows: their number, their columns or the offsets of their cells, and the task.
        """

    @abstractmethod
    def pieces(self, sample: Sample, n_pieces: int) -> list[tuple[int, int]]:
        """Return start and stop of consecutive pieces of the rows.

        Parameters
        ----------
        n_pieces : int
            Number of pieces that suits the run, for a learner whose model does not depend on it.
        """

    @abstractmethod
    def hold(self, rows: PieceRows, sample: Sample) -> SumsOf:
        """Return the function that makes the sums over the rows of a piece.

        It may keep what it needs from round to round, which is lost with its process: sums depend on the rows and the
        order only, or tell the state that something is missing, which then orders it.
        """

    @abstractmethod
    def row_bytes(self, columns: int, outputs: int) -> int:
        """Return the bytes of a row as a piece holds it.

        Parameters
        ----------
        columns : int
            Number of columns, for a learner on rows; else bytes of the packed cells of a row.
        outputs : int
            Columns of decisions: one for two classes, else one for each class.
        """

    @abstractmethod
    def finish(self, state: RoundState, sample: Sample) -> tuple[Model, Summary]:
        """Return the model, and the fields to report."""

    def rests(self, state: RoundState) -> bool:
        """Return whether a checkpoint of the state has all that it knows, for a learner whose orders are small.

        Only such states are written, and workers make rounds among themselves until it is so; it must be so now and
        then.
        """
        return True

    def choose_solver(self, held_bytes: int) -> str:
        """Return how the learner is trained on rows of so many bytes: "memory", "block" or "distributed"."""
        requested = str(self.value_at("solver"))  # all that learn in rounds have it
        if requested != "auto":
            return requested
        return "memory" if held_bytes <= self.most_in_memory else "distributed"
