"""Verdicts: what a reader of a run has to know first, in one list that log, terminal and report show alike."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator

from ikmap.auto.candidates import LINEAR
from ikmap.methods import MAPS
from ikmap.methods.composed import names_of
from ikmap.methods.kinds import Name, quoted
from ikmap.tasks import task_of
from ikmap.tasks.verdict import EDGE, ID, NOTHING, QUALITY, SCALE, Verdict, Z
from pipeline.record_types import RecordView
from pipeline.report.fields import get_list, get_mapping, get_number, get_text, number
from pipeline.report.text import plural
from pipeline.report.words import words_for_test_rows
from pipeline.rows.ranges import MOST
from pipeline.sources.columns.request import as_typed

type Metrics = RecordView


def verdicts_of(metrics: Metrics) -> list[dict[str, str | None]]:
    """Return the verdicts on a run, from its ``metrics.json``."""
    warnings = [verdict for find in FINDERS for verdict in find(metrics)]
    useless = {verdict.learner for verdict in warnings if verdict.kind == NOTHING}
    first = [verdict for verdict in on_quality(metrics) if verdict.learner not in useless]
    return [verdict.as_json() for verdict in (*first, *warnings)]


def on_quality(metrics: Metrics) -> Iterator[Verdict]:
    """Yield how good the best learner is on the test rows, against a constant, and against a linear model if known."""
    task, data, learners = task_of(metrics), metrics["data"], metrics["learners"]
    metric = task.presenter.metric
    values = {name: value for name, result in learners.items() if (value := number(result.get(metric.key))) is not None}
    if not values or metrics.get("online"):
        return
    best = next(iter(values))
    if metric.ranks:
        best = (max if metric.higher_is_better else min)(values, key=lambda name: values[name])
    said = task.presenter.quality(learners[best], metrics)
    if not said:
        return
    which = words_for_test_rows(data)
    rows = f"{plural(number(data.get('rows_test')), 'test row')}{f', {which}' if which else ''}"
    trained = number(data.get("rows_train"))
    name = best if trained is None else f"{best}, trained on {plural(trained, 'row')},"
    yield Verdict(
        QUALITY, f"{name} {said.replace('{rows}', rows, 1)}{_against_linear(get_mapping(metrics, 'choice'))}", best
    )


def _against_linear(choice: Metrics) -> str:
    """Return how the chosen model and a linear model of the columns did in a race, if it has tried one."""
    tried = {get_text(entry, "name"): entry for entry in get_list(choice, "leaderboard")}
    chosen, linear = tried.get(get_text(choice, "name")), tried.get(LINEAR)
    own, other = _with_interval(chosen), _with_interval(linear)
    if not own or not other:
        return ""
    loss = f"on training rows that were held out, its {get_text(choice, 'loss')} is {own}"
    if chosen is linear:
        return f"; it is itself a linear model of the columns: {loss}"
    return f"; {loss}, that of a linear model of the columns {other}"


def _with_interval(entry: object) -> str:
    loss, error = get_number(entry, "loss"), get_number(entry, "error")
    return "" if loss is None or error is None else f"{loss:.4g} +- {Z * error:.2g}"


def on_learners(metrics: Metrics) -> Iterator[Verdict]:
    """Yield the verdicts of the task on each learner."""
    presenter = task_of(metrics).presenter
    for name, result in metrics["learners"].items():
        yield from presenter.verdicts(name, result, metrics)


def on_edges(metrics: Metrics) -> Iterator[Verdict]:
    """Yield a line for each learner for which cross-validation chose a value at the edge of those that it tried."""
    selection = metrics["selection"] or {}
    for name, edges in selection.get("edges", {}).items():
        ends = [
            f"{edge['option']} {_shown(edge['value'])} is the {'largest' if edge['largest'] else 'smallest'}"
            for edge in edges
        ]
        options = [f"--{edge['option'].replace('_', '-')} {_shown(edge['beyond'])}" for edge in edges]
        # With a value for the map, C is no longer searched unless it is given as "auto".
        if name in selection.get("chosen_C", {}) and all(edge["option"] != "C" for edge in edges):
            options.append("--C auto")
        yield Verdict(
            EDGE, f"{name}: {' and '.join(ends)} that was tried; a better one may lie beyond: {' '.join(options)}", name
        )


def on_columns(metrics: Metrics) -> Iterator[Verdict]:
    """Yield a line for each column that looks like an id."""
    for column in metrics["data"].get("ids", ()):
        only_id, left_out = shlex.join(Name("COLUMN").written("--id", column)), as_typed("--drop", column)
        yield Verdict(
            ID,
            f"column {quoted(column)} looks like an id, a different whole number in every row, and is learned from: "
            f"{only_id} keeps it only to tell rows apart, {left_out} leaves it out",
        )


def on_scales(metrics: Metrics) -> Iterator[Verdict]:
    """Yield a line if columns have very different ranges and the cells of the run depend on the size of values."""
    ranges, params = metrics["data"].get("ranges"), metrics.get("params", {})
    name = params.get("partitioner", "")
    kinds = [MAPS.get(part) for part in names_of(name)] if name in params.get("methods", ()) else []
    by_size = all(kinds) and any(kind is not None and kind.about.by_size for kind in kinds)
    if ranges is None or not by_size or ranges["range"] <= MOST * ranges["quarter"]:
        return
    yield Verdict(
        SCALE,
        f"--partitioner {name} compares columns by the size of their values: those of {ranges['widest']} lie up to "
        f"{ranges['range']:.4g} apart, those of a quarter of the columns {ranges['quarter']:.4g} at most; "
        "--scale minmax brings all columns to one range, --partitioner iforest needs none",
    )


def _shown(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


FINDERS: tuple[Callable[[Metrics], Iterable[Verdict]], ...] = (on_learners, on_edges, on_columns, on_scales)
"""Functions that find verdicts, in the order in which they are shown."""
