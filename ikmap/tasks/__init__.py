"""Kinds of task, each in a folder of its own, and the metrics by which learners are compared."""

from __future__ import annotations

from ikmap.json_values import Json, Label, plain_label
from ikmap.tasks.bad_label import BadLabel
from ikmap.tasks.by_labels import BY_LABELS, task_by_labels
from ikmap.tasks.capabilities import capability
from ikmap.tasks.classification import CLASSIFICATION, Classification
from ikmap.tasks.classification.criteria import Accuracy, BalancedAccuracy, Brier, LogLoss, RocAuc
from ikmap.tasks.criteria import METRICS, Criterion, criteria_of, criterion_of, metric_of
from ikmap.tasks.metric import Metric, Sentences
from ikmap.tasks.novelty import NOVELTY, Novelty
from ikmap.tasks.novelty.criteria import AlertRate
from ikmap.tasks.registry import (
    AUTO,
    DEFAULT,
    TASKS,
    criteria,
    register,
    task_from,
    task_kind,
    task_named,
    task_of,
    task_words,
    unregister,
)
from ikmap.tasks.regression import REGRESSION, Regression
from ikmap.tasks.regression.criteria import ExplainedVariance
from ikmap.tasks.task import LabelRequest, Task, TaskKind

__all__ = [
    "AUTO",
    "BY_LABELS",
    "CLASSIFICATION",
    "DEFAULT",
    "METRICS",
    "NOVELTY",
    "REGRESSION",
    "TASKS",
    "BadLabel",
    "Classification",
    "Criterion",
    "Json",
    "Label",
    "LabelRequest",
    "Metric",
    "Novelty",
    "Regression",
    "Sentences",
    "Task",
    "TaskKind",
    "capability",
    "criteria",
    "criteria_of",
    "criterion_of",
    "metric_of",
    "plain_label",
    "register",
    "task_by_labels",
    "task_from",
    "task_kind",
    "task_named",
    "task_of",
    "task_words",
    "unregister",
]

for _kind in (CLASSIFICATION, REGRESSION, NOVELTY):
    register(_kind)
for _metric in (Accuracy, BalancedAccuracy, RocAuc, LogLoss, Brier, ExplainedVariance, AlertRate):
    register(_metric)
