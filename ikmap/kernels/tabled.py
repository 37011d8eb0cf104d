"""A kernel on numbered rows with its shared part in a table, for many kernels on the same rows."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from typing import ClassVar, Self, cast

import numpy as np
from numpy.typing import ArrayLike

from ikmap.arrays import Floats, Int64s, Matrix
from ikmap.cells import Cells
from ikmap.json_values import JsonObject
from ikmap.kernels import kernel_as_dict, kernel_from
from ikmap.kernels.base import Kernel
from ikmap.kernels.shared import SharedKernel
from ikmap.rows import Rows


class KernelTable:
    """The shared part of the values of a kernel, float64 of shape (n, n + m).

    It has the pairs of n rows among themselves, and with m others. Copies of its owners share it.
    """

    def __init__(self, values: Floats) -> None:
        self.values = values

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    @classmethod
    def of[R: Cells | Rows, P: Sized](cls, kernel: SharedKernel[R, P], learned: R, tested: R) -> Self:
        """Return the table of n rows to learn from, and of m further rows with the next numbers."""
        shared: _Shared[R, P] = _Shared(kernel)
        return cls(np.hstack([shared.matrix(learned), shared.matrix(learned, tested)]))

    def kernel[R: Cells | Rows, P: Sized](self, kernel: SharedKernel[R, P]) -> TabledKernel:
        """Return a kernel with this shared part, for :func:`numbered` rows."""
        return TabledKernel(kernel_as_dict(kernel), self)


def numbered(first: int, n: int) -> Floats:
    """Return stand-ins for the rows ``first``, ``first + 1``, ...: float64 of shape (n, 1)."""
    return np.arange(first, first + n, dtype=np.float64)[:, None]


class _Numbered(Kernel[Rows, Int64s]):
    def checked(self, rows: Matrix | Cells) -> Rows:
        return np.ascontiguousarray(cast(ArrayLike, rows), dtype=np.float64)

    def points(self, rows: Rows) -> Int64s:
        return rows[:, 0].astype(np.int64)


@dataclass(frozen=True, eq=False)
class TabledKernel(_Numbered):
    """A kernel that looks up the values of another one.

    Attributes
    ----------
    of : dict
        The other, as :func:`ikmap.kernels.kernel_as_dict` has it.
    table : KernelTable
    """

    name: ClassVar[str] = "tabled"

    of: JsonObject
    table: KernelTable

    def __post_init__(self) -> None:
        object.__setattr__(self, "normalized", kernel_from(self.of).normalized)  # as the values are those of the other

    def values(self, left: Int64s, right: Int64s, out: Floats) -> None:
        values, n = self.table.values, self.table.values.shape[0]
        # At least one of two rows was learned from: for the others there is no row of the table.
        if (left < n).all():
            out[:] = values[np.ix_(left, right)]
        else:
            out[:] = values[np.ix_(right, left)].T
        kernel = kernel_from(self.of)
        assert isinstance(kernel, SharedKernel)
        kernel.finish(out)


class _Shared[R: Cells | Rows, P: Sized](Kernel[R, P]):
    """The shared part of a kernel as a kernel."""

    def __init__(self, kernel: SharedKernel[R, P]) -> None:
        self._kernel: SharedKernel[R, P] = kernel

    def checked(self, rows: Matrix | Cells) -> R:
        return self._kernel.checked(rows)

    def points(self, rows: R) -> P:
        return self._kernel.points(rows)

    def values(self, left: P, right: P, out: Floats) -> None:
        self._kernel.shared(left, right, out)
