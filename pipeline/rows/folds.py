"""Folds of a cross-validation: the training rows that each learns from, and those that it holds out."""

from __future__ import annotations

import numpy as np

from ikmap import seed_paths
from ikmap.divisions import Division, Fold, folds_in_time, parts_of_groups
from ikmap.model_selection import FOLDS, folds
from ikmap.seeds import generator
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.split_rule import GROUP, STRATIFIED, TIME, SplitRule, goes_by_time, keeps_groups


def folds_of(rows: PreparedRows, numbers: np.ndarray, params: Params) -> list[Fold]:
    """Return the places (fit, held out), ascending, of each fold among some training rows, by ascending number.

    Rows are split into folds as into training and test rows: by time, a fold holds out rows that come after all that it
    learns from, and of few times there are fewer folds; groups stay together; or each fold has the classes' shares.
    """
    if params.split_by is None:
        return folds(numbers.size, params.seed)
    split_rule = SplitRule.parse(params.split_by, params.seed)
    keys = rows.keys(split_rule, numbers)
    if split_rule.rule == TIME:
        all_folds = folds_in_time(keys, FOLDS)
    else:
        fold_of_row = parts_of_groups(keys, FOLDS) if split_rule.rule == GROUP else parts_of_classes(keys, params.seed)
        all_folds = [(np.flatnonzero(fold_of_row != k), np.flatnonzero(fold_of_row == k)) for k in range(FOLDS)]
    if not all_folds or not all(fit.size and held_out.size for fit, held_out in all_folds):
        what = "rows" if split_rule.rule == STRATIFIED else "times" if split_rule.rule == TIME else "groups"
        raise InputError(
            f"--split-by {params.split_by}: found {np.unique(keys).size} different {what} among {keys.size:,} training "
            f"rows, expected enough for {FOLDS} folds"
        )
    return all_folds


def is_divided(params: Params) -> bool:
    """Return whether a run keeps rows of a group together, or holds out rows that come last."""
    return keeps_groups(params.split_by) or goes_by_time(params.split_by)


def division_of(rows: PreparedRows, numbers: np.ndarray, params: Params) -> Division:
    """Return the division of some training rows, by ascending number, of a run that divides them so."""
    assert params.split_by is not None
    split_rule = SplitRule.parse(params.split_by, params.seed)
    return Division(np.asarray(rows.keys(split_rule, numbers), dtype=np.float64), split_rule.rule == TIME)


def parts_of_classes(targets: np.ndarray, seed: int, n_folds: int = FOLDS) -> np.ndarray:
    """Return the fold that holds out each row: the rows of each class are shared out in a seeded order."""
    fold_of_row = np.empty(targets.size, dtype=np.int64)
    shuffled = generator(seed, seed_paths.PIPELINE_FOLDS).permutation(targets.size)
    order = shuffled[np.argsort(targets[shuffled], kind="stable")]
    fold_of_row[order] = np.arange(targets.size) % n_folds
    return fold_of_row
