"""Capabilities: abstract classes for what only some methods can do, asked for by ``capability(method, Kind)``.

A method has a capability as a further base class. A composed map answers for its parts
(:class:`~ikmap.capability.Offers`), so that ``isinstance`` would not do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ikmap.cells import Cells
    from ikmap.learners.out_of_fold import OutOfFold
    from ikmap.learners.rows import Block
    from ikmap.methods.learner import Summary
    from ikmap.methods.method import Number
    from ikmap.methods.sample import Sample, Training
    from ikmap.model import Model
    from ikmap.partitioners import Partitions
    from ikmap.rows import Rows
    from ikmap.splits import CellSplit, Swept
    from ikmap.tasks import Task


# Capabilities of maps


class Path(ABC):
    """Finds the cells of all values of some fields in one pass."""

    @property
    @abstractmethod
    def along(self) -> frozenset[str]:
        """Names of the fields: maps that differ in no other field share a task of cross-validation."""

    @property
    def small_first(self) -> bool:
        """True if small values cost so much less that the first fold has separate tasks for them."""
        return False

    @abstractmethod
    def path(
        self, values: Sequence[Mapping[str, Number]], sample: Sample, map_rows: Sequence[Rows], n_threads: int = 1
    ) -> Iterator[list[Cells]]:
        """Yield, for each choice of values, the cells of several sets of rows.

        Parameters
        ----------
        values : sequence of mapping
            Choices of values in ascending order, all with the same names of fields.
        sample : Sample
            Rows from which all partitionings are drawn.
        map_rows : sequence of ndarray or csr_array
            Sets of rows to map.
        """


class FitsByPartitioning(ABC):
    """Has partitionings of which each is fitted on all rows and does not depend on the others.

    A task can then fit some partitionings, on all rows.
    """

    @abstractmethod
    def fit_part(self, rows: Rows, seed: int, start: int, stop: int, n_threads: int = 1) -> Partitions:
        """Return the partitionings ``start .. stop - 1`` that ``fit`` would make from a sample of these rows."""

    @abstractmethod
    def joined(self, parts: Sequence[Partitions]) -> Partitions:
        """Return the partitionings that ``fit`` would make, from their parts in order."""

    @abstractmethod
    def check_size(self, rows: Rows, seed: int, room: float, cell_bytes: float = 0.0) -> None:
        """Refuse a map whose model, fitted on these rows, would take more than `room` bytes.

        Parameters
        ----------
        cell_bytes : float
            Bytes for each cell of a learner that follows the splits, beside the model; 0 without such a learner.

        Raises
        ------
        DoesNotFit
        """


class DoesNotFit(ValueError):
    """An error for a model that would not fit into memory; its message has ``{name}`` in place of options."""


class Redrawable(ABC):
    """Can redraw partitionings from recent rows of a stream."""

    @abstractmethod
    def redrawn(
        self, model: Partitions, sample: Sample, number: int, n_threads: int = 1
    ) -> tuple[Partitions, NDArray[np.bool_]]:
        """Redraw the half of the partitionings that were drawn longest ago.

        Parameters
        ----------
        model : Partitions
            Model that ``fit`` or this method returned. It is not changed.
        sample : Sample
            Recent rows, and the seed of the draw.
        number : int
            Number of the draw, from 1.

        Returns
        -------
        Partitions
        ndarray of bool, shape (t,)
            Mask of the redrawn partitionings; the others have the same cells as before.
        """


class Growable(ABC):
    """Gets new cells for the rows of a stream, but never for a training set."""

    @abstractmethod
    def extend(self, model: Partitions, rows: Rows, n_threads: int = 1) -> tuple[Partitions, Cells]:
        """Return the model with new cells for some rows, and the cells of these rows in it.

        The model grows row by row, so that the result does not depend on how the rows are split into calls. Cells keep
        their numbers within their partitionings, and mapped rows keep their cells; new cells have the next numbers.

        Parameters
        ----------
        model : Partitions
            Model that ``fit`` or this method returned. It is not changed, since others may hold it.
        """


class Sweepable(ABC):
    """Splits its cells one after the other as one field grows, so that one pass can try all values of it.

    It is used if exactly that field is searched, for a learner that :class:`FollowsSplits`.

    Attributes
    ----------
    swept : str
        Name of the field.
    endless : bool
        True if cells split without end, so that a value beyond the end of a sweep gives a different map.
    """

    swept: ClassVar[str]
    endless: ClassVar[bool] = False

    @abstractmethod
    def events(
        self, limit: Number, sample: Sample, map_rows: Sequence[Rows], n_threads: int = 1
    ) -> tuple[list[Cells], Iterator[CellSplit]]:
        """Return the cells of several sets of rows before any split, and all splits up to a limit, in ascending order.

        A map fitted on the sample with a value has the cells after all splits up to that value.
        """


class CellTables(ABC):
    """Has tables with a number for each cell, named in ``about.tables``."""

    @abstractmethod
    def cell_tables(self, model: Partitions, sample: Sample) -> Mapping[str, NDArray[np.float64]]:
        """Return the tables by name, each with a number for each feature column of a model fitted on this sample."""


class Splitting(Protocol):
    """Fitted partitionings that know the splits of their cells, so that a sweep can go through stored rows."""

    def splits(self, map_rows: Sequence[Rows], n_threads: int = 1) -> tuple[list[Cells], Iterator[CellSplit]]:
        """Return the result of :meth:`Sweepable.events` for partitionings that were fitted for the limit.

        Every row that they were fitted on has a cell in every partitioning.
        """

    @property
    def lineage(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Parent of each column, in order of creation, and the column of each feature.

        The first columns are those before any split. A split makes two cells: one keeps the column of the split cell,
        the other has the next column. The first array has, for each column, the column that it was split from, or
        itself; the second array has the column of each feature of the model.
        """


# Capabilities of learners


class FollowsSplits(ABC):
    """Chooses the value of a :class:`Sweepable` map by one pass over all values."""

    @abstractmethod
    def sweep(self, training: Training, held_out: Block, splits: Iterator[CellSplit]) -> Iterator[Swept]:
        """Follow the splits of the cells of the map, and score the learned decisions after them.

        Parameters
        ----------
        training, held_out
            Rows to learn from and rows to predict, with their cells before the first split; a split has them as sets 0
            and 1. Classes may be missing in either.

        Yields
        ------
        Swept
            Score at the value of the last split so far, after one split or several.
        """


class FollowsC(ABC):
    """Trains models for several values of a field ``C`` one after the other, each from where the one before ended."""

    @abstractmethod
    def path(self, training: Training, Cs: Sequence[float]) -> Iterator[Model]:
        """Yield models for ascending values of C, for cross-validation; each is trained when it is asked for."""


class SharesWork(ABC):
    """Has candidates that share slow work, which cross-validation hands to one task."""

    @abstractmethod
    def sharing(self) -> Hashable | None:
        """Return a key that is equal for candidates that share work, or None if there is nothing to share."""

    @abstractmethod
    def shared(self, learned: Rows, tested: Rows) -> tuple[Self, Rows, Rows]:
        """Do the shared work, and return a learner and rows to use in place of the given ones.

        Models and predictions have the same bits.
        """


class DecidesOtherwise(ABC):
    """Has decisions with a meaning of their own, such as several quantiles of a row."""

    @abstractmethod
    def decision_task(self, task: Task) -> Task:
        """Return the task with the meaning of the decisions of this learner."""


class LearnsSeparately(ABC):
    """Adds up models that are learned independently of each other, so that a task can learn each of them."""

    @property
    @abstractmethod
    def n_models(self) -> int:
        """Number of the models."""

    @abstractmethod
    def learn(self, k: int, training: Training) -> Model:
        """Return the model of number `k`, which is learned from all rows."""

    @abstractmethod
    def joined(self, models: Sequence[Model], training: Training) -> tuple[Model, Summary]:
        """Return what ``fit`` does, from all models in order."""


class LearnsOutOfFold(ABC):
    """Finds decisions on its training rows by models that have not learned from them, as it learns from the rows.

    Rows are divided as those of the run (``training.division``), so that a calibration uses the decisions.
    """

    @abstractmethod
    def fit_out_of_fold(self, training: Training) -> tuple[Model, Summary, OutOfFold]:
        """Return the model and the fields to report, as ``fit`` does, and the decisions, in the order of the rows."""
