"""A kernel of numbered rows, whose shared part is looked up in a table: for many kernels on the same rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from ikmap.kernels import kernel_as_dict, kernel_from
from ikmap.kernels.base import Kernel
from ikmap.kernels.shared import SharedKernel


class KernelTable:
    """The shared part of a kernel's values: float64, shape (n, n + m).

    Of n rows among themselves, and with m others. It stays one object, however often what holds it is copied.
    """

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    @classmethod
    def of(cls, kernel: SharedKernel, learned: Any, tested: Any) -> Self:
        """The table of rows to learn from, and of others, which have the numbers after theirs."""
        shared = _Shared(kernel)
        return cls(np.hstack([shared.matrix(learned), shared.matrix(learned, tested)]))

    def kernel(self, kernel: SharedKernel) -> TabledKernel:
        """A kernel with this shared part, of :func:`numbered` rows."""
        return TabledKernel(kernel_as_dict(kernel), self)


def numbered(first: int, n: int) -> np.ndarray:
    """Rows that stand for those with the numbers ``first``, ``first + 1``, ...: float64, shape (n, 1)."""
    return np.arange(first, first + n, dtype=np.float64)[:, None]


class _Numbered(Kernel):
    def checked(self, rows: Any) -> Any:
        return np.ascontiguousarray(rows, dtype=np.float64)

    def points(self, rows: Any) -> Any:
        return rows[:, 0].astype(np.int64)


@dataclass(frozen=True, eq=False)
class TabledKernel(_Numbered):
    """Looks up what another kernel would compute.

    Attributes
    ----------
    of : dict
        The other, as :func:`ikmap.kernels.kernel_as_dict` has it.
    table : KernelTable
    """

    name: ClassVar[str] = "tabled"

    of: dict[str, Any]
    table: KernelTable

    def values(self, left: Any, right: Any, out: np.ndarray) -> None:
        values, n = self.table.values, self.table.values.shape[0]
        # At least one of two rows was learned from: for the others there is no row of the table.
        if (left < n).all():
            out[:] = values[np.ix_(left, right)]
        else:
            out[:] = values[np.ix_(right, left)].T
        kernel = kernel_from(self.of)
        assert isinstance(kernel, SharedKernel)
        kernel.finish(out)


class _Shared(Kernel):
    """The shared part alone."""

    def __init__(self, kernel: SharedKernel) -> None:
        self._kernel = kernel

    def checked(self, rows: Any) -> Any:
        return self._kernel.checked(rows)

    def points(self, rows: Any) -> Any:
        return self._kernel.points(rows)

    def values(self, left: Any, right: Any, out: np.ndarray) -> None:
        self._kernel.shared(left, right, out)
