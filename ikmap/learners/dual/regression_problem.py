"""Support vector regression as a problem for :mod:`ikmap.learners.dual.block_minimization`.

Ho, Lin (2012). Targets are standardised: the problem is solved for ``(y - center) / scale``, mean and standard
deviation of the rows by their weights, so that one C and one epsilon suit targets of any scale.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, cast

import numpy as np

from ikmap.arrays import Floats
from ikmap.learners.dual import _linear_svr_loops as loops
from ikmap.learners.dual import _momentum_svr_loops as momentum_loops
from ikmap.learners.dual._linear_svm_loops import squared_length
from ikmap.learners.dual._linear_svr_loops import Targets
from ikmap.learners.dual.block_minimization import BlockProblem, Objective, VisitOrder
from ikmap.learners.dual.block_reader import BlockReader
from ikmap.learners.dual.momentum import LONGER
from ikmap.learners.dual.shared_pass import SharedPass, Swept
from ikmap.learners.rows import CellArrays, RowArrays


@dataclass
class RegressionProblem(BlockProblem):
    """The state of the problem.

    Parameters
    ----------
    epsilon : float
        Residuals up to this cost nothing, in standard deviations.
    center, scale : float
        Centre and unit of the targets.
    """

    loops: ClassVar[ModuleType] = loops
    momentum_loops: ClassVar[ModuleType] = momentum_loops
    unbounded: ClassVar[tuple[int, ...]] = (loops.SQUARED_EPSILON_INSENSITIVE,)

    epsilon: float = 0.0
    center: float = 0.0
    scale: float = 1.0

    def objective(self, y: np.ndarray, weight: Floats) -> Targets:
        z = (y - self.center) / self.scale
        return loops.Targets(z, self.class_cost, weight, self.bias, self.epsilon, self.loss)

    def bounds(self, total_cost: float, start: float, heaviest: float) -> tuple[float, float]:
        """Return bounds by the dual objective, which rises in every step.

        Weighted squares of standardised targets add up to the weight of the rows. So, with C for each, the dual
        objective is at most ``total_cost`` less |w|^2 / 2. It begins at 0, or, where dual variables are given, no lower
        than what is taken away here.
        """
        given = (1.0 + self.epsilon) * (total_cost + start) + start if self.w.any() or start else 0.0
        length = 2.0 * (total_cost + given) + squared_length(self.w)
        cost = float(self.class_cost[0]) * heaviest
        if self.loss in self.unbounded:
            return length, 6.0 * LONGER * float(np.sqrt(0.5 * cost * length))
        return length, LONGER * cost

    def costs(self, y: np.ndarray, weight: Floats) -> Floats:
        costs: Floats = self.class_cost[0] * (weight if weight.size else np.ones(y.size))
        return costs

    def sweep(
        self,
        shared: SharedPass | None,  # noqa: ARG002
        rows: RowArrays,
        norms: Floats,
        objective: Objective,
        *order: *VisitOrder,
    ) -> Swept:
        swept: Swept
        if self.numbers is None or self.counted is None:
            swept = loops.one_pass(rows, norms, objective, self.w, *order)
        else:
            counted = self.numbers.rows(cast("CellArrays", rows))
            swept = loops.one_pass(counted, norms, objective, self.counted, *order)
        return swept


def moments(reader: BlockReader) -> tuple[float, float, float]:
    """Return the weight of the rows, the weighted mean of their targets, and the weighted sum of squares about it."""
    total = (0.0, 0.0, 0.0)
    for b in range(len(reader)):
        y, some = reader[b].y, reader[b].sample_weight
        some = some if some.size else np.ones(y.size)
        weight = math.fsum(some)
        mean = math.fsum(some * y) / weight if weight else 0.0
        total = together(total, (weight, mean, math.fsum(some * (y - mean) ** 2)))
    return total


def together(one: tuple[float, float, float], other: tuple[float, float, float]) -> tuple[float, float, float]:
    """Return the moments of the rows of both."""
    (weight, mean, squares), (more, inside, within) = one, other
    if more == 0.0:
        return one
    away = inside - mean
    squares += within + away * away * weight * more / (weight + more)
    return weight + more, mean + away * more / (weight + more), squares


def standardisation(found: tuple[float, float, float]) -> tuple[float, float]:
    """Return mean and standard deviation from moments, or 0 and 1 without rows; the deviation is never 0."""
    weight, mean, squares = found
    # A spread as small as the rounding of the mean is none.
    deviation = math.sqrt(squares / weight) if weight else 0.0
    return mean, deviation if deviation > 1e-14 * abs(mean) else 1.0
