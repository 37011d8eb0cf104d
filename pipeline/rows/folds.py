"""Which training rows each fold of a cross-validation learns from, and which it holds out."""

from __future__ import annotations

import numpy as np

from ikmap.model_selection import FOLDS, folds
from ikmap.seeds import generator
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.split_rule import GROUP, TIME, SplitRule

FIRST_SHARE = 0.5
"""Of the rows in order of time, those that every fold learns from."""
STREAM = 2_000_007

type Fold = tuple[np.ndarray, np.ndarray]


def folds_of(rows: PreparedRows, numbers: np.ndarray, params: Params) -> list[Fold]:
    """Places (fit, held out), ascending, of each fold among some training rows, by ascending number.

    They are divided as training and test rows are: by time, a fold holds out rows that come after all that it learns
    from; groups stay together; or each fold has the classes' shares.
    """
    if params.split_by is None:
        return folds(numbers.size, params.seed)
    division = SplitRule.parse(params.split_by, params.seed)
    keys = rows.keys(division, numbers)
    if division.rule == TIME:
        found = folds_in_time(keys)
    else:
        part = parts_of_groups(keys) if division.rule == GROUP else parts_of_classes(keys, params.seed)
        found = [(np.flatnonzero(part != k), np.flatnonzero(part == k)) for k in range(FOLDS)]
    if not all(fit.size and held_out.size for fit, held_out in found):
        what = "rows" if not division.column else "times" if division.rule == TIME else "groups"
        raise InputError(
            f"--split-by {params.split_by}: found {np.unique(keys).size} different {what} among {keys.size:,} training "
            f"rows, expected enough for {FOLDS} folds"
        )
    return found


def folds_in_time(keys: np.ndarray, n_folds: int = FOLDS) -> list[Fold]:
    """Each fold holds out some rows that follow each other, and learns from all before them.

    Rows of the same time are not parted: what is held out begins later than what is learned from ends.
    """
    order = np.argsort(keys, kind="stable")
    sorted_keys = keys[order]
    ends = np.rint(keys.size * np.linspace(FIRST_SHARE, 1, n_folds + 1)).astype(np.int64)
    ends[:-1] = np.searchsorted(sorted_keys, sorted_keys[np.minimum(ends[:-1], keys.size - 1)], side="left")
    found = []
    for start, stop in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        # Where one time takes all, its rows are held out by the neighbouring fold too.
        first = start or int(np.searchsorted(sorted_keys, sorted_keys[0], side="right"))
        last = max(stop, int(np.searchsorted(sorted_keys, sorted_keys[min(first, keys.size - 1)], side="right")))
        found.append((np.sort(order[:first]), np.sort(order[first:last])))
    return found


def parts_of_groups(keys: np.ndarray, n_folds: int = FOLDS) -> np.ndarray:
    """Number of the fold that holds out each row: the largest group first, each into the smallest fold so far."""
    groups, at, counts = np.unique(keys, return_inverse=True, return_counts=True)
    fold_of, sizes = np.zeros(groups.size, dtype=np.int64), [0] * n_folds
    for group in np.lexsort((groups, -counts)).tolist():
        smallest = min(range(n_folds), key=lambda k: sizes[k])
        fold_of[group] = smallest
        sizes[smallest] += int(counts[group])
    return fold_of[at]


def parts_of_classes(targets: np.ndarray, seed: int, n_folds: int = FOLDS) -> np.ndarray:
    """Number of the fold that holds out each row: the rows of each class are dealt out in a seeded order."""
    part = np.empty(targets.size, dtype=np.int64)
    shuffled = generator(seed, STREAM).permutation(targets.size)
    order = shuffled[np.argsort(targets[shuffled], kind="stable")]
    part[order] = np.arange(targets.size) % n_folds
    return part
