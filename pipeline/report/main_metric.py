"""The main metric of a run's task, such as accuracy: read from a metrics dict, and written for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ikmap.tasks import Metric, metric_of, task_of
from pipeline.report.fields import Metrics, get_mapping, get_number, get_points, get_text
from pipeline.report.text import MISSING, percent


class Lead(NamedTuple):
    """The first sentence of a report: the best learner and its metric, which stand out, and the words around them."""

    best: str
    before: str
    value: str
    after: str

    @classmethod
    def of(cls, form: str, best: str, value: str, rows: str, end: str) -> Lead:
        """Fill in the sentence of a task, as `Sentences.lead`."""
        before, _, after = form.partition("{value}")
        return cls(best, before.format(rows=rows), value, after.format(rows=rows) + end)


def main_metric(metrics: Metrics) -> Metric:
    """Return the main metric of the run's task."""
    return task_of(metrics).presenter.metric


def searched_by(metrics: Metrics, name: str) -> Metric:
    """Return the metric that cross-validation went by for a learner: mostly that of the task."""
    selection = get_mapping(metrics, "selection")
    by = selection.get("by")
    return metric_of(task_of(metrics), by if isinstance(by, str) else get_text(by, name))


def title_of(metric: Metric) -> str:
    """Return the name of a metric for a heading."""
    return metric.name[:1].upper() + metric.name[1:]


def is_possible(metric: Metric, value: float) -> bool:
    """Return whether a metric can have a value."""
    return metric.unit != "share" or 0 <= value <= 1


def get_value(record: object, metric: Metric) -> float | None:
    """Return the value of a metric in a record if it is a possible one, else None."""
    value = get_number(record, metric.key)
    return value if value is not None and is_possible(metric, value) else None


def get_curve(record: Mapping[str, object], metric: Metric) -> list[tuple[float, float]]:
    """Return the points (rows, value) of a learner's curve."""
    points = get_points(get_mapping(record, "curve"), "rows", metric.key)
    return [(x, y) for x, y in points if is_possible(metric, y)]


def shown(value: float | None, unit: str, digits: int = 1) -> str:
    """Return a value for people: a share as a percentage with `digits` digits, a number as it is."""
    if value is None:
        return MISSING
    return percent(value, digits) if unit == "share" else f"{value:.4g}"
