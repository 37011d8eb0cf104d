"""What a learner says of itself: name, options, what there is to choose, memory, and how it learns.

Everything that has to do with one learner stands in its object, in a file of this folder: commands, cross-validation,
plan, training and report ask the object and never its name. The objects import nothing heavy before they are used,
so that ``--help`` answers at once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ikmap.methods.kinds import Choice, Real
from ikmap.methods.options import MethodOptions, Setting, option

if TYPE_CHECKING:
    import numpy as np

    from ikmap.learners.rows import Block
    from ikmap.methods.sweep import Split
    from ikmap.tasks import LearningTask


class OnlineOptions(MethodOptions):
    """Of all learners that learn from one row after the other."""

    eta: float = option(
        0.5,
        Real(0),
        help="step size of the online learners",
        setting=Setting(
            "η",
            "step size",
            "How far one row that is predicted badly moves the weights of a learner that sees row after row.",
        ),
    )


class BatchOptions(MethodOptions):
    """Of all learners that learn from all rows at once."""

    C: float | str | None = option(
        1.0,
        Real(0),
        help="weight of the loss of the batch learners, for features scaled so that K(x, x) = 1; auto chooses "
        "that of svm and logistic by cross-validation, with psi (default: for these two auto with --psi auto, else 5; "
        "for others 1)",
        setting=Setting(
            "C",
            "weight of errors",
            "How much a training row on the wrong side counts against a simple boundary: a large C follows the "
            "training rows closely, a small one keeps the boundary simple.",
        ),
    )
    tol: float = option(
        1e-3, Real(0), help="tolerance to stop at; for linear learners the certified relative duality gap"
    )
    class_weight: str = option(
        "none", Choice(("none", "balanced")), help="balanced weighs each class by the inverse of its share"
    )

    @property
    def class_weights(self) -> Literal["balanced"] | None:
        """As scikit-learn spells it."""
        return "balanced" if self.class_weight == "balanced" else None


@dataclass(frozen=True)
class Search:
    """What cross-validation is to choose for a method.

    Attributes
    ----------
    option : str
        Its name.
    parameter : str
        The same in the papers.
    values : tuple of numbers
        What to try, ascending.
    """

    option: str
    parameter: str
    values: tuple[Any, ...]


def combined(searches: Sequence[Search], given: Mapping[str, float]) -> Search:
    """Every combination of the values of several searches, and of numbers that are given: one search.

    Its values are tuples, its parameter the names of their numbers, see :func:`numbers_of`.
    """
    fixed = [Search(name, name, (value,)) for name, value in given.items()]
    of = [*searches, *fixed]
    return Search(
        JOINED.join(search.option for search in of),
        JOINED.join(search.parameter for search in of),
        tuple(product(*(search.values for search in of))),
    )


JOINED = ", "
"""Between the names of parameters that are chosen together."""


def numbers_of(parameter: str, value: Any) -> dict[str, float]:
    """What was chosen, by name: a number of one parameter, or several of "p, gamma"."""
    return dict(zip(parameter.split(JOINED), value if isinstance(value, tuple | list) else (value,), strict=True))


@dataclass(frozen=True)
class Sample:
    """What a learner may look at before it begins: rows to train on.

    Attributes
    ----------
    n_rows, n_columns : int
    task : LearningTask or None
        None for a map, which sees no labels.
    take : callable
        Rows by ascending number.
    seed : int
        Of the run.
    offsets : ndarray of int64, shape (t + 1,), or None
        Feature columns of the cells, for a learner on cells.
    """

    n_rows: int
    n_columns: int
    task: LearningTask | None
    take: Callable[[np.ndarray], Any]
    seed: int
    offsets: np.ndarray | None = None

    @property
    def n_classes(self) -> int:
        """Number of classes, where targets are classes, else 0."""
        return len(self.task.classes) if self.task else 0


@dataclass(frozen=True)
class Shape:
    """Sizes of what a learner is trained on.

    Attributes
    ----------
    n, d : int
        Rows, and columns; for a learner on cells, integers per row.
    nnz : int or None
        Entries of sparse rows; None: they are dense.
    outputs : int
        Columns of decisions: one for two classes, else one for each.
    """

    n: int
    d: int
    nnz: int | None
    outputs: int

    @property
    def n_classes(self) -> int:
        """Number of classes that have so many outputs."""
        return 2 if self.outputs == 1 else self.outputs

    @property
    def rows_bytes(self) -> int:
        """Of the rows in memory."""
        return 8 * self.n * self.d if self.nnz is None else 12 * self.nnz

    @property
    def nnz_per_row(self) -> float | None:
        return None if self.nnz is None else self.nnz / max(1, self.n)


@dataclass(frozen=True, kw_only=True)
class Learner:
    """Base of all learners.

    In all methods, ``options`` is one of its :attr:`Options`, and ``value`` is what was chosen or given for
    :meth:`parameter`.

    Attributes
    ----------
    name : str
        For ``--learner``, and in a store.
    title : str
        For people.
    on : {"cells", "rows"}
        Works on the cells of the run's partitioner, or on the rows themselves.
    Options : type
        What it can be told.
    same_as : str or None
        A learner with the very same decisions, cross-validated in its place.
    tasks : frozenset of str
        Names of the tasks that it serves (:data:`ikmap.tasks.TASKS`).
    way : {"online", "batch"}
        Learns from one row after the other, or from all at once.
    models : tuple of str
        Modules of the kinds of models that it makes: a process that reads one has to import them.
    runner : {"stream", "dual", "whole", "counts"}
        What trains it: one pass with checkpoints; the solvers of linear problems on cells; one task that has all rows;
        tasks that count blocks of rows, and one that adds up.
    working_set : bool
        It keeps kernel values of as many rows as it turns out to need: :meth:`needed_bytes` is then the least that
        training takes, unless it is told how many rows these are.
    takes_weights : bool
        It heeds the weights of rows (``Block.sample_weight``). One that does not is refused for a task whose rows weigh
        differently.
    loops : tuple of str
        Modules of compiled loops of its own, outside `ikmap`; those within it are found by their names.
    """

    name: str
    title: str
    on: Literal["cells", "rows"]
    same_as: str | None = None
    tasks: frozenset[str] = frozenset({"classification"})

    Options: ClassVar[type[MethodOptions]]
    way: ClassVar[Literal["online", "batch"]]
    runner: ClassVar[Literal["stream", "dual", "whole", "counts"]]
    models: ClassVar[tuple[str, ...]] = ("ikmap.learners.linear_model",)
    working_set: ClassVar[bool] = False
    takes_weights: ClassVar[bool] = False
    loops: ClassVar[tuple[str, ...]] = ()

    def compiled(self, options: Any, *, scoring: bool = False) -> frozenset[str]:
        """Words by which loops say who needs them (:mod:`ikmap._compiled`): to learn, or to score with its model."""
        if scoring:
            return frozenset({"cells-online"} if self.on == "cells" else ())
        return frozenset({self.name, f"{self.on}-{self.way}", *(self.same_as or "").split()})

    def resolved(self, options: Any, *, searching: bool) -> Any:
        """The options with what follows from those of the map: `searching`, whether its own is to be chosen."""
        return options

    def uses(self, values: Mapping[str, Any]) -> tuple[str, ...]:
        """Names of further methods that a run with it has, beside the map, with these of its options given."""
        return ()

    def bound(self, options: Any, others: Mapping[str, Any]) -> Any:
        """The options with those of the methods that it uses, which `others` has by name."""
        return options

    def parameter(self, options: Any) -> str | None:
        """Name of the number that is chosen or given for it, beside C; None: there is none, or it is the map's."""
        return None

    def search(self, options: Any, n_rows: int) -> Search | None:
        """What cross-validation on so many rows is to choose for it, beside C."""
        return None

    def given(self, options: Any) -> float | None:
        """What the options say of :meth:`parameter`, where it is not searched."""
        return None

    def searches_C(self, options: Any) -> bool:
        """Whether cross-validation is to choose C."""
        return False

    def sharing(self, options: Any, value: Any) -> Hashable | None:
        """Values of which this is the same share what takes long: cross-validation hands them to one task.

        None: it shares nothing with any other.
        """
        return None

    def share(self, options: Any, value: Any, learned: Any, tested: Any) -> tuple[Any, Any, Any]:
        """Do what values share, of which this is one: options and rows to take in place of those given.

        What is learned from them and predicted for them is the same, to the bit.
        """
        return options, learned, tested

    def sweeps(self, options: Any) -> bool:
        """Whether it finds the value of its map by :meth:`sweep`, where that is to be chosen, instead of by a grid."""
        return False

    def sweep(
        self, options: Any, training: Training, held_out: Block, splits: Iterator[Split]
    ) -> Iterator[tuple[int | float, float]]:
        """Follow the splits of the map's cells, and say after each how good what was learned by then is.

        Parameters
        ----------
        training, held_out
            What to learn from and what to predict, with the cells before the first split: sets 0 and 1 of the rows of
            each split. Some classes may be missing in either.

        Yields
        ------
        value, total
            After a split: its value, and the sum of the task's ``row_scores`` over the rows held out.
        """
        raise NotImplementedError

    def needed_bytes(self, options: Any, shape: Shape) -> int:
        """Memory that training takes in a worker, beside what every task has."""
        return 0

    def weigh(self, options: Any, task: LearningTask, targets: np.ndarray) -> np.ndarray | None:
        """How much training rows with these targets count: as the task says, or otherwise.

        As of :meth:`~ikmap.tasks.LearningTask.weights`: block by block, None where all weigh the same.
        """
        return task.weights(targets)

    def refused(self, rows: Any) -> tuple[int, int, float, str] | None:
        """Row, column (from 0), value and what is expected in its place, of the first value that it cannot take.

        What its kernel cannot take, the kernel refuses.
        """
        return None


class StreamLearner(Learner):
    """Learns from one row after the other. Its states are not told what rows weigh.

    Attributes
    ----------
    grows : bool
        On cells: it goes on where the map gets more of them as a stream runs (:meth:`ikmap.methods.Map.extend`).
    traced : mapping of str to str
        What its states tell of themselves as they learn, by name: the title of each in the report.
    """

    way = "online"
    runner = "stream"
    grows: ClassVar[bool] = False
    traced: ClassVar[Mapping[str, str]] = MappingProxyType({})
    Options: ClassVar[type[MethodOptions]] = OnlineOptions

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if cls.takes_weights:
            raise TypeError(f"{cls.__name__}.takes_weights: found True, expected False: streams hand on no weights")

    def start(self, options: Any, value: float | None, sample: Sample, n_threads: int = 1) -> Any:
        """State before the first row.

        Returns
        -------
        state
            With ``partial_fit(rows, y)``, which says in ``predicted`` what it predicted of each row before it learned
            from it; ``decision_function(rows)``, shape (n, K); ``model(classes, params)``, ``checkpoint()``,
            ``restore(arrays)``, ``n_seen``, ``n_support``. Where targets are no classes, `classes` is empty.

            Of a learner with :attr:`grows`, also ``grow(old, new)``: offsets of the cells before and from now on, each
            int64 of shape (t + 1,). A cell keeps its number within its partitioning, and what was learned of it; new
            ones are as if there had been no row in them (:func:`ikmap.cells.in_wider_layout`). Sizes are not part of
            the options: ``restore`` takes them from the arrays.

            Of a learner with :attr:`traced`, also ``traces()``: for each of its names a number, as it is now. They are
            recorded after each block of a stream, and at the points of the curve of a pass over a training set.
        """
        raise NotImplementedError

    def facts(self, state: Any) -> dict[str, Any]:
        """What it has to say of itself at the end, beside its support points: JSON values."""
        return {}


@dataclass(frozen=True, kw_only=True)
class DualLearner(Learner):
    """A linear one on cells, of which the dual problem is solved: in memory, block by block, or in parts.

    Attributes
    ----------
    loss : str or None
        Its loss; None: that of the options.
    """

    way = "batch"
    runner = "dual"
    takes_weights: ClassVar[bool] = True

    loss: str | None = None

    def resolved(self, options: Any, *, searching: bool) -> Any:
        return options if options.C is not None else options.replace(C="auto" if searching else 5.0)

    def searches_C(self, options: Any) -> bool:
        return bool(options.C == "auto")


@dataclass(frozen=True)
class Training:
    """What a learner learns from at once, and with.

    Attributes
    ----------
    block : Block
        All rows, with their targets, and what they weigh.
    classes : list
        Labels by class number; empty where targets are no classes.
    seed : int
        Of the run.
    value : float or None
        What was chosen or given for :meth:`Learner.parameter`.
    n_threads : int
    max_working_set : int or None
        Rows that fit into memory, for one with a working set.
    task : LearningTask or None
        What is learned; always there in a run.
    """

    block: Block
    classes: list[Any]
    seed: int
    value: float | None = None
    n_threads: int = 1
    max_working_set: int | None = None
    task: LearningTask | None = None

    @property
    def rows(self) -> Any:
        """Cells, or float64 ndarray or csr_array of shape (n, d)."""
        return self.block.rows

    @property
    def y(self) -> np.ndarray:
        """Targets, shape (n,)."""
        return self.block.y


class WholeLearner(Learner):
    """Learns from all rows at once, in one task.

    Attributes
    ----------
    compared_on : int or None
        Cross-validation trains it on no more rows than this.
    """

    way = "batch"
    runner: ClassVar[Literal["stream", "dual", "whole", "counts"]] = "whole"
    Options: ClassVar[type[MethodOptions]] = BatchOptions

    compared_on: ClassVar[int | None] = None

    def needed_bytes(self, options: Any, shape: Shape, rows: int | None = None) -> int:
        """Memory that training takes in a worker, beside what every task has; with `rows` in a working set."""
        return 0

    def fit(self, options: Any, training: Training) -> tuple[Any, dict[str, Any]]:
        """Model, and what it has to say of itself: JSON values.

        Raises
        ------
        ValueError
            The rows do not suit the learner.
        WorkingSetTooLarge
            More rows of them are needed.
        """
        raise NotImplementedError


class CountsLearner(WholeLearner):
    """Learns from counts, or sums, over the rows: blocks of rows are counted by many workers, and the counts merged.

    A run cuts the rows into blocks by their number and size only, and merges the counts of blocks in the order of the
    rows: sums of fractions have the same bits on any cluster and for any ``--shard-rows``. Where :meth:`count` heeds
    ``block.sample_weight``, :attr:`takes_weights` is to say so.
    """

    runner = "counts"
    Options: ClassVar[type[MethodOptions]] = MethodOptions

    def count(self, options: Any, value: float | None, block: Block, sample: Sample) -> dict[str, np.ndarray]:
        """What some rows add: arrays of the same names and shapes for any rows.

        Parameters
        ----------
        block : Block
            The rows, with their targets, and what they weigh.
        sample : Sample
            What is known of all rows: how many there are, their columns or the offsets of their cells, and the task.
        """
        raise NotImplementedError

    def merge(self, a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Counts of the rows of `a` and of `b`, which come after them: their sums, unless it says something else."""
        return {name: array + b[name] for name, array in a.items()}

    def finish(
        self, options: Any, value: float | None, counts: dict[str, np.ndarray], sample: Sample
    ) -> tuple[Any, dict[str, Any]]:
        """Model of all rows by their counts, and what it has to say of itself: JSON values."""
        raise NotImplementedError

    def fit(self, options: Any, training: Training) -> tuple[Any, dict[str, Any]]:
        """Count all rows at once: for cross-validation."""
        rows: Any = training.rows
        offsets = getattr(rows, "offsets", None)
        n_columns = rows.shape[1] if offsets is None else rows.n_partitions
        sample = Sample(training.y.size, n_columns, training.task, rows.__getitem__, training.seed, offsets)
        counts = self.count(options, training.value, training.block, sample)
        return self.finish(options, training.value, counts, sample)
