"""A sweep: cells split one after the other as a map's option grows, and one pass finds the best of all its values.

The map says which cell splits at which value (:meth:`ikmap.methods.Map.events`); the learner follows, and says after
each split how good it is on rows held out (:meth:`ikmap.methods.Learner.sweep`). There is no grid to choose, and a
value costs no more than the rows of the cell that splits there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np


@dataclass(frozen=True)
class CellSplit:
    """One cell becomes two, in the map for this value of its option and for all larger ones.

    Attributes
    ----------
    value : int or float
        Of the map's option.
    partitioning : int
    parent : int
        Number of the cell within its partitioning. No row is in it any more, unless one of the two keeps its number.
    left, right : int
        Numbers of the two. Other cells keep theirs, and new numbers follow those that there are.
    rows : sequence of (ndarray, ndarray)
        For each set of rows that is followed, the numbers of its rows that are now in `left`, and of those in `right`:
        together those that were in `parent`.
    """

    value: int | float
    partitioning: int
    parent: int
    left: int
    right: int
    rows: Sequence[tuple[np.ndarray, np.ndarray]]

    def apply(self, codes: Sequence[np.ndarray]) -> None:
        """Move the rows: change the cells of each set, shape (n, t), in place."""
        for one, (left, right) in zip(codes, self.rows, strict=True):
            one[left, self.partitioning] = self.left
            one[right, self.partitioning] = self.right
