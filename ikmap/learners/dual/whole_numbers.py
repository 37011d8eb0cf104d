"""Fixed-point weights of cells: their sums are exact in any order, so that two threads can share a sweep."""

from __future__ import annotations

from typing import NamedTuple, TypeGuard

import numpy as np

from ikmap.arrays import Floats, Integers, Words
from ikmap.learners.dual.momentum import LONGER
from ikmap.learners.rows import CellArrays, RowArrays

COARSEST = 2.0**30
"""Weights are counted in whole numbers if so many, of a row, are worth no more than a margin of 1."""


type CountedArrays = tuple[Integers, Words, float, float]
"""Arrays of cells whose weights are counted in whole numbers: the last entry is the unit."""


class WholeNumbers(NamedTuple):
    """The unit of fixed-point weights (see ``_rows_loops``).

    Attributes
    ----------
    unit : float
        A power of two.
    cell, constant : float
        Value of a count of 1 as the weight of a cell, and of the constant feature.
    """

    unit: float
    cell: float
    constant: float

    def rows(self, rows: CellArrays) -> CountedArrays:
        """Return arrays of cells in the fixed-point layout."""
        codes, base, value = rows
        return codes, base, value * value / self.unit, self.unit

    def counted(self, w: Floats) -> np.ndarray:
        """Return weights as rounded whole numbers."""
        numbers = w / self.cell
        numbers[-1] = w[-1] / self.constant if self.constant else 0.0
        return np.rint(numbers).astype(np.int64)

    def weights(self, counted: np.ndarray) -> Floats:
        """Return whole numbers as weights in float64."""
        w = counted * self.cell
        w[-1] = counted[-1] * self.constant
        return w


def complete_cells(rows: RowArrays) -> TypeGuard[CellArrays]:
    """Return whether arrays of rows are complete cells, whose weights alone can be fixed-point."""
    return len(rows) == 3 and isinstance(rows[2], float)


def dual_bound(squared_length: float, largest_cost: float) -> float:
    """Return a bound on the dual variables of classification, by the bound on ``|w|^2`` and the largest C of a row."""
    bound: float = 4.0 * LONGER * largest_cost + 2.0 * LONGER**1.5 * float(np.sqrt(largest_cost * squared_length))
    return bound


def whole_numbers(t: int, value: float, bias: float, squared_length: float, largest_dual: float) -> WholeNumbers | None:
    """Return the finest unit that int64 allows, or None if rounding to it could be noticed.

    Parameters
    ----------
    t : int
        Cells of a row.
    value, bias : float
        Feature value of a cell, and that of the constant feature, 0 for none.
    squared_length : float
        Bound on ``|w|^2`` from now on but for momentum, and with it on every sum of weights.
    largest_dual : float
        Bound on every dual variable, momentum included.
    """
    length = LONGER * np.sqrt(squared_length)
    largest = max(length * np.sqrt(t) / value, largest_dual)
    if bias:
        largest = max(largest, length / bias)
    # int64 ends at 2^63; three bits are left for the rounding of all this.
    unit = float(np.ldexp(1.0, 60 - int(np.frexp(largest)[1]))) if largest < np.finfo(float).max else 0.0
    if not COARSEST * (t * value**2 + bias**2) < unit < np.inf:
        return None
    return WholeNumbers(unit, value / unit, bias / unit)
