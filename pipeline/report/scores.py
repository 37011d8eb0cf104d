"""Metrics that the report derives: interval, baseline, per-class recall and precision, confused pairs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pipeline.report.fields import get_list, number
from pipeline.report.text import label

_Z95 = 1.959963984540054  # 97.5% quantile of the standard normal distribution


def wilson_interval(share: float, n: float) -> tuple[float, float]:
    """Return the 95% score interval of a binomial proportion (Wilson 1927, JASA 22, 209-212).

    Parameters
    ----------
    share : float
        Observed proportion, in [0, 1].
    n : float
        Number of trials, > 0.
    """
    z2 = _Z95 * _Z95
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z95 / (1 + z2 / n) * math.sqrt(share * (1 - share) / n + z2 / (4 * n * n))
    # At a share of 0 or 1 the end of the interval there is exactly 0 or 1; rounding must not cross it.
    return max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))


@dataclass(frozen=True)
class ClassScore:
    """One class of a confusion matrix; a share is None where its denominator is 0."""

    name: str
    support: int
    recall: float | None
    precision: float | None
    taken_for: str | None


@dataclass(frozen=True)
class Confusion:
    """A square confusion matrix: ``counts[i][j]`` rows of class i that were predicted as class j."""

    names: list[str]
    counts: list[list[int]]

    @property
    def supports(self) -> list[int]:
        """Number of test rows of each true class."""
        return [sum(row) for row in self.counts]

    @property
    def total(self) -> int:
        """Number of test rows."""
        return sum(self.supports)

    @property
    def errors(self) -> int:
        """Number of test rows predicted as another class than theirs."""
        return self.total - sum(self.counts[i][i] for i in range(len(self.counts)))

    def per_class(self) -> list[ClassScore]:
        """Return recall, precision and the most frequent wrong answer of each class, in class order."""
        predicted = [sum(column) for column in zip(*self.counts, strict=True)]
        scores = []
        for i, (row, support) in enumerate(zip(self.counts, self.supports, strict=True)):
            wrong = [(n, -j) for j, n in enumerate(row) if j != i and n > 0]
            scores.append(
                ClassScore(
                    name=self.names[i],
                    support=support,
                    recall=row[i] / support if support else None,
                    precision=row[i] / predicted[i] if predicted[i] else None,
                    taken_for=self.names[-max(wrong)[1]] if wrong else None,
                )
            )
        return scores

    def balanced_accuracy(self) -> float | None:
        """Return the mean recall over the classes that occur in the test set."""
        recalls = [score.recall for score in self.per_class() if score.recall is not None]
        return sum(recalls) / len(recalls) if recalls else None

    def confused_pairs(self) -> list[tuple[int, int, int]]:
        """Return (true, predicted, rows) of every kind of error that occurred, most frequent first."""
        pairs = [(i, j, n) for i, row in enumerate(self.counts) for j, n in enumerate(row) if i != j and n > 0]
        return sorted(pairs, key=lambda pair: (-pair[2], pair[0], pair[1]))


def confusion_of(learner: Mapping[str, object], classes: list[object]) -> Confusion | None:
    """Return the confusion matrix of a learner record; None if it is missing or not a square of counts."""
    counts: list[list[int]] = []
    rows = get_list(learner, "confusion")
    for row in rows:
        values = [number(n) for n in row] if isinstance(row, list | tuple) else []
        if len(values) != len(rows):
            return None
        counts_of_row = [int(n) for n in values if n is not None and n >= 0]
        if len(counts_of_row) != len(rows):
            return None
        counts.append(counts_of_row)
    if not counts:
        return None
    names = get_list(learner, "labels") or classes
    if len(names) != len(counts):
        names = list(range(len(counts)))
    return Confusion([label(name) for name in names], counts)


def training_counts(data: Mapping[str, object]) -> dict[str, int]:
    """Return the numbers of training rows by class label; empty if the record does not have them."""
    classes, counts = get_list(data, "classes"), get_list(data, "class_counts_train")
    if len(classes) != len(counts):
        return {}
    known = {label(name): number(n) for name, n in zip(classes, counts, strict=True)}
    return {name: int(n) for name, n in known.items() if n is not None}


def majority_baseline(data: Mapping[str, object], confusion: Confusion | None) -> float | None:
    """Return the test accuracy of always answering the most frequent class of the training rows.

    Without training counts it is the most frequent class of the test rows; without a confusion matrix it is the share
    of the class among the training rows.
    """
    train = training_counts(data)
    top = max(train, key=lambda name: train[name]) if train else None
    if confusion is not None and confusion.total:
        test = dict(zip(confusion.names, confusion.supports, strict=True))
        rows = max(test.values()) if top is None else test.get(top, 0)
        return rows / confusion.total
    total = sum(train.values())
    return train[top] / total if top is not None and total else None
