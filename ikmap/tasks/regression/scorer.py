"""Metrics of predicted numbers, accumulated as exact sums, so that they add up in any grouping."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np

from ikmap.json_values import Json, list_of, mapping_of, whole_number, whole_numbers
from ikmap.tasks.capabilities import WeightedScorer
from ikmap.tasks.exact_sums import ExactSum
from ikmap.tasks.score_histogram import ScoreHistogram, bins_of, upper_edge
from ikmap.tasks.task import Decisions, Scorer
from ikmap.tasks.weighted import WEIGHT

BITS = 6
"""Bits of the mantissa of residuals in bins, which are narrower than a sixtieth of a residual."""
SHOWN = 41
"""Number of bins of equal width of the residuals in a report."""
BEYOND = 0.005
"""Share of the rows on either side that lie beyond the bins of a report."""
ROUNDING = 1e-12
"""Share of a sum of squares up to which a variance that is left of it is nothing but rounding."""
ZERO = ExactSum()


@dataclass(frozen=True)
class Errors:
    """Exact sums over some rows, from which the mean of the training file is subtracted in targets and predictions.

    Attributes
    ----------
    rows : int
    squared, absolute : ExactSum
        Sums of the squared and of the absolute errors.
    target, squares, prediction : ExactSum
        Sums of targets, of their squares, and of predictions.
    """

    rows: int = 0
    squared: ExactSum = ZERO
    absolute: ExactSum = ZERO
    target: ExactSum = ZERO
    squares: ExactSum = ZERO
    prediction: ExactSum = ZERO

    @classmethod
    def of(cls, target: np.ndarray, predicted: np.ndarray, mean: float) -> Self:
        """Return the sums over some rows."""
        off, around = target - predicted, target - mean
        return cls(
            int(target.size),
            ExactSum.of_squares(off),
            ExactSum.of(np.abs(off)),
            ExactSum.of(around),
            ExactSum.of_squares(around),
            ExactSum.of(predicted - mean),
        )

    @property
    def _sums(self) -> tuple[ExactSum, ...]:
        return self.squared, self.absolute, self.target, self.squares, self.prediction

    def __add__(self, other: Self) -> Self:
        sums = (a + b for a, b in zip(self._sums, other._sums, strict=True))
        return type(self)(self.rows + other.rows, *sums)

    def as_json(self) -> list[Json]:
        """Return the sums for a record."""
        return [self.rows, *(total.as_json() for total in self._sums)]

    @classmethod
    def from_json(cls, values: Json) -> Self:
        """Return the sums from which :meth:`as_json` made these values."""
        rows, *sums = list_of(values)
        return cls(whole_number(rows), *(ExactSum.from_json(list_of(total)) for total in sums))

    @property
    def rmse(self) -> float | None:
        """Root of the mean squared error."""
        return math.sqrt(self.squared.fraction / self.rows) if self.rows else None

    @property
    def mae(self) -> float | None:
        """Mean absolute error."""
        return float(self.absolute.fraction / self.rows) if self.rows else None

    @property
    def r2(self) -> float | None:
        """One less the ratio of the squared errors to the variance of the targets; None if all targets are equal."""
        if not self.rows:
            return None
        around: Fraction = self.squares.fraction - self.target.fraction**2 / self.rows
        return float(1 - self.squared.fraction / around) if around > 0 else None

    @property
    def mean_target(self) -> float:
        """Mean target, less the mean of the training file."""
        return float(self.target.fraction / self.rows)

    @property
    def mean_prediction(self) -> float:
        """Mean prediction, less the mean of the training file."""
        return float(self.prediction.fraction / self.rows)


@dataclass(frozen=True, eq=False)
class NumberState:
    """Errors of the rows in each tenth of the true values, and the distribution of the residuals.

    Attributes
    ----------
    mean : float
        Mean of the labels of the training file.
    groups : list of Errors
    residuals : ScoreHistogram
        Targets less predictions of all rows.
    """

    mean: float
    groups: list[Errors]
    residuals: ScoreHistogram

    @classmethod
    def of(cls, target: np.ndarray, predicted: np.ndarray, edges: Sequence[float], mean: float) -> Self:
        """Return the state of some rows, whose true values ascending `edges` divide into groups."""
        group = np.searchsorted(edges, target, side="left")
        groups = [Errors.of(target[group == k], predicted[group == k], mean) for k in range(len(edges) + 1)]
        bins, counts = np.unique(bins_of(target - predicted, BITS), return_counts=True)
        return cls(mean, groups, ScoreHistogram(bins, counts.astype(np.int64)[:, None]))

    def __add__(self, other: Self) -> Self:
        groups = [a + b for a, b in zip(self.groups, other.groups, strict=True)]
        return type(self)(self.mean, groups, self.residuals + other.residuals)

    def as_json(self) -> dict[str, Json]:
        """Return the state for a record."""
        return {"groups": [group.as_json() for group in self.groups], "residuals": self.residuals.as_json()}

    @classmethod
    def from_json(cls, values: Json, n_groups: int, mean: float) -> Self:
        """Return the state from which :meth:`as_json` made these values, or the state of no rows for None."""
        if values is None:
            return cls(mean, [Errors()] * n_groups, ScoreHistogram.from_json([], 1))
        record = mapping_of(values)
        residuals = [whole_numbers(row) for row in list_of(record["residuals"])]
        groups = [Errors.from_json(group) for group in list_of(record["groups"])]
        return cls(mean, groups, ScoreHistogram.from_json(residuals, 1))

    @property
    def total(self) -> Errors:
        """Errors of all rows."""
        return sum(self.groups, Errors())

    @property
    def rows(self) -> int:
        """Number of rows."""
        return sum(group.rows for group in self.groups)

    def metrics(self) -> dict[str, Json]:
        """Return R2 (None if all targets are equal), errors, errors by decile, and the distribution of residuals."""
        total = self.total
        return {
            "r2": total.r2,
            "rmse": total.rmse,
            **({} if total.mae is None else {"mae": total.mae}),
            "by_decile": [
                {
                    "rows": group.rows,
                    "target": self.mean + group.mean_target,
                    "prediction": self.mean + group.mean_prediction,
                    "rmse": group.rmse,
                    "mae": group.mae,
                }
                for group in self.groups
                if group.rows
            ],
            "residuals": self.residual_shares(),
        }

    def residual_shares(self) -> dict[str, list[float]]:
        """Return the middles of bins of equal width about 0, and the share of the residuals in each bin."""
        bins, counts = self.residuals.bins, self.residuals.counts[:, 0]
        if not counts.size:
            return {"middle": [], "share": []}
        middles = np.array([(upper_edge(k - 1, BITS) + upper_edge(k, BITS)) / 2 for k in bins.tolist()])
        by_size = np.argsort(np.abs(middles), kind="stable")
        within = np.cumsum(counts[by_size]) >= (1 - 2 * BEYOND) * counts.sum()
        most = float(np.abs(middles[by_size[np.argmax(within)]]))
        if most < np.finfo(np.float64).tiny:  # the bin of 0
            most = 1.0
        place = np.clip(np.rint((middles / most + 1) * (SHOWN - 1) / 2), 0, SHOWN - 1).astype(np.int64)
        share = np.bincount(place, weights=counts, minlength=SHOWN) / counts.sum()
        return {"middle": np.linspace(-most, most, SHOWN).tolist(), "share": share.tolist()}


@dataclass(frozen=True)
class NumberScorer(Scorer, WeightedScorer):
    """Accumulates the metrics of a regression.

    Attributes
    ----------
    decisions : Decisions
    mean : float
        Mean of the labels of the training file.
    deciles : list of float
        Deciles of these labels.
    """

    decisions: Decisions
    mean: float
    deciles: list[float]

    def accumulate(self, target: np.ndarray, decision: np.ndarray, numbers: np.ndarray | None = None) -> NumberState:  # noqa: ARG002
        return NumberState.of(target, self.decisions.predict(decision), self.deciles, self.mean)

    def state_from(self, values: Json) -> NumberState:
        return NumberState.from_json(values, len(self.deciles) + 1, self.mean)

    def weighted_terms(self, target: np.ndarray, decision: np.ndarray) -> dict[str, np.ndarray]:
        off, around = target - self.decisions.predict(decision), target - self.mean
        return {"squared": off * off, "absolute": np.abs(off), "around": around, "squares": around * around}

    def weighted_metrics(self, sums: Mapping[str, float]) -> dict[str, float | None]:
        """Return errors, and R2 with the weighted variance of the rows."""
        weight = sums[WEIGHT]
        variance = sums["squares"] - sums["around"] ** 2 / weight
        return {
            "r2": 1 - sums["squared"] / variance if variance > ROUNDING * sums["squares"] else None,
            "rmse": (sums["squared"] / weight) ** 0.5,
            "mae": sums["absolute"] / weight,
        }
