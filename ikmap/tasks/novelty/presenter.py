"""Presentation of novelty: words, the JSON Schema of each metric, and the most novel rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from ikmap.json_values import (
    JsonObject,
    learners_of,
    mapping_of,
    number_of,
    objects_of,
    whole_number,
)
from ikmap.tasks.metric import AVERAGE_PRECISION, ROC_AUC, ROC_AUC_ERROR, Metric, Sentences
from ikmap.tasks.sections import Cell, Part, Section, Table, Text
from ikmap.tasks.task import MetricsSchema, Presenter, SummaryLine
from ikmap.tasks.verdict import NOTHING, Verdict, auc_by_chance, interval_of_auc

MOST_NAMED = 5
"""Largest number of novel rows that the first sentences of a report name."""
MOST_ROWS = 20
"""Largest number of the most novel rows that are shown."""
ALERT_RATE = Metric(
    "alert_rate",
    "share",
    Sentences(
        of_test="share of {rows} test rows ({which}) above the threshold",
        of_stream="share of the rows of the stream that was above the threshold before it was learned from",
        so_far="Share of all rows up to here that was novel; each row is scored before it is learned from",
        lead="finds {value} of {rows} novel",
        lead_of_stream="found {value} of {rows} novel before it learned from them",
        table="Share of rows above the threshold",
    ),
    ranks=False,
)


class NoveltyPresenter(Presenter):
    """Presents learners that find novel rows."""

    metric: ClassVar[Metric] = ALERT_RATE
    schema: ClassVar[MetricsSchema] = MetricsSchema(
        labels={
            "normal_labels": {
                "description": "Labels of rows that are no anomalies, as --inliers names them: only these rows are "
                "learned from. Null: all rows are learned from.",
                "type": ["array", "null"],
                "items": {"type": ["string", "number"]},
            },
            "anomaly_label": {
                "description": "The label with the fewest rows: by it, runs without --inliers are evaluated. Null: "
                "there are no labels, or --inliers says what they mean.",
                "type": ["string", "number", "null"],
            },
        },
        rows={
            "anomalies_train": {
                "description": "Training rows whose label says that they are anomalies; null without labels.",
                "type": ["integer", "null"],
                "minimum": 0,
            },
            "rows_left_out": {
                "description": "Rows that would be training rows, but are not among the normal ones that --inliers "
                "names.",
                "type": "integer",
                "minimum": 0,
            },
        },
        learner={
            "alerts": {
                "description": "Test rows, or rows of a stream, above the threshold.",
                "type": "integer",
                "minimum": 0,
            },
            "roc_auc": ROC_AUC,
            "roc_auc_error": ROC_AUC_ERROR,
            "average_precision": AVERAGE_PRECISION,
            "rows_by_label": {
                "description": "Rows that are normal by their labels, and rows that are anomalies.",
                "type": "array",
                "items": {"type": "integer", "minimum": 0},
            },
            "most_novel": {
                "description": "The rows with the highest scores: number in their file, or as they came, "
                "from 0, and how far the score lies above the threshold.",
                "type": "array",
                "maxItems": MOST_ROWS,
                "items": {"type": "object", "properties": {"row": {"type": "integer"}, "score": {"type": "number"}}},
            },
        },
    )

    def summary(self, learner: JsonObject) -> Sequence[SummaryLine]:
        return [
            ("ROC AUC", learner.get("roc_auc"), "number"),
            ("average precision", learner.get("average_precision"), "number"),
        ]

    def sentence(self, learner: JsonObject) -> str:
        """Name the first few novel rows, and if there are labels, the metrics of the scores."""
        alerts, most_novel = learner.get("alerts"), learner.get("most_novel")
        if not isinstance(alerts, int) or not isinstance(most_novel, list):
            return ""
        rows = [str(row.get("row")) for row in objects_of(most_novel[: min(alerts, MOST_NAMED)])]
        sentences = [] if rows else ["No row is novel."]
        if rows and alerts == 1:
            sentences = [f"It is row {rows[0]} of the file, from 0."]
        elif rows:
            sentences = [f"Most novel of these {alerts:,} rows are {', '.join(rows)} (rows of the file, from 0)."]
        area, precision = number_of(learner.get("roc_auc")), number_of(learner.get("average_precision"))
        if area is not None and precision is not None:
            sentences.append(f"By the labels, ROC AUC is {area:.4f} and average precision {precision:.4f}.")
        return " ".join(sentences)

    def quality(self, learner: JsonObject, metrics: JsonObject) -> str:  # noqa: ARG002
        """Tell how well it ranks rows, by the labels if there are any."""
        area, rows = number_of(learner.get("roc_auc")), learner.get("rows_by_label")
        if area is None or not isinstance(rows, list):
            return ""
        normal, novel = map(whole_number, rows)
        if not normal or not novel:
            return ""
        low, high = interval_of_auc(area, novel, normal)
        text = f"has ROC AUC {area:.3f} (95% interval {low:.3f} to {high:.3f}; by chance 0.5)"
        if (precision := number_of(learner.get("average_precision"))) is not None:
            text += f" and average precision {precision:.3f} (by chance {novel / (normal + novel):.3g})"
        return f"{text} by the labels of {{rows}}"

    def verdicts(self, name: str, learner: JsonObject, metrics: JsonObject) -> Sequence[Verdict]:  # noqa: ARG002
        """Warn if the scores are no better than chance, by the labels."""
        area, rows = number_of(learner.get("roc_auc")), learner.get("rows_by_label")
        if area is None or not isinstance(rows, list):
            return ()
        normal, novel = map(whole_number, rows)
        if area > auc_by_chance(normal, novel):
            return ()
        finding = f"by the labels, the scores of {name} are no better than chance"
        known = f"ROC AUC {area:.3f}, {novel:,} anomalies among {normal + novel:,} rows"
        return [Verdict(NOTHING, f"{finding} ({known}): give another --learner or --partitioner", name)]

    def sections(self, metrics: JsonObject) -> Sequence[Section]:
        """Show the most novel rows of each learner."""
        column, parts = str(mapping_of(metrics.get("data")).get("id", "id")), list[Part]()
        for name, learner in learners_of(metrics).items():
            novel = objects_of(learner.get("most_novel"))
            if novel:
                named = any("id" in row for row in novel)
                rows: list[Sequence[Cell]] = [
                    (*((str(row.get("id", "")),) if named else ()), row.get("row"), row.get("score")) for row in novel
                ]
                head = (*((column,) if named else ()), "row", "score above the threshold")
                parts.append(Table(f"By {name}", head, rows))
        if not parts:
            return ()
        text = Text(
            "The rows with the highest scores. Rows are counted from 0, as they stand in their file; a row is "
            "novel if its score lies above the threshold. Of rows with the same score, the first ones are shown."
        )
        return [Section("novel", "Most novel rows", [text, *parts])]
