"""Estimate how long the rest of a search will take, from the tasks that are done."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

GROWTHS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)
"""Powers of psi with one of which, whichever fits best, the seconds of a task are taken to grow."""
GROWTH = 0.0
"""Power that is taken until tasks of different sizes are done."""
POOLINGS = (0.5, 0.75, 1.0)
"""Powers of the sum over the values of a task: the values share the reading of rows and the search for cells."""
POOLING = 0.5


class Costs:
    """An estimate of the seconds of tasks of one kind.

    A task scores some values; its size is (the sum of value ** g times the amount scored at each) ** p. One factor from
    sizes to seconds, one g and one p are fitted to all tasks that are done.
    """

    def __init__(self) -> None:
        self._n = 0
        # Sum, and sum of squares, of the logarithms of seconds by size.
        self._sums = dict.fromkeys(product(GROWTHS, POOLINGS), (0.0, 0.0))
        self._best = (GROWTH, POOLING, 1.0)

    def add(self, work: Sequence[tuple[float, float]], seconds: float) -> None:
        """Note a task: pairs of a value and the amount scored there (the number of C), and the seconds that it took."""
        self._n += 1
        fits = []
        for (growth, pooling), (total, squares) in self._sums.items():
            log = math.log(max(seconds, 1e-6) / _size(work, growth, pooling))
            total, squares = total + log, squares + log * log
            self._sums[growth, pooling] = total, squares
            misfit = round(max(0.0, squares - total * total / self._n), 9)
            unusual = abs(growth - GROWTH) + abs(pooling - POOLING)
            fits.append((misfit, unusual, growth, pooling, math.exp(total / self._n)))
        self._best = min(fits)[2:]

    def seconds(self, work: Sequence[tuple[float, float]]) -> float | None:
        """Return the seconds that another task should take; None as long as no task is done."""
        if not self._n:
            return None
        growth, pooling, factor = self._best
        return factor * _size(work, growth, pooling)


def _size(work: Sequence[tuple[float, float]], growth: float, pooling: float) -> float:
    cost: float = math.fsum(value**growth * amount for value, amount in work) ** pooling
    return cost
