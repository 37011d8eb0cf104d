"""Regression by a learner of several quantiles: their metrics, and the intervals between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np

from ikmap.json_values import Json, list_of, mapping_of, whole_number, whole_numbers
from ikmap.quantiles import middle_of
from ikmap.tasks.exact_sums import ExactSum
from ikmap.tasks.regression.codec import NumberCodec
from ikmap.tasks.regression.scorer import NumberScorer, NumberState
from ikmap.tasks.task import ColumnType, Decisions, Task


@dataclass(frozen=True)
class QuantileDecisions(Decisions):
    """Decisions of one column for each quantile.

    Quantiles of a row that cross are counted and put in order, which makes no pinball loss larger (Chernozhukov,
    Fernández-Val, Galichon, 2010). The prediction is the quantile whose level is nearest to a half, in a tie the lower.

    Attributes
    ----------
    levels : list of float
        Ascending, in (0, 1).
    """

    dtype: ClassVar[str] = "float64"

    levels: list[float]

    @property
    def outputs(self) -> int:
        return len(self.levels)

    @property
    def columns(self) -> Mapping[str, ColumnType]:
        columns: dict[str, ColumnType] = {"prediction": "float64"}
        return columns | {f"quantile_{level!r}": "float64" for level in self.levels}

    @property
    def _middle(self) -> int:
        return middle_of(self.levels)

    def predict(self, decision: np.ndarray) -> np.ndarray:
        return np.sort(decision, axis=1)[:, self._middle]

    def values(self, decision: np.ndarray) -> Mapping[str, np.ndarray]:
        """Return the prediction, and all quantiles in order."""
        ordered = np.sort(decision, axis=1)[:, [self._middle, *range(self.outputs)]]
        return {name: np.ascontiguousarray(column) for name, column in zip(self.columns, ordered.T, strict=True)}


def pairs_of(levels: int) -> list[tuple[int, int]]:
    """Return the first and the last column of each prediction interval, for a number of quantiles."""
    return [(k, levels - 1 - k) for k in range(levels // 2)]


@dataclass(frozen=True, eq=False)
class QuantilesState:
    """Errors of the prediction, and the sums from which pinball losses and the coverage of intervals follow.

    Attributes
    ----------
    levels : list of float
        Ascending, in (0, 1).
    errors : NumberState
    not_above, inside : list of int
        Number of rows whose target is not above a quantile, and of those within an interval, its ends included.
    off, off_below : list of ExactSum
        Sums of targets less quantiles, over all rows, and over the rows whose target is below the quantile.
    widths : list of ExactSum
        Sums of the widths of intervals.
    crossed : int
        Number of rows whose quantiles were not in order.
    """

    levels: list[float]
    errors: NumberState
    not_above: list[int]
    inside: list[int]
    off: list[ExactSum]
    off_below: list[ExactSum]
    widths: list[ExactSum]
    crossed: int

    @classmethod
    def of(cls, levels: list[float], errors: NumberState, target: np.ndarray, decision: np.ndarray) -> Self:
        """Return the state of some rows, where `decision` has a column for each quantile."""
        ordered, pairs = np.sort(decision, axis=1), pairs_of(len(levels))
        off = target[:, None] - ordered
        return cls(
            levels,
            errors,
            (off <= 0).sum(axis=0).tolist(),
            [int(((off[:, low] >= 0) & (off[:, high] <= 0)).sum()) for low, high in pairs],
            [ExactSum.of(column) for column in off.T],
            [ExactSum.of(column[column < 0]) for column in off.T],
            [ExactSum.of(ordered[:, high] - ordered[:, low]) for low, high in pairs],
            int((np.diff(decision, axis=1) < 0).any(axis=1).sum()),
        )

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.errors.rows

    def pinball(self, column: int, level: float) -> float:
        """Return the mean pinball loss of a quantile."""
        total = Fraction(level) * self.off[column].fraction - self.off_below[column].fraction
        return float(total / self.rows)

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.levels,
            self.errors + other.errors,
            [a + b for a, b in zip(self.not_above, other.not_above, strict=True)],
            [a + b for a, b in zip(self.inside, other.inside, strict=True)],
            [a + b for a, b in zip(self.off, other.off, strict=True)],
            [a + b for a, b in zip(self.off_below, other.off_below, strict=True)],
            [a + b for a, b in zip(self.widths, other.widths, strict=True)],
            self.crossed + other.crossed,
        )

    def as_json(self) -> dict[str, Json]:
        """Return the state for a record."""
        return {
            "errors": self.errors.as_json(),
            "not_above": self.not_above,
            "inside": self.inside,
            "crossed": self.crossed,
            "off": [total.as_json() for total in self.off],
            "off_below": [total.as_json() for total in self.off_below],
            "widths": [total.as_json() for total in self.widths],
        }

    @classmethod
    def from_json(cls, values: Json, levels: list[float], errors: NumberState) -> Self:
        """Return the state from which :meth:`as_json` made these values, or the state of no rows for None."""
        intervals, none = len(pairs_of(len(levels))), [ExactSum()]
        record = mapping_of(values)
        if not record:
            off = none * len(levels)
            return cls(levels, errors, [0] * len(levels), [0] * intervals, off, off, none * intervals, 0)
        off, below, widths = (
            [ExactSum.from_json(list_of(total)) for total in list_of(record[name])]
            for name in ("off", "off_below", "widths")
        )
        not_above, inside = whole_numbers(record["not_above"]), whole_numbers(record["inside"])
        return cls(levels, errors, not_above, inside, off, below, widths, whole_number(record["crossed"]))

    def metrics(self) -> dict[str, Json]:
        """Return the metrics of the prediction, pinball losses, and coverage and mean width of the intervals."""
        metrics = self.errors.metrics()
        if not self.rows:
            return metrics
        losses = [self.pinball(k, level) for k, level in enumerate(self.levels)]
        return {
            **metrics,
            "pinball": sum(losses) / len(losses),
            "quantiles": [
                {"level": level, "not_above": self.not_above[k] / self.rows, "pinball": losses[k]}
                for k, level in enumerate(self.levels)
            ],
            "intervals": [
                {
                    "low": self.levels[low],
                    "high": self.levels[high],
                    "nominal": round(self.levels[high] - self.levels[low], 12),
                    "coverage": self.inside[k] / self.rows,
                    "width": float(self.widths[k].fraction / self.rows),
                }
                for k, (low, high) in enumerate(pairs_of(len(self.levels)))
            ],
            "crossed": self.crossed / self.rows,
        }


@dataclass(frozen=True)
class QuantileScorer(NumberScorer):
    """Accumulates the metrics of predicted quantiles, and of the prediction among them.

    Attributes
    ----------
    levels : list of float
        Ascending, in (0, 1).
    """

    levels: list[float]

    def accumulate(  # type: ignore[override]
        self, target: np.ndarray, decision: np.ndarray, numbers: np.ndarray | None = None
    ) -> QuantilesState:
        return QuantilesState.of(self.levels, super().accumulate(target, decision, numbers), target, decision)

    def state_from(self, values: Json) -> QuantilesState:  # type: ignore[override]
        errors = super().state_from(mapping_of(values).get("errors"))
        return QuantilesState.from_json(values, self.levels, errors)


def with_quantiles(task: Task, levels: Sequence[float]) -> Task:
    """Return the task of a regression for a learner of quantiles with these levels."""
    assert isinstance(task.codec, NumberCodec)
    decisions = QuantileDecisions(list(levels))
    scorer = QuantileScorer(decisions, task.codec.mean, task.codec.deciles, decisions.levels)
    return replace(task, decisions=decisions, scorer=scorer)
