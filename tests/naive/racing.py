"""A race of candidates through folds, straight from the rule."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import NormalDist
from typing import Any

ROUNDS = ([0], [1, 2], [3, 4])
ODDS = 0.01


def best(rows: dict[Any, list[bool]]) -> Any:
    """Most rows right; of equals the smaller value, then the smaller C."""
    winner = None
    for candidate in sorted(rows):
        if winner is None or sum(rows[candidate]) > sum(rows[winner]):
            winner = candidate
    return winner


def chance(own: list[bool], other: list[bool], done: int, n_folds: int) -> float:
    """Of the first having more right in the end, as both go on like this."""
    behind = apart = 0
    for mine, theirs in zip(own, other, strict=True):
        behind += int(theirs) - int(mine)
        apart += int(mine != theirs)
    if done == n_folds:
        return 1.0 if behind <= 0 else 0.0
    variance = (apart + 2) * (n_folds - done) / n_folds
    return 1 - NormalDist().cdf(behind / variance**0.5)


def race[V](right: Mapping[V, list[list[list[bool]]]]) -> tuple[Any, list[list[Any]], dict[V, int]]:
    """Run a race on what a full search has found: ``right[value][fold][place of C]``.

    Returns
    -------
    chosen : (value, place of C)
    left : list of lists of values
        After each round.
    folds : dict
        How many folds each value has run.
    """
    n_folds = sum(map(len, ROUNDS))
    limits = {value: max(len(path) for path in folds) for value, folds in right.items()}
    folds_of, left, done = dict.fromkeys(right, 0), [], []
    for k, these in enumerate(ROUNDS):
        done += these
        rows: dict[Any, list[bool]] = {}
        for value, limit in limits.items():
            folds_of[value] += len(these)
            for place in range(limit):
                if all(place < len(right[value][fold]) for fold in done):
                    rows[value, place] = [row for fold in done for row in right[value][fold][place]]
        leader = best(rows)
        if k == len(ROUNDS) - 1:
            break
        kept = [c for c in sorted(rows) if chance(rows[c], rows[leader], len(done), n_folds) > ODDS]
        limits = {value: max(place for v, place in kept if v == value) + 1 for value, _ in kept}
        left.append(list(limits))
        if len(kept) == 1:
            break
    return leader, left, folds_of
