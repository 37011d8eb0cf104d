"""Divisions of rows that stay honest: rows of a group stay together, or rows held out come after those learned from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ikmap.arrays import Floats, Int64s, Words

FIRST_SHARE = 0.5
"""Share of the rows, the first in order of time, that every fold learns from."""

type Fold = tuple[Int64s, Int64s]
"""Ascending places of the rows that a fold learns from, and of those that it holds out."""


class TooFewKeys(ValueError):
    """An error for rows that have too few groups or times to be divided."""


@dataclass(frozen=True, eq=False)
class Division:
    """The keys by which rows are divided.

    Attributes
    ----------
    keys : ndarray of float64, shape (n,)
        Time or group of each row.
    in_time : bool
        True if keys are times: rows that are held out come last. Else rows with the same key stay together.
    """

    keys: Floats
    in_time: bool

    def some(self, numbers: Int64s) -> Division:
        """Return the division of the rows of these numbers."""
        return Division(self.keys[numbers], self.in_time)

    def folds(self, n_folds: int) -> list[Fold]:
        """Return the folds of a cross-validation, in order of time if rows are divided by time: of few times fewer.

        Raises
        ------
        TooFewKeys
            Groups or times are too few.
        """
        if self.in_time:
            all_folds = folds_in_time(self.keys, n_folds)
        else:
            fold_of_row = parts_of_groups(self.keys, n_folds)
            all_folds = [(np.flatnonzero(fold_of_row != k), np.flatnonzero(fold_of_row == k)) for k in range(n_folds)]
        if not all_folds or not all(fit.size and held_out.size for fit, held_out in all_folds):
            raise TooFewKeys(
                f"found {np.unique(self.keys).size} different {self._things} among {self.keys.size:,} rows, expected "
                f"enough for {n_folds} folds"
            )
        return all_folds

    def places(self, key: np.uint64) -> Floats:
        """Return the place of each row in an order whose last rows are held out: its time, or a number by its group.

        Parameters
        ----------
        key : uint64
            Key by which groups are put in order.
        """
        if self.in_time:
            return self.keys
        # SplitMix64 of the bits of the group; 0.0 and -0.0 are the same group.
        with np.errstate(over="ignore"):
            z: Words = key + (self.keys + 0.0).view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def cut(self, places: Floats, share: float) -> float:
        """Return the place from which on rows are held out, so that they are as near to a share of all as can be.

        Raises
        ------
        TooFewKeys
            All rows have the same group or time.
        """
        values, counts = np.unique(places, return_counts=True)
        if values.size < 2:
            raise TooFewKeys(
                f"found the same {self._things.removesuffix('s')} in all {places.size:,} rows, expected several, of "
                "which some are held out"
            )
        held_out = places.size - np.cumsum(counts)[:-1]
        return float(values[1:][np.argmin(np.abs(held_out - share * places.size))])

    @property
    def _things(self) -> str:
        return "times" if self.in_time else "groups"


def folds_in_time(keys: Floats, n_folds: int) -> list[Fold]:
    """Make folds that hold out rows which follow each other in time, and learn from all rows before them.

    Rows of the same time are not parted: the rows held out begin later than those learned from end. Each row is held
    out once, so that there are fewer folds where times are few, and none of one time alone.
    """
    order = np.argsort(keys, kind="stable")
    sorted_keys = keys[order]
    ends = np.rint(keys.size * np.linspace(FIRST_SHARE, 1, n_folds + 1)).astype(np.int64)
    ends[:-1] = np.searchsorted(sorted_keys, sorted_keys[np.minimum(ends[:-1], keys.size - 1)], side="left")
    all_folds, done = list[Fold](), 0
    for start, stop in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        # If all rows of a fold have one time, the neighbouring fold would hold them out too.
        first = start or int(np.searchsorted(sorted_keys, sorted_keys[0], side="right"))
        last = max(stop, int(np.searchsorted(sorted_keys, sorted_keys[min(first, keys.size - 1)], side="right")))
        first = max(first, done)
        if first < last:
            all_folds.append((np.sort(order[:first]), np.sort(order[first:last])))
            done = last
    return all_folds


def weighing_folds(folds: Sequence[Fold], sample_weight: Floats | None) -> list[Fold]:
    """Return the folds that learn from some row which weighs more than 0."""
    return [fold for fold in folds if sample_weight is None or sample_weight[fold[0]].any()]


def divisible_folds(folds: Sequence[Fold], keys: Floats) -> list[Fold]:
    """Return the folds that learn from rows of several groups or times, of which some can be held out again."""
    return [fold for fold in folds if np.unique(keys[fold[0]]).size > 1]


def parts_of_groups(keys: Floats, n_folds: int) -> Int64s:
    """Return the fold that holds out each row: groups go, the largest first, into the smallest fold so far."""
    groups, group_of_row, counts = np.unique(keys, return_inverse=True, return_counts=True)
    fold_of, sizes = np.zeros(groups.size, dtype=np.int64), [0] * n_folds
    for group in np.lexsort((groups, -counts)).tolist():
        smallest = min(range(n_folds), key=lambda k: sizes[k])
        fold_of[group] = smallest
        sizes[smallest] += int(counts[group])
    return fold_of[group_of_row]
