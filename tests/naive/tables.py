"""Encoding of words and numbers, row by row: what :mod:`ikmap.tables` computes for all rows at once."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction


def mean_targets(
    words: Sequence[str | None], targets: Sequence[int], folds: Sequence[int], smooth: float, enough: int
) -> tuple[list[float], dict[str | None, float]]:
    """The mean target of each training row's word in the other folds, drawn to that of all rows there; of each word.

    A word of `enough` rows has the mean of all folds.
    """

    def mean(pairs: list[tuple[str | None, int]], word: str | None) -> float:
        """Of a word, by rows of any words."""
        prior = Fraction(sum(target for _, target in pairs), len(pairs))
        own = [target for other, target in pairs if other == word]
        return float((sum(own) + Fraction(smooth) * prior) / (len(own) + Fraction(smooth)))

    rows = list(zip(words, targets, strict=True))
    within = [
        mean([row for row, f in zip(rows, folds, strict=True) if f != fold or words.count(word) >= enough], word)
        for word, fold in zip(words, folds, strict=True)
    ]
    return within, {word: mean(rows, word) for word in set(words)}


def middle_rank(values: Sequence[float], value: float) -> float:
    """Share of the values below one of them, with half of those that are equal."""
    below, equal = sum(v < value for v in values), sum(v == value for v in values)
    return (below + equal / 2) / len(values)
