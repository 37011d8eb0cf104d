"""A stream: accuracy so far of all learners in one picture, and what it took them."""

from __future__ import annotations

from pipeline.report.charts import Series, line_chart, swatch
from pipeline.report.fields import (
    Metrics,
    get_accuracy,
    get_mapping,
    get_number,
    get_points,
    get_text,
    learners_of,
)
from pipeline.report.markup import scroll, section
from pipeline.report.text import MISSING, count, duration, esc, percent, plural
from pipeline.report.words import method_in_words

_SECONDS = (
    ("initial rows", "initial_seconds"),
    ("finding cells", "map_seconds"),
    ("predicting", "predict_seconds"),
    ("learning", "train_seconds"),
)


def is_stream(metrics: Metrics) -> bool:
    """Whether the run was test-then-train on a stream."""
    return bool(get_mapping(metrics, "online"))


def stream_section(metrics: Metrics) -> str:
    """Accuracy so far against rows, one line a learner; what each took as a table; and what was learned, in words."""
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
        title="Accuracy so far along the stream",
        description="; ".join(f"{name}: {end}" for name, end in ends.items()),
        x_label="rows of the stream",
        y_label="accuracy so far",
    )
    legend = "".join(f"<li>{swatch(line.style)}{esc(line.name)}: {ends[line.name]}</li>" for line in series)
    online = get_mapping(metrics, "online")
    rows, block = get_number(online, "rows_initial"), get_number(online, "block_rows")
    how = "Of the rows so far, the share predicted right before it was learned from"
    how += f", {plural(block, 'row')} at a time" if block else ""
    how += (
        f". Settings and partitionings were chosen on {plural(rows, 'initial row')} and stay as they are"
        if rows
        else ""
    )
    how += f". Rows as they arrived: {esc(source)}" if (source := get_text(online, "source")) else ""
    figure = f'<figure><h3>Accuracy so far</h3><ul class="legend">{legend}</ul>{chart}'
    figure += f"<figcaption>{how}.</figcaption></figure>"
    head = "".join(f'<th scope="col">{esc(name)}{_mark(learner)}</th>' for name, learner in learners.items())
    lines = [("accuracy", [percent(get_accuracy(learner), 2) for learner in learners.values()])]
    lines += [("rows predicted", [count(get_number(learner, "rows")) for learner in learners.values()])]
    lines += [
        (f"time for {what}", [duration(get_number(learner, key)) for learner in learners.values()])
        for what, key in _SECONDS
    ]
    body = "".join(
        f'<tr><th scope="row">{what}</th>{"".join(f"<td>{esc(value)}</td>" for value in values)}</tr>'
        for what, values in lines
        if any(value != MISSING for value in values)
    )
    table = f'<table class="learners"><thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table>'
    words = f'<p class="method">{esc(said)}</p>' if (said := method_in_words(metrics)) else ""
    facts = scroll(table, "Figures of the learners")
    return section("stream", "Accuracy", f'<div class="pair">{figure}<div>{facts}</div></div>{words}')


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
