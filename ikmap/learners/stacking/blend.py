"""Weights >= 0 of several models in a sum, by the loss on rows from which the models have not learned.

The decisions of a sum are ``c + sum_p w_p (d_p - c)``, where d_p are those of model p, and c is the constant with the
least loss. With all weights 0 it decides like the constant, and the weights are those of a linear model through c.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import expit

from ikmap.arrays import Floats, Int64s

STEPS = 100
"""Most steps of Newton's method."""
TOLERANCE = 1e-14
"""Share of the loss that a step has to promise, or the steps end."""
STEADY = 1e-12
"""Share of the mean curvature that is added to all of them, as models can decide alike."""


def counting(sample_weight: Floats | None) -> Floats | None:
    """Return the weights of rows, or None if none of them weighs anything: such rows, of a fold, count alike."""
    return sample_weight if sample_weight is not None and sample_weight.any() else None


def weighted_mean(values: Floats, sample_weight: Floats | None) -> Floats:
    """Return the mean of values over the rows, shape (n,) or (n, K); without weights, all rows count alike."""
    weight = counting(sample_weight)
    mean: Floats = values.mean(axis=0) if weight is None else np.average(values, axis=0, weights=weight)
    return mean


class BlendLoss(ABC):
    """A loss of decisions and targets, both of shape (n, K): the sum over outputs, and the mean over rows."""

    def softened(self, target: Floats, sample_weight: Floats | None = None) -> Floats:  # noqa: ARG002
        """Return the targets by which models are weighed."""
        return target

    @abstractmethod
    def constant(self, target: Floats, sample_weight: Floats | None = None) -> Floats:
        """Return the constant decisions with the least loss, shape (K,)."""

    @abstractmethod
    def rows(self, decision: Floats, target: Floats) -> Floats:
        """Return the loss of each row, shape (n,)."""

    def mean(self, decision: Floats, target: Floats, sample_weight: Floats | None = None) -> float:
        """Return the mean loss of the rows."""
        return float(weighted_mean(self.rows(decision, target), sample_weight))

    @abstractmethod
    def derivatives(self, decision: Floats, target: Floats) -> tuple[Floats, Floats]:
        """Return the first and the second derivative of the loss of each decision, both of shape (n, K)."""


class LogLoss(BlendLoss):
    """The logistic loss of each class against the others, whose targets are 0 and 1."""

    def softened(self, target: Floats, sample_weight: Floats | None = None) -> Floats:
        """Return targets that are a little less sure than 0 and 1, as Platt's are.

        Else models that tell all rows apart would have infinite weights. Weights below 1 on average, such as shares of
        a whole, count as if they were 1 on average; rows that weigh nothing change nothing.
        """
        weight = np.ones(len(target)) if sample_weight is None else sample_weight
        counted = weight[weight > 0]
        if counted.size and counted.mean() < 1.0:
            weight = weight / counted.mean()
        hits = weight @ target
        misses = weight.sum() - hits
        softened: Floats = target * ((hits + 1) / (hits + 2)) + (1 - target) / (misses + 2)
        return softened

    def constant(self, target: Floats, sample_weight: Floats | None = None) -> Floats:
        share = weighted_mean(target, sample_weight)
        return np.log(share / (1 - share))

    def rows(self, decision: Floats, target: Floats) -> Floats:
        losses: Floats = (np.logaddexp(0.0, decision) - target * decision).sum(axis=1)
        return losses

    def derivatives(self, decision: Floats, target: Floats) -> tuple[Floats, Floats]:
        probability = expit(decision)
        return probability - target, probability * (1 - probability)


class SquaredLoss(BlendLoss):
    """Loss of numbers: half of the squared error."""

    def constant(self, target: Floats, sample_weight: Floats | None = None) -> Floats:
        return weighted_mean(target, sample_weight)

    def rows(self, decision: Floats, target: Floats) -> Floats:
        losses: Floats = ((decision - target) ** 2).sum(axis=1) / 2
        return losses

    def derivatives(self, decision: Floats, target: Floats) -> tuple[Floats, Floats]:
        return decision - target, np.ones_like(decision)


@dataclass(frozen=True, eq=False)
class Blend:
    """Weights of the models of a sum.

    Attributes
    ----------
    weights : ndarray of float64, shape (P,)
        0 for models that add nothing.
    constant : ndarray of float64, shape (K,)
    decisions : ndarray of float64, shape (n, K)
        Decisions of the sum on each row, with weights that the rows of other folds decide, in order of time those of
        earlier folds; NaN of rows for which there are none.
    loss : float
        Mean loss of these decisions, against the targets as they are.
    alone : list of float
        Mean loss of the decisions of each model by itself, weighted likewise.
    """

    weights: Floats
    constant: Floats
    decisions: Floats
    loss: float
    alone: list[float]


def blend(
    decisions: Sequence[Floats],
    target: Floats,
    fold: Int64s,
    loss: BlendLoss,
    *,
    in_time: bool = False,
    sample_weight: Floats | None = None,
) -> Blend:
    """Choose models, and weigh them.

    One model after the other is left out, that without which the loss is least, as long as the mean loss rises by no
    more than the standard error of its rise. Losses are those of rows whose fold did not decide the weights.

    Parameters
    ----------
    decisions : sequence of ndarrays of float64, shape (n, K)
        Decisions of each model on rows from which it has not learned.
    target : ndarray of float64, shape (n, K)
    fold : ndarray of int64, shape (n,)
        Fold of each row.
    loss : BlendLoss
    in_time : bool
        True if folds follow each other in time: rows of earlier folds decide the weights for a fold.
    sample_weight : ndarray of float64, shape (n,), optional
        Weights of the rows.
    """
    given, target = target, loss.softened(target, sample_weight)
    numbers = np.unique(fold)[1 if in_time else 0 :]
    tested = np.isin(fold, numbers)
    weight_tested = None if sample_weight is None else counting(sample_weight[tested])

    def crossed(models: Sequence[int]) -> tuple[Floats, Floats]:
        """Return loss and decisions on rows of a sum of these models, whose weights rows of other folds decide."""
        crossed_decisions = np.full_like(target, np.nan)
        for k in numbers.tolist():
            rows, others = fold == k, fold < k if in_time else fold != k
            weight = None if sample_weight is None else sample_weight[others]
            constant = loss.constant(target[others], weight)
            weights = weights_of([decisions[p][others] for p in models], target[others], constant, loss, weight)
            crossed_decisions[rows] = weighted([decisions[p][rows] for p in models], weights, constant)
        return loss.rows(crossed_decisions[tested], target[tested]), crossed_decisions

    def mean(losses: Floats) -> float:
        return float(weighted_mean(losses, weight_tested))

    def error(rise: Floats) -> float:
        """Return the standard error of the mean."""
        if weight_tested is None:
            return float(rise.std() / np.sqrt(rise.size))
        return float(np.sqrt(np.sum((weight_tested * (rise - mean(rise))) ** 2)) / weight_tested.sum())

    models = list(range(len(decisions)))
    alone = [crossed([p]) for p in models]
    best = crossed(models) if len(models) > 1 else alone[0]
    while len(models) > 1:
        fewer = [[other for other in models if other != p] for p in models]
        trials = [alone[rest[0]] if len(rest) == 1 else crossed(rest) for rest in fewer]
        least = min(range(len(models)), key=lambda i: mean(trials[i][0]))
        rise = trials[least][0] - best[0]
        if mean(rise) > error(rise):
            break
        models, best = fewer[least], trials[least]
    constant, weights = loss.constant(target, sample_weight), np.zeros(len(decisions))
    weights[models] = weights_of([decisions[p] for p in models], target, constant, loss, sample_weight)
    losses = [mean(loss.rows(decided[tested], given[tested])) for _, decided in (best, *alone)]
    return Blend(weights, constant, best[1], losses[0], losses[1:])


def weighted(decisions: Sequence[Floats], weights: Floats, constant: Floats) -> Floats:
    """Return the decisions of the sum, shape (n, K)."""
    total = np.repeat(constant[None, :], len(decisions[0]), axis=0)
    for weight, own in zip(weights.tolist(), decisions, strict=True):
        total += weight * (own - constant)
    return total


def weights_of(
    decisions: Sequence[Floats],
    target: Floats,
    constant: Floats,
    loss: BlendLoss,
    sample_weight: Floats | None = None,
) -> Floats:
    """Return the weights >= 0 with the least loss, by Newton's method: a step is a non-negative least squares problem.

    Parameters
    ----------
    decisions : sequence of ndarrays of float64, shape (n, K)
    target : ndarray of float64, shape (n, K)
    constant : ndarray of float64, shape (K,)
    loss : BlendLoss
    sample_weight : ndarray of float64, shape (n,), optional
        Weights of the rows.
    """
    from scipy.optimize import nnls  # which would take each process a tenth of a second to import

    features = [own - constant for own in decisions]
    weights, sample_weight = np.zeros(len(features)), counting(sample_weight)
    value = loss.mean(np.broadcast_to(constant, target.shape), target, sample_weight)
    shares = None if sample_weight is None else (sample_weight * (len(target) / sample_weight.sum()))[:, None]
    for _ in range(STEPS):
        first, second = loss.derivatives(weighted(decisions, weights, constant), target)
        if shares is not None:
            first, second = first * shares, second * shares
        slope = np.array([np.sum(first * x) for x in features]) / len(target)
        curved = [second * x for x in features]
        curvature = np.array([[np.sum(x * z) for z in features] for x in curved]) / len(target)
        size = float(np.trace(curvature)) / len(features)
        if size == 0.0:
            break
        root = np.linalg.cholesky(curvature + STEADY * size * np.eye(len(features)))
        goal, _ = nnls(root.T, solve_triangular(root, curvature @ weights - slope, lower=True))
        step = goal - weights
        promised = -float(slope @ step)
        if promised <= TOLERANCE * value:
            break
        share = 1.0
        while (
            then := loss.mean(weighted(decisions, weights + share * step, constant), target, sample_weight)
        ) > value - 1e-4 * share * promised and share > STEADY:
            share /= 2
        if then >= value:
            break
        weights, value = np.maximum(weights + share * step, 0.0), then
    return weights
