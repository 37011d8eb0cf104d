"""Sources without an end: rows arrive over time, and their order does not change afterwards."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Floats
from ikmap.tables.raw import Levels
from pipeline.sources.columns.plan import Plan
from pipeline.sources.columns.raw_rows import RawRows
from pipeline.sources.columns.read_request import ReadRequest
from pipeline.sources.formats.base import DataFile
from pipeline.sources.open import planned
from pipeline.sources.source import Source

if TYPE_CHECKING:
    import pyarrow as pa

TICK_SECONDS = 0.2
"""Most seconds that pass, while no rows come, before a feed returns to whoever takes its rows."""


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
    line_of : callable or None
        Function from a row, counted from `before` rows ahead of the first, to its line of text; None: rows are in no
        text.
    before : int
    """

    url: str
    origin: str
    first_row: int
    X: np.ndarray | sp.csr_array
    y: Floats | None
    levels: Levels | None = None
    ids: pa.Array | None = None
    weights: Floats | None = None
    line_of: Callable[[int], int] | None = None
    before: int = 0

    @classmethod
    def of(cls, source: Source, origin: str, first_row: int, rows: RawRows) -> Arrival:
        """Return rows as a source has read them."""
        line_of = rows.line if source.files[0].unit == "line" else None
        return cls(source.url, origin, first_row, rows.X, rows.y, rows.levels, rows.ids, rows.weights, line_of)

    @property
    def rows(self) -> int:
        return int(self.X.shape[0])

    def place(self, row: int) -> str:
        """Return where a row is, for messages: its line of text, or its number in its origin."""
        if self.line_of is None:
            return f"{self.url}: row {self.first_row + row}"
        return f"{self.url}: line {self.line_of(self.before + row)}"

    def part(self, start: int, stop: int) -> Arrival:
        """Rows ``start .. stop - 1`` of these."""
        beside = (self.y, self.ids, self.weights)
        y, ids, weights = (None if column is None else column[start:stop] for column in beside)
        return replace(
            self,
            first_row=self.first_row + start,
            X=self.X[start:stop],
            y=y,
            ids=ids,
            weights=weights,
            before=self.before + start,
        )


class Feed(ABC):
    """An unbounded source, opened.

    Attributes
    ----------
    url : str
    replays : bool
        Gives every row again from the first on when it is read anew; else it goes on after those already taken in.
    source : Source or None
        What reads the rows; known when the first rows have come.
    known : Plan or None
        The columns of a table, as they were found with its first rows; those of another session are set.
    """

    url: str
    replays: bool
    source: Source | None = None
    known: Plan | None = None

    @property
    def column_names(self) -> tuple[str, ...] | None:
        """Names of the columns, known when the first rows have come."""
        return None if self.source is None else self.source.column_names

    def _request_like_known(self, request: ReadRequest) -> ReadRequest:
        """Return the request for more rows, with the columns of the first."""
        return request if self.known is None else request.like(self.known)

    def _planned(self, url: str, file: DataFile, request: ReadRequest) -> Source:
        """Return the rows of a file, with the columns of the first rows; these are found with the first file.

        Raises
        ------
        InputError
            The file does not have them.
        """
        source = planned(url, (file,), request)
        if self.known is not None:
            source = replace(source, plan=source.plan.as_in(self.known, url))
        elif source.plan.request is not None:
            self.known = source.plan
        self.source = self.source or source
        return source

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
