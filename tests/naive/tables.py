"""Encoding of words and numbers, row by row: what :mod:`ikmap.tables` computes for all rows at once."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def mean_targets(
    words: Sequence[str | None], targets: Sequence[int], folds: Sequence[int], smooth: float
) -> tuple[list[float], dict[str | None, float]]:
    """The mean target of each training row's word in the other folds, drawn to that of all; and of each word."""
    prior = Fraction(sum(targets), len(targets))

    def mean(pairs: list[tuple[str | None, int]]) -> float:
        total = sum(target for _, target in pairs) + Fraction(smooth) * prior
        return float(total / (len(pairs) + Fraction(smooth)))

    within = []
    for word, fold in zip(words, folds, strict=True):
        others = [(w, t) for w, t, f in zip(words, targets, folds, strict=True) if w == word and f != fold]
        within.append(mean(others))
    rows = list(zip(words, targets, strict=True))
    return within, {word: mean([pair for pair in rows if pair[0] == word]) for word in set(words)}


def middle_rank(values: Sequence[float], value: float) -> float:
    """Share of the values below one of them, with half of those that are equal."""
    below, equal = sum(v < value for v in values), sum(v == value for v in values)
    return (below + equal / 2) / len(values)
