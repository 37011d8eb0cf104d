"""Stacking: a sum of models on cells, whose weights are chosen by rows from which the models have not learned.

Each model is partitionings and a linear model on their cells, and so is the sum: the partitionings side by side, with
the weights of the cells scaled. Weights of cells are never learned anew from rows that grew the cells by their labels:
such rows are more alike in their cells than others are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ikmap import seed_paths
from ikmap.arrays import Floats, Int64s
from ikmap.learners.cells_model import CellsModel
from ikmap.learners.linear_model import LinearModel
from ikmap.learners.stacking.blend import Blend, BlendLoss, blend
from ikmap.partitioners import SideBySide
from ikmap.rows import Rows
from ikmap.seeds import generator

type Fit = Callable[[Int64s], CellsModel]
"""Returns the model that is learned from the rows of these numbers."""


@dataclass(frozen=True, eq=False)
class Stacked:
    """A sum of models.

    Attributes
    ----------
    model : CellsModel
    blend : Blend
        Weights of the parts, and decisions out of fold.
    """

    model: CellsModel
    blend: Blend


def folds_of(target: Floats, n_folds: int, seed: int) -> Int64s:
    """Return the fold of each row: rows of the same class, or of neighbouring numbers, are shared out at random.

    Parameters
    ----------
    target : ndarray, shape (n,)
    """
    shuffled = generator(seed, seed_paths.STACKING_FOLDS).permutation(target.size)
    fold = np.empty(target.size, dtype=np.int64)
    fold[shuffled[np.argsort(target[shuffled], kind="stable")]] = np.arange(target.size) % n_folds
    return fold


def out_of_fold(fit: Fit, X: Rows, fold: Int64s, n_threads: int = 1) -> tuple[Floats, list[CellsModel]]:
    """Return the decisions on each row of a model that learned from the rows of other folds, and these models."""
    decisions = np.empty(0)
    models: list[CellsModel] = []
    for k in range(int(fold.max()) + 1):
        model, held_out = fit(np.flatnonzero(fold != k)), np.flatnonzero(fold == k)
        own = model.decision_function(X[held_out], n_threads)
        if not models:
            decisions = np.empty((fold.size, own.shape[1]))
        decisions[held_out] = own
        models.append(model)
    return decisions, models


def stack(
    fits: Sequence[Fit], X: Rows, target: Floats, fold: Int64s, loss: BlendLoss, *, learner: str, n_threads: int = 1
) -> Stacked:
    """Add up parts, each of which is the mean of models that learned from all folds but one.

    Parameters
    ----------
    fits : sequence of callable
        Parts of the sum.
    X : float64 ndarray or csr_array, shape (n, d)
    target : ndarray of float64, shape (n, K)
    fold : ndarray of int64, shape (n,)
        Fold of each row.
    loss : BlendLoss
        Loss by which parts are chosen and weighed.
    learner : str
        Name of the learner, for the model.

    Notes
    -----
    Source: Wolpert, Stacked generalization, 1992; Breiman, Stacked regressions, 1996, for weights >= 0; Breiman,
    Bagging predictors, 1996, for means of models.
    """
    decided = [out_of_fold(fit, X, fold, n_threads) for fit in fits]
    chosen = blend([decisions for decisions, _ in decided], target, fold, loss)
    kept = np.flatnonzero(chosen.weights) if chosen.weights.any() else np.array([int(np.argmin(chosen.alone))])
    terms = [(float(chosen.weights[p]) / len(decided[p][1]), model) for p in kept.tolist() for model in decided[p][1]]
    return Stacked(added_up(terms, chosen.constant, learner), chosen)


def added_up(terms: Sequence[tuple[float, CellsModel]], constant: Floats, learner: str) -> CellsModel:
    """Return the model whose decisions are ``c + sum_i w_i (d_i - c)``: partitionings side by side, weights scaled.

    Parameters
    ----------
    terms : sequence of (float, CellsModel)
        Weights and models.
    constant : ndarray of float64, shape (K,)
    learner : str
        Name of the learner, for the model.
    """
    coef = [model.linear.coef * (weight / model.linear.divisor) for weight, model in terms]
    intercept = constant + sum(weight * (model.linear.intercept - constant) for weight, model in terms)
    partitions = tuple(single for _, model in terms for single in model.partitions.single)
    linear = LinearModel(np.concatenate(coef), intercept, 1.0, learner, terms[0][1].classes)
    return CellsModel(partitions[0] if len(partitions) == 1 else SideBySide(partitions), linear)
