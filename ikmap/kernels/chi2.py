"""The additive chi-square kernel of non-negative rows (algorithms.md 8.5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ikmap.arrays import Floats, Matrix
from ikmap.cells import Cells
from ikmap.kernels.points import CHI2, PointKernel, Points, RowKernel, pair_sums
from ikmap.rows import Rows


class NonNegativeKernel[P: Points](RowKernel[P]):
    """Base of kernels that are not defined for negative values.

    Attributes
    ----------
    words : str
        Name of the kernel in messages.
    """

    words: ClassVar[str]

    def checked(self, rows: Matrix | Cells) -> Rows:
        """Return the rows as float64 in C order, or as a canonical csr_array.

        Raises
        ------
        ValueError
            If they are cells, or a value is not finite, or negative.
        """
        checked = super().checked(rows)
        refuse_negative(checked, self.words)
        return checked


@dataclass(frozen=True)
class AdditiveChi2Kernel(NonNegativeKernel[Points], PointKernel):
    """K(x, y) = sum_j 2 x_j y_j / (x_j + y_j), where a term 0 / 0 counts 0."""

    name: ClassVar[str] = "chi2"
    normalized: ClassVar[bool] = False
    words: ClassVar[str] = "chi-square"

    def values(self, left: Points, right: Points, out: Floats) -> None:
        """Write the kernel values of all pairs to `out`."""
        pair_sums(left, right, CHI2, out)


def first_negative(rows: Rows) -> tuple[int, int, float] | None:
    """Return row, column and value of the first negative value, or None."""
    values = rows if isinstance(rows, np.ndarray) else rows.data
    if (values >= 0).all():
        return None
    if isinstance(rows, np.ndarray):
        row, column = np.argwhere(rows < 0)[0]
        return int(row), int(column), float(rows[row, column])
    entry = int(np.flatnonzero(values < 0)[0])
    row = np.searchsorted(rows.indptr, entry, side="right") - 1
    return int(row), int(rows.indices[entry]), float(values[entry])


def refuse_negative(rows: Rows, kernel: str = "chi-square") -> None:
    """Raise ValueError if a value is below 0, naming row, column and value, and the kernel, in words."""
    if (negative := first_negative(rows)) is not None:
        row, column, value = negative
        raise ValueError(
            f"row {row}, column {column}: found {value}, expected a value >= 0: {kernel} is not defined "
            "for negative ones (scale the columns to [0, 1])"
        )
