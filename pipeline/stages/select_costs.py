"""How long the rest of a search will take: learned from what is done."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

GROWTHS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)
"""A task's seconds are taken to grow with psi to one of these powers, whichever fits best."""
GROWTH = 0.0
"""The one that is taken until tasks of different sizes are done."""
POOLINGS = (0.5, 0.75, 1.0)
"""Values that a task scores share its reading and its search for cells: the sum over them is taken to one of these."""
POOLING = 0.5


class Costs:
    """Seconds of tasks of one kind.

    A task scores some values; its size is (the sum of value ** g times what is scored at each) ** p. One factor from
    sizes to seconds, one g and one p are fitted to all tasks that are done.
    """

    def __init__(self) -> None:
        self._done: list[tuple[Sequence[tuple[float, float]], float]] = []

    def add(self, work: Sequence[tuple[float, float]], seconds: float) -> None:
        """Note a task: pairs of a value and how much is scored there (as many C), and the seconds that it took."""
        self._done.append((work, max(seconds, 1e-6)))

    def seconds(self, work: Sequence[tuple[float, float]]) -> float | None:
        """What another task should take; None as long as none is done."""
        if not self._done:
            return None
        growth, pooling, factor = self._fit()
        return factor * _size(work, growth, pooling)

    def _fit(self) -> tuple[float, float, float]:
        found = []
        for growth, pooling in product(GROWTHS, POOLINGS):
            logs = [math.log(seconds / _size(work, growth, pooling)) for work, seconds in self._done]
            mean = math.fsum(logs) / len(logs)
            misfit = round(math.fsum((log - mean) ** 2 for log in logs), 9)
            unusual = abs(growth - GROWTH) + abs(pooling - POOLING)
            found.append((misfit, unusual, growth, pooling, math.exp(mean)))
        return min(found)[2:]


def _size(work: Sequence[tuple[float, float]], growth: float, pooling: float) -> float:
    return math.fsum(value**growth * amount for value, amount in work) ** pooling
