"""What is said of a classifier: its main figure, others in words, and the JSON Schema of each field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ikmap.tasks.figure import AVERAGE_PRECISION, ROC_AUC, ROC_AUC_ERROR, Figure
from ikmap.tasks.importance_sections import TOLD as OF_IMPORTANCE

FIGURE = Figure(
    key="accuracy",
    unit="share",
    of_test="share of {rows} test rows ({which}) that is predicted right",
    of_stream="share of the rows of the stream that was predicted right before it was learned from",
    so_far="Share of all rows up to here that was predicted right; each row is predicted before it is learned from",
    lead="is right on {value} of {rows}",
    lead_of_stream="predicted {value} of {rows} right before it learned from them",
    table="Share of rows with the right class",
)
FACTS = {
    "f1": "F1",
    "roc_auc": "ROC AUC",
    "average_precision": "average precision",
    "log_loss": "log loss",
    "brier": "Brier score",
    "calibration_error": "calibration error",
}
"""What a table of learners shows beside that, in words."""


COUNTS = {"type": "array", "items": {"type": "integer", "minimum": 0}}
LABELS = {"type": "array", "items": {"type": ["string", "number"]}, "uniqueItems": True}


SHARE = {"type": ["number", "null"], "minimum": 0, "maximum": 1}
SHARES = {"type": "array", "items": SHARE}
LOSS = {"type": ["number", "null"], "minimum": 0}
POINTS = {"type": "array", "items": {"type": "array", "items": {"type": "number"}}}

TOLD: Mapping[str, Any] = {
    **OF_IMPORTANCE,
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
