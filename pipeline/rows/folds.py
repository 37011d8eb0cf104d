"""Folds of a cross-validation: the training rows that each learns from, and those that it holds out."""

from __future__ import annotations

import numpy as np

from ikmap import seed_paths
from ikmap.model_selection import FOLDS, folds
from ikmap.seeds import generator
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.split_rule import GROUP, TIME, SplitRule

FIRST_SHARE = 0.5
"""Share of the rows, the first in order of time, that every fold learns from."""

type Fold = tuple[np.ndarray, np.ndarray]


def folds_of(rows: PreparedRows, numbers: np.ndarray, params: Params) -> list[Fold]:
    """Return the places (fit, held out), ascending, of each fold among some training rows, by ascending number.

    Rows are split into folds as into training and test rows: by time, a fold holds out rows that come after all that it
    learns from; groups stay together; or each fold has the classes' shares.
    """
    if params.split_by is None:
        return folds(numbers.size, params.seed)
    split_rule = SplitRule.parse(params.split_by, params.seed)
    keys = rows.keys(split_rule, numbers)
    if split_rule.rule == TIME:
        all_folds = folds_in_time(keys)
    else:
        fold_of_row = parts_of_groups(keys) if split_rule.rule == GROUP else parts_of_classes(keys, params.seed)
        all_folds = [(np.flatnonzero(fold_of_row != k), np.flatnonzero(fold_of_row == k)) for k in range(FOLDS)]
    if not all(fit.size and held_out.size for fit, held_out in all_folds):
        what = "rows" if not split_rule.column else "times" if split_rule.rule == TIME else "groups"
        raise InputError(
            f"--split-by {params.split_by}: found {np.unique(keys).size} different {what} among {keys.size:,} training "
            f"rows, expected enough for {FOLDS} folds"
        )
    return all_folds


def folds_in_time(keys: np.ndarray, n_folds: int = FOLDS) -> list[Fold]:
    """Make folds that hold out rows which follow each other in time, and learn from all rows before them.

    Rows of the same time are not parted: the rows held out begin later than those learned from end.
    """
    order = np.argsort(keys, kind="stable")
    sorted_keys = keys[order]
    ends = np.rint(keys.size * np.linspace(FIRST_SHARE, 1, n_folds + 1)).astype(np.int64)
    ends[:-1] = np.searchsorted(sorted_keys, sorted_keys[np.minimum(ends[:-1], keys.size - 1)], side="left")
    all_folds = []
    for start, stop in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        # If all rows of a fold have one time, the neighbouring fold holds them out too.
        first = start or int(np.searchsorted(sorted_keys, sorted_keys[0], side="right"))
        last = max(stop, int(np.searchsorted(sorted_keys, sorted_keys[min(first, keys.size - 1)], side="right")))
        all_folds.append((np.sort(order[:first]), np.sort(order[first:last])))
    return all_folds


def parts_of_groups(keys: np.ndarray, n_folds: int = FOLDS) -> np.ndarray:
    """Return the fold that holds out each row: groups go, the largest first, into the smallest fold so far."""
    groups, group_of_row, counts = np.unique(keys, return_inverse=True, return_counts=True)
    fold_of, sizes = np.zeros(groups.size, dtype=np.int64), [0] * n_folds
    for group in np.lexsort((groups, -counts)).tolist():
        smallest = min(range(n_folds), key=lambda k: sizes[k])
        fold_of[group] = smallest
        sizes[smallest] += int(counts[group])
    return fold_of[group_of_row]


def parts_of_classes(targets: np.ndarray, seed: int, n_folds: int = FOLDS) -> np.ndarray:
    """Return the fold that holds out each row: the rows of each class are shared out in a seeded order."""
    fold_of_row = np.empty(targets.size, dtype=np.int64)
    shuffled = generator(seed, seed_paths.PIPELINE_FOLDS).permutation(targets.size)
    order = shuffled[np.argsort(targets[shuffled], kind="stable")]
    fold_of_row[order] = np.arange(targets.size) % n_folds
    return fold_of_row
