"""Histograms of scores, in bins of equal relative width. They add up over shards and rank with a bounded error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

MANTISSA_BITS = 52


def bins_of(scores: np.ndarray, bits: int) -> np.ndarray:
    """Return the number of the bin of each score, int64, which ascends with the scores.

    A bin holds numbers of one sign and one power of two whose mantissas agree in their first `bits` bits: it is
    narrower than 2**-bits of the numbers in it. -0.0 is 0.0.
    """
    whole = (np.asarray(scores, dtype=np.float64) + 0.0).view(np.int64)
    ascending = np.where(whole < 0, whole ^ np.iinfo(np.int64).max, whole)
    return ascending >> (MANTISSA_BITS - bits)


def upper_edge(number: int, bits: int) -> float:
    """Return the largest number of a bin."""
    last = ((int(number) + 1) << (MANTISSA_BITS - bits)) - 1
    whole = last ^ int(np.iinfo(np.int64).max) if last < 0 else last
    return float(np.array(whole, dtype=np.int64).view(np.float64))


def lower_edge(number: int, bits: int) -> float:
    """Return the smallest number of a bin."""
    first = int(number) << (MANTISSA_BITS - bits)
    whole = first ^ int(np.iinfo(np.int64).max) if first < 0 else first
    return float(np.array(whole, dtype=np.int64).view(np.float64))


@dataclass(frozen=True, eq=False)
class ScoreHistogram:
    """Numbers of rows by the bin of their score, for several groups of rows.

    Attributes
    ----------
    bins : ndarray of int64, shape (b,)
        Ascending; only those that have rows.
    counts : ndarray of int64, shape (b, groups)
    """

    bins: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, scores: np.ndarray, groups: np.ndarray, n_groups: int, bits: int) -> Self:
        """Count rows: `groups` has the number of the group of each, or -1 for a row that is left out."""
        scores, groups = scores[groups >= 0], groups[groups >= 0]
        bins, at = np.unique(bins_of(scores, bits), return_inverse=True)
        flat = np.bincount(at * n_groups + groups, minlength=bins.size * n_groups)
        return cls(bins, flat.reshape(bins.size, n_groups).astype(np.int64))

    def __add__(self, other: Self) -> Self:
        bins, at = np.unique(np.concatenate([self.bins, other.bins]), return_inverse=True)
        counts = np.zeros((bins.size, self.counts.shape[1]), dtype=np.int64)
        np.add.at(counts, at, np.concatenate([self.counts, other.counts]))
        return type(self)(bins, counts)

    def as_json(self) -> list[list[int]]:
        """Return each bin, and the rows of each group in it."""
        return np.column_stack([self.bins, self.counts]).tolist()

    @classmethod
    def from_json(cls, values: Sequence[Sequence[int]], n_groups: int) -> Self:
        """Return the histogram of which :meth:`as_json` made these values."""
        table = np.array(values, dtype=np.int64).reshape(-1, n_groups + 1)
        return cls(table[:, 0], np.ascontiguousarray(table[:, 1:]))


def quantile_bin(bins: np.ndarray, counts: np.ndarray, above: float) -> int:
    """Return the lowest bin above which no more than a share of the rows lies.

    Parameters
    ----------
    bins : ndarray of int64, shape (b,)
        Ascending.
    counts : ndarray of int64, shape (b,)
    above : float
        In [0, 1].
    """
    higher = counts.sum() - np.cumsum(counts)
    return int(bins[np.argmax(higher <= above * counts.sum())])


def roc_auc(low: np.ndarray, high: np.ndarray) -> tuple[float, float] | None:
    """Return the ROC AUC from histograms of the scores of negatives and positives, by ascending bin.

    Returns
    -------
    area, error : float
        Rows of one bin count as tied; with the scores themselves the area would be within `error` of it. None where
        there are no rows of one kind.
    """
    pairs = int(low.sum()) * int(high.sum())
    if not pairs:
        return None
    below = np.cumsum(low) - low
    twice = int((high * (2 * below + low)).sum())
    return twice / (2 * pairs), int((high * low).sum()) / (2 * pairs)


def average_precision(low: np.ndarray, high: np.ndarray) -> float | None:
    """Return the average precision from histograms of the scores of negatives and positives, by ascending bin."""
    total = int(high.sum())
    if not total:
        return None
    hits = np.cumsum(high[::-1])
    taken = hits + np.cumsum(low[::-1])
    return float((high[::-1] / total * (hits / taken)).sum())
