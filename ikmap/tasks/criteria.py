"""What cross-validation goes by: metrics that say of each row how well it is predicted, registered by name."""

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
    """What a fold that may lack classes is learned and judged by.

    Attributes
    ----------
    task : Task
        The task that the rows of the fold make by themselves.
    targets : ndarray
        Of the rows, in that task.
    criterion : Criterion
        Of that task.
    widen : callable
        Turns what the criterion of that task judges by into what the criterion of all rows judges by.
    constant : ndarray of shape (1,) or (1, K), or None
        What is judged of every row, where there is nothing to learn.
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

    def judged(self, decision: np.ndarray) -> np.ndarray:
        """Return what rows are judged by, of decisions of shape (n, K): predictions, or the decisions themselves."""
        return self.task.decisions.predict(decision)

    @abstractmethod
    def row_scores(self, target: np.ndarray, judged: np.ndarray) -> np.ndarray:
        """Return how well each row is predicted, bool or float64 of shape (n,): larger is better, and scores add up."""

    def score[N: (float, np.ndarray)](self, total: N, rows: N) -> N:
        """Return the value of the metric for rows whose scores add up to a total."""
        return total / rows if self.metric.higher_is_better else -total / rows

    def spread(self, row_scores: np.ndarray) -> float:
        """Return half the width of a 95% interval of the metric over so many rows."""
        if row_scores.dtype == bool:
            share = float(row_scores.mean())
            return float(1.96 * (share * (1 - share) / row_scores.size) ** 0.5)
        return float(1.96 * row_scores.std() / row_scores.size**0.5)

    def among(self, targets: np.ndarray) -> Narrowed:
        """Return what rows with these targets, of which a class may be missing, are learned and judged by."""
        import numpy as np

        classes = capability(self.task, HasClasses)
        if classes is None:
            return Narrowed(self.task, targets, self, lambda judged: judged, None)
        fewer = classes.narrowed(self.task, targets)
        constant = None if fewer.constant is None else np.array([fewer.constant], dtype=np.int32)
        return Narrowed(fewer.task, fewer.targets, type(self)(fewer.task), fewer.predictions, constant)


class ByDecisions(Criterion):
    """A criterion that judges by the decisions themselves."""

    def judged(self, decision: np.ndarray) -> np.ndarray:
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


def criteria_of(kind: TaskKind) -> list[type[Criterion]]:
    """Return the registered metrics of a kind of task, its main metric first."""
    names = {ancestor.name for ancestor in type(kind).__mro__ if "name" in vars(ancestor)}  # type: ignore[attr-defined]
    metrics = [one for one in METRICS.values() if one.tasks & names]
    main = kind.presenter.metric.key
    return sorted(metrics, key=lambda one: one.metric.key != main)


def criterion_of(task: Task, by: str = "") -> Criterion:
    """Return the criterion of a task by the key of its metric; by default that of the main metric."""
    return METRICS[by or task.kind.presenter.metric.key](task)


def metric_of(kind: TaskKind, by: str = "") -> Metric:
    """Return a metric of a kind of task by its key; the main one where the kind has none of that key."""
    known = {one.metric.key: one.metric for one in criteria_of(kind)}
    return known.get(by, kind.presenter.metric)


def drift_losses(task: Task, target: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return how bad each prediction is, in [0, 1], by which drift is noticed.

    Scores below 0 go to 1 as they fall. Where the main metric does not rank learners, its share is watched.
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
