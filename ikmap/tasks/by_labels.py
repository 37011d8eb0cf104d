"""What ``--task auto`` stands for until all labels have been seen: classes or numbers to predict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from ikmap.tasks.classification import MOST_FRACTIONS, MOST_LABELS, Classification
from ikmap.tasks.regression import Regression
from ikmap.tasks.task import Asked, Found, LearningTask, plain_label

if TYPE_CHECKING:
    import numpy as np


class ByLabels(LearningTask):
    """Labels are numbers to predict if there are more than twenty, of which one is no whole number; else classes.

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
        labels = {label for part in found for label in part["labels"]}
        numbers = all(not isinstance(label, str) for label in labels)
        fractions = numbers and any(float(label) % 1 for label in labels)
        kind: type[LearningTask] = Regression if fractions and len(labels) > MOST_FRACTIONS else Classification
        return kind.find(found, asked)
