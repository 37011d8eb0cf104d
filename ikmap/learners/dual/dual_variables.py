"""Dual variables of more rows than memory should hold: in a temporary file, read and written block by block."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterator, Sequence

import numpy as np

from ikmap.arrays import Floats


class DualVariables:
    """A float64 for every problem and row, rows in the order of the blocks; at first zero.

    Parameters
    ----------
    n_problems : int
    sizes : sequence of int
        Rows of every block.
    """

    def __init__(self, n_problems: int, sizes: Sequence[int]) -> None:
        self._starts = np.cumsum([0, *sizes]).tolist()
        self._shape = n_problems, self._starts[-1]
        self._file = tempfile.TemporaryFile(prefix="ikmap-duals-")  # noqa: SIM115 - lives as long as this object
        weakref.finalize(self, self._file.close)
        self._file.truncate(8 * max(1, n_problems * self._starts[-1]))

    def read(self, problem: int, numbers: Sequence[int]) -> Floats:
        """Those of one problem and some blocks, one block after the other."""
        alpha = np.empty(sum(self._starts[b + 1] - self._starts[b] for b in numbers))
        for place, rows in self._runs(problem, numbers):
            self._file.seek(place)
            self._file.readinto(alpha[rows].data)
        return alpha

    def write(self, problem: int, numbers: Sequence[int], alpha: Floats) -> None:
        """The reverse of :meth:`read`."""
        for place, rows in self._runs(problem, numbers):
            self._file.seek(place)
            self._file.write(alpha[rows].data)

    def array(self) -> np.ndarray:
        """All of them, shape (n_problems, n): mapped into memory as they are looked at."""
        self._file.flush()
        return np.memmap(self._file, dtype=np.float64, mode="c", shape=self._shape)

    def _runs(self, problem: int, numbers: Sequence[int]) -> Iterator[tuple[int, slice]]:
        """Places in the file and what belongs there, neighbouring blocks at once."""
        row, k = 0, 0
        while k < len(numbers):
            first = k
            while k + 1 < len(numbers) and numbers[k + 1] == numbers[k] + 1:
                k += 1
            start, stop = self._starts[numbers[first]], self._starts[numbers[k] + 1]
            yield 8 * (problem * self._shape[1] + start), slice(row, row + stop - start)
            row, k = row + stop - start, k + 1
