"""Sources without an end: rows arrive over time, and their order does not change afterwards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Floats

TICK_SECONDS = 0.2
"""A feed lets its reader look around so often, while no rows come."""


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
    """

    url: str
    origin: str
    first_row: int
    X: np.ndarray | sp.csr_array
    y: Floats | None

    @property
    def rows(self) -> int:
        return int(self.X.shape[0])

    def part(self, start: int, stop: int) -> Arrival:
        """Rows ``start .. stop - 1`` of these."""
        y = None if self.y is None else self.y[start:stop]
        return Arrival(self.url, self.origin, self.first_row + start, self.X[start:stop], y)


class Feed(Protocol):
    """An unbounded source, opened.

    Attributes
    ----------
    url : str
    replays : bool
        Gives every row again from the first on when it is read anew; else it goes on after those already taken in.
    column_names : tuple of str or None
        Known when the first rows have come.
    """

    url: str
    replays: ClassVar[bool]
    column_names: tuple[str, ...] | None

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
