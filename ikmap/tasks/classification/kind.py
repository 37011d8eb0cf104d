"""Classification as a kind of task: labels are classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from ikmap.json_values import Json, JsonObject, Label, labels_of, list_of, plain_label
from ikmap.tasks.bad_label import refuse_rounded
from ikmap.tasks.capabilities import (
    Calibratable,
    Calibration,
    Evidence,
    FewerClasses,
    HasClasses,
    NeedsLoops,
    Thresholds,
)
from ikmap.tasks.classification.presenter import ClassPresenter
from ikmap.tasks.registry import AUTO, TASKS
from ikmap.tasks.task import Codec, LabelRequest, LabelRules, PartLabels, Presenter, Task, TaskKind, Usual

if TYPE_CHECKING:
    import numpy as np

MOST_LABELS = 1000
MOST_FRACTIONS = 20
"""Largest number of different labels, one of them a fraction, that are taken for classes unless the user says so."""
BINARY, MULTICLASS = "binary", "multiclass"


class Classification(TaskKind, NeedsLoops, Calibratable, Thresholds, HasClasses):
    """Two classes or more. Labels are numbers or words."""

    name: ClassVar[str] = "classification"
    words: ClassVar[tuple[str, ...]] = (BINARY, MULTICLASS)
    labels: ClassVar[LabelRules] = LabelRules(choose=True)
    usual: ClassVar[Usual] = Usual(learner="logistic", criterion="log_loss")
    presenter: ClassVar[Presenter] = ClassPresenter()
    all_loops: ClassVar[frozenset[str]] = frozenset({BINARY, MULTICLASS})

    def of(self, labels: Sequence[Label], two_class: Sequence[Sequence[Label]] | None = None) -> Task:
        """Return the task of classes in the order of their numbers; `two_class` has the labels of +1 and of -1."""
        from ikmap.tasks.classification.codec import ClassCodec
        from ikmap.tasks.classification.decisions import ClassDecisions
        from ikmap.tasks.classification.scorer import ClassScorer

        classes, signs = list(labels), None if two_class is None else [list(sign) for sign in two_class]
        decisions = ClassDecisions(classes)
        return Task(self, ClassCodec(classes, signs), decisions, ClassScorer(decisions))

    def read(self, labels: np.ndarray | None, n: int) -> tuple[np.ndarray, PartLabels]:
        """Return the number of each label among the labels of the part, and these labels with their counts."""
        import numpy as np

        if n == 0:
            labels = np.zeros(0)
        assert labels is not None
        return self.numbered(*distinct(labels))

    def numbered(self, values: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, PartLabels]:
        """Return what :meth:`read` returns, of labels of which the different ones are known (:func:`distinct`)."""
        import numpy as np

        if values.size > MOST_LABELS:
            instead = _instead(values.tolist())
            raise ValueError(f"found more than {MOST_LABELS} different labels, expected classes; {instead}")
        plain = [plain_label(value) for value in values]
        return codes.astype(np.int32), {
            "labels": plain,
            "label_counts": np.bincount(codes, minlength=len(plain)).tolist(),
        }

    def find(self, parts: Sequence[PartLabels], request: LabelRequest) -> Task:
        from ikmap.tasks.classification.codec import all_labels

        if request.two_class is not None:
            return self.of([-1, 1], request.two_class)
        labels = refuse_rounded(all_labels(parts))
        if len(labels) < 2:
            raise ValueError(f"found one class only ({labels[0]!r}), expected at least two")
        if request.word == BINARY and len(labels) > 2:
            raise ValueError(f"{request.source}: found {len(labels)} classes, expected two")
        fractional = [label for label in labels if isinstance(label, float)]
        if len(labels) > MOST_LABELS or (fractional and len(labels) > MOST_FRACTIONS and request.word == AUTO):
            raise ValueError(
                f"found {len(labels)} different labels such as {(fractional or labels)[0]!r}, expected classes; "
                f"{_instead(labels)}"
            )
        return self.of(labels)

    def from_json(self, values: JsonObject) -> Task:
        signs = values.get("two_class")
        two_class = None if signs is None else [labels_of(sign) for sign in list_of(signs)]
        return self.of(labels_of(values["labels"]), two_class)

    # Capabilities

    def loops(self, codec: Codec) -> frozenset[str]:
        return frozenset({BINARY if len(codec.classes) == 2 else MULTICLASS})

    def evidence(self, task: Task, target: np.ndarray, decision: np.ndarray) -> Evidence:
        from ikmap.tasks.classification.class_scores import ClassScores
        from ikmap.tasks.classification.evidence import DecisionEvidence

        if task.decisions.outputs == 1:
            return ClassScores.of(target, decision)
        return DecisionEvidence.of(target, decision)

    def evidence_from(self, task: Task, values: Sequence[Json]) -> Evidence:
        from ikmap.tasks.classification.class_scores import ClassScores
        from ikmap.tasks.classification.evidence import DecisionEvidence

        outputs = task.decisions.outputs
        if outputs == 1:
            return sum(map(ClassScores.from_json, values), ClassScores.none(outputs))
        return sum(map(DecisionEvidence.from_json, values), DecisionEvidence.none(outputs))

    def calibrated(self, task: Task, calibration: Calibration | None) -> Task:
        from ikmap.tasks.classification.decisions import ClassDecisions
        from ikmap.tasks.classification.scorer import ClassScorer

        decisions = ClassDecisions(task.codec.classes, calibration)
        return Task(task.kind, task.codec, decisions, ClassScorer(decisions))

    def threshold_refusal(self, codec: Codec) -> str:
        return "" if len(codec.classes) == 2 else f"{len(codec.classes)} classes"

    def most_evidence(self, task: Task) -> int | None:
        from ikmap.tasks.classification.evidence import MOST_NUMBERS

        outputs = task.decisions.outputs
        return None if outputs == 1 else max(1, MOST_NUMBERS // outputs)

    def narrowed(self, task: Task, targets: np.ndarray) -> FewerClasses:
        import numpy as np

        present = np.unique(targets)
        small = self.of([task.codec.classes[k] for k in present])
        return FewerClasses(
            small,
            np.searchsorted(present, targets),
            lambda predicted: present[predicted],
            widening(present.tolist(), len(task.codec.classes), task.decisions.outputs),
            0 if present.size < 2 else None,
        )


def widening(present: list[int], classes: int, outputs: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return a function that turns decisions between the present classes into decisions between all classes.

    Parameters
    ----------
    present : list of int
        Numbers of the present classes.
    classes, outputs : int
        Number of all classes, and of the columns of decisions between them.
    """
    import numpy as np

    def widen(decision: np.ndarray) -> np.ndarray:
        if len(present) == classes:
            return decision
        if len(present) == 1:
            decision = np.zeros((len(decision), 1))
        elif decision.shape[1] == 1:  # the decision of the first of two classes is the opposite of that of the second
            decision = np.column_stack([-decision[:, 0], decision[:, 0]])
        if outputs == 1:
            return decision if present == [1] else decision - 1.0
        least = decision.min(initial=0.0) - 1.0
        wide = np.full((len(decision), outputs), least)
        wide[:, present] = decision
        return wide

    return widen


def distinct(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the result of `numpy.unique` with the inverse, without sorting if labels are small whole numbers."""
    import numpy as np

    if labels.dtype == np.float64 and labels.size and labels.min() >= 0 and labels.max() <= MOST_LABELS:
        whole = labels.astype(np.int64)
        if (whole == labels).all():
            present = np.bincount(whole) > 0
            return np.flatnonzero(present).astype(np.float64), (np.cumsum(present) - 1)[whole]
    values, codes = np.unique(labels, return_inverse=True)
    return values, codes


def _instead(labels: Sequence[Label]) -> str:
    """Return what to type where labels are too many for classes."""
    if any(isinstance(label, str) for label in labels):
        return "--label names another column"
    kind = TASKS["regression"]
    numbers = f"--task {kind.name} --learner {kind.usual.learner} predicts them as numbers"
    return numbers if len(labels) > MOST_LABELS else f"{numbers} (--task {MULTICLASS} takes each number for a class)"


CLASSIFICATION = Classification()
