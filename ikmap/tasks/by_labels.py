"""The kind of task of ``--task auto`` until all labels have been seen: classes or numbers to predict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from ikmap.json_values import JsonObject, Label, labels_of, plain_label, whole_numbers
from ikmap.tasks.classification.kind import CLASSIFICATION, MOST_LABELS, MULTICLASS, distinct
from ikmap.tasks.registry import AUTO, DEFAULT, TASKS, choosable, task_from
from ikmap.tasks.regression.kind import REGRESSION, Regression
from ikmap.tasks.task import LabelRequest, PartLabels, Presenter, Task, TaskKind

if TYPE_CHECKING:
    import numpy as np

MOST_WHOLE = 100
"""Largest number of different whole numbers that are taken for classes."""
FEW_WHOLE = 10
"""Largest number of different whole numbers that are taken for classes however few rows have each of them."""
ROWS_OF_CLASS = 5
"""More of them are taken for classes only if at least so many rows have each of them on average."""


class ByLabels(TaskKind):
    """Takes labels for classes, or for numbers to predict if there are fractions, many numbers, or few rows for each.

    Rows are stored in a form that both kinds of task can read.
    """

    name: ClassVar[str] = AUTO
    presenter: ClassVar[Presenter] = CLASSIFICATION.presenter

    def read(self, labels: np.ndarray | None, n: int) -> tuple[np.ndarray, PartLabels]:
        """Read few labels as classification does; of many, keep the numbers and some of the labels."""
        if n == 0 or labels is None or labels.dtype == object:
            return CLASSIFICATION.read(labels, n)
        different, codes = distinct(labels)
        if different.size <= MOST_LABELS:
            return CLASSIFICATION.numbered(different, codes)
        stored, part = REGRESSION.read(labels, n)
        # One label more than there may be classes, and a fraction if there is any, suffice to decide later.
        examples = [plain_label(label) for label in (*different[: MOST_LABELS + 1], *different[different % 1 != 0][:1])]
        return stored, {**part, "labels": examples, "label_counts": [0] * len(examples)}

    def find(self, parts: Sequence[PartLabels], request: LabelRequest) -> Task:
        labels = _labels(parts)
        rare = not request.initial and _are_rare(labels, parts)
        numbers = _are_numbers(labels) and (_has_fractions(labels) or len(labels) > MOST_WHOLE or rare)
        return (REGRESSION if numbers else CLASSIFICATION).find(parts, request)

    def from_json(self, values: JsonObject) -> Task:
        return task_from(values)

    def reason(self, parts: Sequence[PartLabels], kind: TaskKind) -> str:
        """Return a line on the kind of task, the reason for it, and the option that chooses the other kind."""
        labels = _labels(parts)
        if not _are_numbers(labels):
            return f"labels: {len(labels)} different words, taken as classes"
        count = f"more than {MOST_LABELS:,}" if len(labels) > MOST_LABELS else f"{len(labels):,}"
        fractions = _has_fractions(labels)
        counted = f"{count} different numbers, {'not all whole' if fractions else 'all whole'}"
        if isinstance(kind, Regression):
            if not fractions and len(labels) <= MOST_WHOLE:
                counted = f"{counted}, fewer than {ROWS_OF_CLASS} rows for each on average"
            return f"labels: {counted}, taken as numbers to predict; if they are classes, give --task {MULTICLASS}"
        return f"labels: {counted}, taken as classes; to predict them as numbers, give --task {REGRESSION.name}"


BY_LABELS = ByLabels()


def task_by_labels(served: Sequence[TaskKind], two_class: bool) -> TaskKind:
    """Return the kind of task of ``--task auto`` if no description names one.

    Parameters
    ----------
    served : sequence of TaskKind
        Kinds of task that all learners of the run serve.
    two_class : bool
        True if the description of the data set names the labels that count as +1 and as -1.

    Returns
    -------
    TaskKind
        The only kind that labels can choose; :data:`BY_LABELS` if there are several; the default kind if there is none.
    """
    kinds = choosable(served)
    if two_class or not kinds:
        return TASKS[DEFAULT]
    return kinds[0] if len(kinds) == 1 else BY_LABELS


def _labels(parts: Sequence[PartLabels]) -> set[Label]:
    return {label for part in parts for label in labels_of(part["labels"])}


def _are_numbers(labels: set[Label]) -> bool:
    return all(not isinstance(label, str) for label in labels)


def _has_fractions(labels: set[Label]) -> bool:
    return any(float(label) % 1 for label in labels)


def _are_rare(labels: set[Label], parts: Sequence[PartLabels]) -> bool:
    """Return whether labels are too many to be classes of so few rows."""
    rows = sum(sum(whole_numbers(part["label_counts"])) for part in parts)
    return len(labels) > FEW_WHOLE and rows < ROWS_OF_CLASS * len(labels)
