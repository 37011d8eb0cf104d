"""Results on the terminal: what is compared, and what could not be."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import IO

from rich import box
from rich.console import Console
from rich.table import Table

from pipeline.monitoring.plain_text import printable
from pipeline.record_types import RecordView
from pipeline.reproduce.compared import form_of
from pipeline.reproduce.paper import Paper
from pipeline.reproduce.text import MARKS


def print_results(paper: Paper, results: RecordView, stream: IO[str] | None = None) -> None:
    """Print what is compared, by default on stdout."""
    target = sys.stdout if stream is None else stream
    console = Console(file=target, highlight=False, width=None if target.isatty() else 120)
    for experiment in results["experiments"]:
        lines = form_of(paper, paper.find(experiment["kind"], experiment["name"])).printed_out(experiment["rows"])
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
