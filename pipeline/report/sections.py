"""Turn the sections of the run's task (:mod:`ikmap.tasks.sections`) into HTML."""

from __future__ import annotations

from markupsafe import Markup

from ikmap.tasks import task_of
from ikmap.tasks.sections import Confusion, Lines, Part, Table, Text
from ikmap.tasks.weighted import weighted_sections
from pipeline.report.charts import ChartWords, Series, line_chart
from pipeline.report.confusion import SHARES_UP_TO, confusion_block
from pipeline.report.fields import Metrics, get_mapping, number
from pipeline.report.rendering import render
from pipeline.report.scores import confusion_of, training_counts
from pipeline.report.text import brief

NARROW = 4
"""Most columns of a table for which half the page is enough."""


def task_sections(metrics: Metrics) -> str:
    """Return all sections of the task."""
    sections = []
    for section in [*weighted_sections(metrics), *task_of(metrics).presenter.sections(metrics)]:
        parts = [_html(f"{section.key}-{i}", part, metrics) for i, part in enumerate(section.parts)]
        if any(parts):
            kind = "pair" if len(section.parts) > 1 and all(map(_is_narrow, section.parts)) else "stack"
            sections.append(render("parts.html", key=section.key, title=section.title, kind=kind, parts=parts))
    return Markup("\n").join(sections)


def _is_narrow(part: Part) -> bool:
    """Return whether a part needs no more than half the page; a paragraph stands above wider parts."""
    match part:
        case Confusion(_, labels, _):
            return len(labels) <= SHARES_UP_TO
        case Table(_, head, _):
            return len(head) <= NARROW
        case _:
            return True


def _html(key: str, part: Part, metrics: Metrics) -> str:
    match part:
        case Text(text):
            return text
        case Table(title, head, rows):
            cells = [[_cell(value) for value in row] for row in rows]
            return render("table.html", name=title, head=head, rows=cells, kind="", texts=0)
        case Lines():
            return lines_figure(key, part)
        case Confusion(learner, labels, counts):
            confusion = confusion_of({"confusion": counts}, list(labels))
            trained = training_counts(get_mapping(metrics, "data"))
            return confusion_block(key, learner, confusion, trained) if confusion else ""


def _cell(value: object) -> str:
    known = number(value)
    return str(value) if known is None else brief(known)


def lines_figure(key: str, part: Lines) -> str:
    """Draw a chart with its legend; `key` is unique on the page."""
    series = [Series(name, sorted(points), i) for i, (name, points) in enumerate(part.lines.items()) if points]
    if not series:
        return ""
    said = ", ".join(line.name for line in series)
    chart = line_chart(
        key, series, ChartWords(title=part.title, description=f"{part.title}: {said}", x=part.x_label,
        y=part.y_label), unit="number",
    )  # fmt: skip
    legend = [(line.colour, line.name) for line in series]
    return render("figure.html", title=part.title, legend=legend, chart=chart, note=part.note)
