"""The tables of results that a command prints to stdout."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import IO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ikmap.tasks import Metric, task_of
from ikmap.tasks.scoring import summary
from ikmap.tasks.verdict import QUALITY
from ikmap.tasks.weighted import TITLES
from pipeline.monitoring.events import format_seconds
from pipeline.monitoring.plain_text import printable
from pipeline.record_types import RecordView
from pipeline.report.fields import number


def print_result(metrics: RecordView, stream: IO[str] | None = None) -> None:
    """Print the stages and the learners of a ``metrics.json`` as tables, by default on stdout."""
    target = sys.stdout if stream is None else stream
    # A pipe has no width: nothing is cut there.
    width = None if target.isatty() else 120
    console = Console(file=target, highlight=False, width=width)

    stages = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    stages.add_column("stage", no_wrap=True)
    for title in ("seconds", "rows", "rows/s", "tasks", "done before"):
        stages.add_column(title, justify="right", no_wrap=True)
    for stage in metrics.get("stages", []):
        stages.add_row(
            Text(printable(stage["name"])),
            _number(stage.get("seconds"), ".2f"),
            _number(stage.get("rows"), ",.0f"),
            _number(stage.get("rows_per_second"), ",.0f"),
            _number(stage.get("tasks"), ",.0f"),
            _number(stage.get("tasks_skipped") or None, ",.0f"),
        )

    task = task_of(metrics)
    figure, of_learners = task.presenter.metric, metrics.get("learners", {})
    facts = {name: {what: number(value) for what, value, _ in summary(task, of)} for name, of in of_learners.items()}
    known = {what: None for of in facts.values() for what, value in of.items() if value is not None}
    titles = ["learner", figure.name, *known, "train s", "predict s"]
    rows = [
        [
            printable(name),
            _number(figures.get(figure.key), ".4f"),
            *(_number(facts[name].get(what), ".4g") for what in known),
            _number(figures.get("train_seconds"), ".2f"),
            _number(figures.get("predict_seconds"), ".2f"),
        ]
        for name, figures in of_learners.items()
    ]
    learners = _table(titles, rows)
    if rows and console.measure(learners, options=console.options.update(max_width=10_000)).maximum > console.width:
        turned = [list(line) for line in zip(titles, *rows, strict=True)]
        learners = _table(turned[0], turned[1:])

    for table in (stages, learners):
        if table.row_count:
            console.print(table)
    if learners.row_count and (said := _rows_in_words(metrics, figure)):
        console.print(Text(f"{figure.name}: {said}"), soft_wrap=True)
    for name, figures in of_learners.items():
        if found := [f"{TITLES.get(key, key)} {value:.4g}" for key, value in _weighted(figures) if value is not None]:
            console.print(Text(f"{name} with rows weighed by {_column(metrics)}: {', '.join(found)}"), soft_wrap=True)
    if times := _times_in_words(metrics.get("run", {})):
        console.print(Text(f"time: {times}"), soft_wrap=True)
    for verdict in metrics.get("verdicts", ()):
        word = "result" if verdict["kind"] == QUALITY else "note"
        console.print(Text(f"{word}: {printable(verdict['message'])}"), soft_wrap=True)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table whose first column has words and whose others have numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(titles[0], no_wrap=True)
    for title in titles[1:]:
        table.add_column(Text(title), justify="right", no_wrap=True)
    for first, *others in rows:
        table.add_row(Text(first), *others)
    return table


def _weighted(figures: RecordView) -> list[tuple[str, float | None]]:
    return list((figures.get("weighted") or {}).items())


def _column(metrics: RecordView) -> str:
    return printable(str(metrics.get("data", {}).get("weight")))


def _times_in_words(run: RecordView) -> str:
    """Return the parts of the wall-clock time; empty if they are not known."""
    if "wall_seconds" not in run:
        return ""
    compiling = run.get("compile_seconds", 0.0)
    parts = [
        ("starting", run["start_seconds"]),
        ("compiling, once per installation", compiling),
        ("work", run["seconds"] - compiling),
        ("stopping", run["stop_seconds"]),
    ]
    shown = ", ".join(f"{what} {format_seconds(seconds)}" for what, seconds in parts if seconds)
    return f"{format_seconds(run['wall_seconds'])}: {shown}"


def _rows_in_words(metrics: RecordView, metric: Metric) -> str:
    """Return a sentence on the task's metric and its rows; empty if they are not known."""
    from pipeline.report.words import words_for_test_rows

    data, online = metrics.get("data", {}), metrics.get("online")
    if online:
        return metric.sentences.of_stream
    which = words_for_test_rows(data)
    return metric.sentences.of_test.format(rows=f"{data['rows_test']:,}", which=which) if which else ""


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)
