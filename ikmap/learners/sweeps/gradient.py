"""Stochastic gradient descent that follows the splits of cells, in one pass for all values of a field of a map.

When a cell splits, both parts begin with its weight, which leaves every decision as it is. At a checkpoint, some
epochs go on from there, with the loss

    alpha / 2 |w|^2 + mean over the rows of loss(y_i, w . x_i)

where features x are ``1 / sqrt(t)`` for the cells of a row. A step for row i is

    w <- w - step (alpha w + loss' x_i) = (1 - step alpha) w - step loss' x_i

with the slope loss' at the decision ``w . x_i`` of the weights before the step: taken after the weights shrink it would
belong to other weights than ``alpha w`` does, and the step would lead away from the least value. Source: The Mondrian
Kernel, section 4.2.2; algorithms.md, section 12.4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ikmap.arrays import Floats
from ikmap.cells import Cells
from ikmap.learners.sweeps._gradient_loops import (
    HINGE,
    LOGISTIC,
    SQUARED,
    SQUARED_HINGE,
    copy_parts,
    decide,
    descend,
)
from ikmap.learners.sweeps.columns import GROWTH, Columns, to_checkpoints
from ikmap.learners.sweeps.stored import StoredRows
from ikmap.seeds import generator
from ikmap.splits import CellSplit

LOSSES = {"squared": SQUARED, "hinge": HINGE, "squared_hinge": SQUARED_HINGE, "logistic": LOGISTIC}


@dataclass(frozen=True)
class GradientSettings:
    """Settings of the descent.

    Attributes
    ----------
    loss : {"squared", "hinge", "squared_hinge", "logistic"}
    alpha : float
        Weight of half the squared norm, >= 0, beside the mean loss.
    eta : float
        Size of the first step, of which the k-th is ``eta / (1 + eta alpha k)``; with squared loss below 1. When the
        number of columns grows, k is divided by its growth: what was learned counts for less, as weights are copies.
    epochs : int
        At each checkpoint.
    growth : float
        Share by which the number of columns grows between checkpoints.
    seed : int
        Seed of the order of the rows.
    """

    loss: str
    alpha: float
    eta: float = 0.5
    epochs: int = 1
    growth: float = GROWTH
    seed: int = 0


class GradientSweep:
    """The state of a sweep: weights by column, and the columns of all sets of rows, the first for learning.

    Parameters
    ----------
    start : sequence of Cells
        Before the first split.
    targets : ndarray, shape (n, outputs)
    settings : GradientSettings
    weight : ndarray, shape (n,), optional
        Weights of the rows.
    stored : pair of StoredRows and callable, optional
        Rows that are learned from in place of those of the first set, which then has none; and what makes targets of
        shape (n, outputs) of those stored.

    Attributes
    ----------
    columns : Columns
    """

    def __init__(
        self,
        start: Sequence[Cells],
        targets: np.ndarray,
        settings: GradientSettings,
        weight: np.ndarray | None = None,
        stored: tuple[StoredRows, Callable[[np.ndarray], np.ndarray]] | None = None,
    ) -> None:
        self.columns, self.settings, self._stored = Columns(start), settings, stored
        self._targets = np.ascontiguousarray(targets, dtype=np.float64)
        self._row_weight = np.empty(0) if weight is None else weight
        self._value = 1 / math.sqrt(self.columns.n_partitions)
        self._v = np.zeros((2 * self.columns.n + 1, self._targets.shape[1]))  # the last for rows without a cell
        self._scale, self._epochs, self._steps = 1.0, 0, 0.0

    @property
    def weights(self) -> Floats:
        """Weights, shape (number of columns, outputs)."""
        found: np.ndarray = self._scale * self._v[: self.columns.n]
        return found

    def follow(self, splits: Iterable[CellSplit]) -> Iterator[float]:
        """Apply splits; at each checkpoint learn, and yield the value of the map's option there."""
        for done in to_checkpoints(splits, self.columns.n, self.settings.growth):
            self._steps *= self.columns.n / (self.columns.n + len(done))
            first, left = self.columns.n, self.columns.apply_all(done)
            while self.columns.n >= len(self._v):
                self._v = np.concatenate([self._v, np.zeros_like(self._v)])
            copy_parts(self._v, left, first)
            self.learn(self.settings.epochs)
            yield self.columns.value

    def learn(self, epochs: int) -> None:
        """Descend for some epochs, each in a new order."""
        asked = self.settings
        for _ in range(epochs):
            if self._stored is not None:
                self._learn_stored(*self._stored)
                continue
            order = generator(asked.seed, self._epochs).permutation(len(self._targets))
            self._scale = descend(
                self.columns.of[0], self._targets, order, self._row_weight, self._v, self._scale, LOSSES[asked.loss],
                asked.alpha, asked.eta, self._value, self._steps,
            )  # fmt: skip
            self._steps += len(order)
            self._epochs += 1

    def _learn_stored(self, rows: StoredRows, targets: Callable[[np.ndarray], np.ndarray]) -> None:
        asked = self.settings
        for some in rows.epoch(self.columns.n, self._epochs, asked.seed, targets):
            order = np.arange(len(some.columns))
            self._scale = descend(
                some.columns, some.targets, order, some.weight, self._v, self._scale, LOSSES[asked.loss], asked.alpha,
                asked.eta, self._value, self._steps,
            )  # fmt: skip
            self._steps += len(order)
        self._epochs += 1

    def decisions(self, which: int = 1) -> Floats:
        """Return the decisions for the rows of one set, shape (n, outputs)."""
        columns = self.columns.of[which]
        found = np.empty((len(columns), self._v.shape[1]))
        decide(columns, self._v, self._scale * self._value, found)
        return found
