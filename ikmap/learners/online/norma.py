"""NORMA on features: regularised online learning with the isolation kernel in O(t) for each row (algorithms.md 11.6).

Weights are kept as a scale times an array, so that shrinking all of them is one multiplication. The mean of the
weights over all rounds, where it is wanted, is kept as a multiple of that array and a second one, which only rows that
add something touch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, Self

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Bools, Floats, Int32s
from ikmap.cells import Cells, in_wider_layout
from ikmap.json_values import JsonObject, Label
from ikmap.learners.linear_model import LinearModel
from ikmap.learners.online import norma_steps
from ikmap.learners.online._norma_loops import norma_pass, norma_single_pass
from ikmap.learners.online.norma_rule import NormaRule
from ikmap.learners.rows import Rows, check_classes, check_numbers, check_rows, n_rows, row_arrays, squared_norms


class NormaProgress(NamedTuple):
    """The result of one call of :meth:`NormaState.partial_fit`.

    Attributes
    ----------
    predicted : ndarray, shape (n,)
        Prediction for each row before it was learned from: its class number, int32; the number, float64; of
        novelty 1 for an alert, else 0, int32.
    beyond : ndarray of bool, shape (n,)
        Rows beyond the threshold: margin errors, alerts, residuals larger than epsilon or sigma.
    """

    predicted: np.ndarray
    beyond: np.ndarray


@dataclass
class NormaNumbers:
    """The numbers of NORMA beside its expansion: scale, rounds, thresholds and offsets.

    Attributes
    ----------
    scalars : ndarray of float64
        See ``_norma_loops``.
    moving : ndarray of float64, shape (4, K)
        Thresholds, offsets, and the sums of both before each row.
    """

    scalars: Floats
    moving: Floats

    @classmethod
    def start(cls, rule: NormaRule, n_outputs: int) -> Self:
        """Return the numbers before the first row."""
        scalars, moving = np.zeros(norma_steps.N_NUMBERS), np.zeros((4, n_outputs))
        scalars[norma_steps.SCALE] = 1.0
        moving[0] = rule.threshold
        return cls(scalars, moving)

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the numbers of a checkpoint; in old checkpoints, every function counts 1."""
        scalars, moving = (np.array(arrays[name], order="C") for name in ("scalars", "moving"))
        if scalars.size == norma_steps.COUNTED:
            scalars = np.append(scalars, scalars[norma_steps.SEEN])
        return cls(scalars, moving)

    @property
    def n_seen(self) -> int:
        """Number of rows that it has learned from."""
        return int(self.scalars[norma_steps.SEEN])

    @property
    def scale(self) -> float:
        """Factor of the weights."""
        return float(self.scalars[norma_steps.SCALE])

    @property
    def total(self) -> float:
        """Factor of the weights in the sum of all functions."""
        return float(self.scalars[norma_steps.TOTAL])

    @property
    def mass(self) -> float:
        """Sum of the coefficients of all functions so far."""
        return self.total * float(self.scalars[norma_steps.MASS]) + float(self.scalars[norma_steps.MASS_SUM])

    @property
    def level(self) -> float:
        """Level of alerts by the mean function: the share of its largest possible value below which a row is novel."""
        return float(self.scalars[norma_steps.SMOOTH_LEVEL])

    @property
    def counted(self) -> float:
        """Sum of the weights of all functions so far, or 1 if there are none."""
        return float(self.scalars[norma_steps.COUNTED]) or 1.0

    def thresholds(self, average: bool) -> Floats:
        """Return the current values, or the mean of the values before each row."""
        level: Floats = self.moving[2] / self.counted if average and self.n_seen else self.moving[0].copy()
        return level

    def offsets(self, average: bool) -> Floats:
        """Return the current values, or the mean of the values before each row."""
        level: Floats = self.moving[3] / self.counted if average and self.n_seen else self.moving[1].copy()
        return level

    def alert_threshold(self, rule: NormaRule) -> float | None:
        """Return the value below which a row is novel: the level, or rho; None if the loss finds no novelty."""
        if rule.loss != "novelty":
            return None
        return self.level if rule.average else float(self.moving[0, 0])

    def traces(self, rule: NormaRule, unit: float) -> dict[str, float | None]:
        """Return the recent share of rows beyond the threshold, the wanted share, and the learned thresholds.

        Values of several functions are averaged; epsilon and sigma are in the unit of targets; None if there is none.
        """
        traces: dict[str, float | None] = dict.fromkeys(("beyond", "nu", "rho", "level", "epsilon", "sigma"))
        if rule.loss != "squared":
            traces["beyond"] = float(self.scalars[norma_steps.SHARE])
        if rule.learns_threshold:
            traces["nu"] = rule.nu
            name = {"epsilon": "epsilon", "trimmed": "sigma"}.get(rule.loss, "rho")
            traces[name] = float(self.moving[0].mean()) * (unit if rule.of_numbers else 1.0)
        if rule.loss == "novelty" and rule.average:
            traces["level"] = self.level
        return traces


@dataclass
class NormaState:
    """The state of a run, from which it continues with the same bits.

    Parameters
    ----------
    rule : NormaRule
    table : ndarray of float64, shape (n_columns, K), or (n_columns, 2 K) where the rule averages
        The weights of the last function are the scale times the first K columns; the sum of the weights of all
        functions, as they count, is :attr:`NormaNumbers.total` times these, and the others. K = 1 but for
        classification with more than two classes.
    divisor : float
        Predictions on cells are sums of weights over this: t for the isolation kernel.
    numbers : NormaNumbers
    center, unit : float
        Targets that are numbers are learned as ``(y - center) / unit``.
    learner : str
        For models.
    n_support : int
        Rows that added to the weights.
    n_classes : int
        Number of classes, for losses of classes.
    """

    rule: NormaRule
    table: Floats
    divisor: float
    numbers: NormaNumbers
    center: float = 0.0
    unit: float = 1.0
    learner: str = "norma"
    n_support: int = 0
    n_classes: int = 2

    @classmethod
    def start(
        cls,
        rule: NormaRule,
        columns: int,
        divisor: float = 1.0,
        n_classes: int = 2,
        *,
        center: float = 0.0,
        unit: float = 1.0,
        learner: str = "norma",
    ) -> Self:
        """Return the state before the first row, for rows with so many columns."""
        numbers = NormaNumbers.start(rule, outputs_of(rule, n_classes))
        table = np.zeros((columns, numbers.moving.shape[1] * (1 + rule.average)))
        return cls(rule, table, divisor, numbers, center, unit, learner, n_classes=n_classes)

    @property
    def n_seen(self) -> int:
        """Number of rows that it has learned from."""
        return self.numbers.n_seen

    @property
    def threshold(self) -> float | None:
        """Value of the function below which a row is novel; None if the loss finds no novelty."""
        return self.numbers.alert_threshold(self.rule)

    @property
    def weights(self) -> Floats:
        """Weights of the last function, float64 of shape (n_columns, K)."""
        return self.numbers.scale * self._halves()[0]

    @property
    def mean_weights(self) -> Floats:
        """Weights of the mean of the functions before each row so far.

        Raises
        ------
        ValueError
            The rule keeps none.
        """
        return self._summed() / self.numbers.counted

    def _halves(self) -> tuple[np.ndarray, np.ndarray]:
        k = self.numbers.moving.shape[1]
        return self.table[:, :k], self.table[:, k:]

    def _summed(self) -> Floats:
        if not self.rule.average:
            raise ValueError("average: found a rule without it, which keeps no mean of all functions")
        now, others = self._halves()
        mean: np.ndarray = self.numbers.total * now + others
        return mean

    @property
    def average(self) -> bool:
        """True if decisions are those of the mean function: from the second row on, if the rule says so."""
        return self.rule.average and self.n_seen > 0

    def partial_fit(self, rows: Rows, y: np.ndarray | None = None) -> NormaProgress:
        """Predict and then learn from each row in turn.

        Parameters
        ----------
        rows : Cells, dense array or CSR matrix, n rows
        y : ndarray, shape (n,)
            Class numbers or finite numbers; novelty looks at none.

        Raises
        ------
        ValueError
            Rows or targets are not valid; nothing has been learned then.
        """
        complete = check_rows(rows, self.table.shape[0])
        n = n_rows(rows)
        targets = targets_of(self.rule, y, n, self.n_classes, self.center, self.unit)
        arrays = row_arrays(rows, complete=complete)
        if n and not isinstance(rows, Cells):
            self.rule.check_norm(float(squared_norms(arrays).max()) / self.divisor)
        predicted, beyond = np.empty(n), np.empty(n, dtype=np.bool_)
        single = self.numbers.moving.shape[1] == 1 and len(arrays) == 3 and isinstance(rows, Cells)
        learn = norma_single_pass if single else norma_pass
        rule = (self.rule.code, self.rule.fixed(), self.rule.average)
        numbers = (self.numbers.scalars, self.numbers.moving)
        self.n_support += int(learn(arrays, targets, *rule, self.divisor, self.table, *numbers, predicted, beyond))
        return NormaProgress(learner_predictions(self, predicted, beyond), beyond)

    def decision_function(self, rows: Rows) -> Floats:
        """Return decisions, shape (n, K), equal to those of :meth:`model`."""
        classes: list[Label] = list(range(self.n_classes)) if self.rule.of_classes else []
        return self.model(classes).decision_function(rows)

    def model(self, classes: list[Label], params: JsonObject | None = None) -> LinearModel:
        """Return the model of the mean function if the rule says so, else of the last function."""
        params = params or {}
        if self.rule.loss == "novelty":
            if self.rule.average:
                coef, threshold = self._summed() / (self.numbers.mass or 1.0), np.array([self.numbers.level])
            else:
                coef, threshold = self.weights, self.numbers.thresholds(False)
            # A decision is how far the function lies below the level, or rho.
            return LinearModel(-coef, threshold, self.divisor, self.learner, classes, params)
        coef = self.mean_weights if self.average else self.weights
        intercept = self.numbers.offsets(self.average)
        if self.rule.of_numbers:
            coef, intercept = coef * self.unit, intercept * self.unit + self.center
        return LinearModel(coef, intercept, self.divisor, self.learner, classes, params)

    def traces(self) -> dict[str, float | None]:
        """Return the recent share of rows beyond the threshold, and thresholds (:meth:`NormaNumbers.traces`)."""
        return self.numbers.traces(self.rule, self.unit)

    def grow(self, old: np.ndarray, new: np.ndarray) -> None:
        """Continue with more cells, of weight 0, in some partitionings, by the offsets before and from now on."""
        self.table = in_wider_layout(self.table, old, new)

    def carry(self, matrix: sp.csr_array, offsets: np.ndarray) -> None:  # noqa: ARG002
        """Continue with partly redrawn partitionings: weights become the matrix times the weights before."""
        self.table = matrix @ self.table

    def checkpoint(self) -> dict[str, np.ndarray]:
        """Copy of the state as plain arrays, for :meth:`restore`."""
        numbers = self.numbers
        return {
            "table": self.table.copy(),
            "scalars": numbers.scalars.copy(),
            "moving": numbers.moving.copy(),
            "n_support": np.array(self.n_support),
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the state of a :meth:`checkpoint` of a run with the same parameters."""
        table, numbers = np.array(arrays["table"], order="C"), NormaNumbers.restored(arrays)
        return replace(self, table=table, numbers=numbers, n_support=int(arrays["n_support"]))


def outputs_of(rule: NormaRule, n_classes: int) -> int:
    """Return the number of learned functions: one, or one for each of more than two classes.

    Raises
    ------
    ValueError
        There are no two classes.
    """
    if rule.of_classes and n_classes < 2:
        raise ValueError(f"at least 2 classes are needed, got {n_classes}")
    return n_classes if rule.of_classes and n_classes > 2 else 1


def targets_of(
    rule: NormaRule, y: np.ndarray | None, n: int, n_classes: int, center: float = 0.0, unit: float = 1.0
) -> Floats:
    """Return targets in the form of compiled loops, float64 of shape (n,).

    Raises
    ------
    ValueError
        They are not valid.
    """
    if rule.loss == "novelty":
        return np.ones(n)
    y = np.asarray(y)
    if rule.of_classes:
        check_classes(y, n, n_classes)
        return np.where(y == 1, 1.0, -1.0) if n_classes == 2 else y.astype(np.float64)
    check_numbers(y, n)
    targets: np.ndarray = (y.astype(np.float64) - center) / unit
    return targets


class Learned(Protocol):
    """The part of a state of NORMA that :func:`learner_predictions` needs."""

    rule: NormaRule
    unit: float
    center: float
    n_classes: int


def learner_predictions(state: Learned, predicted: Floats, beyond: Bools) -> Floats | Int32s:
    """Return predictions of compiled loops as predictions of the learner."""
    rule = state.rule
    if rule.loss == "novelty":
        return (predicted if rule.average else beyond).astype(np.int32)
    if rule.of_numbers:
        return predicted * state.unit + state.center
    return (predicted >= 0 if state.n_classes == 2 else predicted).astype(np.int32)
