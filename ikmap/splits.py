"""Splits of cells as a field of a map grows, so that one pass can try all of its values.

A map says which cell splits at which value (:meth:`ikmap.methods.Sweepable.events`); a learner follows, and says
now and then how good it is on rows held out (:meth:`ikmap.methods.FollowsSplits.sweep`). There is no grid to choose,
and a value costs no more than the rows of the cells that split on the way to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True, slots=True)
class CellSplit:
    """The split of one cell into two, at this value of the field of the map and at all larger ones.

    Attributes
    ----------
    value : int or float
        Value of the field of the map.
    partitioning : int
    parent : int
        Number of the cell within its partitioning. No row is in it any more, unless one of the two keeps its number.
    left, right : int
        Numbers of the two. Other cells keep theirs, and new numbers follow those that there are.
    rows : sequence of (ndarray, ndarray)
        For each set of rows that is followed, the numbers of its rows that are now in `left`, and of those in `right`:
        together those that were in `parent`.
    lost : sequence of (ndarray, ndarray)
        For each set, numbers of rows and of partitionings: these rows have no cell there any more. They lost it since
        the split before this one. Empty of maps whose rows all keep a cell.
    """

    value: int | float
    partitioning: int
    parent: int
    left: int
    right: int
    rows: Sequence[tuple[np.ndarray, np.ndarray]]
    lost: Sequence[tuple[np.ndarray, np.ndarray]] = ()

    def apply(self, codes: Sequence[np.ndarray]) -> None:
        """Move the rows: change the cells of each set, shape (n, t), in place."""
        for one, (rows, partitionings) in zip(codes, self.lost, strict=False):
            one[rows, partitionings] = -1
        for one, (left, right) in zip(codes, self.rows, strict=True):
            one[left, self.partitioning] = self.left
            one[right, self.partitioning] = self.right


class Swept(NamedTuple):
    """Score of a learner at one value of a sweep.

    Parameters
    ----------
    value : int or float
        Value of the field of the map.
    total : float
        Sum of the task's ``row_scores`` over the rows held out.
    log_likelihood : float, optional
        Log marginal likelihood of the training targets, where the learner has one.
    """

    value: int | float
    total: float
    log_likelihood: float | None = None
