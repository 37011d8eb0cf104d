"""Metrics of a task for stages: those of its scorer, and registered metrics that the scorer does not report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from ikmap.json_values import Json, JsonObject, list_of, mapping_of
from ikmap.tasks.criteria import METRICS, ComparesRows, Criterion, OfSums, adds_up, criteria_of
from ikmap.tasks.metric import nullable
from ikmap.tasks.task import MetricState, SummaryLine, Task, TaskKind

if TYPE_CHECKING:
    import numpy as np

    from ikmap.tasks.exact_sums import ExactSum

OWN, REGISTERED = "task", "metrics"
"""Fields of a record that has the sums of registered metrics beside the state of the scorer."""


@dataclass(frozen=True, eq=False)
class RegisteredState:
    """The state of a scorer, and exact sums of the row scores of registered metrics.

    Attributes
    ----------
    own : MetricState
    task : Task
    sums : mapping of str to tuple of ExactSum
        Sums by the key of the metric: of its row scores, or of its terms (:class:`~ikmap.tasks.criteria.OfSums`). A
        metric that was registered later, and that some record lacks, is left out.
    """

    own: MetricState
    task: Task
    sums: Mapping[str, tuple[ExactSum, ...]]

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.own.rows

    def __add__(self, other: Self) -> Self:
        own = self.own + other.own
        if not self.rows or not other.rows:
            return type(self)(own, self.task, other.sums if other.rows else self.sums)
        sums = {
            key: tuple(total + more for total, more in zip(totals, other.sums[key], strict=True))
            for key, totals in self.sums.items()
            if key in other.sums
        }
        return type(self)(own, self.task, sums)

    def as_json(self) -> dict[str, Json]:
        """Return the state for a record."""
        sums = {key: [total.as_json() for total in totals] for key, totals in self.sums.items()}
        return {OWN: self.own.as_json(), REGISTERED: sums}

    def metrics(self) -> dict[str, Json]:
        """Return the fields of the scorer, and the value of each registered metric.

        None stands for a metric that cannot be known block by block, such as one by probabilities of decisions that are
        no probabilities.
        """
        values: dict[str, Json] = {
            kind.metric.key: None
            for kind in registered(self.task.kind)
            if not self.rows or not adds_up(kind(self.task))
        }
        for key, totals in self.sums.items():
            values[key] = _value(METRICS[key](self.task), [float(total) for total in totals], self.rows)
        return {**self.own.metrics(), **values}


def _value(criterion: Criterion, sums: Sequence[float], rows: int) -> float | None:
    if not rows:
        return None
    if isinstance(criterion, OfSums):
        import numpy as np

        return criterion.value(np.array(sums), rows)
    (total,) = sums
    return criterion.score(total, float(rows))


def _sums_of(criterion: Criterion, target: np.ndarray, decision: np.ndarray) -> tuple[ExactSum, ...]:
    from ikmap.tasks.exact_sums import ExactSum

    predicted = criterion.scored_values(decision)
    if isinstance(criterion, OfSums):
        return tuple(ExactSum.of(column) for column in criterion.terms(target, predicted).T)
    return (ExactSum.of(criterion.row_scores(target, predicted)),)


def registered(kind: TaskKind) -> list[type[Criterion]]:
    """Return the metrics of a kind of task that are accumulated beside those that its scorer reports.

    A metric whose row scores depend on other rows, and that is not made of sums, does not add up: only a search can use
    it.
    """
    reported = {kind.presenter.metric.key, *kind.presenter.schema.learner}
    return [
        criterion
        for criterion in criteria_of(kind)
        if criterion.metric.key not in reported
        and (issubclass(criterion, OfSums) or not issubclass(criterion, ComparesRows))
    ]


def accumulate(task: Task, target: np.ndarray, decision: np.ndarray, numbers: np.ndarray | None = None) -> MetricState:
    """Return the accumulated metrics of some rows, as :meth:`~ikmap.tasks.task.Scorer.accumulate` does."""
    own, criteria = task.scorer.accumulate(target, decision, numbers), [kind(task) for kind in registered(task.kind)]
    if not criteria:
        return own
    sums = {item.metric.key: _sums_of(item, target, decision) for item in criteria if adds_up(item)}
    return RegisteredState(own, task, sums)


def state_from(task: Task, values: Json) -> MetricState:
    """Return the state that a record has, or the state of no rows for None."""
    from ikmap.tasks.exact_sums import ExactSum

    record = mapping_of(values)
    wrapped = OWN in record and REGISTERED in record
    own, metrics = task.scorer.state_from(record[OWN] if wrapped else values), registered(task.kind)
    if not metrics:
        return own
    sums = mapping_of(record.get(REGISTERED))
    totals = {
        key: tuple(ExactSum.from_json(list_of(total)) for total in _several(list_of(sums[key])))
        for key in (criterion.metric.key for criterion in metrics)
        if key in sums
    }
    return RegisteredState(own, task, totals)


def _several(sums: Sequence[Json]) -> Sequence[Json]:
    """Return the sums of a metric; earlier versions recorded a single sum, as its digits and zeros."""
    return [sums] if sums and isinstance(sums[0], str) else sums


def total(task: Task, records: Iterable[Json]) -> MetricState:
    """Return the sum of the states that records have, in their order."""
    state = state_from(task, None)
    for values in records:
        state = state + state_from(task, values)
    return state


def summary(kind: TaskKind, learner: JsonObject) -> list[SummaryLine]:
    """Return the metrics that tables of learners show beside the main one: name, value and unit."""
    metrics = [criterion.metric for criterion in registered(kind)]
    lines = [(metric.name, learner.get(metric.key), metric.unit) for metric in metrics]
    return [*kind.presenter.summary(learner), *lines]


def metrics_schema(kind: TaskKind) -> dict[str, JsonObject]:
    """Return the JSON Schema of each metric of a learner, beside the main one."""
    schemas = {criterion.metric.key: nullable(criterion.metric) for criterion in registered(kind)}
    return {**kind.presenter.schema.learner, **schemas}
