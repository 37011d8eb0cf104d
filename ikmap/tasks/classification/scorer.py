"""Metrics of a classifier, accumulated so that they add up over shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from ikmap.json_values import Json, Label, list_of, mapping_of, real_number, whole_number, whole_numbers
from ikmap.tasks.capabilities import WeightedScorer
from ikmap.tasks.classification.class_scores import ClassScores
from ikmap.tasks.classification.decisions import ClassDecisions
from ikmap.tasks.classification.probability_state import ProbabilityState, losses
from ikmap.tasks.task import Scorer
from ikmap.tasks.weighted import WEIGHT

MOST_WORST = 20
"""Number of the worst predicted rows that are kept."""
MOST_CURVES = 4
"""Largest number of classes whose curves are kept: a chart of more curves cannot be read."""
SCORE = "score"


type WorstRow = tuple[int, int, int, float, float]
"""Row number, true class, predicted class, how wrong the row is, and how far its decision is from being right."""


@dataclass(frozen=True, eq=False)
class ClassState:
    """The confusion matrix of some rows, and the distributions of their decisions and probabilities.

    Attributes
    ----------
    labels : list of labels
        Labels by class number.
    counts : ndarray of int64, shape (classes, classes)
        Number of rows by true and by predicted class.
    scores : ClassScores
    probabilities : ProbabilityState or None
        None if there are no probabilities.
    worst : list of rows
        Wrongly predicted rows, the worst first; ties by the distance of the decision from being right, then by number.
    """

    labels: list[Label]
    counts: np.ndarray
    scores: ClassScores
    probabilities: ProbabilityState | None = None
    worst: list[WorstRow] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.counts.sum())

    @property
    def right(self) -> int:
        """Number of rows whose class was predicted."""
        return int(self.counts.trace())

    def __add__(self, other: Self) -> Self:
        worst = sorted([*self.worst, *other.worst], key=lambda row: (-row[3], -row[4], row[0]))[:MOST_WORST]
        mine, others = self.probabilities, other.probabilities
        both = mine + others if mine is not None and others is not None else mine or others
        return type(self)(self.labels, self.counts + other.counts, self.scores + other.scores, both, worst)

    def as_json(self) -> dict[str, Json]:
        """Return the pairs of true and predicted class that occur, with their counts, and the rest of the state."""
        true, predicted = np.nonzero(self.counts)
        return {
            "pairs": np.column_stack([true, predicted, self.counts[true, predicted]]).tolist(),
            "scores": self.scores.as_json(),
            "probabilities": None if self.probabilities is None else self.probabilities.as_json(),
            "worst": [list(row) for row in self.worst],
        }

    @classmethod
    def from_json(cls, values: Json, labels: list[Label], outputs: int) -> Self:
        """Return the state from which :meth:`as_json` made these values, or the state of no rows for None."""
        counts = np.zeros((len(labels), len(labels)), dtype=np.int64)
        if values is None:
            return cls(labels, counts, ClassScores.none(outputs))
        record = mapping_of(values)
        for pair in list_of(record["pairs"]):
            true, predicted, rows = whole_numbers(pair)
            counts[true, predicted] = rows
        known = record["probabilities"]
        probabilities = None if known is None else ProbabilityState.from_json(known)
        worst = [_worst_row(row) for row in list_of(record["worst"])]
        return cls(labels, counts, ClassScores.from_json(record["scores"]), probabilities, worst)

    def metrics(self) -> dict[str, Json]:
        """Return accuracy as a fraction, the confusion matrix (rows: true, columns: predicted class), and the rest."""
        labels = self.labels
        recall, precision, f1 = shares_of(self.counts)
        area, error = self.scores.areas() or (None, None)
        known = self.probabilities or ProbabilityState()
        columns = range(len(self.scores.columns))
        curves: dict[str, Json] = {
            str(labels[k] if len(columns) > 1 else labels[1]): curve
            for k in columns
            if len(columns) <= MOST_CURVES and (curve := self.scores.curves(k))
        }
        return {
            "accuracy": float(self.right) / self.rows if self.rows else None,
            "confusion": self.counts.tolist(),
            "labels": labels,
            "balanced_accuracy": _mean(recall),
            # The F1 of the second of two classes, as in scikit-learn.
            "f1": f1[1] if len(labels) == 2 else _mean(f1),
            "recall": recall,
            "precision": precision,
            "roc_auc": area,
            "roc_auc_error": error,
            "average_precision": self.scores.precision(),
            **known.metrics(),
            **({"curves": curves} if curves else {}),
            "worst": [
                {"row": row, "true": labels[true], "predicted": labels[predicted], "off": off}
                for row, true, predicted, off, _ in self.worst
            ],
        }


@dataclass(frozen=True)
class ClassScorer(Scorer, WeightedScorer):
    """Accumulates the metrics of a classifier.

    Attributes
    ----------
    decisions : ClassDecisions
        Meaning of the decisions of the learner.
    """

    decisions: ClassDecisions

    def accumulate(self, target: np.ndarray, decision: np.ndarray, numbers: np.ndarray | None = None) -> ClassState:
        """Return the state of some rows; the worst of them are named if their numbers are given."""
        decisions, n = self.decisions, len(self.decisions.labels)
        predicted, probability = decisions.predict(decision), decisions.probabilities(decision)
        counts = np.bincount(n * target.astype(np.int64) + predicted, minlength=n * n).reshape(n, n)
        worst: list[WorstRow] = []
        if numbers is not None:
            rows = np.arange(target.size)
            if decision.shape[1] == 1:
                threshold = 0.0 if decisions.calibration is None else decisions.calibration.threshold
                distance = np.abs(decision[:, 0] - threshold)
            else:
                distance = decision[rows, predicted] - decision[rows, target]
            off = distance if probability is None else 1.0 - probability[rows, target]
            worst = worst_of(numbers, target, predicted, off, distance)
        known = None if probability is None else ProbabilityState.of(target, probability)
        return ClassState(decisions.labels, counts, ClassScores.of(target, decision), known, worst)

    def state_from(self, values: Json) -> ClassState:
        return ClassState.from_json(values, self.decisions.labels, self.decisions.outputs)

    def weighted_terms(self, target: np.ndarray, decision: np.ndarray) -> dict[str, np.ndarray]:
        right = (self.decisions.predict(decision) == target).astype(np.float64)
        terms = {SCORE: right}
        for k in range(len(self.decisions.labels)):
            there = target == k
            terms |= {f"there {k}": there.astype(np.float64), f"right {k}": right * there}
        probability = self.decisions.probabilities(decision)
        if probability is not None:
            terms["log_loss"], terms["brier"] = losses(target, probability)
        return terms

    def weighted_metrics(self, sums: Mapping[str, float]) -> dict[str, float | None]:
        """Return accuracy and mean recall, and if there are probabilities also log loss and Brier score."""
        weight = sums[WEIGHT]
        known = [k for k in range(len(self.decisions.labels)) if sums[f"there {k}"] > 0]
        recall = sum(sums[f"right {k}"] / sums[f"there {k}"] for k in known) / len(known)
        means = {key: sums[key] / weight for key in ("log_loss", "brier") if key in sums}
        return {"accuracy": sums[SCORE] / weight, "balanced_accuracy": recall, **means}


def shares_of(counts: np.ndarray) -> tuple[list[float | None], list[float | None], list[float | None]]:
    """Return recall, precision and F1 of each class; None if no row is of the class, or none was predicted as it.

    F1 is 0 if there are rows of the class and none of them was predicted.
    """
    hits, there, predicted = np.diag(counts).tolist(), counts.sum(axis=1).tolist(), counts.sum(axis=0).tolist()
    recall = [hit / n if n else None for hit, n in zip(hits, there, strict=True)]
    precision = [hit / n if n else None for hit, n in zip(hits, predicted, strict=True)]
    f1 = [2 * hit / (a + b) if a + b else None for hit, a, b in zip(hits, there, predicted, strict=True)]
    return recall, precision, f1


def worst_of(
    numbers: np.ndarray, target: np.ndarray, predicted: np.ndarray, off: np.ndarray, distance: np.ndarray
) -> list[WorstRow]:
    """Return the entries of :attr:`ClassState.worst` of some rows."""
    wrong = np.flatnonzero(predicted != target)
    first = wrong[np.lexsort((numbers[wrong], -distance[wrong], -off[wrong]))[:MOST_WORST]]
    return [(int(numbers[k]), int(target[k]), int(predicted[k]), float(off[k]), float(distance[k])) for k in first]


def _worst_row(values: Json) -> WorstRow:
    number, true, predicted, off, distance = list_of(values)
    return (
        whole_number(number),
        whole_number(true),
        whole_number(predicted),
        real_number(off),
        real_number(distance),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
