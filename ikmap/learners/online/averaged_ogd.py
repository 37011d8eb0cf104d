"""Online gradient descent whose model has the mean of its weights so far.

With steps of one size the weights do not come to rest: they go on moving around the best ones, and the last rows that
were learned from decide where they stand at the end. Their mean over the pass does come to rest, so decisions are more
often right, and mean the same after another pass over other rows of the same kind. Source: B. Polyak, A. Juditsky,
"Acceleration of stochastic approximation by averaging", 1992.

Late weights count more than early ones, as the k-th does by about k^:data:`DECAY`: what was learned last has been there
for a short time only, and files are often in an order, such as that of time, of which the order in which a run reads
them keeps traces. Source: O. Shamir, T. Zhang, "Stochastic gradient descent for non-smooth optimization", ICML 2013,
section 4.

The mean is over the weights after every :data:`LEAST`-th row, or, where tables are large, after so many rows that
adding them up takes about as long as learning. Which rows these are goes by the number of rows seen, so the result
depends on no grouping of rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Self

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Floats
from ikmap.cells import constant_added, in_wider_layout
from ikmap.json_values import JsonObject, Label
from ikmap.learners.linear_model import LinearModel
from ikmap.learners.online.ogd import OGDProgress, OGDState
from ikmap.learners.online.squared_ogd import SquaredOGDState, SquaredProgress
from ikmap.learners.rows import Rows, n_rows

LEAST = 256
DECAY = 3
PREFIX = "mean."


class AveragedOGDState:
    """A state of OGD on cells, and the mean of its weights so far.

    Parameters
    ----------
    state : OGDState or SquaredOGDState
        Learns, and predicts on the way with the weights as they are.
    every : int
        Rows between two of the weights that the mean is made of.
    mean : ndarray of float64, optional
        Mean of the weights, in their shape.
    n_added : int
        Number of weights in the mean.
    """

    def __init__(
        self, state: OGDState | SquaredOGDState, every: int, mean: Floats | None = None, n_added: int = 0
    ) -> None:
        self.state = state
        self.every = every
        self.mean = np.zeros(state.weights.shape) if mean is None else mean
        self.n_added = n_added

    @classmethod
    def start(cls, state: OGDState | SquaredOGDState, columns: int, t: int) -> Self:
        """Return the state before the first row, for cells of t partitionings with so many columns."""
        return cls(state, max(LEAST, columns // t))

    @property
    def n_seen(self) -> int:
        """Number of rows that it has learned from."""
        return self.state.n_seen

    @property
    def n_support(self) -> int:
        """Number of rows that moved a weight."""
        return self.state.n_support

    @property
    def n_updates(self) -> np.ndarray:
        """Number of moves of each weight vector."""
        return self.state.n_updates

    def partial_fit(self, rows: Rows, y: np.ndarray, *sample_weight: Floats) -> OGDProgress | SquaredProgress:
        """Predict and then learn from each row in turn, as the state does alone."""
        n, start, support = n_rows(rows), 0, 0
        predicted: list[np.ndarray] = []
        while start < n or not predicted:
            stop = min(n, start + self.every - self.state.n_seen % self.every)
            whole = start == 0 and stop == n
            some = rows if whole else rows[start:stop]
            weight = [of_rows[start:stop] for of_rows in sample_weight]
            progress = self.state.partial_fit(some, y[start:stop], *weight)
            predicted.append(progress.predicted)
            support += getattr(progress, "n_support", 0)
            if stop > start and self.state.n_seen % self.every == 0:
                self.n_added += 1
                self.mean += (self.state.weights - self.mean) * ((DECAY + 1) / (self.n_added + DECAY))
            start = stop
        together = np.concatenate(predicted)
        return OGDProgress(together, support) if isinstance(progress, OGDProgress) else type(progress)(together)

    def decision_function(self, rows: Rows) -> Floats:
        """Return decisions with the current weights."""
        return self.state.decision_function(rows)

    def grow(self, old: np.ndarray, new: np.ndarray) -> None:
        """Continue with more cells in some partitionings."""
        self.state.grow(old, new)
        if isinstance(self.state, OGDState) and self.state.constant:
            old, new = constant_added(old), constant_added(new)
        self.mean = in_wider_layout(self.mean, old, new)

    def carry(self, matrix: sp.csr_array, offsets: np.ndarray) -> None:
        """Continue with partly redrawn partitionings: weights become the matrix times the weights before."""
        self.state.carry(matrix, offsets)
        if isinstance(self.state, OGDState) and self.state.constant:
            matrix = sp.csr_array(sp.block_diag((matrix, sp.csr_array([[1.0]])), format="csr"))
        self.mean = matrix @ self.mean

    def checkpoint(self) -> dict[str, np.ndarray]:
        """Copy of the state as plain arrays, for :meth:`restore`."""
        counts = np.array([self.every, self.n_added], dtype=np.int64)
        own = {PREFIX + "weights": self.mean.copy(), PREFIX + "counts": counts}
        return {**self.state.checkpoint(), **own}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the state of a :meth:`checkpoint`; the arrays are copied."""
        every, n_added = (int(v) for v in arrays[PREFIX + "counts"])
        of_state = {name: array for name, array in arrays.items() if not name.startswith(PREFIX)}
        return type(self)(self.state.restore(of_state), every, np.array(arrays[PREFIX + "weights"]), n_added)

    def model(self, classes: list[Label], params: JsonObject | None = None, learner: str = "ogd") -> LinearModel:
        """Return the model with the mean of the weights, or with the last weights if the mean has none yet."""
        if not self.n_added:
            return self.state.model(classes, params, learner)
        if isinstance(self.state, SquaredOGDState):
            return replace(self.state, weights=self.mean).model(classes, params, learner)
        return replace(self.state, table=self.mean).model(classes, params, learner)
