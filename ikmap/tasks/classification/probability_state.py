"""Metrics of probabilities of classes. Sums are in fixed point, so that they add up over shards in any grouping."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from ikmap.json_values import Json, list_of, whole_number, whole_numbers

BINS = 15
"""Number of bins of equal width in which probabilities are compared with observed frequencies."""
UNIT = 1 << 32
"""Inverse of the unit of sums: the value of a row is rounded by less than 2e-10."""
LEAST = 2.0**-52
"""Smallest probability: the logarithm of 0 would be infinite."""
AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False)
class ProbabilityState:
    """Losses of probabilities, and how often probabilities of each bin came true.

    With two classes, the probability of the second class is compared; with more, the largest one.

    Attributes
    ----------
    rows : int
    logs, squares : int
        Sums of log losses and of squared errors, in units.
    counts, probable, true : tuple of int
        By bin: rows, the sum of their probabilities in units, and the rows that came true.
    doubt : tuple of int
        By bin: the sum of p (1 - p) in units, the variance of the rows that come true if probabilities p are right.
    """

    rows: int = 0
    logs: int = 0
    squares: int = 0
    counts: tuple[int, ...] = (0,) * BINS
    probable: tuple[int, ...] = (0,) * BINS
    true: tuple[int, ...] = (0,) * BINS
    doubt: tuple[int, ...] = (0,) * BINS

    @classmethod
    def of(cls, target: np.ndarray, probability: np.ndarray) -> Self:
        """Count rows by class number and probabilities of shape (n, classes)."""
        logs, squares = losses(target, probability)
        if probability.shape[1] == 2:
            probable, hit = probability[:, 1], target == 1
        else:
            best = probability.argmax(axis=1)
            probable, hit = probability[np.arange(target.size), best], best == target
        bins = np.minimum((probable * BINS).astype(np.int64), BINS - 1)
        return cls(
            int(target.size),
            _sum(logs),
            _sum(squares),
            tuple(np.bincount(bins, minlength=BINS).tolist()),
            tuple(_sum(probable[bins == b]) for b in range(BINS)),
            tuple(np.bincount(bins[hit], minlength=BINS).tolist()),
            tuple(_sum(probable[bins == b] * (1 - probable[bins == b])) for b in range(BINS)),
        )

    def __add__(self, other: Self) -> Self:
        names = ("counts", "probable", "true", "doubt")
        pairs = [(getattr(self, name), getattr(other, name)) for name in names]
        bins = (tuple(a + b for a, b in zip(*pair, strict=True)) for pair in pairs)
        return type(self)(self.rows + other.rows, self.logs + other.logs, self.squares + other.squares, *bins)

    def as_json(self) -> list[Json]:
        """Return the state for a record."""
        return [self.rows, self.logs, self.squares, self.counts, self.probable, self.true, self.doubt]

    @classmethod
    def from_json(cls, values: Json) -> Self:
        """Return the state from which :meth:`as_json` made these values."""
        rows, logs, squares, *bins = list_of(values)
        counts, probable, true, doubt = (tuple(whole_numbers(values)) for values in bins)
        return cls(whole_number(rows), whole_number(logs), whole_number(squares), counts, probable, true, doubt)

    def metrics(self) -> dict[str, Json]:
        """Return both mean losses, the expected calibration error, its value by chance, and the calibration curve."""
        if not self.rows:
            return {"log_loss": None, "brier": None, "calibration_error": None, "calibration_chance": None}
        off = sum(abs(probable - true * UNIT) for probable, true in zip(self.probable, self.true, strict=True))
        return {
            "log_loss": self.logs / UNIT / self.rows,
            "brier": self.squares / UNIT / self.rows,
            "calibration_error": off / UNIT / self.rows,
            "calibration_chance": sum(_mean_deviation(doubt / UNIT) for doubt in self.doubt) / self.rows,
            "calibration_curve": [
                [round(probable / UNIT / count, 6), round(true / count, 6), count]
                for count, probable, true in zip(self.counts, self.probable, self.true, strict=True)
                if count
            ],
        }


def _mean_deviation(variance: float) -> float:
    """Return the mean deviation of a sum of errors y - p, where rows come true with probability p.

    It is that of a normal variable, and at most the sum of the deviations of the rows, which are 2 p (1 - p) each.
    """
    return min(math.sqrt(2 * variance / math.pi), 2 * variance)


def losses(target: np.ndarray, probability: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return log loss and squared error of each row.

    The squared error is that of the probability of the second of two classes, or the sum over all of more classes.
    """
    own = probability[np.arange(target.size), target]
    squares = (1 - own) ** 2
    if probability.shape[1] > 2:
        squares = (probability**2).sum(axis=1) - own**2 + squares
    return -np.log(np.maximum(own, LEAST)), squares


def _sum(values: np.ndarray) -> int:
    """Return the sum in units of 1 / UNIT."""
    whole = np.rint(values * UNIT).astype(np.int64)
    return sum(int(whole[start : start + AT_ONCE].sum()) for start in range(0, whole.size, AT_ONCE))
