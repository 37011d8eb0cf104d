"""Which rows of a file are meant: the training rows, the test rows, or all."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from pipeline.rows.permutation import position_in_shuffle


@dataclass(frozen=True)
class Part:
    """Some consecutive rows of a file, stored as one group by one task."""

    name: str
    rows: int


@dataclass(frozen=True)
class Split:
    """Which rows of a file are meant: all, or those on one side of a division.

    Attributes
    ----------
    rule : {"all", "first", "shuffle", "divided"}
        Every row; rows before (or from) `n_train` on; rows whose place in a seeded shuffle is below (or from)
        `n_train` on; those that a :class:`~pipeline.rows.fitted_split.FittedSplit` says. Rows keep the order of the
        file.
    """

    rule: str
    n_rows: int
    n_train: int = 0
    train: bool = True
    seed: int = 0

    def of_part(self, first: int, rows: int) -> np.ndarray:
        """Ascending numbers, within a part that begins at row `first`, of the rows that are meant."""
        return _of_part(self, first, rows)


@lru_cache(maxsize=4)
def _of_part(side: Split, first: int, rows: int) -> np.ndarray:
    """:meth:`Split.of_part`, kept for later: a part is read in several goes, and to shuffle it takes as long."""
    numbers = np.arange(first, first + rows, dtype=np.int64)
    if side.rule == "all":
        numbers -= first
    else:
        place = numbers if side.rule == "first" else position_in_shuffle(numbers, side.n_rows, side.seed)
        numbers = np.flatnonzero((place < side.n_train) == side.train)
    numbers.flags.writeable = False
    return numbers
