"""A threshold between two classes, chosen by the costs of errors or for a wanted precision."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ikmap.json_values import Json

if TYPE_CHECKING:
    import numpy as np

    from ikmap.tasks.classification.class_scores import ClassScores

EXPECTED = "cost:MISSED:FALSE such as cost:5:1, precision:P, recall:R, f1 or balanced"


@dataclass(frozen=True)
class Threshold:
    """The goal of a threshold.

    Attributes
    ----------
    word : str
        Goal as the user typed it.
    goal : {"cost", "precision", "recall", "f1", "balanced"}
    numbers : tuple of float
        For "cost", the cost of a missed row of the second class, and of a row of the first class that is taken for the
        second; otherwise the wanted share.
    """

    word: str
    goal: str
    numbers: tuple[float, ...] = ()

    @classmethod
    def parse(cls, word: str) -> Threshold:
        """Return the goal of a word of ``--threshold-for``.

        Raises
        ------
        ValueError
            The word is no goal.
        """
        goal, *rest = word.split(":")
        wanted = {"cost": 2, "precision": 1, "recall": 1, "f1": 0, "balanced": 0}
        try:
            numbers = tuple(float(text) for text in rest)
        except ValueError:
            numbers = (math.nan,)
        fits = wanted.get(goal) == len(numbers) and all(math.isfinite(x) and x > 0 for x in numbers)
        if not fits or (goal in ("precision", "recall") and numbers[0] > 1):
            raise ValueError(f"found {word!r}, expected {EXPECTED}")
        return cls(word, goal, numbers)

    def choose(self, scores: ClassScores) -> tuple[float, dict[str, Json]]:
        """Return the best threshold, and its number of rows, precision and recall on these rows.

        Of equally good thresholds, the highest is chosen. If no threshold has the wanted precision, the one with the
        highest precision is chosen, and "reached" is false.
        """
        import numpy as np

        from ikmap.tasks.score_histogram import lower_edge, upper_edge

        (column,), bits = scores.columns, scores.bits
        others, own = column.counts.T
        # Candidates from the highest threshold down: first no row is taken, then the rows of the highest bin, ...
        hits, false = np.r_[0, np.cumsum(own[::-1])], np.r_[0, np.cumsum(others[::-1])]
        best, reached = self._best(hits, false)
        if best == 0:
            value = math.nextafter(upper_edge(int(column.bins[-1]), bits), math.inf)
        else:
            value = lower_edge(int(column.bins[-best]), bits)
        taken = int(hits[best] + false[best])
        return value, {
            "for": self.word,
            "value": value,
            "reached": reached,
            "rows": scores.rows,
            "precision": int(hits[best]) / taken if taken else None,
            "recall": int(hits[best]) / int(own.sum()) if own.sum() else None,
        }

    def _best(self, hits: np.ndarray, false: np.ndarray) -> tuple[int, bool]:
        """Return the number of the best candidate, and whether it reaches the goal."""
        import numpy as np

        positives, negatives = max(1, int(hits[-1])), max(1, int(false[-1]))
        if self.goal == "cost":
            missed, alarm = self.numbers
            return int(np.argmin(missed * (hits[-1] - hits) + alarm * false)), True
        if self.goal == "f1":
            return int(np.argmax(2 * hits / (hits + false + positives))), True
        if self.goal == "balanced":
            return int(np.argmax(hits / positives - false / negatives)), True
        if self.goal == "recall":
            return int(np.argmax(hits >= self.numbers[0] * positives)), True
        precision = np.r_[-1.0, hits[1:] / (hits[1:] + false[1:])]
        enough = np.flatnonzero(precision >= self.numbers[0])
        if enough.size:
            most = hits[enough].max()  # the highest recall, and among equals the highest threshold
            return int(enough[np.argmax(hits[enough] == most)]), True
        return int(np.argmax(precision)), False
