"""Cross-validation of psi and C: the scores of one fold for every psi, every C and every learner."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from ikmap import seed_paths
from ikmap.cells import Cells
from ikmap.seeds import generator

PSIS = tuple(2**m for m in range(2, 13))
"""Search range of the Isolation Kernel paper, Table 3."""
CS = tuple(2.0**m for m in range(-5, 12, 2))
"""Values of C that are tried, ascending, for features with K(x, x) = 1.

Large ones are for log odds of classes that are nearly told apart: they are sure enough only with large weights. Where
classes overlap, :data:`PATIENCE` ends the search long before.
"""
MANY = 32
"""Least number of classes for which the whole range of C takes too long: the slow ends are left out."""
PATIENCE = 2
"""Number of values of C in a row below the best so far that end the search: the metric has one hill over C."""
FOLDS = 5

type Predictor = Callable[[Cells], np.ndarray]
"""Predictions of rows."""
type Learner = Callable[[Cells, np.ndarray], Predictor | Iterable[Predictor]]
"""Takes cells and targets; returns a predictor, or one for each C in ascending order, made when asked for."""

type RowScores = Callable[[np.ndarray, np.ndarray], np.ndarray]


def folds(n: int, seed: int, n_folds: int = FOLDS) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return ascending row numbers (fit, held out) of each fold: parts of a seeded shuffle, not stratified.

    Source: algorithms.md, section 9.2.
    """
    parts = np.array_split(generator(seed, seed_paths.FOLDS).permutation(n), n_folds)
    return [(np.sort(np.concatenate([*parts[:k], *parts[k + 1 :]])), np.sort(parts[k])) for k in range(n_folds)]


def psis_that_fit(n: int, n_folds: int = FOLDS, psis: Sequence[int] = PSIS) -> list[int]:
    """Return the values of psi for which every fold of n rows has enough rows, or the smallest possible one."""
    smallest_fit = n - -(-n // n_folds)
    return [psi for psi in psis if psi <= smallest_fit] or [max(1, smallest_fit)]


def values_of_C(n_classes: int) -> tuple[float, ...]:
    """Return the values of C to try for a number of classes, in ascending order."""
    return CS if n_classes < MANY else CS[3:7]


def score_fold[V](
    path: Iterable[tuple[V, Sequence[Cells]]],
    y_fit: np.ndarray,
    y_held_out: np.ndarray,
    learners: Mapping[V, Mapping[str, Learner]],
    row_scores: Mapping[str, RowScores],
) -> dict[str, dict[V, list[np.ndarray]]]:
    """Return the score of each held-out row, for each learner, each psi in ascending order, and each C.

    A learner without C has one array for each psi; one with C as many as were tried, see :data:`PATIENCE`.

    Parameters
    ----------
    path : iterable of (psi, (cells, cells))
        Cells of the rows to learn from and of those held out, for every psi, ascending; of partitionings that were
        drawn from the former only.
    y_fit, y_held_out : ndarrays
        Targets of both.
    learners : mapping of int to mapping
        For each psi the learners that are scored there, by name.
    row_scores : mapping of str to callable
        For each learner, of targets and predictions, larger is better: as of
        :meth:`ikmap.tasks.Criterion.row_scores`.
    """
    scores: dict[str, dict[V, list[np.ndarray]]] = {}
    for psi, (inside, outside) in path:
        for name, learner in learners[psi].items():
            # Not into one byte for the small psi among them: every learner would be compiled for both types.
            made = learner(inside.packed(least=np.uint16), y_fit)
            predictors = [made] if callable(made) else made
            # By map, which keeps no predictor while the next one is made: weights may be large.
            scored = partial(_scored, row_scores[name], outside, y_held_out)
            scores.setdefault(name, {})[psi] = _climb(map(scored, predictors))
    return scores


def _scored(row_scores: RowScores, outside: Cells, y: np.ndarray, predict: Predictor) -> np.ndarray:
    return row_scores(y, predict(outside))


def _climb(scores: Iterable[np.ndarray]) -> list[np.ndarray]:
    """Take them one by one until `PATIENCE` in a row are below the best; what is left is never computed."""
    taken: list[np.ndarray] = []
    sums: list[float] = []
    for rows in scores:
        taken.append(rows)
        sums.append(rows.sum().item())
        if len(sums) > PATIENCE and max(sums[-PATIENCE:]) < max(sums):
            break
    return taken
