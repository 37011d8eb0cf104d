"""NORMA with any kernel: a sum over contributing rows, of which old ones can be dropped (algorithms.md 11.5).

What a row added shrinks with every row after it, so what came long ago hardly counts: with steps of one size, terms
older than tau rounds are worth ``(1 - eta lambda)^tau C X / lambda`` at most, and a ring of the others is enough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sized
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from ikmap.arrays import Floats
from ikmap.json_values import JsonObject, Label
from ikmap.kernels import kernel_as_dict
from ikmap.kernels.base import TILE, AnyKernel
from ikmap.learners.kernel.kernel_model import KernelModel
from ikmap.learners.kernel.support_set import stack
from ikmap.learners.online.norma import NormaNumbers, NormaProgress, learner_predictions, outputs_of, targets_of
from ikmap.learners.online.norma_rule import NormaRule
from ikmap.learners.rows import Rows, check_rows, n_columns, n_rows
from ikmap.model import row_parts, rows_of_parts
from ikmap_papers.norma._norma_dual_loops import norma_dual_pass

MOST_VALUES = 1 << 22
"""Kernel values that are in memory at a time, about."""
ROWS_CHECKED = 64
"""Rows at a time whose k(x, x) is looked at."""


class Terms:
    """Contributing rows, the oldest first, in tiles that are prepared for the kernel once."""

    def __init__(self, kernel: AnyKernel, width: int) -> None:
        self.kernel = kernel
        self.coefficients = np.zeros((0, width))
        self.rounds = np.zeros(0, dtype=np.int64)
        self._full: list[tuple[Rows, Sized]] = []
        self._open: list[Rows] = []

    def __len__(self) -> int:
        return self.rounds.size

    @property
    def rows(self) -> Rows | None:
        """All rows; None if there are none."""
        parts = [*(rows for rows, _ in self._full), *self._open]
        return stack(parts) if parts else None

    def append(self, rows: Rows) -> None:
        """Add checked rows; their coefficients and rounds stand at the end of the arrays already."""
        self._open.append(rows)
        waiting = sum(n_rows(part) for part in self._open)
        if waiting >= TILE:
            together = stack(self._open)
            whole = waiting - waiting % TILE
            for i in range(0, whole, TILE):
                tile = together[i : i + TILE]
                self._full.append((tile, self.kernel.points(tile)))
            self._open = [together[whole:]] if whole < waiting else []

    def drop(self, before: int) -> None:
        """Drop the tiles whose terms were all added before a round."""
        while self._full and self.rounds[TILE - 1] < before:
            self._full.pop(0)
            self.coefficients, self.rounds = self.coefficients[TILE:], self.rounds[TILE:]

    def values(self, block: Sized, n_threads: int | None) -> Floats:
        """Return the kernel of prepared rows with all terms and with each other, float64 of shape (n, terms + n)."""
        tiles = [points for _, points in self._full]
        if self._open:
            self._open = [stack(self._open)]
            tiles.append(self.kernel.points(self._open[0]))
        return self.kernel.side_by_side(block, [*tiles, block], n_threads)


@dataclass
class NormaDualState:
    """The state of a run: the terms, and the numbers of NORMA.

    Parameters
    ----------
    rule : NormaRule
    kernel : Kernel
    n_classes : int
        Number of classes, for losses of classes.
    tau : int or None
        Terms are dropped after so many rounds.
    center, unit : float
        Targets that are numbers are learned as ``(y - center) / unit``.
    learner : str
        For models.
    n_threads : int, optional
        No matter of the result.
    """

    rule: NormaRule
    kernel: AnyKernel
    n_classes: int = 2
    tau: int | None = None
    center: float = 0.0
    unit: float = 1.0
    learner: str = "norma-dual"
    n_threads: int | None = None
    numbers: NormaNumbers = field(init=False)
    terms: Terms = field(init=False, repr=False)
    _columns: int | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.tau is not None and self.rule.average:
            raise ValueError("tau: found the mean of all functions, which keeps all terms, expected the last function")
        if self.tau is not None and self.tau < 1:
            raise ValueError(f"tau: found {self.tau}, expected a whole number >= 1")
        outputs = outputs_of(self.rule, self.n_classes)
        self.numbers = NormaNumbers.start(self.rule, outputs)
        self.terms = Terms(self.kernel, outputs * (1 + self.rule.average))

    @property
    def n_seen(self) -> int:
        """Number of rows that it has learned from."""
        return self.numbers.n_seen

    @property
    def n_support(self) -> int:
        """Number of rows that are kept."""
        return len(self.terms)

    @property
    def threshold(self) -> float | None:
        """Value of the function below which a row is novel; None if the loss finds no novelty."""
        return self.numbers.alert_threshold(self.rule)

    def partial_fit(self, rows: Rows, y: np.ndarray | None = None) -> NormaProgress:
        """Predict and then learn from each row in turn.

        Parameters
        ----------
        rows : dense array, CSR matrix, or Cells for the isolation kernel; n rows
        y : ndarray, shape (n,)
            Class numbers or finite numbers; novelty looks at none.

        Raises
        ------
        ValueError
            Rows or targets are not valid; nothing has been learned then.
        """
        check_rows(rows, self._columns)
        n = n_rows(rows)
        targets = targets_of(self.rule, y, n, self.n_classes, self.center, self.unit)
        rows = self.kernel.checked(rows)
        self._check_norms(rows)
        self._columns = n_columns(rows)
        found, done, fixed = np.zeros((n, 3)), 0, self.rule.fixed()
        while done < n:
            most = max(1, min(TILE, MOST_VALUES // max(1, len(self.terms)), n - done))
            block = rows[done : done + most]
            self._learn(block, targets[done : done + most], fixed, found[done : done + most])
            done += most
        return NormaProgress(learner_predictions(self, found[:, 0], found[:, 1] > 0), found[:, 1] > 0)

    def _check_norms(self, rows: Rows) -> None:
        """Refuse steps that are too large for a row, where the loss has no bound."""
        for start in range(0, n_rows(rows), ROWS_CHECKED) if self.rule.loss == "squared" else ():
            points = self.kernel.points(rows[start : start + ROWS_CHECKED])
            values = np.empty((len(points), len(points)))
            self.kernel.values(points, points, values)
            self.rule.check_norm(float(values.diagonal().max()))

    def _learn(self, block: Rows, y: np.ndarray, fixed: Floats, found: Floats) -> None:
        terms, n = self.terms, y.size
        if self.tau is not None:
            terms.drop(self.n_seen + 1 - self.tau)
        values, stored = terms.values(self.kernel.points(block), self.n_threads), len(terms)
        coefficients = np.concatenate([terms.coefficients, np.zeros((n, terms.coefficients.shape[1]))])
        rounds = np.concatenate([terms.rounds, np.zeros(n, dtype=np.int64)])
        numbers = (self.numbers.scalars, self.numbers.moving)
        rule = (self.rule.code, fixed, self.rule.average, stored, self.tau or 0)
        count = norma_dual_pass(values, y, *rule, coefficients, rounds, *numbers, found)
        terms.coefficients, terms.rounds = coefficients[:count], rounds[:count]
        if count > stored:
            terms.append(block[found[: count - stored, 2].astype(np.int64)])

    def expansion(self, average: bool = False) -> tuple[Rows, Floats]:
        """Return rows and coefficients, shape (s, K), of the last function or of the mean function."""
        rows = self.terms.rows
        if rows is None:
            rows = np.zeros((0, self._columns or 0))
        k = self.numbers.moving.shape[1]
        coefficients = self.terms.coefficients
        live = self.terms.rounds >= self.n_seen + 1 - (self.tau or self.n_seen + 1)
        if not live.all():
            rows, coefficients = rows[np.flatnonzero(live)], coefficients[live]
        if average:
            return rows, (self.numbers.total * coefficients[:, :k] + coefficients[:, k:]) / self.numbers.counted
        return rows, self.numbers.scale * coefficients[:, :k]

    def decision_function(self, rows: Rows) -> Floats:
        """Return decisions, shape (n, K), equal to those of :meth:`model`."""
        check_rows(rows, self._columns)
        classes: list[Label] = list(range(self.n_classes)) if self.rule.of_classes else []
        model = self.model(classes)
        if not model.coef.size:
            decisions: np.ndarray = np.zeros((n_rows(rows), model.intercept.size)) + model.intercept
            return decisions
        return model.decision_function(rows, self.n_threads)

    def model(self, classes: list[Label], params: JsonObject | None = None) -> KernelModel:
        """Return the model of the mean function if the rule says so, else of the last function."""
        average = self.rule.average and self.n_seen > 0
        rows, coef = self.expansion(average)
        intercept = self.numbers.offsets(average)
        if self.rule.loss == "novelty":  # a decision is how far less the function lies below the level, or rho
            if self.rule.average:
                coef, intercept = (
                    coef * (self.numbers.counted / (self.numbers.mass or 1.0)),
                    np.array([self.numbers.level]),
                )
            else:
                intercept = self.numbers.thresholds(False)
            coef = -coef
        elif self.rule.of_numbers:
            coef, intercept = coef * self.unit, intercept * self.unit + self.center
        kernel, about = kernel_as_dict(self.kernel), params or {}
        return KernelModel(rows, coef, intercept, 1.0, kernel, self.learner, classes, params=about)

    def traces(self) -> dict[str, float | None]:
        """Return the recent share of rows beyond the threshold, and thresholds (:meth:`NormaNumbers.traces`)."""
        return self.numbers.traces(self.rule, self.unit)

    def checkpoint(self) -> dict[str, np.ndarray]:
        """Copy of the state as plain arrays, for :meth:`restore`."""
        terms, rows = self.terms, self.terms.rows
        return {
            **({} if rows is None else row_parts("points", rows)),
            "coefficients": terms.coefficients.copy(),
            "rounds": terms.rounds.copy(),
            "scalars": self.numbers.scalars.copy(),
            "moving": self.numbers.moving.copy(),
            "columns": np.array(-1 if self._columns is None else self._columns),
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> Self:
        """Continue from a :meth:`checkpoint` of a run with the same parameters, and return the state."""
        self.__post_init__()
        columns = int(arrays["columns"])
        self._columns = None if columns < 0 else columns
        self.numbers = NormaNumbers.restored(arrays)
        self.terms.coefficients = np.array(arrays["coefficients"], order="C")
        self.terms.rounds = np.array(arrays["rounds"], dtype=np.int64)
        if self.terms.rounds.size:
            self.terms.append(rows_of_parts("points", arrays, columns))
        return self
