"""The input of learners and maps: samples of rows, sizes, and rows to train on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

    from ikmap.cells import Cells
    from ikmap.divisions import Division
    from ikmap.json_values import Label
    from ikmap.learners.rows import Block
    from ikmap.methods.about import MapAbout
    from ikmap.rows import Rows
    from ikmap.tasks import Task


@dataclass(frozen=True)
class Sample:
    """Facts on the training rows that a method can use before it begins, and access to the rows.

    Attributes
    ----------
    n_rows, n_columns : int
    task : Task or None
        Task of the rows; None for a map that sees no labels.
    take : callable
        Return the rows with these numbers, which must ascend; it may be called again and again, and reads from the
        store each time.
    seed : int
        Seed of the run.
    offsets : ndarray of int64, shape (t + 1,), or None
        First feature column of the cells of each partitioning, for a learner on cells.
    tables : mapping of str to ndarray, shape (offsets[-1],)
        Tables on the cells, by the names that the learner needs (``about.needs_tables``).
    reaches_all : bool
        True if every row has a cell in some partitioning (:attr:`MapAbout.reaches_all`).
    targets : callable or None
        Return the targets of the rows with these numbers, which must ascend; None where labels are hidden.
    division : callable or None
        Return the division of the rows with these numbers, which must ascend, for a learner that holds out some of
        them; None: rows are divided at random.
    """

    n_rows: int
    n_columns: int
    task: Task | None
    take: Callable[[np.ndarray], Rows]
    seed: int
    offsets: np.ndarray | None = None
    tables: Mapping[str, np.ndarray] = field(default_factory=dict)
    reaches_all: bool = True
    targets: Callable[[np.ndarray], np.ndarray] | None = None
    division: Callable[[np.ndarray], Division] | None = None

    @property
    def n_classes(self) -> int:
        """Number of classes, or 0 if targets are not classes."""
        return len(self.task.codec.classes) if self.task else 0

    def seen_by(self, description: MapAbout) -> Sample:
        """Return the sample as a map sees it: without labels, unless its cells depend on them."""
        return self if description.sees_labels else replace(self, task=None, targets=None)


@dataclass(frozen=True)
class Shape:
    """Sizes of the training rows of a learner.

    Attributes
    ----------
    n, d : int
        Numbers of rows and of columns; for a learner on cells, integers per row.
    nnz : int or None
        Number of entries of sparse rows; None for dense rows.
    outputs : int
        Columns of decisions: one for two classes, else one for each class.
    cells : int
        Largest number of feature columns of all partitionings together, for a learner on cells.
    """

    n: int
    d: int
    nnz: int | None
    outputs: int
    cells: int = 0

    @property
    def n_classes(self) -> int:
        """Number of classes with so many outputs."""
        return 2 if self.outputs == 1 else self.outputs

    @property
    def rows_bytes(self) -> int:
        """Bytes of the rows in memory."""
        return 8 * self.n * self.d if self.nnz is None else 12 * self.nnz

    @property
    def nnz_per_row(self) -> float | None:
        """Entries of a sparse row on average; None for dense rows."""
        return None if self.nnz is None else self.nnz / max(1, self.n)


@dataclass(frozen=True)
class Training:
    """All training rows of a learner, and the settings of its run.

    Attributes
    ----------
    block : Block
        All rows, with their targets and weights.
    classes : list of labels
        Labels by class number; empty if targets are not classes.
    seed : int
        Seed of the run.
    n_threads : int
    max_working_set : int or None
        Number of rows that fit into memory, for a learner with a working set.
    task : Task or None
        Task of the learner, which a run always has.
    tables : mapping of str to ndarray
        Tables on the cells, as those of a :class:`Sample`.
    division : Division or None
        Division of the rows for a learner that holds out some of them; None: rows are divided at random.
    """

    block: Block
    classes: list[Label]
    seed: int
    n_threads: int = 1
    max_working_set: int | None = None
    task: Task | None = None
    tables: Mapping[str, np.ndarray] = field(default_factory=dict)
    division: Division | None = None

    @property
    def cells(self) -> Cells:
        """Cells of the rows, for a learner on cells."""
        from ikmap.cells import Cells

        assert isinstance(self.block.rows, Cells)
        return self.block.rows

    @property
    def rows(self) -> Rows:
        """Rows as a float64 ndarray or csr_array of shape (n, d), for a learner on rows."""
        from ikmap.cells import Cells

        assert not isinstance(self.block.rows, Cells)
        return self.block.rows

    @property
    def y(self) -> np.ndarray:
        """Targets, shape (n,)."""
        return self.block.y
