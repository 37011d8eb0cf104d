"""Capabilities: abstract classes for what only some methods can do, asked for by ``capability(method, Kind)``.

A method has a capability as a further base class. A map that is put together from several answers for its parts
(:class:`~ikmap.capability.Offers`), so that nobody asks by ``isinstance``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, Self

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ikmap.cells import Cells
    from ikmap.learners.rows import Block
    from ikmap.methods.method import Number
    from ikmap.methods.sample import Sample, Training
    from ikmap.partitioners import Partitions
    from ikmap.rows import Rows
    from ikmap.splits import CellSplit, Swept
    from ikmap.tasks import Task


# Of maps


class Path(ABC):
    """Finds the cells of all values of some fields in one pass."""

    @property
    @abstractmethod
    def along(self) -> frozenset[str]:
        """Names of these fields: maps that differ in nothing else share a task of cross-validation."""

    @property
    def small_first(self) -> bool:
        """Whether small values cost so much less that the first fold has tasks of their own for them."""
        return False

    @abstractmethod
    def path(
        self, values: Sequence[Mapping[str, Number]], sample: Sample, map_rows: Sequence[Rows], n_threads: int = 1
    ) -> Iterator[list[Cells]]:
        """Yield, for each choice of values, the cells of several sets of rows.

        Parameters
        ----------
        values : sequence of mapping
            Ascending; all with the same names of fields.
        sample : Sample
            Rows that all partitionings are drawn from.
        map_rows : sequence of ndarray or csr_array
            The sets of rows.
        """


class FitsInParts(ABC):
    """Fits its partitionings on all rows, each by itself, so that tasks can fit some of them."""

    @abstractmethod
    def fit_part(self, rows: Rows, seed: int, start: int, stop: int, n_threads: int = 1) -> Partitions:
        """Return partitionings ``start .. stop - 1`` of those that ``fit`` makes of a sample of these rows."""

    @abstractmethod
    def joined(self, parts: Sequence[Partitions]) -> Partitions:
        """Return what ``fit`` makes, from its parts in order."""

    @abstractmethod
    def check_size(self, rows: Rows, seed: int, room: float, cell_bytes: float = 0.0) -> None:
        """Refuse a map whose model, fitted on these rows, would take more than `room` bytes.

        Parameters
        ----------
        cell_bytes : float
            Bytes that a learner which follows the splits keeps of each cell beside the model; 0: none does.

        Raises
        ------
        DoesNotFit
        """


class DoesNotFit(ValueError):
    """A model that would take more memory than there is; its text says so, with ``{name}`` for options."""


class Redrawable(ABC):
    """Can draw partitionings of a stream anew from recent rows."""

    @abstractmethod
    def redrawn(
        self, model: Partitions, sample: Sample, number: int, n_threads: int = 1
    ) -> tuple[Partitions, NDArray[np.bool_]]:
        """Draw anew the half of the partitionings that were drawn longest ago.

        Parameters
        ----------
        model : Partitions
            As ``fit`` or this method gave it. It is not changed.
        sample : Sample
            Recent rows, and the seed of what is drawn.
        number : int
            How often it has been drawn anew then, from 1.

        Returns
        -------
        Partitions
        ndarray of bool, shape (t,)
            Partitionings that were drawn anew; the others have the same cells as before.
        """


class Growable(ABC):
    """Gets new cells for the rows of a stream. For a training set it never does."""

    @abstractmethod
    def extend(self, model: Partitions, rows: Rows, n_threads: int = 1) -> tuple[Partitions, Cells]:
        """Return the model with the cells that some more rows call for, and the cells of these rows in it.

        It grows by one row after the other, so that nothing depends on how rows are cut into calls. A cell keeps its
        number within its partitioning, and a row that was mapped its cells; new cells have the numbers that follow.

        Parameters
        ----------
        model : Partitions
            As ``fit`` or this method gave it. It is not changed: others may hold it.
        """


class Sweepable(ABC):
    """Splits its cells one after the other as one field grows, so that one pass can try all values of it.

    It is used where exactly that field is searched, by a learner that :class:`FollowsSplits`.

    Attributes
    ----------
    swept : str
        Name of the field.
    endless : bool
        Cells go on splitting, so a larger value than the last of a sweep is another map.
    """

    swept: ClassVar[str]
    endless: ClassVar[bool] = False

    @abstractmethod
    def events(
        self, limit: Number, sample: Sample, map_rows: Sequence[Rows], n_threads: int = 1
    ) -> tuple[list[Cells], Iterator[CellSplit]]:
        """Return the cells of several sets of rows before any split, and all splits up to a value, ascending.

        What ``fit`` makes of the sample for a value has the cells after all splits with that value or less.
        """


class CellTables(ABC):
    """Knows more of its cells than their numbers: what ``about.tables`` names."""

    @abstractmethod
    def cell_tables(self, model: Partitions, sample: Sample) -> Mapping[str, NDArray[np.float64]]:
        """Return, by name, a number for each feature column of a model that was fitted on this sample."""


class Splitting(Protocol):
    """Fitted partitionings that tell how their cells came to be, so that a sweep can go through stored rows."""

    def splits(self, map_rows: Sequence[Rows], n_threads: int = 1) -> tuple[list[Cells], Iterator[CellSplit]]:
        """Return what :meth:`Sweepable.events` does, of partitionings that were fitted for the limit.

        The rows that they were fitted on have a cell in every partitioning.
        """

    @property
    def lineage(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Parent of each column, in order of creation, and the column of each feature.

        The first columns are those before any split. Of the two cells that a split makes, one keeps the column of the
        cell that is split; the other has the next. The first array has, for each column, the one that it was split
        from, or itself; the second the column of each feature of the model.
        """


# Of learners


class FollowsSplits(ABC):
    """Finds the value of its map by one pass over all values, where the map is :class:`Sweepable`."""

    @abstractmethod
    def sweep(self, training: Training, held_out: Block, splits: Iterator[CellSplit]) -> Iterator[Swept]:
        """Follow the splits of the map's cells, and say after each how good what was learned by then is.

        Parameters
        ----------
        training, held_out
            What to learn from and what to predict, with the cells before the first split: sets 0 and 1 of the rows of
            each split. Some classes may be missing in either.

        Yields
        ------
        Swept
            After a split, or several: how good it is at the value of the last one.
        """


class SharesWork(ABC):
    """Has candidates that share what takes long: cross-validation hands them to one task."""

    @abstractmethod
    def sharing(self) -> Hashable | None:
        """Return a key: candidates with the same one share their work. None: it shares nothing with any other."""

    @abstractmethod
    def shared(self, learned: Rows, tested: Rows) -> tuple[Self, Rows, Rows]:
        """Do what candidates with this key share, and return a learner and rows to take in place of those given.

        What is learned from them and predicted for them is the same, to the bit.
        """


class DecidesOtherwise(ABC):
    """Has decisions that say more than one prediction a row, such as quantiles."""

    @abstractmethod
    def decision_task(self, task: Task) -> Task:
        """Return the task as the decisions of this learner are to be read."""
