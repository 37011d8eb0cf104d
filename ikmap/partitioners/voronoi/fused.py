"""Cells of Voronoi partitions of short dense rows on a GPU: one kernel from rows to cells, ``nearest.cu``."""

from __future__ import annotations

import numpy as np

from ikmap.device import DeviceArray, in_order
from ikmap.partitioners.mapper import Mapper, Place
from ikmap.partitioners.voronoi.device_rows import DenseRows
from ikmap.partitioners.voronoi.kernels import source
from ikmap.partitioners.voronoi.lowest import MOST_NUMBERS
from ikmap.partitioners.voronoi.scores import DenseScores
from ikmap.rows import Rows

MOST_FEATURES = 64
"""Columns of a row that fits into a thread's registers."""
MOST_PARTITIONS = 65_535
"""Most partitionings of one launch."""
NAME = "nearest_members"
THREADS = 128
LANES = 4
"""Columns are filled up to a multiple of this: threads read so many at once."""
REGISTERS = 128
"""Registers, out of the 255 of a thread, for its rows."""
MOST_ROWS = 4
"""Rows of a thread, at most. Four multiply-adds take as long as the read from shared memory that they share."""


def defines(n_features: int) -> dict[str, int]:
    """Return the definitions with which the kernel is compiled."""
    rows = min(MOST_ROWS, REGISTERS // _filled(n_features))
    return {"FEATURES": n_features, "THREADS": THREADS, "ROWS": rows}


def _filled(n_features: int) -> int:
    return -(-n_features // LANES) * LANES


def fits(n_features: int, shape: tuple[int, int], n_centers: int) -> bool:
    """Return whether the kernel suits partitions, and is faster than products with all distinct centres.

    The kernel takes d multiply-adds and a comparison for each member; products take d multiply-adds for each distinct
    centre, which are faster, a passage through memory, and a comparison for each member. Costs are in comparisons, as
    measured on an H200.

    Parameters
    ----------
    n_features : int
    shape : tuple of int
        Number of partitionings, and of members of each.
    n_centers : int
        Number of distinct centres.
    """
    n_partitions, psi = shape
    suits = n_features <= MOST_FEATURES and n_partitions <= MOST_PARTITIONS
    of_kernel = n_partitions * psi * (1.0 + n_features / 8.0)
    of_products = n_centers * (6.0 + n_features / 12.0) + n_partitions * psi
    return suits and (of_kernel <= of_products or psi > MOST_NUMBERS)


class Fused(Mapper):
    """Voronoi partitions on a device, by one kernel.

    Parameters
    ----------
    scores : DenseScores
        Scores of the centres, with at most ``MOST_FEATURES`` columns.
    members : ndarray of int32, shape (t, psi)
    place : Place
    """

    def __init__(self, scores: DenseScores, members: np.ndarray, place: Place) -> None:
        super().__init__(place)
        device = self.device
        # Its products are its own, in full float32.
        self._rows = DenseRows(scores, device, product_error=0.0)
        self._kernel = device.compile(source("nearest.cu"), NAME, defines(self.n_features))
        self._reach = scores.reach
        self._t, self._psi = members.shape
        self._lines = self._filled_up(device.put(scores.scaled().astype(np.float32)))
        self._norms = device.put(scores.squared.astype(np.float32))
        self._members = device.put(np.ascontiguousarray(members, dtype=np.int32))
        self.held_bytes = self._rows.held_bytes + 4 * scores.operand.size + 4 * members.size
        self.row_bytes = self._rows.row_bytes + 4 * self._t
        self.why = "one kernel for distances, the nearest and its float64 recheck"

    def _filled_up(self, rows: DeviceArray) -> DeviceArray:
        """Return float32 rows with zeros up to a multiple of LANES columns."""
        more = _filled(self.n_features) - self.n_features
        xp = self.device.xp
        return in_order(xp, xp.concat([rows] + [rows[:, :1] * 0.0] * more, axis=1))

    def block(self, rows: Rows | DeviceArray) -> DeviceArray:
        block = self._rows.block(rows)
        n = block.left.shape[0]
        codes = self.device.xp.empty((n, self._t), dtype=self.device.xp.int32)
        height = THREADS * defines(self.n_features)["ROWS"]
        self._kernel(
            (-(-n // height), self._t),
            (THREADS,),
            (
                *(np.int32(n), np.int32(self._t), np.int32(self._psi), np.float64(self._reach)),
                *(self._filled_up(block.left), block.lengths, block.units),
                *(self._lines, self._norms, self._members, *self._rows.operands(block)[:2], codes),
            ),
        )
        return codes
