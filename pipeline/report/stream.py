"""A stream: the task's metric so far of all learners in one picture, and their times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ikmap.methods import LEARNERS, StreamLearner
from ikmap.tasks import task_of
from ikmap.tasks.capabilities import AlertsRows, capability
from ikmap.tasks.scoring import summary
from pipeline.report.charts import ChartWords, Series, line_chart
from pipeline.report.fields import (
    Metrics,
    get_list,
    get_mapping,
    get_number,
    get_text,
    learners_of,
    number,
)
from pipeline.report.main_metric import Lead, get_curve, get_value, main_metric, shown, title_of
from pipeline.report.rendering import render
from pipeline.report.text import MISSING, count, duration, plural
from pipeline.report.words import method_in_words

MOST_SAID = 8
"""Most alarms that the note under the picture names."""
_EVENTS = {"drifts": "drift alarm", "redraws": "half of the partitionings drawn anew"}
_SECONDS = (
    ("initial rows", "initial_seconds"),
    ("finding cells", "map_seconds"),
    ("predicting", "predict_seconds"),
    ("learning", "train_seconds"),
)


def is_stream(metrics: Metrics) -> bool:
    """Return whether the run was test-then-train on a stream."""
    return bool(get_mapping(metrics, "online"))


def stream_section(metrics: Metrics) -> str:
    """Return the metric so far against rows, a line a learner; a table of each learner; and the method in words."""
    if not is_stream(metrics):
        return ""
    learners, figure = learners_of(metrics), main_metric(metrics)
    series = []
    for i, (name, learner) in enumerate(learners.items()):
        if points := get_curve(learner, figure):
            series.append(Series(name, points, i))
    if not series:
        return ""
    ends = {
        line.name: f"{shown(line.points[-1][1], figure.unit, 2)} after {count(line.points[-1][0])} rows"
        for line in series
    }
    events = [
        (i, row, f"{name}: {said} after row {row:,.0f}")
        for i, (name, learner) in enumerate(learners.items())
        for key, said in _EVENTS.items()
        for row in _rows(learner, key)
    ]
    requested = requested_alerts(metrics)
    chart = line_chart(
        "stream",
        series,
        ChartWords(
            title=f"{title_of(figure)} so far along the stream",
            description="; ".join(f"{name}: {end}" for name, end in ends.items()),
            x="rows of the stream",
            y=f"{figure.name} so far",
        ),
        events=events,
        unit=figure.unit,
        reference=requested,
    )
    legend = [(line.colour, f"{line.name}: {ends[line.name]}") for line in series]
    online = get_mapping(metrics, "online")
    rows, block = get_number(online, "rows_initial"), get_number(online, "block_rows")
    how = figure.sentences.so_far
    how += f", {plural(block, 'row')} at a time" if block else ""
    cells_grown = get_mapping(online, "cells_grown")
    if grown := [count(number(many[-1])) for name in cells_grown if (many := get_list(cells_grown, name))]:
        how += f". Settings were chosen on {plural(rows or 0, 'initial row')}; the map grew with the stream, "
        how += f"to {' and '.join(grown)} cells"
    elif rows:
        stay = "" if any(_rows(learner, "redraws") for learner in learners.values()) else " and stay as they are"
        how += f". Settings and partitionings were chosen on {plural(rows, 'initial row')}{stay}"
    how += (
        ""
        if requested is None
        else f". Dashed across: the share of alerts that was asked for, {shown(requested, 'share')}"
    )
    how += drifts_in_words(learners, get_text(online, "drift"))
    how += alerts_in_words(online) + labels_in_words(online)
    how += f". Rows as they arrived: {source}" if (source := get_text(online, "source")) else ""
    picture = render("figure.html", title=f"{title_of(figure)} so far", legend=legend, chart=chart, note=f"{how}.")
    lines = [(figure.name, [shown(get_value(learner, figure), figure.unit, 2) for learner in learners.values()])]
    facts: dict[str, dict[str, str]] = {}
    for name, learner in learners.items():
        for fact, value, unit in summary(task_of(metrics), learner):
            if (known := number(value)) is not None:
                facts.setdefault(fact, {})[name] = shown(known, unit, 2)
    lines += [(fact, [of.get(name, MISSING) for name in learners]) for fact, of in facts.items()]
    lines += [("rows predicted", [count(get_number(learner, "rows")) for learner in learners.values()])]
    lines += [
        (f"time for {what}", [duration(get_number(learner, key)) for learner in learners.values()])
        for what, key in _SECONDS
    ]
    return render(
        "stream.html",
        title=title_of(figure),
        picture=picture,
        head=["", *(f"{name}{_mark(learner)}" for name, learner in learners.items())],
        figures=[[what, *cells] for what, cells in lines if any(cell != MISSING for cell in cells)],
        method=method_in_words(metrics),
    )


def requested_alerts(metrics: Metrics) -> float | None:
    """Return the requested share of alerts, if it is the same for all learners."""
    shares: set[float] = set()
    for name, learner in learners_of(metrics).items():
        kind = LEARNERS.get(name)
        alerts = capability(task_of(metrics), AlertsRows) is not None
        trace = kind.requested_alerts if kind is not None and issubclass(kind, StreamLearner) and alerts else ""
        shares |= {value for last in get_list(get_mapping(learner, "traces"), trace)[-1:] if (value := number(last))}
    return shares.pop() if len(shares) == 1 else None


def alerts_in_words(online: Metrics) -> str:
    """Return a sentence on the alerts that were sent, beginning with a full stop; empty without alerts."""
    alerts = get_mapping(online, "alerts")
    if not alerts:
        return ""
    sent = {str(name): number(value) or 0 for name, value in get_mapping(alerts, "sent").items()}
    held = sum(number(value) or 0 for value in get_mapping(alerts, "held_back").values())
    counts = ", ".join(f"{name} {count(value)}" for name, value in sent.items())
    file = get_text(alerts, "file")
    text = f". Alerts sent to {'standard output' if file == '-' else file} while the stream ran: {counts}"
    if warm_up := get_number(online, "warm_up"):
        text += f"; none of the first {plural(warm_up, 'row')}, in which {count(held)} would have been sent (--warm-up)"
    return text


def drifts_in_words(learners: Mapping[str, Metrics], watcher: str | None) -> str:
    """Return a sentence on the drift alarms, beginning with a full stop; empty if losses were not watched."""
    if not watcher:
        return ""
    said = []
    for name, learner in learners.items():
        rows = _rows(learner, "drifts")
        said.append(f"{name} after row {_listed(rows)}" if rows else f"{name} none")
    sentence = f". Drift alarms ({watcher}), thin upright lines: {'; '.join(said)}"
    drawn = [(name, rows) for name, learner in learners.items() if (rows := _rows(learner, "redraws"))]
    if drawn:
        said = [f"{name} after row {_listed(rows)}" for name, rows in drawn]
        sentence += f". Half of the partitionings were drawn anew, also marked: {'; '.join(said)}"
    return sentence


def _rows(learner: Metrics, key: str) -> list[float]:
    """Return the rows of the stream after which an event happened to a learner."""
    return [row for value in get_list(learner, key) if (row := number(value)) is not None]


def _listed(rows: Sequence[float]) -> str:
    more = f" and {len(rows) - MOST_SAID} more" if len(rows) > MOST_SAID else ""
    return ", ".join(map(count, rows[:MOST_SAID])) + more


def labels_in_words(online: Metrics) -> str:
    """Return a sentence on labels that came after their rows, beginning with a full stop; empty without them."""
    labels = get_mapping(online, "labels")
    if not labels:
        return ""
    sentence = f". Labels came after their rows: {count(get_number(labels, 'learned'))} were learned from as they came"
    others = (
        ("again", "of rows that had one already"),
        ("expired", f"of rows that had waited for more than {plural(get_number(labels, 'limit') or 0, 'row')}"),
        ("unknown", "of rows that never came"),
    )
    left = [f"{count(n)} {what}" for key, what in others if (n := get_number(labels, key))]
    sentence += f"; left out were {', '.join(left)}" if left else ""
    return sentence + f"; {plural(get_number(labels, 'without') or 0, 'row')} got none and judge nothing"


def stream_lead(metrics: Metrics) -> Lead | str:
    """Return the result in one sentence."""
    figure = main_metric(metrics)
    values = {name: get_value(learner, figure) for name, learner in learners_of(metrics).items()}
    known = {name: value for name, value in values.items() if value is not None}
    if not known:
        return "This stream has no result yet."
    best = (max if figure.higher_is_better else min)(known, key=lambda name: known[name])
    if not figure.ranks:
        best = next(iter(known))
    online = get_mapping(metrics, "online")
    rows = plural(get_number(learners_of(metrics)[best], "rows") or 0, "row")
    initial = plural(get_number(online, "rows_initial") or 0, "row")
    value = shown(known[best], figure.unit)
    end = f", after an initial set of {initial}."
    if more := task_of(metrics).presenter.sentence(learners_of(metrics)[best]):
        end += f" {more}"
    return Lead.of(figure.sentences.lead_of_stream, best, value, rows, end)


def _mark(learner: Metrics) -> str:
    return " (stopped early)" if get_text(learner, "stopped_early") == "True" else ""
