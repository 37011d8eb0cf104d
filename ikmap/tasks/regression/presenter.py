"""Presentation of regressions: words, the JSON Schema of each metric, errors, residuals and intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from ikmap.json_values import (
    Json,
    JsonObject,
    learners_of,
    list_of,
    mapping_of,
    number_of,
    objects_of,
    real_number,
    whole_number,
)
from ikmap.quantiles import middle_of
from ikmap.tasks.importance import IMPORTANCE, importance_sections
from ikmap.tasks.metric import Metric, Sentences
from ikmap.tasks.sections import Cell, Lines, Part, Section, Table, Text
from ikmap.tasks.task import MetricsSchema, Presenter, SummaryLine
from ikmap.tasks.verdict import FEW, NOTHING, Verdict, in_percent, interval_of_r2, perfect, r2_by_chance

GROUPS = 10
"""Number of groups into which rows are divided by their true values."""
PERFECT_R2, PERFECT_ROWS = 0.99999, 100
"""R2, and number of test rows, from which on predictions are suspect."""
type Point = tuple[float, float]

R2 = Metric(
    "r2",
    "number",
    Sentences(
        of_test="share of the variance of {rows} test rows ({which}) that is explained",
        of_stream="share of the variance of the rows of the stream that was explained before they were learned from",
        so_far="Share of the variance of the targets that the predictions explain up to here (R2); each row is "
        "predicted before it is learned from",
        lead="has R2 = {value} on {rows}",
        lead_of_stream="had R2 = {value} on {rows} right before it learned from them",
        table="R2, the share of the variance that is explained",
    ),
)


class NumberPresenter(Presenter):
    """Presents regressions, of one number or of several quantiles."""

    metric: ClassVar[Metric] = R2
    schema: ClassVar[MetricsSchema] = MetricsSchema(
        labels={
            "target_mean": {"description": "Of the labels of all rows of the training file.", "type": "number"},
            "target_deviation": {
                "description": "Standard deviation of these labels.",
                "type": "number",
                "exclusiveMinimum": 0,
            },
        },
        rows={"target_range": {"type": "array", "items": {"type": "number"}}},
        learner={
            **IMPORTANCE,
            "rmse": {
                "description": "On the test rows, or those of a stream; null where none was predicted.",
                "oneOf": [{"type": "null"}, {"type": "number"}],
            },
            "mae": {"type": "number"},
            "by_decile": {
                "description": "Test rows, or those of a stream, in the order of their targets, divided where the "
                "deciles of the training file are: how many, their mean target and mean prediction, and the errors.",
                "type": "array",
                "maxItems": GROUPS,
                "items": {
                    "type": "object",
                    "properties": {
                        "rows": {"type": "integer", "minimum": 1},
                        **{key: {"type": "number"} for key in ("target", "prediction", "rmse", "mae")},
                    },
                },
            },
            "residuals": {
                "description": "Targets less predictions: middles of bins of equal width, and the share of the rows "
                "in each; the first and the last bin have what lies beyond them too.",
                "type": "object",
                "properties": {
                    "middle": {"type": "array", "items": {"type": "number"}},
                    "share": {"type": "array", "items": {"type": "number"}},
                },
            },
        },
    )

    def summary(self, learner: JsonObject) -> Sequence[SummaryLine]:
        return [
            ("root of the mean squared error", learner.get("rmse"), "number"),
            ("mean absolute error", learner.get("mae"), "number"),
            *interval_summary(learner),
        ]

    def sentence(self, learner: JsonObject) -> str:
        """Report the errors of the predictions, in the unit of the target."""
        rmse, mae = number_of(learner.get("rmse")), number_of(learner.get("mae"))
        if rmse is None:
            return ""
        if mae is None:
            return f"The root of the mean squared error (RMSE) is {rmse:.4g}."
        alike = "All these rows have the same true value. " if learner.get("r2", 0.0) is None else ""
        off = f"Its predictions are off by {mae:.4g} on average, by {rmse:.4g} as the root of the mean square (RMSE)."
        return f"{alike}{off} {interval_sentence(learner)}".rstrip()

    def quality(self, learner: JsonObject, metrics: JsonObject) -> str:  # noqa: ARG002
        """Tell how much of the variance it explains, and the error of its predictions; of a quantile, how it is met."""
        if quantile := _predicted_quantile(learner):
            level = real_number(quantile["level"])
            known = "median" if level == 0.5 else f"quantile {level:g}"
            return (
                f"predicts the {known}, which the true value is not above on "
                f"{in_percent(real_number(quantile['not_above']))} of {{rows}}; its mean pinball loss is "
                f"{real_number(quantile['pinball']):.4g}"
            )
        r2, rmse, rows = number_of(learner.get("r2")), number_of(learner.get("rmse")), _rows(learner)
        if r2 is None or rmse is None or not rows:
            return ""
        low, high = interval_of_r2(r2, rows)
        return (
            f"explains {in_percent(r2)} of the variance of {{rows}} (R2; 95% interval {in_percent(low)} to "
            f"{in_percent(high)}), always answering the mean would explain nothing; the root of its mean squared error "
            f"is {rmse:.4g}"
        )

    def verdicts(self, name: str, learner: JsonObject, metrics: JsonObject) -> Sequence[Verdict]:
        """Warn if the learner is no better than the mean of the targets, or hardly ever off."""
        r2, rows = number_of(learner.get("r2")), _rows(learner)
        if not rows or r2 is None:
            return ()
        if r2 > PERFECT_R2 and rows >= PERFECT_ROWS and not metrics.get("online"):
            return [perfect(name, f"explains {r2:.4%} of the variance of {rows:,} test rows")]
        if r2 > r2_by_chance(rows) or _predicted_quantile(learner):  # which is not made to be near the mean
            return ()
        if r2 > 0:
            explained = f"{name} explains {in_percent(r2)} of the variance of {rows:,} rows, which may be chance"
            return [Verdict(FEW, f"{explained}: they do not tell whether it has learned anything", name)]
        comparison = f"{name} is no better than always answering the mean (R2 {r2:.3g} on {rows:,} rows)"
        return [Verdict(NOTHING, f"{comparison}: it has learned nothing from these columns", name)]

    def sections(self, metrics: JsonObject) -> Sequence[Section]:
        """Show predicted against true values, errors by decile, and residuals, of all learners."""
        learners = {name: learner for name, learner in learners_of(metrics).items() if learner.get("by_decile")}
        if not learners:
            return ()
        return [
            *quantile_sections(learners),
            Section("predicted", "Predicted and true values", _predicted(learners)),
            Section("residuals", "Residuals", _residuals(learners)),
            *importance_sections(metrics, {"r2": "R2"}),
        ]


def _predicted_quantile(learner: JsonObject) -> JsonObject:
    """Return the figures of the quantile that is the prediction; empty if it is the mean."""
    quantiles = objects_of(learner.get("quantiles"))
    return quantiles[middle_of([real_number(own["level"]) for own in quantiles])] if quantiles else {}


def _rows(learner: JsonObject) -> int:
    """Return the number of rows that were predicted."""
    return sum(whole_number(group["rows"]) for group in objects_of(learner.get("by_decile")))


def _predicted(learners: Mapping[str, JsonObject]) -> list[Part]:
    lines: dict[str, Sequence[Point]] = {
        name: [
            (real_number(group["target"]), real_number(group["prediction"]))
            for group in objects_of(learner["by_decile"])
        ]
        for name, learner in learners.items()
    }
    ends = [x for line in lines.values() for x, _ in line]
    lines["true value"] = [(min(ends), min(ends)), (max(ends), max(ends))]
    group = _group(learners)
    note = f"Each point is a {group} of the rows, by their true values: its mean, and the mean of the predictions."
    parts: list[Part] = [Lines("Predicted against true", "true value", "prediction", lines, note)]
    head = ("mean true value", "rows", "mean prediction", "RMSE", "mean absolute error")
    keys = ("target", "rows", "prediction", "rmse", "mae")
    for name, learner in learners.items():
        rows = [[_five_digits(one[key]) for key in keys] for one in objects_of(learner["by_decile"])]
        parts.append(Table(f"Errors of {name} by {group}s of the true values", head, rows))
    return parts


def _group(learners: Mapping[str, JsonObject]) -> str:
    """Return what a group of rows is called: ends of tenths are rounded, and some fall together far from 0."""
    sizes = [[whole_number(group["rows"]) for group in objects_of(one["by_decile"])] for one in learners.values()]
    return "tenth" if all(len(own) == 10 and max(own) < sum(own) / 4 for own in sizes) else "group"


def _residuals(learners: Mapping[str, JsonObject]) -> list[Part]:
    lines: dict[str, Sequence[Point]] = {}
    for name, learner in learners.items():
        if residuals := mapping_of(learner.get("residuals")):
            middles, shares = (map(real_number, list_of(residuals[key])) for key in ("middle", "share"))
            lines[name] = list(zip(middles, shares, strict=True))
    text = Text("True value less prediction: above 0 the prediction was too low.")
    note = "The first and the last point have all that lies beyond them."
    return [text, Lines("Residuals", "true value less prediction", "share of the rows", lines, note)]


def interval_summary(learner: JsonObject) -> list[SummaryLine]:
    """Return coverage and width of each prediction interval of a learner, for tables."""
    lines: list[SummaryLine] = []
    for interval in objects_of(learner.get("intervals")):
        nominal = f"{100 * real_number(interval['nominal']):g}%"
        lines.append((f"{nominal} interval holds", interval["coverage"], "share"))
        lines.append((f"{nominal} interval, width", interval["width"], "number"))
    return lines


def interval_sentence(learner: JsonObject) -> str:
    """Return a sentence on the widest prediction interval of a learner, or "" if it has none."""
    intervals = objects_of(learner.get("intervals"))
    if not intervals:
        return ""
    nominal, coverage, width = (real_number(intervals[0][key]) for key in ("nominal", "coverage", "width"))
    return (
        f"Its prediction intervals, made to hold {100 * nominal:g}% of the true values, hold {coverage:.1%} of them; "
        f"they are {width:.4g} wide on average."
    )


def quantile_sections(learners: Mapping[str, JsonObject]) -> list[Section]:
    """Return a section on how well quantiles are met, if any learner predicts some."""
    parts: list[Part] = []
    for name, learner in learners.items():
        if intervals := objects_of(learner.get("intervals")):
            rows: list[Sequence[Cell]] = [
                (
                    f"{real_number(interval['low']):g} to {real_number(interval['high']):g}",
                    interval["nominal"],
                    _short(interval["coverage"]),
                    _short(interval["width"]),
                )
                for interval in intervals
            ]
            parts.append(
                Table(f"Prediction intervals of {name}", ("quantiles", "should hold", "hold", "mean width"), rows)
            )
        if quantiles := objects_of(learner.get("quantiles")):
            rows = [
                (f"{real_number(quantile['level']):g}", _short(quantile["not_above"]), _short(quantile["pinball"]))
                for quantile in quantiles
            ]
            parts.append(Table(f"Quantiles of {name}", ("level", "share of rows not above it", "pinball loss"), rows))
            crossed = number_of(learner.get("crossed"))
            if len(quantiles) > 1 and crossed is not None:
                parts.append(Text(f"Of {crossed:.2%} of the rows quantiles crossed; they were put in order."))
    return [Section("intervals", "Prediction intervals", parts)] if parts else []


def _short(value: Json) -> Cell:
    """Return a number with four digits."""
    return float(f"{real_number(value):.4g}")


def _five_digits(value: Json) -> Cell:
    """Return a number with five digits, and a whole number as it is."""
    return value if isinstance(value, int) else float(f"{real_number(value):.5g}")
