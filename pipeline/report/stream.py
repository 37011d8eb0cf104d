"""A stream: cumulative accuracy of all learners in one picture, and what it took them."""

from __future__ import annotations

from pipeline.report.charts import Series, line_chart, swatch
from pipeline.report.fields import Metrics, get_mapping, get_number, get_points, get_text, learners_of
from pipeline.report.markup import scroll, section
from pipeline.report.text import MISSING, count, duration, esc, percent, plural

_COLUMNS = (
    ("map", "map_seconds"),
    ("predict", "predict_seconds"),
    ("learn", "train_seconds"),
    ("initial pass", "initial_seconds"),
)


def is_stream(metrics: Metrics) -> bool:
    """Whether the run was test-then-train on a stream."""
    return bool(get_mapping(metrics, "online"))


def stream_section(metrics: Metrics) -> str:
    """Cumulative accuracy against rows, one line a learner; seconds and support vectors as a table."""
    if not is_stream(metrics):
        return ""
    learners = learners_of(metrics)
    series = []
    for i, (name, learner) in enumerate(learners.items()):
        points = [(x, y) for x, y in get_points(get_mapping(learner, "curve"), "rows", "accuracy") if 0 <= y <= 1]
        if points:
            series.append(Series(name, points, i))
    if not series:
        return ""
    ends = {line.name: f"{percent(line.points[-1][1], 2)} after {count(line.points[-1][0])} rows" for line in series}
    chart = line_chart(
        "stream",
        series,
        title="Cumulative accuracy on the stream",
        description="; ".join(f"{name}: {end}" for name, end in ends.items()),
        x_label="rows of the stream",
        y_label="cumulative accuracy",
    )
    legend = "".join(f"<li>{swatch(line.style)}{esc(line.name)}: {ends[line.name]}</li>" for line in series)
    online = get_mapping(metrics, "online")
    rows, block = get_number(online, "rows_initial"), get_number(online, "block_rows")
    how = f"Every block of {plural(block, 'row')} is predicted, then learned from" if block else ""
    how += f"; the map is that of {plural(rows, 'initial row')}" if rows else ""
    how += f"; rows as they arrived: {esc(source)}" if (source := get_text(online, "source")) else ""
    figure = (
        f'<figure><h3>Cumulative accuracy</h3><ul class="legend">{legend}</ul>{chart}<figcaption>{how}.</figcaption>'
        "</figure>"
    )
    head = "".join(f'<th scope="col">{title}</th>' for title, _ in _COLUMNS)
    body = "".join(
        f'<tr><th scope="row">{esc(name)}{_mark(learner)}</th>'
        + "".join(f"<td>{_seconds(get_number(learner, key))}</td>" for _, key in _COLUMNS)
        + f"<td>{_count(get_number(learner, 'n_support'))}</td></tr>"
        for name, learner in learners.items()
    )
    note = '<p class="note">Seconds for the whole stream; support: rows that became support vectors.</p>'
    table = (
        f'<table class="learners"><thead><tr><td></td>{head}<th scope="col">support</th></tr></thead>'
        f"<tbody>{body}</tbody></table>"
    )
    return section("stream", "Stream", f'<div class="pair">{figure}<div>{scroll(table, "Seconds")}{note}</div></div>')


def stream_lead(metrics: Metrics) -> str:
    """The result in one sentence."""
    learners = {name: learner for name, learner in learners_of(metrics).items() if get_number(learner, "accuracy")}
    if not learners:
        return "This stream has no result yet."
    best = max(learners, key=lambda name: get_number(learners[name], "accuracy") or 0.0)
    online = get_mapping(metrics, "online")
    return (
        f"<b>{esc(best)}</b> predicted <b>{percent(get_number(learners[best], 'accuracy') or 0.0)}</b> of "
        f"{plural(get_number(learners[best], 'rows') or 0, 'row')} right before it learned from them, "
        f"after an initial set of {plural(get_number(online, 'rows_initial') or 0, 'row')}."
    )


def _mark(learner: Metrics) -> str:
    return " (stopped early)" if get_text(learner, "stopped_early") == "True" else ""


def _seconds(value: float | None) -> str:
    return MISSING if value is None else esc(duration(value))


def _count(value: float | None) -> str:
    return MISSING if value is None else count(value)
