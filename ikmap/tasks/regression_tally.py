"""What rows say of predicted numbers: exact sums, so that they add up in any grouping."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np

from ikmap.tasks.exact_sums import ExactSum
from ikmap.tasks.score_histogram import ScoreHistogram, bins_of, upper_edge

BITS = 6
"""Residuals are counted in bins narrower than a sixtieth of the residuals in them."""
SHOWN = 41
"""Bins of equal width of the residuals in a report."""
BEYOND = 0.005
"""Share of the rows on either side that lie beyond these bins."""


ZERO = ExactSum()


@dataclass(frozen=True)
class Errors:
    """Exact sums over some rows; targets and predictions less the mean of the training file.

    Attributes
    ----------
    rows : int
    squared, absolute : ExactSum
        Of errors.
    target, squares, prediction : ExactSum
        Of targets, of their squares, and of predictions.
    """

    rows: int = 0
    squared: ExactSum = ZERO
    absolute: ExactSum = ZERO
    target: ExactSum = ZERO
    squares: ExactSum = ZERO
    prediction: ExactSum = ZERO

    @classmethod
    def of(cls, target: np.ndarray, predicted: np.ndarray, mean: float) -> Self:
        """Of some rows."""
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

    def as_json(self) -> list[Any]:
        return [self.rows, *(one.as_json() for one in self._sums)]

    @classmethod
    def from_json(cls, values: Sequence[Any]) -> Self:
        """What :meth:`as_json` gave."""
        rows, *sums = values
        return cls(int(rows), *map(ExactSum.from_json, sums))

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
        """1 less the squared errors' share of the squared distances from the mean; None where all targets are equal."""
        if not self.rows:
            return None
        around: Fraction = self.squares.fraction - self.target.fraction**2 / self.rows
        return float(1 - self.squared.fraction / around) if around > 0 else None

    @property
    def mean_target(self) -> float:
        """Less the mean of the training file."""
        return float(self.target.fraction / self.rows)

    @property
    def mean_prediction(self) -> float:
        """Less the mean of the training file."""
        return float(self.prediction.fraction / self.rows)


@dataclass(frozen=True, eq=False)
class RegressionTally:
    """Errors of the rows of each tenth of the true values, and how the residuals are distributed.

    Attributes
    ----------
    groups : list of Errors
    residuals : ScoreHistogram
        Targets less predictions, of all rows.
    """

    groups: list[Errors]
    residuals: ScoreHistogram

    @classmethod
    def of(cls, target: np.ndarray, predicted: np.ndarray, edges: Sequence[float], mean: float) -> Self:
        """Of some rows, with true values divided by ascending `edges`, each the largest of those below it."""
        group = np.searchsorted(edges, target, side="left")
        groups = [Errors.of(target[group == k], predicted[group == k], mean) for k in range(len(edges) + 1)]
        bins, counts = np.unique(bins_of(target - predicted, BITS), return_counts=True)
        return cls(groups, ScoreHistogram(bins, counts.astype(np.int64)[:, None]))

    def __add__(self, other: Self) -> Self:
        groups = [a + b for a, b in zip(self.groups, other.groups, strict=True)]
        return type(self)(groups, self.residuals + other.residuals)

    def as_json(self) -> dict[str, Any]:
        return {"groups": [group.as_json() for group in self.groups], "residuals": self.residuals.as_json()}

    @classmethod
    def from_json(cls, values: Any, n_groups: int) -> Self:
        """What :meth:`as_json` gave; of None, no rows."""
        if values is None:
            return cls([Errors()] * n_groups, ScoreHistogram.from_json([], 1))
        return cls([*map(Errors.from_json, values["groups"])], ScoreHistogram.from_json(values["residuals"], 1))

    @property
    def whole(self) -> Errors:
        """Of all rows."""
        return sum(self.groups, Errors())

    @property
    def rows(self) -> int:
        """How many rows are in it."""
        return sum(group.rows for group in self.groups)

    def residuals_for_people(self) -> dict[str, list[float]]:
        """Middles of bins of equal width, about 0, and the share of the rows in each."""
        bins, counts = self.residuals.bins, self.residuals.counts[:, 0]
        if not counts.size:
            return {"middle": [], "share": []}
        middles = np.array([(upper_edge(k - 1, BITS) + upper_edge(k, BITS)) / 2 for k in bins.tolist()])
        by_size = np.argsort(np.abs(middles), kind="stable")
        within = np.cumsum(counts[by_size]) >= (1 - 2 * BEYOND) * counts.sum()
        most = float(np.abs(middles[by_size[np.argmax(within)]])) or 1.0
        place = np.clip(np.rint((middles / most + 1) * (SHOWN - 1) / 2), 0, SHOWN - 1).astype(np.int64)
        share = np.bincount(place, weights=counts, minlength=SHOWN) / counts.sum()
        return {"middle": np.linspace(-most, most, SHOWN).tolist(), "share": share.tolist()}
