"""Classification: two classes or more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, cast

from ikmap.tasks.bad_label import refuse_rounded
from ikmap.tasks.class_told import COUNTS, FACTS, FIGURE, LABELS, TOLD
from ikmap.tasks.figure import Judge
from ikmap.tasks.sections import Section
from ikmap.tasks.task import Asked, Figure, Found, LearningTask, Tally, plain_label
from ikmap.tasks.verdict import Verdict
from ikmap.tasks.weighted import WeighedClasses

if TYPE_CHECKING:
    import numpy as np

    from ikmap.tasks.class_tally import ClassTally

MOST_LABELS = 1000
MOST_ENCODED = 32
"""Words of a table are encoded by the shares of up to so many classes."""
MOST_FRACTIONS = 20
"""More different labels, of which one is no whole number, are hardly classes, unless the user says so."""
BINARY, MULTICLASS = "binary", "multiclass"


@dataclass(frozen=True)
class Classification(WeighedClasses, LearningTask):
    """Labels are classes; a target is a class number, int32, or -1.

    A decision has one column with two classes, at least 0 for the second, else a column for each, of which the largest
    wins, ties to the lowest number.

    Attributes
    ----------
    labels : list
        By class number, as JSON values.
    two_class : pair of lists of labels, or None
        Labels that count as +1 and as -1, which then are the classes.
    reading : Reading or None
        How decisions are read (:mod:`ikmap.tasks.reading`); None: as they are.
    """

    name: ClassVar[str] = "classification"
    words: ClassVar[tuple[str, ...]] = (BINARY, MULTICLASS)
    dtype: ClassVar[str] = "int32"
    predicted: ClassVar[str] = "int32"
    by_labels: ClassVar[bool] = True
    tallies_streams: ClassVar[bool] = True
    compiled: ClassVar[frozenset[str]] = frozenset({BINARY, MULTICLASS})
    usual_learner: ClassVar[str] = "logistic"
    criteria: ClassVar[tuple[str, ...]] = ("balanced_accuracy", "roc_auc", "log_loss", "brier")
    usual_criterion: ClassVar[str] = "log_loss"
    figure: ClassVar[Figure] = FIGURE

    told_of_labels: ClassVar[Mapping[str, Any]] = {
        "classes": {"description": "Labels as they stand in the data.", **LABELS}
    }
    told_of_rows: ClassVar[Mapping[str, Any]] = {
        "class_counts_train": {"description": "Training rows of each of the classes, in their order.", **COUNTS},
    }
    told: ClassVar[Mapping[str, Any]] = TOLD

    labels: list[Any] = field(default_factory=list)
    two_class: list[list[Any]] | None = None
    reading: Any = field(default=None, compare=False, repr=False)

    def as_json(self) -> dict[str, Any]:
        """Name, and what was found; how decisions are read is kept with the model."""
        return {"name": self.name, "labels": list(self.labels), "two_class": self.two_class}

    # What labels become.

    @classmethod
    def store(cls, labels: np.ndarray | None, n: int) -> tuple[np.ndarray, Found]:
        """Number of each label among those of the part, and these labels with the rows of each."""
        import numpy as np

        if n == 0:
            labels = np.zeros(0)
        assert labels is not None
        values, codes = _distinct(labels)
        if values.size > MOST_LABELS:
            raise ValueError(f"found more than {MOST_LABELS} different labels, expected classes{_or_numbers()}")
        plain = [plain_label(value) for value in values]
        return codes.astype(np.int32), {
            "labels": plain,
            "label_counts": np.bincount(codes, minlength=len(plain)).tolist(),
        }

    @classmethod
    def find(cls, found: Sequence[Found], asked: Asked) -> Self:
        if asked.two_class is not None:
            return cls([-1, 1], [list(side) for side in asked.two_class])
        labels = refuse_rounded(_all_labels(found))
        if len(labels) < 2:
            raise ValueError(f"found one class only ({labels[0]!r}), expected at least two")
        if asked.word == BINARY and len(labels) > 2:
            raise ValueError(f"{asked.said}: found {len(labels)} classes, expected two")
        fractional = [label for label in labels if isinstance(label, float)]
        if len(labels) > MOST_LABELS or (fractional and len(labels) > MOST_FRACTIONS and asked.word == "auto"):
            raise ValueError(
                f"found {len(labels)} different labels such as {(fractional or labels)[0]!r}, expected classes"
                f"{_or_numbers(f'--task {MULTICLASS} takes each number for a class')}"
            )
        return cls(labels)

    def class_of(self, label: Any) -> int | None:
        """Class number of a label as found; None for one that has none."""
        if self.two_class is not None:
            positive, negative = self.two_class
            return 1 if label in positive else 0 if label in negative else None
        return self.labels.index(label) if label in self.labels else None

    def targets(self, stored: np.ndarray, found: Found) -> np.ndarray:
        import numpy as np

        numbers = [self.class_of(label) for label in found["labels"]]
        by_code: np.ndarray = np.array([-1 if k is None else k for k in numbers], dtype=np.int32)
        return by_code[stored]

    def settled(self) -> Self:
        return type(self)(self.labels)

    def store_targets(self, targets: np.ndarray) -> tuple[np.ndarray, Found]:
        return targets, {"labels": self.labels}

    def encode(self, labels: np.ndarray | None, n: int) -> np.ndarray:
        import numpy as np

        if labels is None:
            return np.full(n, -1, dtype=np.int32)
        values, codes = np.unique(labels, return_inverse=True)  # however many
        return self.targets(codes, {"labels": [plain_label(value) for value in values]})

    def unknown(self, targets: np.ndarray) -> np.ndarray:
        return targets < 0

    def strangers(self, found: Sequence[Found]) -> list[Any]:
        return [label for label in _all_labels(found) if self.class_of(label) is None]

    @property
    def known(self) -> str:
        return ", ".join(repr(label) for label in self.labels[:10]) + (", ..." if len(self.labels) > 10 else "")

    @property
    def classes(self) -> list[Any]:
        return self.labels

    @property
    def outputs(self) -> int:
        return len(self.labels) if len(self.labels) > 2 else 1

    @property
    def loops(self) -> frozenset[str]:
        return frozenset({BINARY if len(self.labels) == 2 else MULTICLASS})

    def about(self) -> dict[str, Any]:
        return {"classes": self.labels}

    def census(self, targets: np.ndarray) -> list[int]:
        """Rows of each class."""
        import numpy as np

        counts: list[int] = np.bincount(targets, minlength=len(self.labels)).tolist()
        return counts

    def counted(self, censuses: Sequence[Any]) -> dict[str, Any]:
        total = [sum(counts) for counts in zip(*censuses, strict=True)]
        if sum(count > 0 for count in total) < 2:
            raise ValueError(
                "found training rows of one class only, expected at least two; give another --seed or split"
            )
        return {"class_counts_train": total}

    def encoding_outputs(self) -> tuple[list[str], float]:
        """The second of two classes; else every class, if they are few."""
        if len(self.labels) == 2:
            return [""], 1.0
        return ([f" {label}" for label in self.labels] if len(self.labels) <= MOST_ENCODED else []), 1.0

    def encoding_targets(self, targets: np.ndarray) -> np.ndarray:
        import numpy as np

        if len(self.labels) == 2:
            return (targets == 1).astype(np.int64)[:, None]
        return (targets[:, None] == np.arange(len(self.labels))).astype(np.int64)

    def lacking(self, targets: np.ndarray) -> str:
        missing = [label for label, count in zip(self.labels, self.census(targets), strict=True) if not count]
        return f"class {', '.join(repr(label) for label in missing[:5])}" if missing else ""

    # What decisions mean.

    def predict(self, decision: np.ndarray) -> np.ndarray:
        """Class numbers."""
        import numpy as np

        from ikmap.learners.linear_model import decision_to_index

        if self.reading is not None and decision.shape[1] == 1:
            found: np.ndarray = (decision[:, 0] >= self.reading.threshold).astype(np.int32)
            return found
        return decision_to_index(decision)

    def decode(self, predictions: np.ndarray) -> np.ndarray:
        import numpy as np

        return np.array(self.plain_labels)[predictions]

    @property
    def plain_labels(self) -> list[Any]:
        """Labels of one type: text if one of them is."""
        texts = any(isinstance(label, str) for label in self.labels)
        return [str(label) for label in self.labels] if texts else list(self.labels)

    @property
    def label_type(self) -> Literal["int64", "float64", "string"]:
        if all(isinstance(label, int) for label in self.labels):
            return "int64"
        return "string" if any(isinstance(label, str) for label in self.labels) else "float64"

    @property
    def columns(self) -> dict[str, str]:
        return {"prediction": self.label_type, "score": "float64", **dict.fromkeys(self._columns, "float64")}

    @property
    def _columns(self) -> list[str]:
        """Of probabilities."""
        return [f"probability_{label}" for label in self.labels] if self._has_probabilities else []

    def values(self, decision: np.ndarray) -> dict[str, np.ndarray]:
        """The class, its decision value (with two classes positive for the second one), and probabilities."""
        import numpy as np

        index = self.predict(decision)
        score = decision[:, 0] if decision.shape[1] == 1 else decision[np.arange(len(decision)), index]
        probability = self.probabilities(decision)
        each = {} if probability is None else dict(zip(self._columns, probability.T, strict=True))
        return {"prediction": self.decode(index), "score": score, **each}

    # How decisions are read.

    @property
    def reads(self) -> str:
        return ""

    def decided_by_threshold(self) -> str:
        return "" if len(self.labels) == 2 else f"{len(self.labels)} classes"

    @property
    def weighed_by(self) -> tuple[str, ...]:
        return ("accuracy", "roc_auc")

    def responses(self, decision: np.ndarray) -> dict[str, np.ndarray]:
        """Probabilities, where there are any, or decisions: with two classes those of the second, else of the first."""
        from ikmap.tasks.class_tally import MOST_CURVES

        probability = self.probabilities(decision)
        word, found = ("decision for", decision) if probability is None else ("probability of", probability)
        if len(self.labels) == 2:
            return {f"{word} {self.labels[1]}": found[:, -1]}
        return {f"{word} {label}": found[:, k] for k, label in enumerate(self.labels[:MOST_CURVES])}

    @property
    def most_evidence(self) -> int | None:
        from ikmap.tasks.class_decisions import MOST_NUMBERS

        return None if self.outputs == 1 else max(1, MOST_NUMBERS // self.outputs)

    @property
    def _evidence(self) -> Any:
        from ikmap.tasks.class_decisions import ClassDecisions
        from ikmap.tasks.class_scores import ClassScores

        return ClassScores if self.outputs == 1 else ClassDecisions

    def evidence(self, target: np.ndarray, decision: np.ndarray) -> Tally:
        return cast("Tally", self._evidence.of(target, decision))

    def evidence_from(self, values: Sequence[Any]) -> Tally:
        return cast("Tally", sum(map(self._evidence.from_json, values), self._evidence.none(self.outputs)))

    def read_by(self, reading: Any) -> Self:
        return replace(self, reading=reading)

    @property
    def _has_probabilities(self) -> bool:
        return self.reading is not None and self.reading.has_probabilities

    def probabilities(self, decision: np.ndarray) -> np.ndarray | None:
        if not self._has_probabilities:
            return None
        found: np.ndarray = self.reading.probabilities(decision)
        return found

    # How good they are.

    def judge(self, by: str = "") -> Judge:
        from ikmap.tasks.class_judges import Judges

        return Judges.of(self, by) if by in self.criteria else super().judge(by)

    @classmethod
    def figure_of(cls, by: str) -> Figure:
        from ikmap.tasks.class_judges import Judges

        return Judges.figure(by) if by in cls.criteria else cls.figure

    def tally(self, target: np.ndarray, decision: np.ndarray) -> ClassTally:
        from ikmap.tasks.class_tally import tally_of

        return tally_of(self, target, decision, None)

    def tally_at(self, target: np.ndarray, decision: np.ndarray, numbers: np.ndarray) -> ClassTally:
        from ikmap.tasks.class_tally import tally_of

        return tally_of(self, target, decision, numbers)

    def tally_from(self, values: Any) -> ClassTally:
        from ikmap.tasks.class_tally import ClassTally

        return ClassTally.from_json(values, len(self.labels), self.outputs)

    def figures(self, tally: ClassTally) -> dict[str, Any]:
        """Accuracy as a fraction; the confusion matrix (rows: true class, columns: predicted) and its labels; more."""
        accuracy = float(tally.right) / tally.rows if tally.rows else None
        counted = {"accuracy": accuracy, "confusion": tally.counts.tolist(), "labels": self.labels}
        return counted | tally.figures(self.labels)

    def row_scores(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """Which predictions are right."""
        right: np.ndarray = predicted == target
        return right

    def score(self, total: Any, rows: Any) -> Any:
        return total / rows

    def spread(self, row_scores: np.ndarray) -> float:
        if row_scores.dtype != bool:  # of rows that weigh differently
            return float(1.96 * row_scores.std() / row_scores.size**0.5)
        share = float(row_scores.mean())
        return float(1.96 * (share * (1 - share) / row_scores.size) ** 0.5)

    def narrowed(self, targets: np.ndarray) -> tuple[Self, np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """The same with those classes only that are there."""
        import numpy as np

        present = np.unique(targets)
        small = type(self)([self.labels[k] for k in present])
        return small, np.searchsorted(present, targets), lambda predicted: present[predicted]

    @property
    def constant(self) -> np.ndarray | None:
        import numpy as np

        return np.zeros(1, dtype=np.int32) if len(self.labels) < 2 else None

    # How it is reported.

    @classmethod
    def facts(cls, figures: Mapping[str, Any]) -> Sequence[tuple[str, Any, str]]:
        return [(words, figures.get(key), "number") for key, words in FACTS.items()]

    @classmethod
    def verdicts(cls, name: str, figures: Mapping[str, Any], metrics: Mapping[str, Any]) -> Sequence[Verdict]:
        """Say whether the learner is no better than a constant, misses a class, or has poor probabilities."""
        from ikmap.tasks.class_verdicts import class_verdicts

        return class_verdicts(name, figures, metrics)

    @classmethod
    def sections(cls, metrics: Mapping[str, Any]) -> Sequence[Section]:
        """The errors of every learner, the rows that are predicted worst, and curves."""
        from ikmap.tasks.class_sections import sections

        return sections(metrics)


def _distinct(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What `numpy.unique` gives, with the inverse; small whole numbers, the usual labels, need not be sorted for it."""
    import numpy as np

    if labels.dtype == np.float64 and labels.size and labels.min() >= 0 and labels.max() <= MOST_LABELS:
        whole = labels.astype(np.int64)
        if (whole == labels).all():
            present = np.bincount(whole) > 0
            return np.flatnonzero(present).astype(np.float64), (np.cumsum(present) - 1)[whole]
    values, codes = np.unique(labels, return_inverse=True)
    return values, codes


def _all_labels(found: Sequence[Found]) -> list[Any]:
    """Labels in any of the parts: numbers, then text."""
    counts: Counter[Any] = Counter()
    for part in found:
        counts.update(dict(zip(part["labels"], part["label_counts"], strict=True)))
    return sorted(counts, key=lambda label: (isinstance(label, str), label))


def _or_numbers(more: str = "") -> str:
    """What to do with labels that may be numbers to predict, in brackets."""
    from ikmap.tasks import TASKS

    one = TASKS.get("regression")
    known = "regression is not available yet"
    if one is not None:
        learner = f" --learner {one.usual_learner}" if one.usual_learner else ""
        known = f"--task {one.name}{learner} predicts them as numbers"
    return f" ({known})" if not more else f"; {known} ({more})"
