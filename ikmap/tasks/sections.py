"""Parts of a report as plain data. A task fills them with content; the report decides how they look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ikmap.json_values import Json, Label

type Cell = Json
"""Text or a number in a table."""


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True)
class Table:
    """A table: names of the columns, and rows of text or numbers. The first column names the subject of a row."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Lines:
    """A chart of lines, one for each name, each a list of (x, y)."""

    title: str
    x_label: str
    y_label: str
    lines: Mapping[str, Sequence[tuple[float, float]]]
    note: str = ""


@dataclass(frozen=True)
class Confusion:
    """The confusion matrix of a learner: ``counts[i][j]`` rows of ``labels[i]``, predicted as ``labels[j]``."""

    learner: str
    labels: Sequence[Label]
    counts: Json


type Part = Text | Table | Lines | Confusion


@dataclass(frozen=True)
class Section:
    """Parts under one heading; `key` is its address on the page."""

    key: str
    title: str
    parts: Sequence[Part]
