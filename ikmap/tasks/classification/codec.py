"""The codec of class labels and class numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ikmap.json_values import Json, Label, labels_of, whole_numbers
from ikmap.tasks.capabilities import Census, EncodesWords, KnowsLabels, StoresOtherwise
from ikmap.tasks.int_codec import IntCodec
from ikmap.tasks.known_label import known_label
from ikmap.tasks.task import ColumnType, LabelSummary, PartLabels

MOST_ENCODED = 32
"""Largest number of classes by whose shares the words of a table are encoded."""


@dataclass(frozen=True)
class ClassCodec(IntCodec, KnowsLabels, StoresOtherwise, Census, EncodesWords):
    """Turns labels into class numbers, int32, with -1 for a row without a known label.

    Attributes
    ----------
    labels : list of labels
        Labels by class number.
    two_class : pair of lists of labels, or None
        Labels that count as +1 and as -1, if these two are the classes.
    """

    labels: list[Label]
    two_class: list[list[Label]] | None = None

    @property
    def classes(self) -> list[Label]:
        return self.labels

    @property
    def summary(self) -> LabelSummary:
        known = ", ".join(repr(label) for label in self.labels[:10]) + (", ..." if len(self.labels) > 10 else "")
        return LabelSummary({"classes": self.labels}, known)

    def class_of(self, label: Label) -> int | None:
        """Return the class number of a label, or None if it has none."""
        if self.two_class is not None:
            positive, negative = self.two_class
            label = known_label(label, [*positive, *negative])
            return 1 if label in positive else 0 if label in negative else None
        label = known_label(label, self.labels)
        return self.labels.index(label) if label in self.labels else None

    def targets(self, stored: np.ndarray, part: PartLabels) -> np.ndarray:
        numbers = [self.class_of(label) for label in labels_of(part["labels"])]
        return np.array([-1 if k is None else k for k in numbers], dtype=np.int32)[stored]

    def decode(self, targets: np.ndarray) -> np.ndarray:
        return np.array(same_type(self.labels))[targets]

    def as_json(self) -> dict[str, Json]:
        return {"labels": list(self.labels), "two_class": self.two_class}

    def unseen_labels(self, parts: Sequence[PartLabels]) -> list[Label]:
        return [label for label in all_labels(parts) if self.class_of(label) is None]

    def settled(self) -> ClassCodec:
        return type(self)(self.labels)

    def stored(self, targets: np.ndarray) -> tuple[np.ndarray, PartLabels]:
        return targets, {"labels": self.labels}

    def census(self, targets: np.ndarray) -> list[int]:
        """Return the number of rows of each class."""
        return np.bincount(targets, minlength=len(self.labels)).tolist()

    def counted(self, censuses: Sequence[Json]) -> dict[str, Json]:
        counts = [sum(column) for column in zip(*map(whole_numbers, censuses), strict=True)]
        if sum(count > 0 for count in counts) < 2:
            raise ValueError(
                "found training rows of one class only, expected at least two; give another --seed or split"
            )
        return {"class_counts_train": counts}

    def missing(self, targets: np.ndarray) -> str:
        missing = [label for label, count in zip(self.labels, self.census(targets), strict=True) if not count]
        return f"class {', '.join(repr(label) for label in missing[:5])}" if missing else ""

    def encoding_outputs(self) -> tuple[list[str], float]:
        """Return one output for the second of two classes, one for each of a few classes, and none for many classes."""
        if len(self.labels) == 2:
            return [""], 1.0
        return ([f" {label}" for label in self.labels] if len(self.labels) <= MOST_ENCODED else []), 1.0

    def encoding_targets(self, targets: np.ndarray) -> np.ndarray:
        if len(self.labels) == 2:
            return (targets == 1).astype(np.int64)[:, None]
        return (targets[:, None] == np.arange(len(self.labels))).astype(np.int64)


def same_type(labels: Sequence[Label]) -> list[Label]:
    """Return labels of one type: all as text if one of them is text."""
    texts = any(isinstance(label, str) for label in labels)
    return [str(label) for label in labels] if texts else list(labels)


def label_type(labels: Sequence[Label]) -> ColumnType:
    """Return the type of a column of labels."""
    if all(isinstance(label, int) for label in labels):
        return "int64"
    return "string" if any(isinstance(label, str) for label in labels) else "float64"


def counts_of(parts: Sequence[PartLabels]) -> Mapping[Label, int]:
    """Return the number of rows of each label in any of the parts."""
    counts: Counter[Label] = Counter()
    for part in parts:
        counts.update(dict(zip(labels_of(part["labels"]), whole_numbers(part["label_counts"]), strict=True)))
    return counts


def all_labels(parts: Sequence[PartLabels]) -> list[Label]:
    """Return the labels in any of the parts: numbers, then text."""
    return sorted(counts_of(parts), key=lambda label: (isinstance(label, str), label))
