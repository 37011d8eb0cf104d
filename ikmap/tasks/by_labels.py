"""What ``--task auto`` stands for until all labels have been seen: classes or numbers to predict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from ikmap.tasks.classification import MOST_LABELS, MULTICLASS, Classification
from ikmap.tasks.regression import Regression
from ikmap.tasks.task import Asked, Found, LearningTask, plain_label

if TYPE_CHECKING:
    import numpy as np

MOST_WHOLE = 100
"""More different whole numbers are numbers to predict."""


class ByLabels(LearningTask):
    """Labels are numbers to predict if one is no whole number, or if there are more than a hundred; else classes.

    Rows are stored as both tasks can read them.
    """

    name: ClassVar[str] = "auto"
    dtype: ClassVar[str] = Regression.dtype
    predicted: ClassVar[str] = Regression.predicted
    undecided: ClassVar[bool] = True

    @classmethod
    def store(cls, labels: np.ndarray | None, n: int) -> tuple[np.ndarray, Found]:
        """As classification does, where there are few labels; else the numbers, and some of the labels."""
        import numpy as np

        if n == 0 or labels is None or labels.dtype == object:
            return Classification.store(labels, n)
        some = np.unique(labels)
        if some.size <= MOST_LABELS:
            return Classification.store(labels, n)
        stored, found = Regression.store(labels, n)
        # More than there may be classes, and one that is no whole number if any is.
        shown = [plain_label(label) for label in (*some[: MOST_LABELS + 1], *some[some % 1 != 0][:1])]
        return stored, {**found, "labels": shown, "label_counts": [0] * len(shown)}

    @classmethod
    def find(cls, found: Sequence[Found], asked: Asked) -> LearningTask:
        labels = _labels(found)
        numbers = _are_numbers(labels) and (_has_fractions(labels) or len(labels) > MOST_WHOLE)
        kind: type[LearningTask] = Regression if numbers else Classification
        return kind.find(found, asked)

    @classmethod
    def reason(cls, found: Sequence[Found], task: LearningTask) -> str:
        """Say in a line which task the labels were taken for, why, and how to say otherwise."""
        labels = _labels(found)
        if not _are_numbers(labels):
            return f"labels: {len(labels)} different words, taken as classes"
        count = f"more than {MOST_LABELS:,}" if len(labels) > MOST_LABELS else f"{len(labels):,}"
        what = f"{count} different numbers, {'not all whole' if _has_fractions(labels) else 'all whole'}"
        if isinstance(task, Regression):
            return f"labels: {what}, taken as numbers to predict; if they are classes, give --task {MULTICLASS}"
        return f"labels: {what}, taken as classes; to predict them as numbers, give --task {Regression.name}"


def _labels(found: Sequence[Found]) -> set[Any]:
    return {label for part in found for label in part["labels"]}


def _are_numbers(labels: set[Any]) -> bool:
    return all(not isinstance(label, str) for label in labels)


def _has_fractions(labels: set[Any]) -> bool:
    return any(float(label) % 1 for label in labels)
