"""What rows say of a learner that tells classes apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from ikmap.tasks.class_scores import ClassScores
from ikmap.tasks.probability_tally import ProbabilityTally

if TYPE_CHECKING:
    from ikmap.tasks.classification import Classification

MOST_WORST = 20
"""Of the rows that are predicted worst, so many are kept."""
MOST_CURVES = 4
"""With more classes, a chart of the curve of each tells nothing."""


@dataclass(frozen=True, eq=False)
class ClassTally:
    """How many rows of each class were predicted as which, and how decisions and probabilities are distributed.

    Attributes
    ----------
    counts : ndarray of int64, shape (classes, classes)
        True by predicted class.
    scores : ClassScores
    probabilities : ProbabilityTally or None
        None: there are none.
    worst : list of (row number, true class, predicted class, how wrong, distance)
        Wrong ones only; the worst first, ties by how far the decision is from being right, then by row number.
    """

    counts: np.ndarray
    scores: ClassScores
    probabilities: ProbabilityTally | None = None
    worst: list[list[Any]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return int(self.counts.sum())

    @property
    def right(self) -> int:
        """Rows predicted as the class that they are of."""
        return int(self.counts.trace())

    def __add__(self, other: Self) -> Self:
        worst = sorted([*self.worst, *other.worst], key=lambda found: (-found[3], -found[4], found[0]))[:MOST_WORST]
        mine, others = self.probabilities, other.probabilities
        both = mine + others if mine is not None and others is not None else mine or others
        return type(self)(self.counts + other.counts, self.scores + other.scores, both, worst)

    def as_json(self) -> dict[str, Any]:
        """Pairs of classes that occur, with their rows, and all the rest."""
        true, predicted = np.nonzero(self.counts)
        return {
            "pairs": np.column_stack([true, predicted, self.counts[true, predicted]]).tolist(),
            "scores": self.scores.as_json(),
            "probabilities": None if self.probabilities is None else self.probabilities.as_json(),
            "worst": self.worst,
        }

    @classmethod
    def from_json(cls, values: Any, classes: int, outputs: int) -> Self:
        """What :meth:`as_json` gave; of None, no rows."""
        counts = np.zeros((classes, classes), dtype=np.int64)
        if values is None:
            return cls(counts, ClassScores.none(outputs))
        for true, predicted, rows in values["pairs"]:
            counts[true, predicted] = rows
        known = values["probabilities"]
        probabilities = None if known is None else ProbabilityTally.from_json(known)
        return cls(counts, ClassScores.from_json(values["scores"]), probabilities, list(values["worst"]))

    def figures(self, labels: Sequence[Any]) -> dict[str, Any]:
        """All that ``metrics.json`` says of a learner's predictions, but what holds of the confusion matrix itself."""
        recall, precision, f1 = shares_of(self.counts)
        area, error = self.scores.areas() or (None, None)
        known = self.probabilities or ProbabilityTally()
        columns = range(len(self.scores.columns))
        curves = {
            str(labels[k] if len(columns) > 1 else labels[1]): curve
            for k in columns
            if len(columns) <= MOST_CURVES and (curve := self.scores.curves(k))
        }
        return {
            "balanced_accuracy": _mean(recall),
            # With two classes that of the second one, as scikit-learn has it.
            "f1": f1[1] if len(labels) == 2 else _mean(f1),
            "recall": recall,
            "precision": precision,
            "roc_auc": area,
            "roc_auc_error": error,
            "average_precision": self.scores.precision(),
            **known.figures(),
            **({"curves": curves} if curves else {}),
            "worst": [
                {"row": row, "true": labels[true], "predicted": labels[predicted], "off": off}
                for row, true, predicted, off, _ in self.worst
            ],
        }


def tally_of(task: Classification, target: np.ndarray, decision: np.ndarray, numbers: np.ndarray | None) -> ClassTally:
    """What rows say; of which numbers, where the worst are to be named."""
    n, predicted, probability = len(task.labels), task.predict(decision), task.probabilities(decision)
    counts = np.bincount(n * target.astype(np.int64) + predicted, minlength=n * n).reshape(n, n)
    worst: list[list[Any]] = []
    if numbers is not None:
        rows = np.arange(target.size)
        if decision.shape[1] == 1:
            distance = np.abs(decision[:, 0] - (0.0 if task.reading is None else task.reading.threshold))
        else:
            distance = decision[rows, predicted] - decision[rows, target]
        off = distance if probability is None else 1.0 - probability[rows, target]
        worst = worst_of(numbers, target, predicted, off, distance)
    known = None if probability is None else ProbabilityTally.of(target, probability)
    return ClassTally(counts, ClassScores.of(target, decision), known, worst)


def shares_of(counts: np.ndarray) -> tuple[list[float | None], list[float | None], list[float | None]]:
    """Recall, precision and F1 of each class; None where there are no rows of it, or none were predicted as it.

    F1 is 0 where there are rows of the class and none was found.
    """
    hits, there, said = np.diag(counts).tolist(), counts.sum(axis=1).tolist(), counts.sum(axis=0).tolist()
    recall = [hit / n if n else None for hit, n in zip(hits, there, strict=True)]
    precision = [hit / n if n else None for hit, n in zip(hits, said, strict=True)]
    f1 = [2 * hit / (a + b) if a + b else None for hit, a, b in zip(hits, there, said, strict=True)]
    return recall, precision, f1


def worst_of(
    numbers: np.ndarray, target: np.ndarray, predicted: np.ndarray, off: np.ndarray, distance: np.ndarray
) -> list[list[Any]]:
    """The entries of :attr:`ClassTally.worst` of some rows."""
    wrong = np.flatnonzero(predicted != target)
    first = wrong[np.lexsort((numbers[wrong], -distance[wrong], -off[wrong]))[:MOST_WORST]]
    return [[int(numbers[k]), int(target[k]), int(predicted[k]), float(off[k]), float(distance[k])] for k in first]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
