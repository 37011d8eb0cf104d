"""Online gradient descent on the hinge loss in the primal index form, IK-OGD (algorithms.md 5.3).

A prediction costs t additions for each class, however many points have been support points before. On cells, with steps
of one size, these are additions of integers: the net number of steps on every weight.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Self, cast

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Floats, Int32s
from ikmap.cells import Cells, constant_added, in_wider_layout
from ikmap.json_values import JsonObject, Label
from ikmap.learners._scores_loops import decisions
from ikmap.learners.linear_model import LinearModel
from ikmap.learners.online._ogd_loops import binary_pass, integer_decisions, integer_pass, weighted_pass
from ikmap.learners.rows import (
    CellArrays,
    RowArrays,
    Rows,
    check_classes,
    check_rows,
    check_weights,
    n_rows,
    row_arrays,
)


class OGDProgress(NamedTuple):
    """The result of one call of :meth:`OGDState.partial_fit`.

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
    """Return the divisor of the predictor: t for cells at the kernel scale, else 1 (algorithms.md 5.3)."""
    if scale not in ("kernel", "raw"):
        raise ValueError(f"scale must be 'kernel' or 'raw', got {scale!r}")
    return float(rows.n_partitions) if isinstance(rows, Cells) and scale == "kernel" else 1.0


INTEGERS = (np.int8, np.int16, np.int32, np.int64)
"""Types for the net number of steps, from the one that needs the least memory."""
LOOK = 8
"""Most integers that are looked through, in search of the largest, for each one that has been changed."""


@dataclass
class OGDState:
    """The state of a run, from which it continues with the same bits.

    Weights are ``eta`` times integers as long as all rows are cells without sample weights. Predictions are then those
    of the exact sum, rounded once. The first rows of another kind turn the integers into weights, for good.
    The loops count steps; :func:`steps_to_margin` turns `eta` and the divisor into the count at which a margin is 1.

    Parameters
    ----------
    table : ndarray, shape (n_columns, K)
        Signed integers: the net number of steps on every weight; float64: the weights themselves.
        K = 1 for two classes (class 1 positive), else one column per class, one against the rest. Changed in place
        or replaced.
    eta : float
        Step size, > 0: on a margin below 1 the weight of each of the row's columns moves by ``eta c``.
    divisor : float
        The predictor on cells is their weights' sum divided by this, see :func:`ogd_divisor`; for dense and
        CSR rows, which bring their values, ``x . w / divisor``.
    n_updates : ndarray of int64, shape (K,)
        Steps taken by each class: the size of its support set.
    n_seen, n_support : int
        Rows seen, and rows on which some class took a step.
    constant : bool
        All rows are cells, and have one cell more, which is the same for all of them and has the last column: its
        weight is the intercept of the model.
    """

    table: np.ndarray
    eta: float
    divisor: float
    n_updates: np.ndarray
    n_seen: int = 0
    n_support: int = 0
    constant: bool = False
    #: Steps that the integers' type has room for, at least; 0 when they were not looked through yet.
    _room: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("eta", "divisor"):
            if not 0 < getattr(self, name) < np.inf:
                raise ValueError(f"{name} must be a positive number, got {getattr(self, name)!r}")

    @classmethod
    def start(
        cls, columns: int, n_classes: int, eta: float = 0.5, divisor: float = 1.0, constant: bool = False
    ) -> Self:
        """Return the state before the first row, for rows with so many columns: all weights are 0."""
        if n_classes < 2:
            raise ValueError(f"at least 2 classes are needed, got {n_classes}")
        k = 1 if n_classes == 2 else n_classes
        columns += constant
        table, updates = np.zeros((columns, k), INTEGERS[0]), np.zeros(k, dtype=np.int64)
        return cls(table, float(eta), float(divisor), updates, constant=constant)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        n_classes: int = max(2, self.table.shape[1])
        return n_classes

    @property
    def weights(self) -> Floats:
        """Current weights, as a new float64 array of shape (n_columns, K)."""
        return self._float_weights() if self._counts else self.table.copy()

    @property
    def _counts(self) -> bool:
        return self.table.dtype != np.float64

    def _float_weights(self) -> Floats:
        return np.multiply(self.table, self.eta, dtype=np.float64) if self._counts else self.table

    def partial_fit(self, rows: Rows, y: np.ndarray, sample_weight: Floats | None = None) -> OGDProgress:
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
        rows, complete = self._checked(rows)
        n = n_rows(rows)
        y = np.asarray(y)
        check_classes(y, n, self.n_classes)
        weight = np.empty(0)
        if sample_weight is not None:
            weight = np.ascontiguousarray(sample_weight, dtype=np.float64)
            check_weights(weight, n)
        predicted = np.empty(n, dtype=np.int32)
        if n == 0:
            return OGDProgress(predicted, 0)
        arrays, y = row_arrays(rows, complete=complete), y.astype(np.int32, copy=False)
        if isinstance(rows, Cells) and sample_weight is None and self._counts:
            support = self._integer_pass(arrays, y, rows, predicted)
        else:
            self.table = self._float_weights()
            support = int(
                weighted_pass(arrays, y, weight, self.table, self.eta, self.divisor, predicted, self.n_updates)
            )
        self.n_seen += n
        self.n_support += support
        return OGDProgress(predicted, support)

    def _checked(self, rows: Rows) -> tuple[Rows, bool]:
        """Return checked rows, with the constant cell if there is one, and whether all cells are present."""
        complete = check_rows(rows, self.table.shape[0] - self.constant)
        return (rows.with_constant() if self.constant and isinstance(rows, Cells) else rows), complete

    def _integer_pass(self, arrays: RowArrays, y: Int32s, rows: Cells, predicted: np.ndarray) -> int:
        """Learn from cells, in wider integers whenever they need it; return the number of rows stepped on."""
        t = rows.n_partitions
        least_room = max(1, self.table.shape[0] // (LOOK * t))
        enough = steps_to_margin(self.eta, self.divisor)
        # Not so where rows lack cells, nor where a column may stand at any place of a row (from CSR).
        in_place = len(arrays) == 3 and bool((np.diff(rows.offsets) > 0).all())
        binary = self.table.shape[1] == 1 and in_place
        done, support = 0, 0
        while done < y.size:
            limit = np.iinfo(self.table.dtype).max
            if limit >= least_room or self.table.dtype == INTEGERS[-1]:
                limits = (self.table.dtype.type(limit), self._room, least_room, enough)
                output = (predicted, self.n_updates)
                steps = self.table.reshape(-1)
                if binary:
                    codes, base, _ = cast("CellArrays", arrays)
                    done, stepped_on, self._room = binary_pass(codes, base, y, done, steps, *limits, *output)
                else:
                    done, stepped_on, self._room = integer_pass(arrays, t, y, done, steps, *limits, *output)
                support += stepped_on
            if done < y.size:
                self.table = self.table.astype(INTEGERS[INTEGERS.index(self.table.dtype.type) + 1])
        return support

    def decision_function(self, rows: Rows) -> Floats:
        """Return decisions with the current weights, shape (n, K), one column for two classes."""
        rows, complete = self._checked(rows)
        out, arrays = np.empty((n_rows(rows), self.table.shape[1])), row_arrays(rows, complete=complete)
        if isinstance(rows, Cells) and self._counts:
            integer_decisions(arrays, rows.n_partitions, self.table.reshape(-1), self.eta, self.divisor, out)
        else:
            decisions(arrays, self._float_weights(), self.divisor, np.zeros(out.shape[1]), out)
        return out

    def grow(self, old: np.ndarray, new: np.ndarray) -> None:
        """Continue with more cells, of weight 0, in some partitionings, by the offsets before and from now on."""
        if self.constant:
            old, new = constant_added(old), constant_added(new)
        self.table = in_wider_layout(self.table, old, new)

    def carry(self, matrix: sp.csr_array, offsets: np.ndarray) -> None:  # noqa: ARG002
        """Continue with partly redrawn partitionings: weights become the matrix times the weights before."""
        if self.constant:
            matrix = sp.csr_array(sp.block_diag((matrix, sp.csr_array([[1.0]])), format="csr"))
        self.table = matrix @ self._float_weights()

    def checkpoint(self) -> dict[str, np.ndarray]:
        """Copy of the state as plain arrays, for :meth:`restore`."""
        return {
            **({"constant": np.array([1])} if self.constant else {}),
            "table": self.table.copy(),
            "n_updates": self.n_updates.copy(),
            "scalars": np.array([self.eta, self.divisor]),
            "counts": np.array([self.n_seen, self.n_support], dtype=np.int64),
        }

    @classmethod
    def restore(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the state of a :meth:`checkpoint`; the arrays are copied."""
        eta, divisor = (float(v) for v in arrays["scalars"])
        n_seen, n_support = (int(v) for v in arrays["counts"])
        if "table" not in arrays:
            raise ValueError("found a checkpoint of an earlier version, expected one with a table of steps")
        table = np.array(arrays["table"], order="C")
        n_updates = np.array(arrays["n_updates"], dtype=np.int64)
        return cls(table, eta, divisor, n_updates, n_seen, n_support, constant="constant" in arrays)

    def model(self, classes: list[Label], params: JsonObject | None = None, learner: str = "ogd") -> LinearModel:
        """Return the classifier with the current weights.

        Its decisions equal :meth:`decision_function` up to rounding, and bit for bit on cells where ``eta`` is a power
        of two, as by default, and there is no constant cell.
        """
        coef = self.weights
        intercept = np.zeros(coef.shape[1])
        if self.constant:
            coef, intercept = np.ascontiguousarray(coef[:-1]), coef[-1] / self.divisor
        return LinearModel(
            coef=coef,
            intercept=intercept,
            divisor=self.divisor,
            learner=learner,
            classes=classes,
            params={"eta": self.eta, "divisor": self.divisor, **(params or {})},
        )


def steps_to_margin(eta: float, divisor: float) -> int:
    """Return the smallest sum of steps s with a computed ``eta * s / divisor`` >= 1, at most 2^53."""
    steps = math.ceil(min(divisor / eta, 2.0**53))
    while steps > 1 and eta * (steps - 1) / divisor >= 1.0:
        steps -= 1
    while steps < 2**53 and eta * steps / divisor < 1.0:
        steps += 1
    return steps
