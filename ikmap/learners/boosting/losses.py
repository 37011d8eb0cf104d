"""Losses of gradient boosting, each of one margin per row: logistic, squared error, and that of a quantile."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ikmap.arrays import Floats
from ikmap.learners.boosting._loss_loops import LOGISTIC, QUANTILE, SQUARED, fill_derivatives

EPSILON = 1e-12
"""Least share of a class for the first margin."""


class Loss(ABC):
    """A loss of margins and targets, both of shape (n,).

    Attributes
    ----------
    number : int
        Number by which compiled loops know the loss.
    level : float
        For a quantile, the share of the targets that are below it.
    by_rows : bool
        True if the value of a leaf needs all of its rows at once, and not only sums over them.
    bounded : bool
        True if the first derivative has a bound of its own, whatever the margins are.
    largest_hessian : float
        Bound of the second derivative.
    largest_value : float
        Bound of the value of a leaf, up to its sign, before it is shrunk.
    """

    number: ClassVar[int]
    level: float
    by_rows: ClassVar[bool] = False
    bounded: ClassVar[bool] = True
    largest_hessian: ClassVar[float] = 1.0
    largest_value: ClassVar[float] = math.inf

    @abstractmethod
    def start(self, sums: Floats, n: float, n_rows: int, targets: Sequence[Floats]) -> float:
        """Return the constant margin with the least loss.

        Parameters
        ----------
        sums : ndarray
            Sums of the targets, weighted, in each block of rows.
        n : float
            Number of rows, or the sum of their weights.
        n_rows : int
            Number of rows.
        targets : sequence of ndarray
            The targets, if the loss is one :attr:`by_rows`.
        """

    def gradient(self, margin: Floats, target: Floats, gradient: Floats, hessian: Floats) -> None:
        """Write the first and the second derivative of the loss of each row by its margin."""
        fill_derivatives(self.number, self.level, margin, target, gradient, hessian)

    @abstractmethod
    def each(self, margin: Floats, target: Floats) -> Floats:
        """Return the loss of each row."""

    def largest_gradient(self, residual: float) -> float:  # noqa: ARG002
        """Return a bound of the first derivative for margins that differ from the targets by at most so much."""
        return 1.0

    def leaf_value(self, margin: Floats, target: Floats) -> float:
        """Return the value of a leaf from all of its rows, for a loss that is one :attr:`by_rows`."""
        raise NotImplementedError


class Logistic(Loss):
    """The logistic loss of the class 1 against the class 0.

    Where a class is rare, the second derivative of its first rows is next to 0. Newton's step would then be so long
    that no later tree could take it back, so it is bounded.
    """

    number: ClassVar[int] = LOGISTIC
    level: float = 0.0
    largest_hessian: ClassVar[float] = 0.25
    largest_value: ClassVar[float] = 4.0

    def start(self, sums: Floats, n: float, n_rows: int, targets: Sequence[Floats]) -> float:  # noqa: ARG002
        share = min(max(math.fsum(sums) / n, EPSILON), 1 - EPSILON)
        if share in (EPSILON, 1 - EPSILON):  # all rows of a class are held out: half a row may be among so many
            least = max(EPSILON, 0.5 / (n_rows + 1))
            share = least if share < 0.5 else 1 - least
        return float(np.log(share / (1 - share)))

    def each(self, margin: Floats, target: Floats) -> Floats:
        losses: Floats = np.logaddexp(0.0, margin) - target * margin
        return losses


class Squared(Loss):
    """Loss of numbers: half of the squared error."""

    number: ClassVar[int] = SQUARED
    level: float = 0.0
    bounded: ClassVar[bool] = False

    def start(self, sums: Floats, n: float, n_rows: int, targets: Sequence[Floats]) -> float:  # noqa: ARG002
        return math.fsum(sums) / n

    def each(self, margin: Floats, target: Floats) -> Floats:
        losses: Floats = (margin - target) ** 2 / 2
        return losses

    def largest_gradient(self, residual: float) -> float:
        return residual


@dataclass(frozen=True)
class Quantile(Loss):
    """The pinball loss, whose least mean is at a quantile.

    Attributes
    ----------
    level : float
        Share of the targets that are below the quantile.
    """

    level: float

    number: ClassVar[int] = QUANTILE
    by_rows: ClassVar[bool] = True

    def start(self, sums: Floats, n: float, n_rows: int, targets: Sequence[Floats]) -> float:  # noqa: ARG002
        return float(np.quantile(np.concatenate(targets), self.level))

    def each(self, margin: Floats, target: Floats) -> Floats:
        residual = target - margin
        losses: Floats = np.maximum(self.level * residual, (self.level - 1) * residual)
        return losses

    def leaf_value(self, margin: Floats, target: Floats) -> float:
        """Return the quantile of the residuals of the leaf, as gradients say only on which side it lies."""
        return float(np.quantile(target - margin, self.level)) if target.size else 0.0
