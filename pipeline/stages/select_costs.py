"""How long the rest of a search will take: learned from what is done."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

GROWTHS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25)
"""A task's seconds are taken to grow with psi to one of these powers, whichever fits best."""
GROWTH = 0.0
"""The one that is taken until tasks of different sizes are done."""


class Costs:
    """Seconds of tasks of one kind.

    A task scores some values; its size is the sum of value ** g times what is scored at each. One factor from sizes to
    seconds and one g are fitted to all tasks that are done.
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
        growth, factor = self._fit()
        return factor * _size(work, growth)

    def _fit(self) -> tuple[float, float]:
        found = []
        for growth in sorted(GROWTHS, key=lambda growth: abs(growth - GROWTH)):  # of equals the usual one
            logs = [math.log(seconds / _size(work, growth)) for work, seconds in self._done]
            mean = math.fsum(logs) / len(logs)
            found.append((math.fsum((log - mean) ** 2 for log in logs), growth, math.exp(mean)))
        _, growth, factor = min(found, key=lambda fit: round(fit[0], 9))
        return growth, factor


def _size(work: Iterable[tuple[float, float]], growth: float) -> float:
    return math.fsum(value**growth * amount for value, amount in work)
