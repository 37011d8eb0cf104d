"""The form of an experiment: which runs it takes, which rows its results have, and how they are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from markupsafe import Markup

from pipeline.record_types import Record, RecordView
from pipeline.report.rendering import Cell
from pipeline.reproduce.paper import Entry, Experiment, Paper, Request
from pipeline.reproduce.rendering import render

if TYPE_CHECKING:
    from matplotlib.figure import Figure

type Row = Record
Status = Literal["finished", "stopped", "memory", "failed", "defect"]


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes
    ----------
    status : {"finished", "stopped", "memory", "failed", "defect"}
        "stopped": at the time limit; "memory": it would need more than there is; "failed": the data or the machine is
        at fault; "defect": we are.
    command : str
        That does it again.
    metrics : mapping or None
        The contents of its ``metrics.json``.
    report : str or None
        Its report, seen from the page.
    message : str
        Why it did not finish; else what had to be done otherwise than asked.
    """

    status: Status
    command: str
    metrics: RecordView | None = None
    report: str | None = None
    message: str = ""

    def told(self) -> Row:
        """As a row says it."""
        return {"status": self.status, "message": self.message, "report": self.report, "command": self.command}


@dataclass(frozen=True)
class Made:
    """What there is, once the runs of an experiment have ended.

    Attributes
    ----------
    entries : sequence of Entry
        Its runs.
    outcome : callable
        How a run ended.
    readings : mapping
        As of :class:`~pipeline.reproduce.paper.Request`.
    sizes : mapping
        What the ingest of each data set has found, or why it failed; for forms that are `sized`.
    """

    entries: Sequence[Entry]
    outcome: Callable[[Entry], Outcome]
    readings: RecordView
    sizes: RecordView


class Form:
    """Base of all forms: no runs, no rows, nothing to see.

    Attributes
    ----------
    paper : Paper
    experiment : Experiment
    """

    sized: ClassVar[bool] = False
    """Whether data sets are read even if no run wants them, to say how large they are."""

    def __init__(self, paper: Paper, experiment: Experiment) -> None:
        self.paper, self.experiment = paper, experiment

    def entries(self, request: Request) -> Iterator[Entry]:  # noqa: ARG002
        """Yield the runs, those that the printed numbers are compared with first."""
        yield from ()

    def rows(self, made: Made) -> list[Row]:  # noqa: ARG002
        """What goes into ``results.json``: plain JSON, all that page, terminal and pictures need."""
        return []

    def html(self, rows: Sequence[Row]) -> str:  # noqa: ARG002
        """What the page shows below the pictures, made by `table` or a template; there is at least one row."""
        return ""

    def printed_out(self, rows: Sequence[Row]) -> tuple[Sequence[str], list[Sequence[str]]] | None:  # noqa: ARG002
        """Head and cells of a table for the terminal, or None for none."""
        return None

    def figures(self, rows: Sequence[Row]) -> Iterator[tuple[str, Figure]]:  # noqa: ARG002
        """Yield the pictures, each with the name of its files."""
        yield from ()

    @property
    def published(self) -> object:
        """What was printed, where ``results.json`` has it once for all rows."""
        return None


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
