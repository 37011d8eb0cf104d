"""The models that an automatic choice tries, and the settings with which it goes on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ikmap.json_values import Json

type Options = Mapping[str, Json]
"""Values of a method's options, by name."""

BOOSTING, STACKING, LINEAR, CELLS_LEARNERS = "boosting", "stacking", "linear-model", {True: "logistic", False: "ridge"}
"""Names of learners; of those on cells, for classes (True) and for numbers."""
FOREST = "forest"
"""Name of the map whose trees are grown by labels."""
VARIANTS: Mapping[int, tuple[Options, ...]] = {
    0: ({"max_leaves": 8}, {"min_leaf": 5}, {"l2": 10.0}, {"shrinkage": 0.05}, {"column_share": 0.5}),
    2000: (
        {"shrinkage": 0.05},
        {"max_bins": 1024},
        {"column_share": 0.5},
        {"max_leaves": 12},
        {"l2": 10.0},
        {"max_leaves": 127},
    ),
    50_000: (
        {"max_leaves": 127},
        {"shrinkage": 0.05},
        {"max_leaves": 255},
        {"max_bins": 1024},
        {"column_share": 0.5},
        {"l2": 10.0},
    ),
}
"""Settings of boosting that are tried one after the other, by the number of rows that they are for at least: what
changed most for such numbers of rows comes first."""
BACKFITTED: tuple[Options, ...] = ({"backfit": 20}, {"backfit": 10, "backfit_l2": 100.0})
"""Settings that are tried first for numbers; classes hardly ever get better by them."""
MORE_VARIANTS: tuple[Options, ...] = ({"row_share": 0.7}, {"min_leaf": 60}, {"shrinkage": 0.02, "rounds": 3000})
"""Settings that are tried last, for any number of rows."""
T = 300
"""Partitionings of a map."""
MANY_LEAVES = 127
"""Leaves from which on twice as many may be tried."""
FEW_ROUNDS = 100
"""Rounds of boosting that a trial takes at least, for most rows."""


@dataclass(frozen=True)
class Candidate:
    """A model that is tried: a learner, its map if it is on cells, and options of both.

    Attributes
    ----------
    name : str
        Name in the leaderboard.
    learner : str
    partitioner : str
        Map of a learner on cells; else empty.
    scale : {"none", "minmax"}
        Scale that columns are brought to.
    options : mapping of str to value
        Options of the learner on rows, or of the map.
    """

    name: str
    learner: str
    partitioner: str = ""
    scale: str = "none"
    options: Options = field(default_factory=dict)

    @property
    def part(self) -> str:
        """Name as a part of a sum (:class:`~ikmap.methods.stacking.Stacking`)."""
        return self.partitioner or self.learner

    def with_options(self, options: Options) -> Candidate:
        """Return the candidate with further options, and a name that tells them."""
        changed = {**self.options, **options}
        words = " ".join(f"{key}={value}" for key, value in changed.items())
        return replace(self, name=f"{self.part} {words}", options=changed)


def candidates(*, classes: bool, dense: bool) -> list[Candidate]:
    """Return the candidates of a task, the usually cheap ones first.

    Parameters
    ----------
    classes : bool
        Whether targets are classes, else numbers.
    dense : bool
        Whether rows are dense: sparse ones cannot be scaled.
    """
    learner = CELLS_LEARNERS[classes]
    found = [
        Candidate(LINEAR, LINEAR),
        Candidate("iforest", learner, "iforest"),
        Candidate(BOOSTING, BOOSTING),
        Candidate(FOREST, learner, FOREST),
    ]
    if dense:
        found.append(Candidate("anne", learner, "anne", "minmax"))
    return found


def variants(best: Candidate, tried: Sequence[Candidate], n_rows: int, *, classes: bool) -> list[Candidate]:
    """Return candidates of boosting that differ from the best one in a setting, and have not been tried.

    Settings that have been tried least often, beside others, come first. Where many leaves are best, twice as many are
    tried too.

    Parameters
    ----------
    n_rows : int
        Number of rows that they learn from.
    classes : bool
        Whether targets are classes, else numbers.
    """
    known = [candidate.options for candidate in tried if candidate.learner == BOOSTING]
    by_rows = VARIANTS[max(least for least in VARIANTS if least <= n_rows)]
    leaves = best.options.get("max_leaves")
    larger = ({"max_leaves": 2 * leaves},) if isinstance(leaves, int) and MANY_LEAVES <= leaves < n_rows // 64 else ()
    settings = (*(() if classes else BACKFITTED), *by_rows, *larger, *MORE_VARIANTS)

    def times_tried(own: Options) -> int:
        return sum(own.items() <= candidate.options.items() for candidate in tried)

    changed = map(best.with_options, sorted(settings, key=times_tried))
    return [own for own in changed if own.options not in known]


def known_seconds(candidate: Candidate, n_rows: int, n_columns: int, n_classes: int, psi: int = 4096) -> float:
    """Return the seconds that learning takes at least, as far as they are known beforehand, within a factor of a few.

    Trees that are grown by labels look at all columns of all rows again and again; with very many columns or classes
    even a trial of a few rows would take minutes.

    Parameters
    ----------
    psi : int
        Number of rows that each tree of a forest is grown on, at most.
    """
    outputs = n_classes if n_classes > 2 else 1
    if candidate.learner == BOOSTING:
        return FEW_ROUNDS * outputs * n_columns * (5.0 * n_rows + 31 * 512.0) * 1e-9
    if candidate.partitioner == FOREST:
        rows = min(n_rows, psi)
        return T * rows * math.log2(max(2, rows)) * max(1.0, n_columns / 2) * 1e-9
    return 0.0
