"""Cells of Voronoi partitions on a device: scores by products of matrices, close ones settled in float64.

One float32 product scores a block of rows against all distinct centres; among the scores of a partitioning's members
the lowest wins. Where another lies so near that rounding might have changed the order, the exact distances decide, on
the device too.
"""

from __future__ import annotations

import numpy as np

from ikmap.device import DeviceArray
from ikmap.partitioners.mapper import Mapper, Place
from ikmap.partitioners.voronoi.array_choice import ArrayChoice
from ikmap.partitioners.voronoi.device_rows import DenseRows, EitherRows, SparseRows
from ikmap.partitioners.voronoi.lowest import MOST_NUMBERS, KernelChoice
from ikmap.partitioners.voronoi.scores import DenseScores, SparseScores
from ikmap.rows import Rows


class Products(Mapper):
    """Voronoi partitions on a device.

    Parameters
    ----------
    scores : DenseScores or SparseScores
        Scores of the centres.
    members : ndarray of int32, shape (t, psi)
    place : Place
    """

    def __init__(self, scores: DenseScores | SparseScores, members: np.ndarray, place: Place) -> None:
        super().__init__(place)
        dense = isinstance(scores, DenseScores)
        self._rows: EitherRows = (
            DenseRows(scores, self.device) if isinstance(scores, DenseScores) else SparseRows(scores, self.device)
        )
        kernels = self.device.shared_bytes > 0 and members.shape[1] <= MOST_NUMBERS
        self._choice = (KernelChoice if kernels else ArrayChoice)(self._rows, members, scores.reach, self.device)
        self.held_bytes = self._rows.held_bytes + self._choice.held_bytes
        self.row_bytes = self._rows.row_bytes + 4 * scores.squared.size + self._choice.row_bytes
        self.why = (
            f"{'dense' if dense else 'sparse'} products with {scores.squared.size:,} centres, the nearest by "
            f"{'kernels' if kernels else 'functions of arrays'}, close scores by float64"
        )

    def block(self, rows: Rows | DeviceArray) -> DeviceArray:
        block = self._rows.block(rows)
        return self._choice.codes(block, self._rows.products(block), lambda: self.budget)
