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


class BlendLoss(ABC):
    """A loss of decisions and targets, both of shape (n, K): the sum over outputs, and the mean over rows."""

    def softened(self, target: Floats) -> Floats:
        """Return the targets by which models are weighed."""
        return target

    @abstractmethod
    def constant(self, target: Floats) -> Floats:
        """Return the constant decisions with the least loss, shape (K,)."""

    @abstractmethod
    def rows(self, decision: Floats, target: Floats) -> Floats:
        """Return the loss of each row, shape (n,)."""

    def mean(self, decision: Floats, target: Floats) -> float:
        """Return the mean loss of the rows."""
        return float(self.rows(decision, target).mean())

    @abstractmethod
    def derivatives(self, decision: Floats, target: Floats) -> tuple[Floats, Floats]:
        """Return the first and the second derivative of the loss of each decision, both of shape (n, K)."""


class LogLoss(BlendLoss):
    """The logistic loss of each class against the others, whose targets are 0 and 1."""

    def softened(self, target: Floats) -> Floats:
        """Return targets that are a little less sure than 0 and 1, as Platt's are.

        Else models that tell all rows apart would have infinite weights.
        """
        hits = target.sum(axis=0)
        misses = len(target) - hits
        softened: Floats = target * ((hits + 1) / (hits + 2)) + (1 - target) / (misses + 2)
        return softened

    def constant(self, target: Floats) -> Floats:
        share = target.mean(axis=0)
        return np.log(share / (1 - share))

    def rows(self, decision: Floats, target: Floats) -> Floats:
        losses: Floats = (np.logaddexp(0.0, decision) - target * decision).sum(axis=1)
        return losses

    def derivatives(self, decision: Floats, target: Floats) -> tuple[Floats, Floats]:
        probability = expit(decision)
        return probability - target, probability * (1 - probability)


class SquaredLoss(BlendLoss):
    """Loss of numbers: half of the squared error."""

    def constant(self, target: Floats) -> Floats:
        mean: Floats = target.mean(axis=0)
        return mean

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
        Decisions of the sum on each row, with weights that the rows of other folds decide.
    loss : float
        Mean loss of these decisions.
    alone : list of float
        Mean loss of the decisions of each model by itself, weighted likewise.
    """

    weights: Floats
    constant: Floats
    decisions: Floats
    loss: float
    alone: list[float]


def blend(decisions: Sequence[Floats], target: Floats, fold: Int64s, loss: BlendLoss) -> Blend:
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
    """
    target = loss.softened(target)

    def crossed(models: Sequence[int]) -> tuple[Floats, Floats]:
        """Return loss and decisions on each row of a sum of these models, whose weights rows of other folds decide."""
        crossed_decisions = np.empty_like(target)
        for k in np.unique(fold).tolist():
            rows, others = fold == k, fold != k
            constant = loss.constant(target[others])
            weights = weights_of([decisions[p][others] for p in models], target[others], constant, loss)
            crossed_decisions[rows] = weighted([decisions[p][rows] for p in models], weights, constant)
        return loss.rows(crossed_decisions, target), crossed_decisions

    models = list(range(len(decisions)))
    alone = [crossed([p]) for p in models]
    best = crossed(models) if len(models) > 1 else alone[0]
    while len(models) > 1:
        fewer = [[other for other in models if other != p] for p in models]
        trials = [alone[rest[0]] if len(rest) == 1 else crossed(rest) for rest in fewer]
        least = min(range(len(models)), key=lambda i: float(trials[i][0].mean()))
        rise = trials[least][0] - best[0]
        if rise.mean() > rise.std() / np.sqrt(rise.size):
            break
        models, best = fewer[least], trials[least]
    constant, weights = loss.constant(target), np.zeros(len(decisions))
    weights[models] = weights_of([decisions[p] for p in models], target, constant, loss)
    return Blend(weights, constant, best[1], float(best[0].mean()), [float(own.mean()) for own, _ in alone])


def weighted(decisions: Sequence[Floats], weights: Floats, constant: Floats) -> Floats:
    """Return the decisions of the sum, shape (n, K)."""
    total = np.repeat(constant[None, :], len(decisions[0]), axis=0)
    for weight, own in zip(weights.tolist(), decisions, strict=True):
        total += weight * (own - constant)
    return total


def weights_of(decisions: Sequence[Floats], target: Floats, constant: Floats, loss: BlendLoss) -> Floats:
    """Return the weights >= 0 with the least loss, by Newton's method: a step is a non-negative least squares problem.

    Parameters
    ----------
    decisions : sequence of ndarrays of float64, shape (n, K)
    target : ndarray of float64, shape (n, K)
    constant : ndarray of float64, shape (K,)
    """
    from scipy.optimize import nnls  # which would take each process a tenth of a second to import

    features = [own - constant for own in decisions]
    weights, value = np.zeros(len(features)), loss.mean(np.broadcast_to(constant, target.shape), target)
    for _ in range(STEPS):
        first, second = loss.derivatives(weighted(decisions, weights, constant), target)
        slope = np.array([np.sum(first * x) for x in features]) / len(target)
        curvature = np.array([[np.sum(second * x * z) for z in features] for x in features]) / len(target)
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
        while (then := loss.mean(weighted(decisions, weights + share * step, constant), target)) > (
            value - 1e-4 * share * promised
        ) and share > STEADY:
            share /= 2
        if then >= value:
            break
        weights, value = np.maximum(weights + share * step, 0.0), then
    return weights
