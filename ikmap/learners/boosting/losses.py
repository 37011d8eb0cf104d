"""Losses of gradient boosting, each of one margin per row: logistic, squared error, and that of a quantile."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from ikmap.arrays import Floats
from ikmap.learners.boosting._loss_loops import logistic_gradient, quantile_gradient, squared_gradient
from ikmap.learners.boosting.growth import Leaf

EPSILON = 1e-12
"""Least share of a class for the first margin."""


class Loss(ABC):
    """A loss of margins and targets, both of shape (n,)."""

    @abstractmethod
    def start(self, target: Floats) -> float:
        """Return the constant margin with the least loss."""

    @abstractmethod
    def gradient(self, margin: Floats, target: Floats, gradient: Floats, hessian: Floats) -> None:
        """Write the first and the second derivative of the loss of each row by its margin."""

    @abstractmethod
    def mean(self, margin: Floats, target: Floats) -> float:
        """Return the mean loss of the rows."""

    def leaf_value(self, leaf: Leaf, rows: np.ndarray, margin: Floats, target: Floats, newton: float) -> float:  # noqa: ARG002
        """Return the value of a leaf by its rows; `newton` is that of the gradients and hessians."""
        return newton


class Logistic(Loss):
    """The logistic loss of the class 1 against the class 0."""

    def start(self, target: Floats) -> float:
        share = min(max(float(target.mean()), EPSILON), 1 - EPSILON)
        return float(np.log(share / (1 - share)))

    def gradient(self, margin: Floats, target: Floats, gradient: Floats, hessian: Floats) -> None:
        logistic_gradient(margin, target, gradient, hessian)

    def mean(self, margin: Floats, target: Floats) -> float:
        return float(np.mean(np.logaddexp(0.0, margin) - target * margin))


class Squared(Loss):
    """Loss of numbers: half of the squared error."""

    def start(self, target: Floats) -> float:
        return float(target.mean())

    def gradient(self, margin: Floats, target: Floats, gradient: Floats, hessian: Floats) -> None:
        squared_gradient(margin, target, gradient, hessian)

    def mean(self, margin: Floats, target: Floats) -> float:
        return float(np.mean((margin - target) ** 2)) / 2


@dataclass(frozen=True)
class Quantile(Loss):
    """The pinball loss, whose least mean is at a quantile.

    Attributes
    ----------
    level : float
        Share of the targets that are below the quantile.
    """

    level: float

    def start(self, target: Floats) -> float:
        return float(np.quantile(target, self.level))

    def gradient(self, margin: Floats, target: Floats, gradient: Floats, hessian: Floats) -> None:
        quantile_gradient(margin, target, self.level, gradient, hessian)

    def mean(self, margin: Floats, target: Floats) -> float:
        residual = target - margin
        return float(np.mean(np.maximum(self.level * residual, (self.level - 1) * residual)))

    def leaf_value(self, leaf: Leaf, rows: np.ndarray, margin: Floats, target: Floats, newton: float) -> float:  # noqa: ARG002
        """Return the quantile of the residuals of the leaf, as gradients say only on which side it lies."""
        own = rows[leaf.begin : leaf.end]
        return float(np.quantile(target[own] - margin[own], self.level))
