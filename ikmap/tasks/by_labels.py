"""What ``--task auto`` stands for until all labels have been seen: classes or numbers to predict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from ikmap.tasks.classification.kind import CLASSIFICATION, MOST_LABELS, MULTICLASS
from ikmap.tasks.json_values import JsonObject, Label, labels_of, plain_label
from ikmap.tasks.registry import AUTO, DEFAULT, TASKS, choosable, task_from
from ikmap.tasks.regression.kind import REGRESSION, Regression
from ikmap.tasks.task import LabelRequest, PartLabels, Presenter, Task, TaskKind

if TYPE_CHECKING:
    import numpy as np

MOST_WHOLE = 100
"""More different whole numbers are numbers to predict."""


class ByLabels(TaskKind):
    """Labels are numbers to predict if one is no whole number, or if there are more than a hundred; else classes.

    Rows are stored as both kinds of task can read them.
    """

    name: ClassVar[str] = AUTO
    presenter: ClassVar[Presenter] = CLASSIFICATION.presenter

    def read(self, labels: np.ndarray | None, n: int) -> tuple[np.ndarray, PartLabels]:
        """Read as classification does, where there are few labels; else keep the numbers, and some of the labels."""
        import numpy as np

        if n == 0 or labels is None or labels.dtype == object:
            return CLASSIFICATION.read(labels, n)
        some = np.unique(labels)
        if some.size <= MOST_LABELS:
            return CLASSIFICATION.read(labels, n)
        stored, part = REGRESSION.read(labels, n)
        # More than there may be classes, and one that is no whole number if any is.
        shown = [plain_label(label) for label in (*some[: MOST_LABELS + 1], *some[some % 1 != 0][:1])]
        return stored, {**part, "labels": shown, "label_counts": [0] * len(shown)}

    def find(self, parts: Sequence[PartLabels], request: LabelRequest) -> Task:
        labels = _labels(parts)
        numbers = _are_numbers(labels) and (_has_fractions(labels) or len(labels) > MOST_WHOLE)
        return (REGRESSION if numbers else CLASSIFICATION).find(parts, request)

    def from_json(self, values: JsonObject) -> Task:
        return task_from(values)

    def reason(self, parts: Sequence[PartLabels], kind: TaskKind) -> str:
        """Say in a line which kind of task the labels were taken for, why, and how to say otherwise."""
        labels = _labels(parts)
        if not _are_numbers(labels):
            return f"labels: {len(labels)} different words, taken as classes"
        count = f"more than {MOST_LABELS:,}" if len(labels) > MOST_LABELS else f"{len(labels):,}"
        what = f"{count} different numbers, {'not all whole' if _has_fractions(labels) else 'all whole'}"
        if isinstance(kind, Regression):
            return f"labels: {what}, taken as numbers to predict; if they are classes, give --task {MULTICLASS}"
        return f"labels: {what}, taken as classes; to predict them as numbers, give --task {REGRESSION.name}"


BY_LABELS = ByLabels()


def task_by_labels(served: Sequence[TaskKind], two_class: bool) -> TaskKind:
    """Return what ``--task auto`` means where no description says it.

    Parameters
    ----------
    served : sequence of TaskKind
        What all learners of the run serve.
    two_class : bool
        A data set says which labels count as +1 and as -1.

    Returns
    -------
    TaskKind
        The only kind that labels may choose; :data:`BY_LABELS`, which finds out, where there are several; the usual
        kind where there is none.
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
