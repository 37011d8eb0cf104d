"""Stacking: a sum of models on cells, whose weights are given or chosen by rows from which no model has learned.

Each model is partitionings and a linear model on their cells, and so is the sum: the partitionings side by side, with
the weights of the cells scaled. Weights of cells are never learned anew from rows that grew the cells by their labels:
such rows are more alike in their cells than others are.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from typing import Protocol

import numpy as np

from ikmap import seed_paths
from ikmap.arrays import Floats, Int64s
from ikmap.divisions import Division, TooFewKeys, divisible_folds, weighing_folds
from ikmap.learners.cells_model import CellsModel
from ikmap.learners.linear_model import LinearModel
from ikmap.learners.stacking.blend import Blend, BlendLoss, blend
from ikmap.partitioners import SideBySide
from ikmap.rows import Rows, nbytes_of
from ikmap.seeds import generator

AT_ONCE_BYTES = 256 << 20
"""Bytes that models which are learned at the same time may take, beside the first one."""
CELL_BYTES = 6
"""Bytes of a cell of a row, as it is found and packed."""


class Fit(Protocol):
    """A part of a sum."""

    def __call__(self, numbers: Int64s, refit: int = 0) -> CellsModel:
        """Return the model that is learned from the rows of these numbers; with a seed of its own for each refit."""


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


@dataclass(frozen=True, eq=False)
class Folds:
    """Folds of rows, each with a model that has not learned from the rows of the fold.

    Attributes
    ----------
    of_row : ndarray of int64, shape (n,)
        Fold that holds out each row; -1: none does.
    fits : sequence of ndarray of int64
        Ascending numbers of the rows that the model of each fold learns from.
    in_time : bool
        True if folds follow each other in time, and each model learns from earlier rows.
    """

    of_row: Int64s
    fits: Sequence[Int64s]
    in_time: bool = False

    @classmethod
    def of(cls, of_row: Int64s) -> Folds:
        """Return the folds of which each model learns from the rows of all others."""
        return cls(of_row, [np.flatnonzero(of_row != k) for k in range(int(of_row.max()) + 1)])

    @classmethod
    def at_random(cls, target: Floats, n_folds: int, seed: int) -> Folds:
        """Return folds in which rows of the same class, or of neighbouring numbers, are shared out at random.

        Parameters
        ----------
        target : ndarray, shape (n,)
        """
        shuffled = generator(seed, seed_paths.STACKING_FOLDS).permutation(target.size)
        of_row = np.empty(target.size, dtype=np.int64)
        of_row[shuffled[np.argsort(target[shuffled], kind="stable")]] = np.arange(target.size) % n_folds
        return cls.of(of_row)

    @classmethod
    def following(
        cls, division: Division, n_folds: int, sample_weight: Floats | None = None, *, divisible: bool = False
    ) -> Folds:
        """Return folds that keep rows of a group together, or that follow each other in time.

        A fold in time before which all rows weigh 0 is left out: nothing can be learned from them.

        Parameters
        ----------
        division : Division
        n_folds : int
        sample_weight : ndarray of float64, shape (n,), optional
        divisible : bool
            True if models hold out some of the rows that they learn from. A fold in time before which there is one time
            alone is then left out, too.

        Raises
        ------
        TooFewKeys
        """
        all_folds = division.folds(n_folds)
        if len(all_folds) < 2:
            raise TooFewKeys(
                f"found one time in the later of {division.keys.size:,} rows, expected enough for {n_folds} folds"
            )
        if division.in_time:
            all_folds = weighing_folds(all_folds, sample_weight)
        if len(all_folds) < 2:
            raise TooFewKeys(
                f"found {len(all_folds)} of {n_folds} folds in time before which some row weighs more than 0, expected "
                "two at least"
            )
        if division.in_time and divisible:
            all_folds = divisible_folds(all_folds, division.keys)
        if len(all_folds) < 2:
            raise TooFewKeys(
                f"found {len(all_folds)} of {n_folds} folds in time before which there is more than one time, expected "
                "two at least"
            )
        of_row = np.full(division.keys.size, -1, dtype=np.int64)
        for k, (_, held_out) in enumerate(all_folds):
            of_row[held_out] = k
        return cls(of_row, [fit for fit, _ in all_folds], division.in_time)

    @property
    def n_folds(self) -> int:
        """Number of folds."""
        return len(self.fits)

    def held_out(self, k: int) -> Int64s:
        """Return the ascending numbers of the rows that a fold holds out."""
        return np.flatnonzero(self.of_row == k)


def out_of_fold(
    fit: Fit, X: Rows, folds: Folds, n_threads: int = 1, n_at_once: int = 1
) -> tuple[Floats, list[CellsModel]]:
    """Return the decisions on each row of a model that has not learned from its fold, and these models.

    Rows that no fold holds out have decisions of NaN.
    """

    def learn(k: int) -> tuple[Int64s, CellsModel, Floats]:
        model, held_out = fit(folds.fits[k]), folds.held_out(k)
        return held_out, model, model.decision_function(X[held_out], n_threads)

    with ThreadPoolExecutor(n_at_once) as pool:
        learned = list(pool.map(learn, range(folds.n_folds)))
    decisions = np.full((folds.of_row.size, learned[0][2].shape[1]), np.nan)
    for held_out, _, own in learned:
        decisions[held_out] = own
    return decisions, [model for _, model, _ in learned]


def at_once(X: Rows, t: int, n_threads: int) -> int:
    """Return how many models are learned at the same time in one process, by the bytes of their rows and cells.

    Parameters
    ----------
    t : int
        Most cells that a model finds of a row beforehand.
    """
    size: int = nbytes_of(X) + CELL_BYTES * t * X.shape[0]
    return max(1, min(n_threads, AT_ONCE_BYTES // max(1, size)))


def stack(
    fits: Sequence[Fit],
    X: Rows,
    target: Floats,
    folds: Folds,
    loss: BlendLoss,
    *,
    learner: str,
    refits: int = 0,
    n_threads: int = 1,
    n_at_once: int = 1,
    sample_weight: Floats | None = None,
) -> Stacked:
    """Add up parts, each of which is the mean of models that learned from all folds but one, or from all rows.

    If folds follow each other in time, models learn from all rows: those of the folds are older.

    Parameters
    ----------
    fits : sequence of callable
        Parts of the sum.
    X : float64 ndarray or csr_array, shape (n, d)
    target : ndarray of float64, shape (n, K)
    folds : Folds
    loss : BlendLoss
        Loss by which parts are chosen and weighed.
    learner : str
        Name of the learner, for the model.
    refits : int
        Number of models of all rows that a part is the mean of, each with a seed of its own; 0: it is the mean of those
        of the folds.
    n_threads, n_at_once : int
        Threads that decide, and models that are learned at the same time.
    sample_weight : ndarray of float64, shape (n,), optional
        Weights of the rows in the loss.

    Notes
    -----
    Source: Wolpert, Stacked generalization, 1992; Breiman, Stacked regressions, 1996, for weights >= 0; Breiman,
    Bagging predictors, 1996, for means of models.
    """
    decided = [out_of_fold(fit, X, folds, n_threads, n_at_once) for fit in fits]
    known = np.flatnonzero(folds.of_row >= 0)
    weight = None if sample_weight is None else sample_weight[known]
    chosen = blend(
        [decisions[known] for decisions, _ in decided],
        target[known],
        folds.of_row[known],
        loss,
        in_time=folds.in_time,
        sample_weight=weight,
    )
    kept = np.flatnonzero(chosen.weights) if chosen.weights.any() else np.array([int(np.argmin(chosen.alone))])
    if refits or folds.in_time:
        models = _refitted([fits[p] for p in kept.tolist()], X, max(1, refits), n_at_once)
    else:
        models = [decided[p][1] for p in kept.tolist()]
    decisions = np.full(target.shape, np.nan)
    decisions[known] = chosen.decisions
    terms = _terms(chosen.weights[kept].tolist(), models)
    return Stacked(added_up(terms, chosen.constant, learner), replace(chosen, decisions=decisions))


def weighed_sum(
    models: Sequence[Sequence[CellsModel]],
    weights: Sequence[float],
    target: Floats,
    loss: BlendLoss,
    *,
    learner: str,
    sample_weight: Floats | None = None,
) -> CellsModel:
    """Add up parts with weights that are given.

    Parameters
    ----------
    models : sequence of sequences of CellsModel
        For each part, the models of all rows whose mean it is.
    weights : sequence of float
        Weight of each part.
    target, loss, learner, sample_weight
        As in :func:`stack`.
    """
    constant = loss.constant(loss.softened(target, sample_weight), sample_weight)
    return added_up(_terms(weights, models), constant, learner)


def _refitted(fits: Sequence[Fit], X: Rows, refits: int, n_at_once: int) -> list[list[CellsModel]]:
    """Return so many models of all rows of each part."""
    numbers, times = np.arange(X.shape[0]), range(refits)
    with ThreadPoolExecutor(n_at_once) as pool:
        models = list(pool.map(lambda own: own[0](numbers, own[1]), product(fits, times)))
    return [models[p * refits : (p + 1) * refits] for p in range(len(fits))]


def _terms(weights: Sequence[float], models: Sequence[Sequence[CellsModel]]) -> list[tuple[float, CellsModel]]:
    """Return all models with their weights, of which those of a part have the same."""
    return [(weight / len(own), model) for weight, own in zip(weights, models, strict=True) for model in own]


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
