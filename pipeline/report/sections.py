"""Turn the sections that the run's task asks for (:mod:`ikmap.tasks.sections`) into HTML."""

from __future__ import annotations

from ikmap.tasks import task_of
from ikmap.tasks.sections import Confusion, Lines, Part, Table, Text
from pipeline.report.charts import ChartWords, Series, line_chart, swatch
from pipeline.report.confusion import SHARES_UP_TO, confusion_block
from pipeline.report.fields import Metrics, get_mapping, number
from pipeline.report.markup import scroll, section
from pipeline.report.scores import class_counts, confusion_of
from pipeline.report.text import brief, esc


def task_sections(metrics: Metrics) -> str:
    """All sections of the task."""
    found = []
    for one in task_of(metrics).sections(metrics):
        parts = [_html(f"{one.key}-{i}", part, metrics) for i, part in enumerate(one.parts)]
        small = [isinstance(part, Confusion) and len(part.labels) <= SHARES_UP_TO for part in one.parts]
        if any(parts):
            body = f'<div class="{"pair" if all(small) else "stack"}">{"".join(parts)}</div>'
            found.append(section(one.key, one.title, body))
    return "\n".join(found)


def _html(key: str, part: Part, metrics: Metrics) -> str:
    match part:
        case Text(text):
            return f"<p>{esc(text)}</p>"
        case Table():
            return _table(part)
        case Lines():
            return lines_figure(key, part)
        case Confusion(learner, labels, counts):
            confusion = confusion_of({"confusion": counts}, list(labels))
            trained = class_counts(get_mapping(metrics, "data"))
            return confusion_block(key, learner, confusion, trained) if confusion else ""


def _table(part: Table) -> str:
    head = "".join(f'<th scope="col">{esc(name)}</th>' for name in part.head)
    body = ""
    for first, *others in part.rows:
        cells = "".join(f"<td>{esc(_cell(value))}</td>" for value in others)
        body += f'<tr><th scope="row">{esc(_cell(first))}</th>{cells}</tr>'
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return scroll(table, part.title)


def _cell(value: object) -> str:
    known = number(value)
    return str(value) if known is None else brief(known)


def lines_figure(key: str, part: Lines) -> str:
    """A chart with its legend; `key` is unique on the page."""
    series = [Series(name, sorted(points), i) for i, (name, points) in enumerate(part.lines.items()) if points]
    if not series:
        return ""
    said = ", ".join(line.name for line in series)
    chart = line_chart(
        key, series, ChartWords(title=part.title, description=f"{part.title}: {said}", x=part.x_label,
        y=part.y_label), unit="number",
    )  # fmt: skip
    legend = "".join(f"<li>{swatch(line.style)}{esc(line.name)}</li>" for line in series)
    note = f"<figcaption>{esc(part.note)}</figcaption>" if part.note else ""
    return f'<figure><h3>{esc(part.title)}</h3><ul class="legend">{legend}</ul>{chart}{note}</figure>'
