"""Dual variables of many rows in a temporary file, read and written block by block."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterator, Sequence

import numpy as np

from ikmap.arrays import Floats


class DualVariables:
    """A float64 for every problem and row, in the order of the blocks, 0 at first.

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
        """Return the dual variables of one problem and some blocks, one block after the other."""
        alpha = np.empty(sum(self._starts[b + 1] - self._starts[b] for b in numbers))
        for place, rows in self._runs(problem, numbers):
            self._file.seek(place)
            self._file.readinto(alpha[rows].data)
        return alpha

    def write(self, problem: int, numbers: Sequence[int], alpha: Floats) -> None:
        """Write the dual variables of one problem and some blocks."""
        for place, rows in self._runs(problem, numbers):
            self._file.seek(place)
            self._file.write(alpha[rows].data)

    def array(self) -> np.ndarray:
        """Return all dual variables, shape (n_problems, n), mapped into memory."""
        self._file.flush()
        return np.memmap(self._file, dtype=np.float64, mode="c", shape=self._shape)

    def _runs(self, problem: int, numbers: Sequence[int]) -> Iterator[tuple[int, slice]]:
        """Yield places in the file and the slices that belong there, with neighbouring blocks joined."""
        row, k = 0, 0
        while k < len(numbers):
            first = k
            while k + 1 < len(numbers) and numbers[k + 1] == numbers[k] + 1:
                k += 1
            start, stop = self._starts[numbers[first]], self._starts[numbers[k] + 1]
            yield 8 * (problem * self._shape[1] + start), slice(row, row + stop - start)
            row, k = row + stop - start, k + 1
