"""Verdicts: what a reader of a run has to know first, in one list that log, terminal and report show alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from ikmap.methods import MAPS
from ikmap.methods.composed import names_of
from ikmap.tasks import task_of
from ikmap.tasks.verdict import EDGE, ID, SCALE, Verdict
from pipeline.record_types import RecordView
from pipeline.rows.ranges import MOST

type Metrics = RecordView


def verdicts_of(metrics: Metrics) -> list[dict[str, str | None]]:
    """Return the verdicts on a run, from its ``metrics.json``."""
    return [verdict.as_json() for find in FINDERS for verdict in find(metrics)]


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
        yield Verdict(
            ID,
            f"column {column} looks like an id, a different whole number in every row, and is learned from: "
            f"--id {column} keeps it only to tell rows apart, --drop {column} leaves it out",
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
