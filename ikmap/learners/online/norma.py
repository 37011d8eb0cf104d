"""NORMA on features: regularised online learning with the isolation kernel at O(t) a row (algorithms.md 11.6).

Weights are kept as a scale times an array, so that shrinking all of them is one multiplication. The mean of the
weights over all rounds, where it is wanted, is kept as a multiple of that array and a second one, which only rows that
add something touch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Bools, Floats, Int32s
from ikmap.cells import Cells, in_wider_layout
from ikmap.json_values import JsonObject, Label
from ikmap.learners.linear_model import LinearModel
from ikmap.learners.online import _norma_loops as loops
from ikmap.learners.online._norma_loops import norma_pass, norma_single_pass
from ikmap.learners.online.norma_rule import NormaRule
from ikmap.learners.rows import Rows, check_classes, check_numbers, check_rows, n_rows, row_arrays, squared_norms


class NormaProgress(NamedTuple):
    """What one call of :meth:`NormaState.partial_fit` did.

    Attributes
    ----------
    predicted : ndarray, shape (n,)
        What was predicted of each row before it was learned from: its class number, int32; the number, float64; of
        novelty 1 for an alert, else 0, int32.
    beyond : ndarray of bool, shape (n,)
        Rows beyond the threshold: margin errors, alerts, residuals larger than epsilon or sigma.
    """

    predicted: np.ndarray
    beyond: np.ndarray


@dataclass
class NormaNumbers:
    """What every form of NORMA keeps beside its expansion: scale, rounds, thresholds and offsets.

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
        """Before the first row."""
        scalars, moving = np.zeros(loops.N_NUMBERS), np.zeros((4, n_outputs))
        scalars[loops.SCALE] = 1.0
        moving[0] = rule.threshold
        return cls(scalars, moving)

    @classmethod
    def restored(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Of a checkpoint. Those of before late functions could count more say nothing of what functions count: 1."""
        scalars, moving = (np.array(arrays[name], order="C") for name in ("scalars", "moving"))
        if scalars.size == loops.COUNTED:
            scalars = np.append(scalars, scalars[loops.SEEN])
        return cls(scalars, moving)

    @property
    def n_seen(self) -> int:
        """Rows learned from."""
        return int(self.scalars[loops.SEEN])

    @property
    def scale(self) -> float:
        """What weights are to be multiplied by."""
        return float(self.scalars[loops.SCALE])

    @property
    def total(self) -> float:
        """What they are to be multiplied by in the sum of all functions."""
        return float(self.scalars[loops.TOTAL])

    @property
    def mass(self) -> float:
        """Sum of the coefficients of all functions so far."""
        return self.total * float(self.scalars[loops.MASS]) + float(self.scalars[loops.MASS_SUM])

    @property
    def level(self) -> float:
        """Of alerts by the mean function: the share of its largest possible value below which a row is novel."""
        return float(self.scalars[loops.SMOOTH_LEVEL])

    @property
    def counted(self) -> float:
        """What all functions so far count in their sum; 1 where there are none."""
        return float(self.scalars[loops.COUNTED]) or 1.0

    def thresholds(self, average: bool) -> Floats:
        """As they are now, or their mean before each row."""
        thresholds: Floats = self.moving[2] / self.counted if average and self.n_seen else self.moving[0].copy()
        return thresholds

    def offsets(self, average: bool) -> Floats:
        """As they are now, or their mean before each row."""
        offsets: Floats = self.moving[3] / self.counted if average and self.n_seen else self.moving[1].copy()
        return offsets

    def alert_threshold(self, rule: NormaRule) -> float | None:
        """What the function is below where a row is novel: the level, or rho; None where nothing is novel."""
        if rule.loss != "novelty":
            return None
        return self.level if rule.average else float(self.moving[0, 0])

    def traces(self, rule: NormaRule, unit: float) -> dict[str, float | None]:
        """Recent share of rows beyond the threshold and what it is to be, and what the loss learns of thresholds.

        Of several functions the mean; epsilon and sigma in the unit of the targets; None for what a loss has not.
        """
        found: dict[str, float | None] = dict.fromkeys(("beyond", "nu", "rho", "level", "epsilon", "sigma"))
        if rule.loss != "squared":
            found["beyond"] = float(self.scalars[loops.SHARE])
        if rule.learns_threshold:
            found["nu"] = rule.nu
            name = {"epsilon": "epsilon", "trimmed": "sigma"}.get(rule.loss, "rho")
            found[name] = float(self.moving[0].mean()) * (unit if rule.of_numbers else 1.0)
        if rule.loss == "novelty" and rule.average:
            found["level"] = self.level
        return found


@dataclass
class NormaState:
    """The state of a run: everything needed to go on, bit for bit, from where it stopped.

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
        Of losses of classes.
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
    def start(cls, rule: NormaRule, columns: int, divisor: float = 1.0, n_classes: int = 2, **of: Any) -> Self:
        """State before the first row, which has so many columns; `of` are further parameters."""
        numbers = NormaNumbers.start(rule, outputs_of(rule, n_classes))
        table = np.zeros((columns, numbers.moving.shape[1] * (1 + rule.average)))
        return cls(rule, table, divisor, numbers, n_classes=n_classes, **of)

    @property
    def n_seen(self) -> int:
        """Rows learned from."""
        return self.numbers.n_seen

    @property
    def threshold(self) -> float | None:
        """What the function is below where a row is novel; None where nothing is."""
        return self.numbers.alert_threshold(self.rule)

    @property
    def weights(self) -> Floats:
        """Of the last function, float64, shape (n_columns, K)."""
        return self.numbers.scale * self._halves()[0]

    @property
    def mean_weights(self) -> Floats:
        """Of the mean of the functions before each row so far.

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
        found: np.ndarray = self.numbers.total * now + others
        return found

    @property
    def average(self) -> bool:
        """Whether decisions are those of the mean function: from the second row on, where the rule says so."""
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
            self.rule.check_norm(float(squared_norms(arrays).max()))
        predicted, beyond = np.empty(n), np.empty(n, dtype=np.bool_)
        single = self.numbers.moving.shape[1] == 1 and len(arrays) == 3 and isinstance(rows, Cells)
        learn = norma_single_pass if single else norma_pass
        rule = (self.rule.code, self.rule.fixed(), self.rule.average)
        numbers = (self.numbers.scalars, self.numbers.moving)
        self.n_support += int(learn(arrays, targets, *rule, self.divisor, self.table, *numbers, predicted, beyond))
        return NormaProgress(said(self, predicted, beyond), beyond)

    def decision_function(self, rows: Rows) -> Floats:
        """Decisions, shape (n, K), as those of :meth:`model`."""
        classes: list[Label] = list(range(self.n_classes)) if self.rule.of_classes else []
        return self.model(classes).decision_function(rows)

    def model(self, classes: list[Label], params: JsonObject | None = None) -> LinearModel:
        """What decides as it does now: by the mean function where the rule says so, else by the last one."""
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
        """Recent share of rows beyond the threshold, and thresholds: see :meth:`NormaNumbers.traces`."""
        return self.numbers.traces(self.rule, self.unit)

    def grow(self, old: np.ndarray, new: np.ndarray) -> None:
        """Go on with more cells in some partitionings, of which all weights are 0: offsets before and from now on."""
        self.table = in_wider_layout(self.table, old, new)

    def carry(self, matrix: sp.csr_array, offsets: np.ndarray) -> None:  # noqa: ARG002
        """Go on with partitionings of which some were drawn anew: weights become the matrix times those before."""
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
        """The state of which :meth:`checkpoint` gave these arrays, of a run with the same parameters."""
        table, numbers = np.array(arrays["table"], order="C"), NormaNumbers.restored(arrays)
        return replace(self, table=table, numbers=numbers, n_support=int(arrays["n_support"]))


def outputs_of(rule: NormaRule, n_classes: int) -> int:
    """Functions that are learned: one, or one for each of more than two classes.

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
    """Targets as compiled loops take them: float64, shape (n,).

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
    found: np.ndarray = (y.astype(np.float64) - center) / unit
    return found


class Learned(Protocol):
    """What :func:`said` asks of a state of NORMA."""

    rule: NormaRule
    unit: float
    center: float
    n_classes: int


def said(state: Learned, predicted: Floats, beyond: Bools) -> Floats | Int32s:
    """What compiled loops predicted, as a learner says it."""
    rule = state.rule
    if rule.loss == "novelty":
        return (predicted if rule.average else beyond).astype(np.int32)
    if rule.of_numbers:
        return predicted * state.unit + state.center
    return (predicted >= 0 if state.n_classes == 2 else predicted).astype(np.int32)
