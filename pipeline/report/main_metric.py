"""The main figure of a run's task, such as accuracy: read from a metrics dict, and written for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ikmap.tasks import Metric, metric_of, task_of
from pipeline.report.fields import Metrics, get_mapping, get_number, get_points, get_text
from pipeline.report.text import MISSING, percent


class Lead(NamedTuple):
    """The first sentence of a report: the best learner and what it reached, which stand out, and the words around."""

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
    """Return the figure that cross-validation went by for a learner: mostly that of the task."""
    selection = get_mapping(metrics, "selection")
    by = selection.get("by")
    return metric_of(task_of(metrics), by if isinstance(by, str) else get_text(by, name))


def title_of(metric: Metric) -> str:
    """Return the name of a metric for a heading."""
    return metric.name[:1].upper() + metric.name[1:]


def is_possible(figure: Metric, value: float) -> bool:
    """Whether the figure can have this value."""
    return figure.unit != "share" or 0 <= value <= 1


def get_value(record: object, figure: Metric) -> float | None:
    """What a record has for the figure, where that is possible, else None."""
    value = get_number(record, figure.key)
    return value if value is not None and is_possible(figure, value) else None


def get_curve(record: Mapping[str, object], figure: Metric) -> list[tuple[float, float]]:
    """Points (rows, value) of a learner's curve."""
    points = get_points(get_mapping(record, "curve"), "rows", figure.key)
    return [(x, y) for x, y in points if is_possible(figure, y)]


def shown(value: float | None, unit: str, digits: int = 1) -> str:
    """A value for people: a share as a percentage with so many digits, a number as it is."""
    if value is None:
        return MISSING
    return percent(value, digits) if unit == "share" else f"{value:.4g}"
