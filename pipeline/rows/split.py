"""Choose rows of a file: the training rows, the test rows, or all."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ikmap.arrays import Bools
from pipeline.rows.permutation import position_in_shuffle, row_in_shuffle

SHUFFLED_TOGETHER = 1 << 23
"""Most rows of a file whose sides a process finds for all of them at once, and keeps, one byte each: only the rows of
the smaller side have to be followed through the shuffle. Of more rows, each part is followed by itself."""
FOLLOWED = 1 << 16
"""Rows that are followed through the shuffle at once, of which positions are in memory."""


@dataclass(frozen=True)
class Part:
    """Some consecutive rows of a file, stored as one group by one task."""

    name: str
    rows: int


@dataclass(frozen=True)
class Split:
    """A choice of rows of a file: all, or those on one side of a split.

    Attributes
    ----------
    rule : {"all", "first", "shuffle", "divided"}
        Every row; rows before (or from) `n_train` on; rows whose place in a seeded shuffle is below (or from)
        `n_train` on; the rows of a :class:`~pipeline.rows.fitted_split.FittedSplit`. Rows keep the order of the file.
    """

    rule: str
    n_rows: int
    n_train: int = 0
    train: bool = True
    seed: int = 0

    def of_part(self, first: int, rows: int) -> np.ndarray:
        """Return the ascending numbers of the chosen rows within a part that begins at row `first`."""
        return _of_part(self, first, rows)

    def count(self, first: int, rows: int) -> int:
        """Return the number of the chosen rows within such a part."""
        return rows if self.rule == "all" else int(np.count_nonzero(_train(self, first, rows) == self.train))


@lru_cache(maxsize=4)
def _of_part(split: Split, first: int, rows: int) -> np.ndarray:
    """Do the work of :meth:`Split.of_part`; the result is kept, as parts are read in several goes."""
    if split.rule == "all":
        numbers = np.arange(rows, dtype=np.int64)
    else:
        numbers = np.flatnonzero(_train(split, first, rows) == split.train)
    numbers.flags.writeable = False
    return numbers


def _train(split: Split, first: int, rows: int) -> Bools:
    """Return which rows from row `first` on are training rows."""
    if split.rule == "shuffle" and split.n_rows <= SHUFFLED_TOGETHER:
        return _all_train(split.n_rows, split.n_train, split.seed)[first : first + rows]
    numbers = np.arange(first, first + rows, dtype=np.int64)
    places = numbers if split.rule == "first" else position_in_shuffle(numbers, split.n_rows, split.seed)
    return places < split.n_train


@lru_cache(maxsize=2)
def _all_train(n_rows: int, n_train: int, seed: int) -> Bools:
    """Return which rows of a shuffled file are training rows."""
    few = n_train <= n_rows - n_train
    first, last = (0, n_train) if few else (n_train, n_rows)
    train = np.full(n_rows, not few)
    for begin in range(first, last, FOLLOWED):
        train[row_in_shuffle(np.arange(begin, min(begin + FOLLOWED, last)), n_rows, seed)] = few
    train.flags.writeable = False
    return train
