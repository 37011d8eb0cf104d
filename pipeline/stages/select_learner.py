"""A learner in a search: its candidates, which of them are still in the race, and their scores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ikmap.json_values import JsonObject
from ikmap.methods.values import Value, numbers_of, shown
from ikmap.racing import Candidate, Scored, Scores, best, standings, survivors
from ikmap.tasks import Criterion


@dataclass
class SearchedLearner:
    """A learner in cross-validation.

    Attributes
    ----------
    name : str
    parameter : str
        Name of its values: "psi", "gamma", "lambda"; "p, gamma" where several are chosen together.
    values : list of float
        All values to try, ascending.
    Cs : tuple of float
        Values of C to try at each, ascending; empty where C is not searched.
    criterion : Criterion
        Criterion by which candidates are compared.
    scores : Scores
    left : dict
        Values that are still in the race, and how many C are to be tried at each: a path to a C begins at the smallest.
    rounds : list of dict
        Candidates that were dropped after each round, and why.
    entered : int
        Number of values at the start of the race.
    decided : bool
        Whether the race has left one candidate only.
    """

    name: str
    parameter: str
    values: list[Value]
    criterion: Criterion
    Cs: tuple[float, ...] = ()
    scores: Scores = field(default_factory=Scores)
    left: dict[Value, int] = field(default_factory=dict)
    rounds: list[JsonObject] = field(default_factory=list)
    entered: int = 0
    decided: bool = False

    def __post_init__(self) -> None:
        self.left = dict.fromkeys(self.values, max(1, len(self.Cs)))
        self.entered = len(self.left)

    def go_on(self, values: Sequence[Value]) -> None:
        """Begin another race of some values, with the scores that they have already."""
        self.values = sorted({*self.values, *values})
        self.left = dict.fromkeys(sorted(values), max(1, len(self.Cs)))
        self.entered, self.decided = len(self.left), False

    @property
    def tried(self) -> list[Value]:
        """Values that some fold has scored, ascending."""
        return [value for value in self.values if self.scores.folds(value)]

    @property
    def folds(self) -> frozenset[int]:
        """Folds on which candidates are compared: those on which all values in the race with any score have one."""
        folds = [self.scores.folds(value) for value in self.left if self.scores.folds(value)]
        return frozenset.intersection(*folds) if folds else frozenset()

    @property
    def right(self) -> dict[Candidate, Scored]:
        """Scores of the held-out rows of :attr:`folds`, of each candidate in the race."""
        scores = self.scores.on(self.folds, self.left)
        return {(value, place): rows for (value, place), rows in scores.items() if place < self.left[value]}

    def leave_out(self, n_folds: int) -> None:
        """Drop candidates that can no longer become the best in the folds to come, and note why."""
        row_scores, done = self.right, len(self.folds)
        leader, behind = best(row_scores), standings(row_scores)
        kept = survivors(row_scores, done, n_folds)
        before = list(self.left)
        # In ascending order, so the last C that is kept for a value remains.
        self.left = {value: place + 1 for value, place in kept}
        dropped: list[JsonObject] = []
        for value in before:
            if value not in self.left:
                nearest = min((c for c in row_scores if c[0] == value), key=lambda c: (behind[c].rows, c))
                dropped.append({**self._named(nearest), "behind": behind[nearest].rows, "apart": behind[nearest].apart})
        self.rounds.append(
            {
                "folds": done,
                "rows": int(row_scores[leader].size),
                "best": self._named(leader),
                "candidates": len(row_scores),
                "candidates_left": len(kept),
                "left": list(self.left),
                "dropped": dropped,
            }
        )
        self.decided = len(kept) == 1

    def metrics(self, value: Value) -> list[float]:
        """Return the metric with each C, as far as every fold that has scored the value tried them."""
        return [self._metric(rows) for rows in self.scores.on(self.scores.folds(value), [value]).values()]

    def best_of(self, metrics: Sequence[float]) -> float:
        """Return the best of some values of the metric."""
        return max(metrics) if self.criterion.metric.higher_is_better else min(metrics)

    def chosen(self) -> Candidate:
        """Return the best candidate on the folds that all candidates in the race have in common."""
        return best(self.right)

    def standing(self) -> str:
        """Return the best candidate so far, for people, with half the width of its 95% interval."""
        row_scores = self.right
        candidate = best(row_scores)
        rows = row_scores[candidate]
        score, half_width = self._metric(rows), self.criterion.spread(rows)
        line = self.criterion.metric.line(score)
        return f"{describe(self._named(candidate))}: {line} +- {half_width:.4f} for {self.name}"

    def _metric(self, rows: np.ndarray) -> float:
        return float(self.criterion.score(rows.sum(), rows.size))

    def _named(self, candidate: Candidate) -> dict[str, float]:
        value, place = candidate
        return {**numbers_of(self.parameter, value), **({"C": self.Cs[place]} if self.Cs else {})}


def describe(candidate: Mapping[str, float]) -> str:
    """Return a candidate as text, for people: "psi 256, C 0.125"."""
    return ", ".join(f"{name} {value:g}" for name, value in candidate.items())


def listed(values: Sequence[Value]) -> str:
    """Return values as text, for people: "4, 8, 16"; of many the ends. Several chosen together: "(2, 0.5)"."""
    if len(values) > 4:
        return f"{shown(values[0])} to {shown(values[-1])}"
    return ", ".join(map(shown, values))
