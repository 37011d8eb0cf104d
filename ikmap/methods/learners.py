"""The kinds of learners: by what they are trained, and what they bring for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ikmap.methods.kinds import Choice, Integer, Real
from ikmap.methods.options import MethodOptions, OptionError, Setting, option

if TYPE_CHECKING:
    import numpy as np

    from ikmap.learners.rows import Block
from ikmap.methods.learner import Learner
from ikmap.methods.sample import Sample, Shape, Training


class OnlineOptions(MethodOptions):
    """Of all learners that learn from one row after the other."""

    eta: float = option(
        0.5,
        Real(0),
        help="step size of the online learners (default: 0.5)",
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
            "How much an error on a training row counts against a simple rule: a large C follows the "
            "training rows closely, a small one keeps the rule simple.",
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


class SolverOptions(MethodOptions):
    """How the problem of a :class:`DualLearner` is solved."""

    solver: str = option(
        "auto",
        Choice(("auto", "memory", "block", "distributed")),
        help="how svm, logistic and svr are solved: all rows in memory, block by block from a file, or in parts by "
        "many workers; auto goes by size",
    )
    parts: int | None = option(
        None, Integer(2), help="parts of the rows for --solver distributed (default: by size, 8 to 64)"
    )

    def check_together(self) -> None:
        super().check_together()
        if self.parts is not None and self.solver not in ("auto", "distributed"):
            raise OptionError(f"--parts {self.parts}: found --solver {self.solver}, expected distributed")


class StreamLearner(Learner):
    """Learns from one row after the other. Its states are not told what rows weigh.

    Attributes
    ----------
    grows : bool
        On cells: it goes on where the map gets more of them as a stream runs (:meth:`ikmap.methods.Map.extend`).
    carries : bool
        On cells: it goes on where partitionings are drawn anew as a stream runs (:meth:`ikmap.methods.Map.redrawn`).
    traced : mapping of str to str
        What its states tell of themselves as they learn, by name: the title of each in the report.
    asked_alerts : str
        Of one that alerts of rows: which of these names is the share of alerts that it is asked for.
    """

    way: ClassVar[Literal["online", "batch"]] = "online"
    runner: ClassVar[Literal["stream", "dual", "whole", "counts", "rounds"]] = "stream"
    grows: ClassVar[bool] = False
    carries: ClassVar[bool] = False
    traced: ClassVar[Mapping[str, str]] = MappingProxyType({})
    asked_alerts: ClassVar[str] = ""
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
            With these attributes and methods. `rows` are :class:`~ikmap.cells.Cells`, whose ``columns()`` has -1 where
            a row has no cell, or dense or CSR rows, as :attr:`on` says. `y` are targets: of classes their numbers,
            int32 from 0. K is 1 with two classes, of which a decision of 0 and above means the second, and with other
            tasks what ``task.decisions.outputs`` says.

            - ``partial_fit(rows, y)`` learns from the rows one after the other, and returns an object whose
              ``predicted``, shape (n,), says what the state predicted of each row before it learned from it.
            - ``decision_function(rows)``: float64 of shape (n, K).
            - ``model(classes, params)``: what is kept at the end, such as a
              :class:`~ikmap.learners.linear_model.LinearModel`, whose `divisor` is 1 where decisions are plain sums of
              weights. Its decisions are those of the state. Where targets are no classes, `classes` is empty.
            - ``checkpoint()``: arrays of numbers by name; ``restore(arrays)`` returns the state that goes on from them.
            - ``n_seen``: rows learned from. ``n_support``: those that changed the state, or that it keeps.

            Of a learner with :attr:`grows`, also ``grow(old, new)``: offsets of the cells before and from now on, each
            int64 of shape (t + 1,). A cell keeps its number within its partitioning, and what was learned of it; new
            ones are as if there had been no row in them (:func:`ikmap.cells.in_wider_layout`). Sizes are not part of
            the options: ``restore`` takes them from the arrays.

            Of a learner that :attr:`carries`, also ``carry(matrix, offsets)``: each value that it keeps by feature
            column becomes the matrix times those before (:func:`ikmap.partitioners.redrawn.carry_matrix`), and the
            cells have these offsets from now on.

            Of a learner that alerts of rows (:class:`ikmap.tasks.capabilities.AlertsRows`), `threshold`, if it has one:
            the score above which it does, as it is now.

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

    def asked(self, options: Any) -> dict[str, Any]:
        """What is to be solved: fields of :class:`~ikmap.learners.dual.linear_svm.SVMParams`."""
        loss = self.loss or options.loss
        return {"loss": loss, "C": float(options.C), "tol": options.tol, "class_weight": options.class_weights}

    def resolved(self, options: Any, *, searching: bool) -> Any:
        return options if options.C is not None else options.replace(C="auto" if searching else 5.0)

    def searches_C(self, options: Any) -> bool:
        return bool(options.C == "auto")


class WholeLearner(Learner):
    """Learns from all rows at once, in one task.

    Attributes
    ----------
    compared_on : int or None
        Cross-validation trains it on no more rows than this.
    """

    way: ClassVar[Literal["online", "batch"]] = "batch"
    runner: ClassVar[Literal["stream", "dual", "whole", "counts", "rounds"]] = "whole"
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

    Attributes
    ----------
    twice : bool
        It looks at the rows a second time, once the counts of all are known (:meth:`count_again`).
    """

    runner = "counts"
    twice: ClassVar[bool] = False
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
        """Counts of the rows of `a` and of `b`, which come after them: their sums, unless it says something else.

        Both are of :meth:`count`, or both of :meth:`count_again`.
        """
        return {name: array + b[name] for name, array in a.items()}

    def count_again(
        self, options: Any, value: float | None, block: Block, sample: Sample, counts: dict[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """What some rows add in the second look; `counts` are those of all rows in the first."""
        raise NotImplementedError

    def finish(
        self, options: Any, value: float | None, counts: dict[str, np.ndarray], sample: Sample
    ) -> tuple[Any, dict[str, Any]]:
        """Model of all rows by their counts, and what it has to say of itself: JSON values.

        Of one that looks twice, `counts` has those of both looks.
        """
        raise NotImplementedError

    def fit(self, options: Any, training: Training) -> tuple[Any, dict[str, Any]]:
        """Count all rows at once: for cross-validation."""
        rows: Any = training.rows
        offsets = getattr(rows, "offsets", None)
        n_columns = rows.shape[1] if offsets is None else rows.n_partitions
        sample = Sample(
            training.y.size, n_columns, training.task, rows.__getitem__, training.seed, offsets, training.tables
        )
        counts = self.count(options, training.value, training.block, sample)
        if self.twice:
            counts |= self.count_again(options, training.value, training.block, sample, counts)
        return self.finish(options, training.value, counts, sample)
