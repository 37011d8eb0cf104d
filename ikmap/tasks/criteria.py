"""Criteria of cross-validation: metrics that score each row, registered by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ikmap.tasks.capabilities import HasClasses, capability
from ikmap.tasks.metric import Metric
from ikmap.tasks.task import Task, TaskKind

if TYPE_CHECKING:
    import numpy as np

METRICS: dict[str, type[Criterion]] = {}
"""All registered metrics, by the key of each."""


@dataclass(frozen=True, eq=False)
class Narrowed:
    """The task, targets and criterion of a fold that may lack classes.

    Attributes
    ----------
    task : Task
        The task that the rows of the fold make by themselves.
    targets : ndarray
        Targets of the rows, in that task.
    criterion : Criterion
        Criterion of that task.
    widen : callable
        Turns the values that the criterion of that task scores into the values that the criterion of all rows scores.
    constant : ndarray of shape (1,) or (1, K), or None
        The value that is scored for every row, where there is nothing to learn.
    """

    task: Task
    targets: np.ndarray
    criterion: Criterion
    widen: Callable[[np.ndarray], np.ndarray]
    constant: np.ndarray | None


@dataclass(frozen=True)
class Criterion(ABC):
    """A metric of a task that is a mean over rows, so that folds add up and races compare candidates row by row.

    A subclass is registered by :func:`ikmap.tasks.register`. It gives ``metric``, ``tasks`` and :meth:`row_scores`.

    Attributes
    ----------
    metric : Metric
    tasks : frozenset of str
        Names of the kinds of task that have the metric; kinds derived from these have it too.
    task : Task
    """

    metric: ClassVar[Metric]
    tasks: ClassVar[frozenset[str]]

    task: Task

    def scored_values(self, decision: np.ndarray) -> np.ndarray:
        """Return the values that :meth:`row_scores` scores, from decisions of shape (n, K): here the predictions."""
        return self.task.decisions.predict(decision)

    @abstractmethod
    def row_scores(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """Return how well each row is predicted, bool or float64 of shape (n,): larger is better, and scores add up."""

    def score[N: (float, np.ndarray)](self, total: N, rows: N) -> N:
        """Return the value of the metric for rows whose scores add up to a total."""
        return total / rows if self.metric.higher_is_better else -total / rows

    def spread(self, row_scores: np.ndarray) -> float:
        """Return half the width of a 95% interval of the metric over rows with these scores."""
        if row_scores.dtype == bool:
            share = float(row_scores.mean())
            return float(1.96 * (share * (1 - share) / row_scores.size) ** 0.5)
        return float(1.96 * row_scores.std() / row_scores.size**0.5)

    def among(self, targets: np.ndarray) -> Narrowed:
        """Return the task and criterion of rows with these targets, among which a class may be missing."""
        import numpy as np

        classes = capability(self.task, HasClasses)
        if classes is None:
            return Narrowed(self.task, targets, self, lambda predicted: predicted, None)
        fewer = classes.narrowed(self.task, targets)
        constant = None if fewer.constant is None else np.array([fewer.constant], dtype=np.int32)
        return Narrowed(fewer.task, fewer.targets, type(self)(fewer.task), fewer.predictions, constant)


class ByDecisions(Criterion):
    """A criterion that scores the decisions themselves."""

    def scored_values(self, decision: np.ndarray) -> np.ndarray:
        """Return the decisions, shape (n, K)."""
        return decision

    def among(self, targets: np.ndarray) -> Narrowed:
        import numpy as np

        classes = capability(self.task, HasClasses)
        if classes is None:
            return super().among(targets)
        fewer = classes.narrowed(self.task, targets)
        constant = None if fewer.constant is None else np.zeros((1, 1))
        return Narrowed(fewer.task, fewer.targets, type(self)(fewer.task), fewer.decisions, constant)


class ComparesRows:
    """Marks a criterion whose score of a row depends on the other rows, so that rows cannot be weighted one by one."""


class FitsRows(ABC):
    """A criterion that may have to fit something to the rows before it scores them."""

    @property
    @abstractmethod
    def fits_rows(self) -> bool:
        """True if the criterion has to fit something in its task."""


class OfSums(ABC):
    """A criterion whose metric is a function of several sums over rows, such as a ratio of two of them."""

    @abstractmethod
    def terms(self, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
        """Return the numbers to be summed, float64 of shape (n, k), from what :meth:`Criterion.row_scores` is given."""

    @abstractmethod
    def value(self, sums: np.ndarray, rows: int) -> float:
        """Return the metric from the sums of the terms, shape (k,), over so many rows."""


def adds_up(criterion: Criterion) -> bool:
    """Return whether sums over blocks of rows make the metric: nothing is fitted to rows, or compared among them."""
    if isinstance(criterion, FitsRows) and criterion.fits_rows:
        return False
    return isinstance(criterion, OfSums) or not isinstance(criterion, ComparesRows)


def criteria_of(kind: TaskKind) -> list[type[Criterion]]:
    """Return the registered metrics of a kind of task, its main metric first."""
    names = {ancestor.name for ancestor in type(kind).__mro__ if "name" in vars(ancestor)}  # type: ignore[attr-defined]
    criteria = [criterion for criterion in METRICS.values() if criterion.tasks & names]
    main = kind.presenter.metric.key
    return sorted(criteria, key=lambda criterion: criterion.metric.key != main)


def criterion_of(task: Task, by: str = "") -> Criterion:
    """Return the criterion of a task by the key of its metric; by default that of the main metric."""
    return METRICS[by or task.kind.presenter.metric.key](task)


def metric_of(kind: TaskKind, by: str = "") -> Metric:
    """Return a metric of a kind of task by its key; the main one where the kind has none of that key."""
    known = {criterion.metric.key: criterion.metric for criterion in criteria_of(kind)}
    return known.get(by, kind.presenter.metric)


def drift_losses(task: Task, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return a loss in [0, 1] for each prediction, for the detection of drift.

    The loss of a negative score goes to 1 as the score falls. If the main metric does not rank learners, its row scores
    are the losses.
    """
    import numpy as np

    criterion = criterion_of(task)
    scores = criterion.row_scores(target, predicted)
    if not criterion.metric.ranks:
        return scores.astype(float)
    if scores.dtype == np.bool_:
        return 1.0 - scores
    off = np.maximum(0.0, -scores)
    return off / (1.0 + off)
