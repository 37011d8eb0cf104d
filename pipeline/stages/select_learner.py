"""One learner in a search: its candidates, which of them are still in the race, and what is said of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ikmap.methods.search import Value, numbers_of, shown
from ikmap.racing import Candidate, Scored, Scores, best, standings, survivors
from ikmap.tasks import Criterion
from pipeline.record_types import Record


@dataclass
class SearchedLearner:
    """A learner that something is chosen for.

    Attributes
    ----------
    name : str
    parameter : str
        What its values are: "psi", "gamma", "lambda"; "p, gamma" where several are chosen together.
    values : list of float
        All that there are to try, ascending.
    Cs : tuple of float
        Values of C to try at each, ascending; empty where C is not searched.
    criterion : Criterion
        What they are compared by.
    scores : Scores
    left : dict
        Values that are still in the race, and how many C are to be tried at each: a path to a C begins at the smallest.
    rounds : list of dict
        What was left out when, and why.
    entered : int
        How many values there were at the start of the race.
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
    rounds: list[Record] = field(default_factory=list)
    entered: int = 0
    decided: bool = False

    def __post_init__(self) -> None:
        self.left = dict.fromkeys(self.values, max(1, len(self.Cs)))
        self.entered = len(self.left)

    def go_on(self, values: Sequence[Value]) -> None:
        """Begin another race, of these values: what is known of any of them stays known."""
        self.values = sorted({*self.values, *values})
        self.left = dict.fromkeys(sorted(values), max(1, len(self.Cs)))
        self.entered, self.decided = len(self.left), False

    @property
    def tried(self) -> list[Value]:
        """Values that some fold has scored, ascending."""
        return [value for value in self.values if self.scores.folds(value)]

    @property
    def folds(self) -> frozenset[int]:
        """Folds on which candidates are compared: all that have scored everything in the race that any has scored."""
        of = [self.scores.folds(value) for value in self.left if self.scores.folds(value)]
        return frozenset.intersection(*of) if of else frozenset()

    @property
    def right(self) -> dict[Candidate, Scored]:
        """Scores of the held-out rows of those folds, of each candidate in the race."""
        found = self.scores.on(self.folds, self.left)
        return {(value, place): rows for (value, place), rows in found.items() if place < self.left[value]}

    def leave_out(self, n_folds: int) -> None:
        """Leave out what the folds to come will not make the best any more, and note why."""
        right, done = self.right, len(self.folds)
        leader, behind = best(right), standings(right)
        kept = survivors(right, done, n_folds)
        before = list(self.left)
        # In ascending order, so the last C of a value that is kept is what remains.
        self.left = {value: place + 1 for value, place in kept}
        dropped = []
        for value in before:
            if value not in self.left:
                nearest = min((c for c in right if c[0] == value), key=lambda c: (behind[c].rows, c))
                dropped.append({**self._named(nearest), "behind": behind[nearest].rows, "apart": behind[nearest].apart})
        self.rounds.append(
            {
                "folds": done,
                "rows": int(right[leader].size),
                "best": self._named(leader),
                "candidates": len(right),
                "candidates_left": len(kept),
                "left": list(self.left),
                "dropped": dropped,
            }
        )
        self.decided = len(kept) == 1

    def figures(self, value: Value) -> list[float]:
        """The task's figure with each C, as far as every fold that has scored the value tried them."""
        return [self._figure(rows) for rows in self.scores.on(self.scores.folds(value), [value]).values()]

    def best_of(self, figures: Sequence[float]) -> float:
        """Return the best of some values of the figure."""
        return max(figures) if self.criterion.metric.higher_is_better else min(figures)

    def chosen(self) -> Candidate:
        """The best candidate on the folds that all in the race have in common."""
        return best(self.right)

    def standing(self) -> str:
        """The best so far, for people: with half the width of its 95% interval over so many rows."""
        right = self.right
        candidate = best(right)
        rows = right[candidate]
        figure, half = self._figure(rows), self.criterion.spread(rows)
        return f"{describe(self._named(candidate))}: {self.criterion.metric.line(figure)} +- {half:.4f} for {self.name}"

    def _figure(self, rows: np.ndarray) -> float:
        return float(self.criterion.score(rows.sum(), rows.size))

    def _named(self, candidate: Candidate) -> Record:
        value, place = candidate
        return {**numbers_of(self.parameter, value), **({"C": self.Cs[place]} if self.Cs else {})}


def describe(candidate: Record) -> str:
    """A candidate, for people: "psi 256, C 0.125"."""
    return ", ".join(f"{name} {value:g}" for name, value in candidate.items())


def listed(values: Sequence[Value]) -> str:
    """Values, for people: "4, 8, 16"; of many the ends. Several that are chosen together: "(2, 0.5)"."""
    if len(values) > 4:
        return f"{shown(values[0])} to {shown(values[-1])}"
    return ", ".join(map(shown, values))
