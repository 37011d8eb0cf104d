"""Online gradient descent on squared errors, on cells: the IK-OGD of regression (algorithms.md 5.3).

The intercept is the mean of all targets so far: so cells in which no row was yet predict that mean. After it, a row
moves the weights of its cells by the step size times what is left of its error, which moves its own prediction by that
part of the error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Floats
from ikmap.cells import Cells, in_wider_layout
from ikmap.json_values import JsonObject, Label
from ikmap.learners._scores_loops import decisions
from ikmap.learners.linear_model import LinearModel
from ikmap.learners.online._squared_ogd_loops import squared_pass
from ikmap.learners.rows import Rows, check_rows, n_rows, row_arrays, squared_norms


class SquaredProgress(NamedTuple):
    """The result of one call of :meth:`SquaredOGDState.partial_fit`.

    Attributes
    ----------
    predicted : ndarray of float64, shape (n,)
        Prediction for every row before the row was learned from.
    """

    predicted: np.ndarray


@dataclass
class SquaredOGDState:
    """The state of a run, from which it continues with the same bits.

    Parameters
    ----------
    weights : ndarray of float64, shape (n_columns,)
        Weights of cells. Changed in place.
    eta : float
        Step size, > 0. Below ``2 divisor / t``, or errors grow without bound.
    divisor : float
        A prediction is the intercept and the sum of the weights over this.
    total : float
        Sum of the targets so far.
    n_seen, n_support : int
        Rows seen, and rows whose error was not 0.
    undivided : float
        Squared norm up to which steps on rows that are not cells are as long as those on cells. It is in no checkpoint:
        the rows of a run are of one kind.
    """

    weights: Floats
    eta: float
    divisor: float
    total: float = 0.0
    n_seen: int = 0
    n_support: int = 0
    undivided: float = 1.0

    @classmethod
    def start(cls, offsets: np.ndarray, eta: float, divisor: float = 1.0) -> Self:
        """Return the state before the first row, for cells with these offsets.

        Raises
        ------
        ValueError
            With this step size errors would grow without bound.
        """
        most = 2 * divisor / (offsets.size - 1)
        if not 0 < eta < most:
            raise ValueError(
                f"eta: found {eta:g}, expected a number between 0 and {most:g}; larger steps on squared errors make "
                "errors larger"
            )
        return cls(
            np.zeros(int(offsets[-1])), float(eta), float(divisor), undivided=max(1.0, (offsets.size - 1) / divisor)
        )

    @classmethod
    def start_on_rows(cls, n_columns: int, eta: float = 0.5) -> Self:
        """Return the state before the first dense or CSR row, with steps divided by squared norms above 1.

        Raises
        ------
        ValueError
            With this step size errors would grow without bound.
        """
        if not 0 < eta < 2:
            raise ValueError(f"eta: found {eta:g}, expected a number between 0 and 2")
        return cls(np.zeros(n_columns), float(eta), 1.0)

    @property
    def intercept(self) -> float:
        """Mean of the targets so far; 0 before the first."""
        return self.total / self.n_seen if self.n_seen else 0.0

    @property
    def n_updates(self) -> np.ndarray:
        """Number of moves of the weights, shape (1,)."""
        return np.array([self.n_support])

    def partial_fit(self, rows: Rows, y: np.ndarray) -> SquaredProgress:
        """Predict and then learn from each row in turn.

        Parameters
        ----------
        rows : Cells, float64 ndarray or csr_array, n rows
            Of a state that began with cells, other rows have the value 1 where those do.
        y : ndarray of float64, shape (n,)

        Raises
        ------
        ValueError
            If rows or targets are not valid; nothing has been learned then.
        """
        complete = check_rows(rows, self.weights.size)
        y = np.ascontiguousarray(y, dtype=np.float64)
        if y.shape != (n_rows(rows),) or not np.isfinite(y).all():
            raise ValueError(f"expected {n_rows(rows)} targets that are finite numbers")
        predicted = np.empty(y.size)
        arrays = row_arrays(rows, complete=complete)
        most = self.divisor * self.undivided
        norms = np.empty(0) if isinstance(rows, Cells) else squared_norms(arrays) / most
        at = self.weights, self.eta, self.divisor, self.total, self.n_seen
        self.total = float(squared_pass(arrays, y, *at, norms, predicted))
        self.n_seen += y.size
        self.n_support += int((predicted != y).sum())
        return SquaredProgress(predicted)

    def decision_function(self, rows: Rows) -> Floats:
        """Return predictions with the current weights, shape (n, 1)."""
        complete = check_rows(rows, self.weights.size)
        out = np.empty((n_rows(rows), 1))
        arrays = row_arrays(rows, complete=complete)
        decisions(arrays, self.weights[:, None], self.divisor, np.array([self.intercept]), out)
        return out

    def grow(self, old: np.ndarray, new: np.ndarray) -> None:
        """Continue with more cells, of weight 0, in some partitionings, by the offsets before and from now on."""
        self.weights = in_wider_layout(self.weights, old, new)

    def carry(self, matrix: sp.csr_array, offsets: np.ndarray) -> None:  # noqa: ARG002
        """Continue with partly redrawn partitionings: weights become the matrix times the weights before."""
        self.weights = matrix @ self.weights

    def checkpoint(self) -> dict[str, np.ndarray]:
        """Copy of the state as plain arrays, for :meth:`restore`."""
        return {
            "weights": self.weights.copy(),
            "scalars": np.array([self.eta, self.divisor, self.total]),
            "counts": np.array([self.n_seen, self.n_support], dtype=np.int64),
        }

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the state of a :meth:`checkpoint`; the arrays are copied."""
        eta, divisor, total = (float(v) for v in arrays["scalars"])
        n_seen, n_support = (int(v) for v in arrays["counts"])
        return cls(np.array(arrays["weights"]), eta, divisor, total, n_seen, n_support)

    def model(self, classes: list[Label], params: JsonObject | None = None, learner: str = "ogd") -> LinearModel:
        """Return the model with the current weights, whose decisions have the same bits as those of the state."""
        return LinearModel(
            coef=self.weights[:, None].copy(),
            intercept=np.array([self.intercept]),
            divisor=self.divisor,
            learner=learner,
            classes=classes,
            params={"eta": self.eta, "divisor": self.divisor, **(params or {})},
        )
