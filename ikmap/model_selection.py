"""Choose psi by cross-validation: what one fold says of every psi and every learner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ikmap.cells import Cells
from ikmap.partitioners import cells_by_psi
from ikmap.rows import Rows
from ikmap.seeds import generator

PSIS = tuple(2**m for m in range(2, 13))
"""Search range of the Isolation Kernel paper, Table 3."""
FOLDS = 5
STREAM = 1_000_001
"""Seed path of the shuffle that makes folds, apart from those of partitionings (their numbers)."""

Learner = Callable[[Cells, np.ndarray], Callable[[Cells], np.ndarray]]
"""Takes cells and class numbers, returns a predictor of class numbers."""


def folds(n: int, seed: int, n_folds: int = FOLDS) -> list[tuple[np.ndarray, np.ndarray]]:
    """Ascending row numbers (fit, held out) of each fold: contiguous parts of a seeded shuffle, not stratified.

    Source: algorithms.md, section 9.2.
    """
    parts = np.array_split(generator(seed, STREAM).permutation(n), n_folds)
    return [(np.sort(np.concatenate([*parts[:k], *parts[k + 1 :]])), np.sort(parts[k])) for k in range(n_folds)]


def psis_that_fit(n: int, n_folds: int = FOLDS, psis: Sequence[int] = PSIS) -> list[int]:
    """Values of psi that every fold of n rows has enough rows for; the smallest possible one if none has."""
    smallest_fit = n - -(-n // n_folds)
    return [psi for psi in psis if psi <= smallest_fit] or [max(1, smallest_fit)]


def score_fold(
    X: Rows,
    y: np.ndarray,
    fit: np.ndarray,
    held_out: np.ndarray,
    psis: Sequence[int],
    learners: Mapping[str, Learner],
    **partitioning: Any,
) -> dict[str, list[int]]:
    """Number of held-out rows predicted right, for each learner one number for each psi in ascending order.

    Partitionings are drawn from the rows of `fit` only.

    Parameters
    ----------
    X : float64 ndarray or csr_array, shape (n, d)
    y : ndarray of int, shape (n,)
    fit, held_out : ndarrays of int
        Row numbers.
    partitioning
        method, n_partitions, seed, ... of :func:`~ikmap.partitioners.cells_by_psi`.
    """
    correct: dict[str, list[int]] = {name: [] for name in learners}
    for _, (inside, outside) in cells_by_psi(X[fit], [X[fit], X[held_out]], psis, **partitioning):
        for name, learner in learners.items():
            predict = learner(inside.packed(), y[fit])
            correct[name].append(int((predict(outside) == y[held_out]).sum()))
    return correct
