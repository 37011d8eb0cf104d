"""What a search over classifiers may go by beside accuracy: each as a mean over rows, so that races can compare.

A fold is judged as a whole: what a row counts depends on the other rows of its fold, and what folds say is averaged
over their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.stats import rankdata

from ikmap.tasks.class_decisions import ClassDecisions
from ikmap.tasks.class_scores import ClassScores
from ikmap.tasks.figure import Figure
from ikmap.tasks.probability_tally import LEAST
from ikmap.tasks.reading import PLATT, read_as

if TYPE_CHECKING:
    from ikmap.tasks.classification import Classification


@dataclass(frozen=True)
class ClassJudge:
    """Base: judges by the decisions themselves.

    Attributes
    ----------
    task : Classification
    figure : Figure
    """

    task: Classification
    figure: Figure
    row_by_row: ClassVar[bool] = False
    """Whether what a row counts depends on no other row: then rows can weigh differently."""

    @property
    def classes(self) -> list[Any]:
        """Labels by class number."""
        return self.task.classes

    def predict(self, decision: np.ndarray) -> np.ndarray:
        """Decisions, shape (n, K)."""
        return decision

    def row_scores(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """What each row of a fold adds to the figure, float64: larger is better."""
        raise NotImplementedError

    def score(self, total: Any, rows: Any) -> Any:
        """The figure, of what the scores of so many rows add up to."""
        return total / rows if self.figure.higher_is_better else -total / rows

    def spread(self, row_scores: np.ndarray) -> float:
        """Half the width of a 95% interval."""
        return float(1.96 * row_scores.std() / row_scores.size**0.5)

    @property
    def constant(self) -> np.ndarray | None:
        """Shape (1, K), where there is nothing to learn."""
        return None if self.task.constant is None else np.zeros((1, 1))

    def narrowed(self, targets: np.ndarray) -> tuple[Any, np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """The same for the classes that are there, and what turns decisions between these into ours."""
        small, targets, _ = self.task.narrowed(targets)
        there = [self.task.labels.index(label) for label in small.labels]
        outputs = self.task.outputs

        def ours(decision: np.ndarray) -> np.ndarray:
            if len(there) == len(self.task.labels):
                return decision
            if len(there) == 1:
                decision = np.zeros((len(decision), 1))
            elif decision.shape[1] == 1:  # of two classes: the first has the opposite
                decision = np.column_stack([-decision[:, 0], decision[:, 0]])
            if outputs == 1:
                return decision if there == [1] else decision - 1.0
            least = decision.min(initial=0.0) - 1.0
            found = np.full((len(decision), outputs), least)
            found[:, there] = decision
            return found

        return replace(self, task=small), targets, ours


class BalancedAccuracy(ClassJudge):
    """Mean recall: a row counts by the inverse of its class's share of the fold."""

    def predict(self, decision: np.ndarray) -> np.ndarray:
        """Class numbers."""
        return self.task.predict(decision)

    @property
    def constant(self) -> np.ndarray | None:
        return self.task.constant

    def narrowed(self, targets: np.ndarray) -> tuple[Any, np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        small, targets, ours = self.task.narrowed(targets)
        return replace(self, task=small), targets, ours

    def row_scores(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        counts = np.bincount(target)
        weight = target.size / (np.count_nonzero(counts) * counts[target])
        found: np.ndarray = weight * (predicted == target)
        return found


class Area(ClassJudge):
    """Area under the ROC curve, of more classes the mean over each against the rest.

    A row adds the area, and how far its placement (the share of the rows of the other kind on the right side of it)
    lies from the mean, by the inverse of its kind's share. The mean over the rows is the area itself; the squares of
    differences between two learners add up to the variance of DeLong's test, by which a race compares them.
    Source: E. R. DeLong, D. M. DeLong, D. L. Clarke-Pearson, "Comparing the areas under two or more correlated receiver
    operating characteristic curves", Biometrics 44, 1988.
    """

    def row_scores(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        outputs = predicted.shape[1]
        own = target[:, None] == (np.arange(outputs) if outputs > 1 else np.array([1]))
        parts = [_parts_of_area(own[:, k], predicted[:, k]) for k in range(outputs) if 0 < own[:, k].sum() < len(own)]
        return np.mean(parts, axis=0) if parts else np.full(target.size, 0.5)


def _parts_of_area(own: np.ndarray, values: np.ndarray) -> np.ndarray:
    ranks = rankdata(values)
    found = np.empty(own.size)
    n_own, n = int(own.sum()), own.size
    for kind, others in ((own, n - n_own), (~own, n_own)):
        within = rankdata(values[kind])
        below = (ranks[kind] - within) / others  # share of the other kind below, ties for half
        found[kind] = below
    found[~own] = 1.0 - found[~own]
    area = float(found[own].mean())
    share = np.where(own, n_own, n - n_own) / n
    parts: np.ndarray = area + (found - area) / share
    return parts


class OfProbabilities(ClassJudge):
    """Base: judges by probabilities.

    They are those of the task, if it says how decisions become probabilities (log odds are probabilities already);
    otherwise they are found by Platt's method, fitted to the rows of the fold that are judged. The latter fits two
    numbers for each class to rows that then are judged; that is the same for all candidates.
    """

    row_by_row = True

    def _probabilities(self, target: np.ndarray, decision: np.ndarray) -> np.ndarray:
        offered = self.task.probabilities(decision)
        if offered is not None:
            return offered
        kind = ClassScores if decision.shape[1] == 1 else ClassDecisions
        return read_as(PLATT, kind.of(target, decision)).probabilities(decision)


class LogLoss(OfProbabilities):
    """Mean logarithm of the probability of the class that a row has."""

    def row_scores(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        own = self._probabilities(target, predicted)[np.arange(target.size), target]
        found: np.ndarray = np.log(np.maximum(own, LEAST))
        return found


class Brier(OfProbabilities):
    """Squared error of probabilities: with two classes of the second's, with more the sum over all."""

    def row_scores(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        probability = self._probabilities(target, predicted)
        own = probability[np.arange(target.size), target]
        if probability.shape[1] == 2:
            return -((1.0 - own) ** 2)
        found: np.ndarray = -((probability**2).sum(axis=1) - own**2 + (1.0 - own) ** 2)
        return found


@dataclass(frozen=True)
class _Kind:
    make: type[ClassJudge]
    unit: Any
    words: str
    higher: bool = True
    name: str = ""


class Judges:
    """All of them, by the key of their figure."""

    KINDS: ClassVar[Mapping[str, _Kind]] = MappingProxyType(
        {
            "balanced_accuracy": _Kind(BalancedAccuracy, "share", "Mean recall of the classes"),
            "roc_auc": _Kind(Area, "share", "Area under the ROC curve", name="ROC AUC"),
            "log_loss": _Kind(LogLoss, "number", "Mean log loss", higher=False),
            "brier": _Kind(Brier, "number", "Mean squared error of probabilities", higher=False, name="Brier score"),
        }
    )

    @classmethod
    def of(cls, task: Classification, by: str) -> ClassJudge:
        """The one with that key."""
        return cls.KINDS[by].make(task, cls.figure(by))

    @classmethod
    def figure(cls, by: str) -> Figure:
        """Of the one with that key."""
        kind = cls.KINDS[by]
        lower = kind.words[:1].lower() + kind.words[1:]
        return Figure(
            key=by,
            unit=kind.unit,
            of_test=f"{lower} on {{rows}} test rows ({{which}})",
            of_stream=f"{lower} on the rows of the stream",
            so_far=kind.words,
            lead=f"has a {lower} of {{value}} on {{rows}}",
            lead_of_stream=f"had a {lower} of {{value}} on {{rows}}",
            table=kind.words,
            higher_is_better=kind.higher,
            name=kind.name,
        )
