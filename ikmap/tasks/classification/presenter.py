"""Presentation of classifiers: words, the JSON Schema of each metric, errors, curves and the worst rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from ikmap.json_values import Json, JsonObject, labels_of, learners_of, list_of, mapping_of, number_of, objects_of
from ikmap.tasks.importance import IMPORTANCE, importance_sections
from ikmap.tasks.metric import AVERAGE_PRECISION, ROC_AUC, ROC_AUC_ERROR, Metric, Sentences
from ikmap.tasks.sections import Cell, Confusion, Lines, Part, Section, Table, Text
from ikmap.tasks.task import MetricsSchema, Presenter, SummaryLine
from ikmap.tasks.verdict import Verdict

SHOWN = 10
"""Number of the worst predicted rows that are shown."""
EVEN = "as said"
"""Name of the line of perfectly calibrated probabilities in a chart."""
ACCURACY = Metric(
    "accuracy",
    "share",
    Sentences(
        of_test="share of {rows} test rows ({which}) that is predicted right",
        of_stream="share of the rows of the stream that was predicted right before it was learned from",
        so_far="Share of all rows up to here that was predicted right; each row is predicted before it is learned from",
        lead="is right on {value} of {rows}",
        lead_of_stream="predicted {value} of {rows} right before it learned from them",
        table="Share of rows with the right class",
    ),
)
SUMMARY = {
    "f1": "F1",
    "roc_auc": "ROC AUC",
    "average_precision": "average precision",
    "log_loss": "log loss",
    "brier": "Brier score",
    "calibration_error": "calibration error",
}
"""Metrics that a table of learners shows beside accuracy, in words."""
COUNTS: JsonObject = {"type": "array", "items": {"type": "integer", "minimum": 0}}
LABELS: JsonObject = {"type": "array", "items": {"type": ["string", "number"]}, "uniqueItems": True}
SHARE: JsonObject = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
SHARES: JsonObject = {"type": "array", "items": SHARE}
LOSS: JsonObject = {"type": ["number", "null"], "minimum": 0}
POINTS: JsonObject = {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}
SCHEMA: Mapping[str, JsonObject] = {
    **IMPORTANCE,
    "confusion": {
        "description": "Test rows by true class (rows) and predicted class (columns).",
        "type": "array",
        "items": COUNTS,
    },
    "labels": {"description": "The classes of the confusion matrix, in its order.", **LABELS},
    "balanced_accuracy": {"description": "Mean recall of the classes that occur.", **SHARE},
    "f1": {"description": "Of the second of two classes; of more the mean over all.", **SHARE},
    "recall": {"description": "Of each class, in the order of the labels.", **SHARES},
    "precision": {"description": "Of each class, in the order of the labels.", **SHARES},
    "roc_auc": ROC_AUC,
    "roc_auc_error": ROC_AUC_ERROR,
    "average_precision": AVERAGE_PRECISION,
    "log_loss": {"description": "Mean log loss; null where there are no probabilities.", **LOSS},
    "brier": {
        "description": "Mean squared error of probabilities: with two classes of that of the second, with more the "
        "sum over all; null where there are none.",
        **LOSS,
    },
    "calibration_error": {
        "description": "Expected calibration error: how far probabilities are from how often they come true, by "
        "bins of width 1/15, weighted by rows; with two classes of the probability of the second one, with more of "
        "the largest one.",
        **SHARE,
    },
    "calibration_chance": {
        "description": "What the calibration error would be on average if the probabilities were right: on few rows "
        "they come true a little more or less often than they say.",
        **SHARE,
    },
    "calibration_curve": {
        "description": "Of each of these bins that has rows: mean probability, share that came true, rows.",
        **POINTS,
    },
    "curves": {
        "description": "By class: points (false positive rate, true positive rate), and (recall, precision).",
        "type": "object",
        "additionalProperties": {"type": "object", "properties": {"roc": POINTS, "precision_recall": POINTS}},
    },
    "worst": {
        "description": "Rows that are predicted most wrongly: number in their file, from 0, true and predicted "
        "class, and how far off: 1 less the probability of the true class, or, without probabilities, the decision's "
        "distance from being right.",
        "type": "array",
        "items": {"type": "object", "required": ["row", "true", "predicted", "off"]},
    },
}


class ClassPresenter(Presenter):
    """Presents classifiers."""

    metric: ClassVar[Metric] = ACCURACY
    schema: ClassVar[MetricsSchema] = MetricsSchema(
        labels={"classes": {"description": "Labels as they stand in the data.", **LABELS}},
        rows={
            "class_counts_train": {"description": "Training rows of each of the classes, in their order.", **COUNTS},
        },
        learner=SCHEMA,
    )

    def summary(self, learner: JsonObject) -> Sequence[SummaryLine]:
        return [(words, learner.get(key), "number") for key, words in SUMMARY.items()]

    def quality(self, learner: JsonObject, metrics: JsonObject) -> str:
        """Tell how good it is by accuracy, or by ROC AUC and average precision where one of two classes is rare."""
        from ikmap.tasks.classification.verdicts import quality_of_classes

        return quality_of_classes(learner, metrics)

    def verdicts(self, name: str, learner: JsonObject, metrics: JsonObject) -> Sequence[Verdict]:
        """Warn if the learner is no better than a constant, misses a class, or has poor probabilities."""
        from ikmap.tasks.classification.verdicts import class_verdicts

        return class_verdicts(name, learner, metrics)

    def sections(self, metrics: JsonObject) -> Sequence[Section]:
        """Show the errors of every learner, curves, which columns matter, and the rows that are predicted worst."""
        data, learners = mapping_of(metrics.get("data")), learners_of(metrics)
        classes = labels_of(data.get("classes"))
        errors: list[Part] = [
            Confusion(name, labels_of(learner.get("labels")) or classes, learner["confusion"])
            for name, learner in learners.items()
            if "confusion" in learner
        ]
        sections = [Section("errors", "Errors", errors)] if errors else []
        if ranked := _ranking(learners):
            sections.append(Section("ranking", "Ranking and probabilities", ranked))
        sections += importance_sections(metrics, {"accuracy": "accuracy", "roc_auc": "ROC AUC"})
        if worst := _worst(learners, data.get("id")):
            sections.append(Section("worst", "Rows predicted worst", worst))
        return sections


def _ranking(learners: Mapping[str, JsonObject]) -> list[Part]:
    """Return ROC curves, precision over recall, and calibration."""
    curves_of: dict[str, dict[str, JsonObject]] = {}
    for name, learner in learners.items():
        for label, curve in mapping_of(learner.get("curves")).items():
            if isinstance(curve, Mapping):
                curves_of.setdefault(str(label), {})[name] = curve
    parts: list[Part] = []
    for label, curves in curves_of.items():
        roc = {name: points for name, curve in curves.items() if (points := _points(curve.get("roc")))}
        if roc:
            parts.append(
                Lines(
                    f"ROC curve of {label}",
                    "share of the other rows that are taken for it",
                    f"share of the rows of {label} that are found",
                    roc,
                    "From the highest score down: the further to the upper left, the better a learner ranks.",
                )
            )
        recalled = {
            name: points for name, curve in curves.items() if (points := _points(curve.get("precision_recall")))
        }
        if recalled:
            parts.append(
                Lines(
                    f"Precision and recall of {label}",
                    f"share of the rows of {label} that are found (recall)",
                    "share of those found that are right (precision)",
                    recalled,
                )
            )
    calibrated = {
        name: points for name, learner in learners.items() if (points := _points(learner.get("calibration_curve")))
    }
    if calibrated:
        parts.append(
            Lines(
                "Calibration",
                "probability that is said",
                "share that comes true",
                {**calibrated, EVEN: [(0.0, 0.0), (1.0, 1.0)]},
                "By bins of width 1/15. Above the straight line a learner says too little, below it too much."
                + "".join(_off_by(name, learners[name]) for name in calibrated),
            )
        )
    return parts


def _off_by(name: str, learner: JsonObject) -> str:
    """Return a sentence on how large the calibration error is, and how large it would be by chance."""
    error, chance = number_of(learner.get("calibration_error")), learner.get("calibration_chance")
    if error is None:
        return ""
    perfect = f"; perfect probabilities would have {chance:.4f} on so many rows" if isinstance(chance, float) else ""
    return f" {name}: calibration error {error:.4f}{perfect}."


def _points(value: Json) -> list[tuple[float, float]]:
    """Return the first two numbers of each entry."""
    points = []
    for row in list_of(value):
        x, y = (*map(number_of, list_of(row)[:2]), None, None)[:2]
        if x is not None and y is not None:
            points.append((x, y))
    return points


def _worst(learners: Mapping[str, JsonObject], column: Json) -> list[Part]:
    """Return a table for each learner, and a text on them; `column` has the ids of the rows."""
    tables, sure = [], False
    for name, learner in learners.items():
        rows = objects_of(list_of(learner.get("worst"))[:SHOWN])
        if rows:
            probable = learner.get("log_loss") is not None
            sure |= probable
            named = any("id" in row for row in rows)
            head = (
                *((str(column or "id"),) if named else ()),
                *("row", "true class", "predicted", "probability of its class" if probable else "distance"),
            )
            values: list[Sequence[Cell]] = [
                (
                    *((str(row.get("id", "")),) if named else ()),
                    *(str(row.get(key)) for key in ("row", "true", "predicted")),
                    _off(number_of(row.get("off")), probable),
                )
                for row in rows
            ]
            tables.append(Table(f"By {name}", head, values))
    if not tables:
        return []
    text = "Rows on which a learner is most surely wrong, counted from 0 as they stand in their file. "
    text += "Often their label is wrong, or something that a column should say is not in the table."
    if not sure:
        text += " The distance is that of the decision value from being right."
    return [Text(text), *tables]


def _off(value: float | None, probable: bool) -> Cell:
    if value is None:
        return ""
    return float(f"{1 - value if probable else value:.3g}")
