"""Results in words: one line when a run ends, and the tables on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import IO, Any

from rich import box
from rich.console import Console
from rich.table import Table

from pipeline.report.text import MISSING, duration
from pipeline.reproduce.form import Outcome
from pipeline.reproduce.paper import Measure, Paper
from pipeline.watching.plain_text import printable

MARKS = {"stopped": "stopped", "memory": "-ME-", "failed": "failed", "defect": "failed"}
"""In place of a number, for a run that has none."""

ACCURACY = Measure()


def one_line(key: str, outcome: Outcome, seconds: float, measure: Measure = ACCURACY) -> str:
    """What is said when a run has ended."""
    if outcome.metrics is None:
        return f"{key}: {outcome.message}"
    found = [number(learner[measure.key], measure.form) for learner in outcome.metrics["learners"].values()]
    return f"{key}: {measure.key} {', '.join(found)}, {seconds:.0f} s"


def number(value: Any, form: str = ".4f") -> str:
    """A number, or a mark in its place."""
    return MISSING if value is None else format(value, form) if isinstance(value, int | float) else str(value)


def seconds(value: Any) -> str:
    """Seconds printed or measured, or a mark in their place."""
    return duration(value) if isinstance(value, int | float) else MISSING if value is None else str(value)


def difference(row: Mapping[str, Any], measure: Measure = ACCURACY) -> str:
    """Ours less printed, with its sign."""
    return MISSING if row["difference"] is None else format(row["difference"], f"+{measure.form}")


def measured(row: Mapping[str, Any], measure: Measure = ACCURACY) -> str:
    """What was measured of a run, or how it ended."""
    return number(row[measure.key], measure.form) if row["status"] == "finished" else MARKS[row["status"]]


def how(row: Mapping[str, Any]) -> str:
    """How a row differs from the one that is held against the printed number."""
    return "" if row["shown"] else ", ".join(f"{k}: {v}" for k, v in row["other"].items())


def print_results(paper: Paper, results: Mapping[str, Any], stream: IO[str] | None = None) -> None:
    """Print what is compared, by default on stdout."""
    target = sys.stdout if stream is None else stream
    console = Console(file=target, highlight=False, width=None if target.isatty() else 120)
    for experiment in results["experiments"]:
        lines = paper.form(paper.find(experiment["kind"], experiment["name"])).printed_out(experiment["rows"])
        if lines is not None:
            console.print(f"\n{experiment['kind'].title()} {experiment['name']}: {experiment['title']}")
            console.print(_filled(*lines) if experiment["rows"] else "Nothing of it is there.")
    ended = dict.fromkeys(
        f"{row['dataset']}: {MARKS[row['status']]}: {row['message']}"
        for experiment in results["experiments"]
        for row in experiment["rows"]
        if row.get("status") in MARKS
    )
    for line in [*(f"skipped: {reason}" for reason in results["skipped"].values()), *ended]:
        console.print(printable(line), soft_wrap=True, markup=False)


def _filled(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, title in enumerate(head):
        table.add_column(title, justify="left" if i < 3 else "right")
    for row in rows:
        table.add_row(*row)
    return table
