"""The main figure of a run's task, such as accuracy: read from a metrics dict, and written for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ikmap.tasks import Figure, task_of
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
        """Fill in the sentence of a task, as `Figure.lead`."""
        before, _, after = form.partition("{value}")
        return cls(best, before.format(rows=rows), value, after.format(rows=rows) + end)


def figure_of(metrics: Metrics) -> Figure:
    """That of the run's task."""
    return task_of(metrics).figure


def searched_by(metrics: Metrics, name: str) -> Figure:
    """Return the figure that cross-validation went by for a learner: mostly that of the task."""
    selection = get_mapping(metrics, "selection")
    by = selection.get("by")
    return task_of(metrics).figure_of(by if isinstance(by, str) else get_text(by, name))


def is_possible(figure: Figure, value: float) -> bool:
    """Whether the figure can have this value."""
    return figure.unit != "share" or 0 <= value <= 1


def get_value(record: object, figure: Figure) -> float | None:
    """What a record has for the figure, where that is possible, else None."""
    value = get_number(record, figure.key)
    return value if value is not None and is_possible(figure, value) else None


def get_curve(record: Mapping[str, object], figure: Figure) -> list[tuple[float, float]]:
    """Points (rows, value) of a learner's curve."""
    points = get_points(get_mapping(record, "curve"), "rows", figure.key)
    return [(x, y) for x, y in points if is_possible(figure, y)]


def shown(value: float | None, unit: str, digits: int = 1) -> str:
    """A value for people: a share as a percentage with so many digits, a number as it is."""
    if value is None:
        return MISSING
    return percent(value, digits) if unit == "share" else f"{value:.4g}"
