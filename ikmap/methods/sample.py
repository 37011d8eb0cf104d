"""What learners and maps are given: rows to look at, sizes, and rows to train on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from ikmap.learners.rows import Block
    from ikmap.tasks import Task


@dataclass(frozen=True)
class Sample:
    """What a learner may look at before it begins: rows to train on.

    Attributes
    ----------
    n_rows, n_columns : int
    task : Task or None
        None for a map, which sees no labels.
    take : callable
        Rows by ascending number.
    seed : int
        Of the run.
    offsets : ndarray of int64, shape (t + 1,), or None
        Feature columns of the cells, for a learner on cells.
    tables : mapping of str to ndarray, shape (offsets[-1],)
        What the map knows of its cells, by the names that the learner asks for (``about.needs_tables``).
    reaches_all : bool
        Every row has a cell in some partitioning (:attr:`MapAbout.reaches_all`).
    """

    n_rows: int
    n_columns: int
    task: Task | None
    take: Callable[[np.ndarray], Any]
    seed: int
    offsets: np.ndarray | None = None
    tables: Mapping[str, np.ndarray] = field(default_factory=dict)
    reaches_all: bool = True

    @property
    def n_classes(self) -> int:
        """Number of classes, where targets are classes, else 0."""
        return len(self.task.codec.classes) if self.task else 0


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
    cells : int
        Feature columns of all partitionings together, at most, for a learner on cells.
    """

    n: int
    d: int
    nnz: int | None
    outputs: int
    cells: int = 0

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
    n_threads : int
    max_working_set : int or None
        Rows that fit into memory, for one with a working set.
    task : Task or None
        What is learned; always there in a run.
    tables : mapping of str to ndarray
        As of a :class:`Sample`.
    """

    block: Block
    classes: list[Any]
    seed: int
    n_threads: int = 1
    max_working_set: int | None = None
    task: Task | None = None
    tables: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def rows(self) -> Any:
        """Cells, or float64 ndarray or csr_array of shape (n, d)."""
        return self.block.rows

    @property
    def y(self) -> np.ndarray:
        """Targets, shape (n,)."""
        return self.block.y
