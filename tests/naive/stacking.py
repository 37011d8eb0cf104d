"""Stacking straight from its definition: a model is learned anew for each row, and weights are found by a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np
from scipy.optimize import minimize

type Predict = Callable[[np.ndarray], np.ndarray]
type Fit = Callable[[np.ndarray], Predict]
"""From the numbers of the rows to learn from, a function from numbers of rows to decisions (n, K)."""


def out_of_fold(fit: Fit, fold: np.ndarray) -> np.ndarray:
    """Return the decision on each row by a model of the rows of all other folds."""
    rows = []
    for row in range(len(fold)):
        predict = fit(np.array([other for other in range(len(fold)) if fold[other] != fold[row]]))
        rows.append(predict(np.array([row]))[0])
    return np.array(rows)


def mean(values: np.ndarray, weight: np.ndarray) -> float:
    return float(sum(v * w for v, w in zip(values, weight, strict=True)) / sum(weight))


def constant(target: np.ndarray, classes: bool, weight: np.ndarray) -> list[float]:
    if not classes:
        return [mean(column, weight) for column in target.T]
    return [float(np.log(mean(column, weight) / mean(1 - column, weight))) for column in target.T]


def softened(target: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return Platt's targets, by weights that are 1 on average if they are less."""
    counted = [w for w in weight if w > 0]
    weight = weight / min(1.0, sum(counted) / len(counted))
    columns = []
    for column in target.T:
        hits, misses = float(weight[column == 1].sum()), float(weight[column == 0].sum())
        columns.append([(hits + 1) / (hits + 2) if t == 1 else 1 / (misses + 2) for t in column])
    return np.array(columns).T


def losses(decision: np.ndarray, target: np.ndarray, classes: bool) -> np.ndarray:
    """Return the loss of each row."""
    if not classes:
        return np.array([sum((d - t) ** 2) / 2 for d, t in zip(decision, target, strict=True)])
    probability = 1 / (1 + np.exp(-decision))
    return -(target * np.log(probability) + (1 - target) * np.log(1 - probability)).sum(axis=1)


def loss(decision: np.ndarray, target: np.ndarray, classes: bool, weight: np.ndarray) -> float:
    """Return the mean loss of the rows."""
    return float(np.average(losses(decision, target, classes), weights=weight))


def summed(decisions: Sequence[np.ndarray], weights: np.ndarray, c: list[float]) -> np.ndarray:
    return np.array(c) + sum(w * (d - np.array(c)) for w, d in zip(weights, decisions, strict=True))


def weights(
    decisions: Sequence[np.ndarray],
    target: np.ndarray,
    c: list[float],
    classes: bool,
    sample_weight: np.ndarray | None = None,
) -> np.ndarray:
    """Return weights >= 0: the best of those without a bound for each set of models, where they are >= 0."""
    n_models = len(decisions)
    weight = np.ones(len(target)) if sample_weight is None else sample_weight
    best, best_loss = np.zeros(n_models), loss(np.broadcast_to(c, target.shape), target, classes, weight)
    for size in range(1, n_models + 1):
        for chosen in combinations(range(n_models), size):
            own = [decisions[p] for p in chosen]
            start = np.full(size, 1 / size)
            found = minimize(
                lambda w, own=own: loss(summed(own, w, c), target, classes, weight), start, method="BFGS", tol=1e-12
            ).x
            own_loss = loss(summed(own, found, c), target, classes, weight)
            if (found >= 0).all() and own_loss < best_loss:
                best, best_loss = np.zeros(n_models), own_loss
                best[list(chosen)] = found
    return best


def crossed(
    decisions: Sequence[np.ndarray],
    target: np.ndarray,
    fold: np.ndarray,
    classes: bool,
    weight: np.ndarray,
    in_time: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the loss of a sum on each row, and its decisions, where the rows of other folds decide the weights.

    In order of time these are earlier folds, and rows of the first one have neither.
    """
    found = np.full(target.shape, np.nan)
    for k in sorted(set(fold.tolist())):
        rows = fold == k
        others = fold < k if in_time else fold != k
        if not others.any():
            continue
        c = constant(target[others], classes, weight[others])
        w = weights([d[others] for d in decisions], target[others], c, classes, weight[others])
        found[rows] = summed([d[rows] for d in decisions], w, c)
    return losses(found, target, classes), found


def blend(
    decisions: Sequence[np.ndarray],
    target: np.ndarray,
    fold: np.ndarray,
    classes: bool,
    sample_weight: np.ndarray | None = None,
    in_time: bool = False,
) -> tuple[np.ndarray, np.ndarray, list[float]]:
    """Return the weights, the decisions out of fold, and the constant."""
    weight = np.ones(len(target)) if sample_weight is None else sample_weight
    target = softened(target, weight) if classes else target
    kept = list(range(len(decisions)))
    known = fold > fold.min() if in_time else fold >= 0

    def trial(models: list[int]) -> tuple[np.ndarray, np.ndarray]:
        return crossed([decisions[q] for q in models], target, fold, classes, weight, in_time)

    best = trial(kept)
    while len(kept) > 1:
        trials = {p: trial([q for q in kept if q != p]) for p in kept}
        least = min(trials, key=lambda p: mean(trials[p][0][known], weight[known]))
        rise, w = (trials[least][0] - best[0])[known], weight[known]
        average = mean(rise, w)
        if average > sum((w * (rise - average)) ** 2) ** 0.5 / sum(w):
            break
        best = trials[least]
        kept.remove(least)
    c = constant(target, classes, weight)
    found = np.zeros(len(decisions))
    found[kept] = weights([decisions[p] for p in kept], target, c, classes, weight)
    return found, best[1], c


def decide(fits: Sequence[Fit], w: np.ndarray, c: list[float], fold: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the decisions of the sum of parts, each the mean of the models of the folds."""
    means = []
    for fit in fits:
        models = [fit(np.flatnonzero(fold != k)) for k in sorted(set(fold.tolist()))]
        means.append(np.mean([model(rows) for model in models], axis=0))
    return summed(means, w, c)
