"""The Isolation Kernel from cells: the share of partitionings in which two points fall in the same cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ikmap.arrays import Floats, Matrix
from ikmap.cells import Cells
from ikmap.kernels._isolation_loops import count_equal
from ikmap.kernels.base import Kernel


def isolation_kernel(a: Cells, b: Cells | None = None, n_threads: int | None = None) -> Floats:
    """Return the kernel matrix between the rows of two sets of cells.

    Equal cells are counted as integers and divided by t once, so values are exact multiples of 1/t and the matrix
    of a set with itself is exactly symmetric, with ones on its diagonal for rows that have all t cells (algorithms.md,
    section 3.4). Where a row has no cell, it shares none.

    Parameters
    ----------
    a, b : Cells
        Cells of n and m rows under one model; b defaults to a.

    Returns
    -------
    ndarray of float64, shape (n, m)
        Values in [0, 1].

    Raises
    ------
    ValueError
        If the two come from different partitionings.
    """
    b = a if b is None else b
    if not np.array_equal(a.offsets, b.offsets):
        raise ValueError(
            f"cells of different partitionings: {a.n_partitions} of {a.n_columns} cells in all, "
            f"{b.n_partitions} of {b.n_columns}"
        )
    return IsolationKernel(a.n_partitions).matrix(a, None if b is a else b, n_threads)


@dataclass(frozen=True)
class IsolationKernel(Kernel[Cells, Cells]):
    """The Isolation Kernel as a function of cells, for learners that want kernel values: IK-OGD(dual), kernel SVM.

    Parameters
    ----------
    n_partitions : int
        Number t of partitionings.
    """

    name: ClassVar[str] = "isolation"

    n_partitions: int

    def checked(self, rows: Matrix | Cells) -> Cells:
        """Return the cells.

        Raises
        ------
        ValueError
            If they are something else, or cells of another number of partitionings.
        """
        if not isinstance(rows, Cells):
            raise ValueError(f"the isolation kernel takes cells, got {type(rows).__name__}")
        if rows.n_partitions != self.n_partitions:
            raise ValueError(f"cells of {rows.n_partitions} partitionings, expected {self.n_partitions}")
        return rows

    def points(self, rows: Cells) -> Cells:
        """Return cells with packed codes."""
        return rows.packed()

    def values(self, left: Cells, right: Cells, out: Floats) -> None:
        """Write the kernel values of all pairs to `out`."""
        self.steps(left, right, out)
        out /= self.n_partitions

    @property
    def unit(self) -> float:
        """Number t of partitionings, as steps are counts of equal cells."""
        return float(self.n_partitions)

    def steps(self, left: Cells, right: Cells, out: Floats) -> None:
        """Write the number of equal cells of all pairs to `out`; "no cell" (-1) equals nothing."""
        count_equal(left.codes, right.codes, out)
        few, many = sorted((left, right), key=len)
        if not few.complete and not many.complete:  # then both have one type, and one code for "no cell"
            out -= left.missing.astype(np.float64) @ right.missing.astype(np.float64).T
