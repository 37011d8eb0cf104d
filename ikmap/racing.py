"""Successive halving of candidates: after each fold, drop those that can no longer win.

Every candidate of a fold predicts the same held-out rows, so two are compared row by row: where a row is right or
wrong, on the rows that only one of them has right (as in McNemar's test), which is far sharper than comparing two
accuracies. Scores that are no yes or no are compared by their differences in the same way.
Source: A. W. Moore, M. S. Lee, "Efficient algorithms for minimizing cross validation error", ICML 1994 (races with
blocking); the rule is that of stochastic curtailment.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from ikmap.arrays import Bools, Floats

type Scored = Bools | Floats
"""Result of each held-out row: whether it is right, or its score."""
ODDS = 0.01
"""A candidate runs on as long as its chance of ending ahead is larger than this."""
ALONE = 2
"""Rows on which two candidates are taken to differ beside those where they did: a floor under what few rows say."""

type Value = int | float | tuple[int | float, ...]
type Candidate = tuple[Value, int]
"""A value, such as psi, or a tuple of those that are chosen together; and the number of a C among those that are tried
in ascending order, 0 where there is none."""


class Scores:
    """Scores of the candidates of one learner: those of each held-out row, fold by fold."""

    def __init__(self) -> None:
        self._right: dict[Value, dict[int, list[Scored]]] = {}

    def add(self, value: Value, fold: int, right: Iterable[Scored]) -> None:
        """Note what one fold says of a value: arrays over its held-out rows, one for each C, in order."""
        self._right.setdefault(value, {})[fold] = list(right)

    @property
    def values(self) -> list[Value]:
        """Candidates with at least one scored fold, in ascending order."""
        return sorted(self._right, key=numbers)

    def folds(self, value: Value) -> frozenset[int]:
        """Return the folds in which a candidate has scores."""
        return frozenset(self._right.get(value, ()))

    def on(self, folds: Collection[int], values: Iterable[Value] | None = None) -> dict[Candidate, Scored]:
        """Return the scores of all candidates on the rows of some folds, one fold after the other.

        Only candidates that all of these folds have tried are there, the smaller value and C first.
        """
        scores: dict[Candidate, Scored] = {}
        for value in sorted(self._right if values is None else values, key=numbers):
            if folds and set(folds) <= self.folds(value):
                paths = [self._right[value][fold] for fold in sorted(folds)]
                for place, parts in enumerate(zip(*paths, strict=False)):
                    scores[value, place] = np.concatenate(parts)
        return scores


def numbers(value: Value) -> tuple[float, ...]:
    """Return the numbers of a value, by which values are in ascending order."""
    return value if isinstance(value, tuple) else (value,)


@dataclass(frozen=True)
class Behind:
    """The standing of a candidate against the best one.

    Attributes
    ----------
    rows : int or float
        Held-out rows that it has fewer right; else by how much less the scores of its rows add up to.
    apart : int or float
        Held-out rows that one of the two has right and the other has not; else the sum of squared differences.
    unit : float
        Squared difference that counts as one row: 1 of right and wrong.
    """

    rows: float
    apart: float
    unit: float = 1.0

    def chance(self, done: int, n_folds: int) -> float:
        """Return the probability of a higher score than the best candidate after all folds, given `done` of them.

        With D rows behind after r of F folds, the last count is normal around D F / r: m rows apart say how much a fold
        to come may vary, and how well the folds so far tell its mean. In all the chance is that of a standard normal
        value above D / sqrt(m (F - r) / F).
        """
        if done >= n_folds:
            return 0.0 if self.rows > 0 else 1.0
        return NormalDist().cdf(-self.rows / math.sqrt((self.apart + ALONE * self.unit) * (n_folds - done) / n_folds))


def best(right: Mapping[Candidate, Scored]) -> Candidate:
    """Return the candidate with the largest sum of scores, in a tie that with the smaller value, then C."""
    return max(sorted(right), key=lambda candidate: _sum(right[candidate]))


def standings(right: Mapping[Candidate, Scored]) -> dict[Candidate, Behind]:
    """Return the standing of each candidate against the best one."""
    leader = right[best(right)]
    if leader.dtype == np.bool_:
        return {candidate: Behind(_sum(leader) - _sum(own), _sum(leader != own)) for candidate, own in right.items()}
    unit = float(leader.var()) or 1.0
    return {
        candidate: Behind(_sum(leader) - _sum(own), _sum((leader - own) ** 2), unit) for candidate, own in right.items()
    }


def _sum(scores: Scored) -> float:
    """Return the sum of scores, a whole number for scores that are right or wrong."""
    total: float = scores.sum().item()
    return total


def survivors(right: Mapping[Candidate, Scored], done: int, n_folds: int, odds: float = ODDS) -> list[Candidate]:
    """Return the candidates that can still win, including the best one, after `done` of `n_folds` folds."""
    return [candidate for candidate, behind in standings(right).items() if behind.chance(done, n_folds) > odds]
