"""Forms of experiments, as papers import them, with the tables and links of their pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup

from pipeline.record_types import RecordView
from pipeline.report.rendering import Cell
from pipeline.reproduce.paper import Form, Made, Outcome, Row, Status
from pipeline.reproduce.rendering import render

__all__ = ["Form", "Made", "Outcome", "Row", "Status", "link", "table"]


def table(
    head: Sequence[str],
    rows: Iterable[Sequence[str | Cell]],
    name: str,
    texts: int = 1,
    notes: Sequence[str] = (),
    kind: str = "compared",
) -> Markup:
    """A table for the page, with notes below it; the first `texts` columns are to the left."""
    return render("noted.html", name=name, head=head, rows=rows, kind=kind, texts=texts, notes=notes)


def link(row: RecordView, text: str) -> Cell:
    """A text that leads to the report of the run, where there is one."""
    return Cell(text, link=row["report"])
