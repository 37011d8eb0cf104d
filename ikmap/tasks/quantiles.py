"""Regression where a learner predicts several quantiles of a target: how good they are, and intervals between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ikmap.tasks.regression import Regression
from ikmap.tasks.sections import Section, Table, Text

if TYPE_CHECKING:
    import numpy as np

    from ikmap.tasks.quantiles_tally import QuantilesTally
    from ikmap.tasks.task import LearningTask

_SHARE: Mapping[str, Any] = {"type": "number", "minimum": 0, "maximum": 1}

TOLD: Mapping[str, Any] = {
    "pinball": {"description": "Mean pinball loss of all quantiles, on the same rows as the errors.", "type": "number"},
    "quantiles": {
        "description": "Each quantile that is predicted: level, share of the rows whose target is not above it, "
        "which should be the level, and its pinball loss.",
        "type": "array",
        "minItems": 1,
        "items": {
            "type": "object",
            "properties": {"level": _SHARE, "not_above": _SHARE, "pinball": {"type": "number", "minimum": 0}},
        },
    },
    "intervals": {
        "description": "Prediction intervals between the outermost quantiles, the next ones, and so on: the levels of "
        "their ends, the share of the rows that should lie within, that of those that do, and the mean width.",
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                **dict.fromkeys(("low", "high", "nominal", "coverage"), _SHARE),
                "width": {"type": "number", "minimum": 0},
            },
        },
    },
    "crossed": {
        "description": "Share of the rows whose quantiles crossed as they were predicted, and were put in order.",
        **_SHARE,
    },
}


@dataclass(frozen=True)
class QuantileRegression(Regression):
    """The same task, as a learner of quantiles sees it: a decision has one column for each.

    Quantiles of a row that cross are put in order, which makes no pinball loss larger (Chernozhukov, Fernández-Val,
    Galichon, 2010), and counted. The prediction is the one next to a half, of two the lower one.

    Attributes
    ----------
    levels : list of float
        Ascending, in (0, 1).
    """

    levels: list[float] = field(default_factory=list)
    told: ClassVar[Mapping[str, Any]] = {**Regression.told, **TOLD}

    @classmethod
    def of(cls, task: LearningTask, levels: Sequence[float]) -> Self:
        """What a regression is for a learner of these quantiles."""
        return cls(**{one.name: getattr(task, one.name) for one in fields(Regression)}, levels=list(levels))

    @property
    def outputs(self) -> int:
        return len(self.levels)

    @property
    def _middle(self) -> int:
        return min(range(len(self.levels)), key=lambda k: (abs(self.levels[k] - 0.5), k))

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        """First and last column of each interval."""
        last = len(self.levels) - 1
        return [(k, last - k) for k in range(len(self.levels) // 2)]

    def predict(self, decision: np.ndarray) -> np.ndarray:
        import numpy as np

        found: np.ndarray = np.sort(decision, axis=1)[:, self._middle]
        return found

    @property
    def columns(self) -> dict[str, str]:
        return {"prediction": self.label_type, **{f"quantile_{level!r}": "float64" for level in self.levels}}

    def values(self, decision: np.ndarray) -> dict[str, np.ndarray]:
        """The prediction, and all quantiles in order."""
        import numpy as np

        found = dict(
            zip(self.columns, np.sort(decision, axis=1)[:, [self._middle, *range(self.outputs)]].T, strict=True)
        )
        return {name: np.ascontiguousarray(values) for name, values in found.items()}

    def tally(self, target: np.ndarray, decision: np.ndarray) -> QuantilesTally:  # type: ignore[override]
        from ikmap.tasks.quantiles_tally import QuantilesTally

        return QuantilesTally.of(super().tally(target, decision), target, decision, self._pairs)

    def tally_from(self, values: Any) -> QuantilesTally:  # type: ignore[override]
        from ikmap.tasks.quantiles_tally import QuantilesTally

        values = values or {}
        return QuantilesTally.from_json(
            super().tally_from(values.get("errors")), values, self.outputs, len(self._pairs)
        )

    def figures(self, tally: Any) -> dict[str, Any]:
        """Those of the prediction, pinball losses, and the coverage and mean width of the intervals."""
        found = super().figures(tally.errors)
        if not tally.rows:
            return found
        losses = [tally.pinball(k, level) for k, level in enumerate(self.levels)]
        return {
            **found,
            "pinball": sum(losses) / len(losses),
            "quantiles": [
                {"level": level, "not_above": tally.not_above[k] / tally.rows, "pinball": losses[k]}
                for k, level in enumerate(self.levels)
            ],
            "intervals": [
                {
                    "low": self.levels[low],
                    "high": self.levels[high],
                    "nominal": round(self.levels[high] - self.levels[low], 12),
                    "coverage": tally.inside[k] / tally.rows,
                    "width": float(tally.widths[k].fraction / tally.rows),
                }
                for k, (low, high) in enumerate(self._pairs)
            ],
            "crossed": tally.crossed / tally.rows,
        }


def interval_facts(figures: Mapping[str, Any]) -> list[tuple[str, Any, str]]:
    """Coverage and width of each interval that a learner has, for tables."""
    found: list[tuple[str, Any, str]] = []
    for one in figures.get("intervals") or ():
        found.append((f"{one['nominal']:.0%} interval holds", one["coverage"], "share"))
        found.append((f"{one['nominal']:.0%} interval, width", one["width"], "number"))
    return found


def interval_sentence(figures: Mapping[str, Any]) -> str:
    """What a report says of the widest interval; empty where there is none."""
    for one in figures.get("intervals") or ():
        return (
            f"Its prediction intervals, made to hold {one['nominal']:.0%} of the true values, hold "
            f"{one['coverage']:.1%} of them; they are {one['width']:.4g} wide on average."
        )
    return ""


def quantile_sections(known: Mapping[str, Any]) -> list[Section]:
    """How well quantiles are met, of all learners that predict some."""
    parts: list[Any] = []
    for name, about in known.items():
        if intervals := about.get("intervals"):
            rows: list[tuple[Any, ...]] = [
                (f"{one['low']:g} to {one['high']:g}", one["nominal"], _short(one["coverage"]), _short(one["width"]))
                for one in intervals
            ]
            parts.append(
                Table(f"Prediction intervals of {name}", ("quantiles", "should hold", "hold", "mean width"), rows)
            )
        if quantiles := about.get("quantiles"):
            rows = [(f"{one['level']:g}", _short(one["not_above"]), _short(one["pinball"])) for one in quantiles]
            parts.append(Table(f"Quantiles of {name}", ("level", "share of rows not above it", "pinball loss"), rows))
            crossed = about.get("crossed") or 0
            parts.append(Text(f"Of {crossed:.2%} of the rows quantiles crossed; they were put in order."))
    return [Section("intervals", "Prediction intervals", parts)] if parts else []


def _short(value: float) -> float:
    return float(f"{value:.4g}")
