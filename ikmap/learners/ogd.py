"""Online gradient descent on the hinge loss, in the primal index form: IK-OGD (algorithms.md 5.3).

A prediction costs t additions for each class, however many points have been support points before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from ikmap.cells import Cells
from ikmap.learners._ogd_loops import ogd_pass
from ikmap.learners._rows_loops import decisions
from ikmap.learners.linear_model import LinearModel
from ikmap.learners.rows import Rows, check_classes, check_rows, check_weights, n_rows, row_arrays


class OGDProgress(NamedTuple):
    """What one call of :meth:`OGDState.partial_fit` did.

    Attributes
    ----------
    predicted : ndarray of int32, shape (n,)
        Class number given to every row before the row was learned from (progressive validation).
    n_support : int
        Rows on which at least one weight vector was changed.
    """

    predicted: np.ndarray
    n_support: int


def ogd_divisor(rows: Rows, scale: Literal["kernel", "raw"]) -> float:
    """Divisor of the predictor: t for cells at the kernel scale, else 1 (algorithms.md 5.3)."""
    if scale not in ("kernel", "raw"):
        raise ValueError(f"scale must be 'kernel' or 'raw', got {scale!r}")
    return float(rows.n_partitions) if isinstance(rows, Cells) and scale == "kernel" else 1.0


@dataclass
class OGDState:
    """The state of a run: everything needed to go on, bit for bit, from where it stopped.

    Parameters
    ----------
    weights : ndarray of float64, shape (n_columns, K)
        K = 1 for two classes (class 1 positive), else one column per class, one against the rest. Changed in
        place.
    eta : float
        Step size, > 0: on a margin below 1 the weight of each of the row's columns moves by ``eta c``.
    divisor : float
        The predictor on cells is their weights' sum divided by this, see :func:`ogd_divisor`; for dense and
        CSR rows, which bring their values, ``x . w / divisor``.
    n_updates : ndarray of int64, shape (K,)
        Steps taken by each class: the size of its support set.
    n_seen, n_support : int
        Rows seen, and rows on which some class took a step.
    """

    weights: np.ndarray
    eta: float
    divisor: float
    n_updates: np.ndarray
    n_seen: int = 0
    n_support: int = 0

    def __post_init__(self) -> None:
        for name in ("eta", "divisor"):
            if not 0 < getattr(self, name) < np.inf:
                raise ValueError(f"{name} must be a positive number, got {getattr(self, name)!r}")

    @classmethod
    def start(cls, columns: int, n_classes: int, eta: float = 0.5, divisor: float = 1.0) -> Self:
        """State before the first row: all weights 0."""
        if n_classes < 2:
            raise ValueError(f"at least 2 classes are needed, got {n_classes}")
        k = 1 if n_classes == 2 else n_classes
        return cls(np.zeros((columns, k)), float(eta), float(divisor), np.zeros(k, dtype=np.int64))

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return max(2, self.weights.shape[1])

    def partial_fit(self, rows: Rows, y: np.ndarray, sample_weight: np.ndarray | None = None) -> OGDProgress:
        """Predict and then learn from each row in turn.

        Parameters
        ----------
        rows : Cells, dense array or CSR matrix, n rows
        y : ndarray of int, shape (n,)
            Class numbers.
        sample_weight : ndarray of float, shape (n,), optional
            Factors >= 0 of the step; a row of weight 0 is only predicted.

        Raises
        ------
        ValueError
            If rows, classes or weights are not valid; nothing has been learned then.
        """
        complete = check_rows(rows, self.weights.shape[0])
        n = n_rows(rows)
        y = np.asarray(y)
        check_classes(y, n, self.n_classes)
        weight = np.empty(0)
        if sample_weight is not None:
            weight = np.ascontiguousarray(sample_weight, dtype=np.float64)
            check_weights(weight, n)
        predicted = np.empty(n, dtype=np.int32)
        arrays = row_arrays(rows, complete=complete)
        support = int(ogd_pass(arrays, y, weight, self.weights, self.eta, self.divisor, predicted, self.n_updates))
        self.n_seen += n
        self.n_support += support
        return OGDProgress(predicted, support)

    def decision_function(self, rows: Rows) -> np.ndarray:
        """Decision values with the weights as they are now: shape (n,) for two classes, else (n, K)."""
        complete = check_rows(rows, self.weights.shape[0])
        out = np.empty((n_rows(rows), self.weights.shape[1]))
        decisions(row_arrays(rows, complete=complete), self.weights, self.divisor, np.zeros(out.shape[1]), out)
        return out[:, 0] if out.shape[1] == 1 else out

    def checkpoint(self) -> dict[str, np.ndarray]:
        """Copy of the state as plain arrays, for :meth:`restore`."""
        return {
            "weights": self.weights.copy(),
            "n_updates": self.n_updates.copy(),
            "scalars": np.array([self.eta, self.divisor]),
            "counts": np.array([self.n_seen, self.n_support], dtype=np.int64),
        }

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """State from a :meth:`checkpoint`; the arrays are copied."""
        eta, divisor = (float(v) for v in arrays["scalars"])
        n_seen, n_support = (int(v) for v in arrays["counts"])
        weights = np.array(arrays["weights"], dtype=np.float64, order="C")
        return cls(weights, eta, divisor, np.array(arrays["n_updates"], dtype=np.int64), n_seen, n_support)

    def model(self, classes: list[Any], params: dict[str, Any] | None = None) -> LinearModel:
        """The classifier with a copy of the weights as they are now.

        Its decisions equal :meth:`decision_function` bit for bit on cells, and on dense and CSR rows where
        the divisor is 1.
        """
        return LinearModel(
            coef=self.weights.copy(),
            intercept=np.zeros(self.weights.shape[1]),
            divisor=self.divisor,
            learner="ogd",
            classes=classes,
            params={"eta": self.eta, "divisor": self.divisor, **(params or {})},
        )
