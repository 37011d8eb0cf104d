"""Choose rows of a file: the training rows, the test rows, or all."""

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


@lru_cache(maxsize=4)
def _of_part(split: Split, first: int, rows: int) -> np.ndarray:
    """Do the work of :meth:`Split.of_part`; the result is kept, as parts are read in several goes."""
    numbers = np.arange(first, first + rows, dtype=np.int64)
    if split.rule == "all":
        numbers -= first
    else:
        place = numbers if split.rule == "first" else position_in_shuffle(numbers, split.n_rows, split.seed)
        numbers = np.flatnonzero((place < split.n_train) == split.train)
    numbers.flags.writeable = False
    return numbers
