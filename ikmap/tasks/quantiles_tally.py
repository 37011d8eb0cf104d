"""What rows say of predicted quantiles: counts and exact sums, so that they add up in any grouping."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

import numpy as np

from ikmap.tasks.exact_sums import ExactSum
from ikmap.tasks.regression_tally import RegressionTally

_COUNTS = ("not_above", "inside")
_SUMS = ("off", "off_below", "widths")


@dataclass(frozen=True, eq=False)
class QuantilesTally:
    """Errors of the prediction; of each quantile what its pinball loss is made of; of each interval what lies within.

    Attributes
    ----------
    errors : RegressionTally
    not_above, inside : list of int
        Rows whose target is not above a quantile, and those within an interval, its ends included.
    off, off_below : list of ExactSum
        Of targets less quantiles: of all rows, and of those whose target is below it.
    widths : list of ExactSum
        Of intervals.
    crossed : int
        Rows whose quantiles were not in order.
    """

    errors: RegressionTally
    not_above: list[int]
    inside: list[int]
    off: list[ExactSum]
    off_below: list[ExactSum]
    widths: list[ExactSum]
    crossed: int

    @classmethod
    def of(
        cls, errors: RegressionTally, target: np.ndarray, decision: np.ndarray, pairs: Sequence[tuple[int, int]]
    ) -> Self:
        """Of some rows: `decision` has a column for each quantile, `pairs` the columns where intervals end."""
        found = np.sort(decision, axis=1)
        off = target[:, None] - found
        return cls(
            errors,
            (off <= 0).sum(axis=0).tolist(),
            [int(((off[:, low] >= 0) & (off[:, high] <= 0)).sum()) for low, high in pairs],
            [ExactSum.of(column) for column in off.T],
            [ExactSum.of(column[column < 0]) for column in off.T],
            [ExactSum.of(found[:, high] - found[:, low]) for low, high in pairs],
            int((np.diff(decision, axis=1) < 0).any(axis=1).sum()),
        )

    @property
    def rows(self) -> int:
        """How many rows are in it."""
        return self.errors.rows

    def pinball(self, column: int, level: float) -> float:
        """Mean pinball loss of a quantile."""
        total = Fraction(level) * self.off[column].fraction - self.off_below[column].fraction
        return float(total / self.rows)

    def __add__(self, other: Self) -> Self:
        def added(name: str) -> list[Any]:
            return [a + b for a, b in zip(getattr(self, name), getattr(other, name), strict=True)]

        lists = {name: added(name) for name in (*_COUNTS, *_SUMS)}
        return type(self)(errors=self.errors + other.errors, crossed=self.crossed + other.crossed, **lists)

    def as_json(self) -> dict[str, Any]:
        sums = {name: [one.as_json() for one in getattr(self, name)] for name in _SUMS}
        counts = {"not_above": self.not_above, "inside": self.inside, "crossed": self.crossed}
        return {"errors": self.errors.as_json(), **counts, **sums}

    @classmethod
    def from_json(cls, errors: RegressionTally, values: Mapping[str, Any], levels: int, intervals: int) -> Self:
        """What :meth:`as_json` gave; of nothing, no rows."""
        if not values:
            none = [ExactSum()]
            return cls(errors, [0] * levels, [0] * intervals, none * levels, none * levels, none * intervals, 0)
        counts: dict[str, Any] = {name: list(values[name]) for name in _COUNTS}
        sums: dict[str, Any] = {name: [ExactSum.from_json(one) for one in values[name]] for name in _SUMS}
        return cls(errors=errors, crossed=int(values["crossed"]), **counts, **sums)
