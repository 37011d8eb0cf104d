"""Sources without an end: rows arrive over time, and their order does not change afterwards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Floats
from ikmap.json_values import JsonObject
from ikmap.tables import ColumnPlan
from ikmap.tables.raw import Levels
from pipeline.record_types import RecordView
from pipeline.sources.columns.plan import Plan
from pipeline.sources.columns.raw_rows import RawRows
from pipeline.sources.columns.read_request import ReadRequest
from pipeline.sources.source import Source

if TYPE_CHECKING:
    import pyarrow as pa

TICK_SECONDS = 0.2
"""So many seconds pass at most, while no rows come, before a feed returns to whoever takes its rows."""


@dataclass(frozen=True, eq=False)
class Arrival:
    """Some consecutive rows.

    Attributes
    ----------
    url : str
        Where they come from, for messages.
    origin : str
        The same, for the feed: a name that stays.
    first_row : int
        1-based number of the first row in its origin.
    X : float64 array (m, d), or csr_array (m, d)
    y : float64 array (m,), or object array (m,) of str, or None
        None where the source has no labels, and none are needed.
    levels, ids, weights
        As of :class:`~pipeline.sources.columns.raw_rows.RawRows`.
    """

    url: str
    origin: str
    first_row: int
    X: np.ndarray | sp.csr_array
    y: Floats | None
    levels: Levels | None = None
    ids: pa.Array | None = None
    weights: Floats | None = None

    @classmethod
    def of(cls, url: str, origin: str, first_row: int, rows: RawRows) -> Arrival:
        """Return rows as a source has read them."""
        return cls(url, origin, first_row, rows.X, rows.y, rows.levels, rows.ids, rows.weights)

    @property
    def rows(self) -> int:
        return int(self.X.shape[0])

    def part(self, start: int, stop: int) -> Arrival:
        """Rows ``start .. stop - 1`` of these."""
        beside = (self.y, self.ids, self.weights)
        y, ids, weights = (None if column is None else column[start:stop] for column in beside)
        return Arrival(self.url, self.origin, self.first_row + start, self.X[start:stop], y, self.levels, ids, weights)


@dataclass(frozen=True)
class KnownColumns:
    """The columns of a table that arrives, as they were found with its first rows.

    Attributes
    ----------
    columns : tuple of ColumnPlan, or int
    names : tuple of str or None
    text_labels : bool
        Whether labels are words.
    """

    columns: tuple[ColumnPlan, ...] | int
    names: tuple[str, ...] | None
    text_labels: bool

    @classmethod
    def of(cls, source: Source) -> KnownColumns | None:
        """Return the columns of a source, or None for rows that are no table."""
        plan = source.plan
        if plan.request is None or plan.columns is None:
            return None
        return cls(plan.columns, plan.names, plan.text_labels)

    def request(self, request: ReadRequest) -> ReadRequest:
        """Return the request for more rows with these columns."""
        return request.like(Plan(self.columns, self.names, request=request.table))

    def applied(self, source: Source) -> Source:
        """Return the source of more rows, with the labels that the first rows had."""
        return replace(source, plan=replace(source.plan, text_labels=self.text_labels))

    def as_json(self) -> JsonObject:
        """Return the columns as JSON values."""
        columns = self.columns if isinstance(self.columns, int) else [column.as_json() for column in self.columns]
        names = None if self.names is None else list(self.names)
        return {"columns": columns, "names": names, "text_labels": self.text_labels}

    @classmethod
    def from_json(cls, values: RecordView) -> KnownColumns:
        """Return the columns that :meth:`as_json` has made into JSON values."""
        columns, names = values["columns"], values["names"]
        plans = columns if isinstance(columns, int) else tuple(ColumnPlan(**column) for column in columns)
        return cls(plans, None if names is None else tuple(names), values["text_labels"])


class Feed(ABC):
    """An unbounded source, opened.

    Attributes
    ----------
    url : str
    replays : bool
        Gives every row again from the first on when it is read anew; else it goes on after those already taken in.
    source : Source or None
        What reads the rows; known when the first rows have come.
    known : KnownColumns or None
        The columns of a table, with their kinds: of the first rows, or of another session, which sets it.
    """

    url: str
    replays: bool
    source: Source | None = None
    known: KnownColumns | None = None

    @property
    def column_names(self) -> tuple[str, ...] | None:
        """Names of the columns, known when the first rows have come."""
        return None if self.source is None else self.source.column_names

    @abstractmethod
    def arrivals(self, taken: Mapping[str, int]) -> Iterator[Arrival | None]:
        """Yield rows as they come, and None about every ``TICK_SECONDS`` while there are none; ends with the source.

        Rows that have not been asked for are not read.

        Parameters
        ----------
        taken : mapping
            Rows of each origin that were taken in before, in order of arrival.

        Raises
        ------
        InputError
            Something is wrong with the rows.
        """
