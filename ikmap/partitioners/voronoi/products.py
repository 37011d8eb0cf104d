"""Cells of Voronoi partitions on a device: scores by products of matrices, close ones settled in float64.

One float32 product scores a block of rows against all distinct centres; the scores of a partitioning's members are
taken from it, and the lowest wins. Where another lies so near that rounding might have changed the order, the exact
distances decide, on the device too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ikmap.device import DeviceArray
from ikmap.partitioners.mapper import Mapper, Place
from ikmap.partitioners.voronoi.device_rows import DenseRows, DeviceBlock, DeviceRows, SparseRows, limits_of
from ikmap.partitioners.voronoi.scores import DenseScores, SparseScores
from ikmap.rows import Rows

LEAST_PIECE = 1 << 20
"""Bytes of a piece of exact work, at least."""


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
        device = self.device
        dense = isinstance(scores, DenseScores)
        self._rows: DeviceRows[Any, Any] = (
            DenseRows(scores, device) if isinstance(scores, DenseScores) else SparseRows(scores, device)
        )
        self._reach = scores.reach
        (self._t, self._psi), n_centers = members.shape, scores.squared.size
        # So many partitionings at a time that their members' scores take no more room than those of all centres.
        self._group = int(np.clip(n_centers // self._psi, 1, self._t))
        self._members = [
            device.put(members[i : i + self._group].ravel().astype(np.int64)) for i in range(0, self._t, self._group)
        ]
        self.held_bytes = self._rows.held_bytes + 8 * members.size
        self.row_bytes = self._rows.row_bytes + 8 * n_centers + 8 * self._group * self._psi + 128 * self._t
        self.why = f"{'dense' if dense else 'sparse'} products with {n_centers:,} centres, close scores by float64"

    def block(self, rows: Rows | DeviceArray) -> DeviceArray:
        block = self._rows.block(rows)
        scores = self._rows.score(block)
        xp = self.device.xp
        return xp.concat([self._nearest(block, scores, members) for members in self._members], axis=1)

    def _nearest[Left, Held](
        self, block: DeviceBlock[Left, Held], scores: DeviceArray, members: DeviceArray
    ) -> DeviceArray:
        """Return the number of the nearest member in each of some partitionings, int32 of shape (n, g)."""
        xp = self.device.xp
        n, psi = scores.shape[0], self._psi
        scored = xp.reshape(xp.take(scores, members, axis=1), (n, -1, psi))
        nearest = xp.argmin(scored, axis=2)
        lowest = xp.take_along_axis(scored, nearest[:, :, None], axis=2)[:, :, 0]
        limit, matters = limits_of(xp, lowest, block, self._reach)
        near = scored <= limit[:, :, None]
        count = xp.count_nonzero(near, axis=2)
        doubtful = (count > 1) & matters
        chosen = xp.astype(nearest, xp.int32)
        (entries,) = xp.nonzero(xp.reshape(doubtful, (-1,)))
        if not entries.shape[0]:
            return chosen
        flat = xp.reshape(doubtful, (-1,))
        settled = self._settle(block, xp.reshape(near, (-1, psi)), entries, members)
        place = xp.cumulative_sum(xp.astype(flat, xp.int64)) - 1
        found = xp.take(settled, xp.where(place > 0, place, 0))
        return xp.where(doubtful, xp.reshape(found, doubtful.shape), chosen)

    def _settle[Left, Held](
        self, block: DeviceBlock[Left, Held], near: DeviceArray, entries: DeviceArray, members: DeviceArray
    ) -> DeviceArray:
        """Return the exactly nearest of the near members for some pairs of row and partitioning, int32."""
        xp = self.device.xp
        room = max(LEAST_PIECE, self.budget // 4)
        step = max(1, room // (32 * self._psi))
        found = [
            self._settle_some(block, near, entries[piece], members, room) for piece in _pieces(entries.shape[0], step)
        ]
        return xp.concat(found)

    def _settle_some[Left, Held](
        self, block: DeviceBlock[Left, Held], near: DeviceArray, entries: DeviceArray, members: DeviceArray, room: int
    ) -> DeviceArray:
        xp, psi = self.device.xp, self._psi
        group = members.shape[0] // psi
        near = xp.take(near, entries, axis=0)
        count = xp.count_nonzero(near, axis=1)
        entry, member = xp.nonzero(near)  # by entry, then ascending
        at = xp.take(entries, entry)
        row, center = at // group, xp.take(members, at % group * psi + member)
        pieces = _pieces(entry.shape[0], max(1, room // self._rows.pair_bytes))
        distances = xp.concat([self._rows.distances(block, row[piece], center[piece]) for piece in pieces])
        # The pairs of an entry side by side; the first least one is the answer, also if it is infinite.
        begin = xp.cumulative_sum(count) - count
        place = self.device.put(np.arange(int(xp.max(count)), dtype=np.int64)[None, :])
        there = place < count[:, None]
        pair = xp.where(there, begin[:, None] + place, begin[:, None])
        apart = xp.reshape(xp.take(distances, xp.reshape(pair, (-1,))), pair.shape)
        first = xp.argmin(xp.where(there, apart, xp.inf), axis=1)
        return xp.astype(xp.take(member, begin + first), xp.int32)


def _pieces(n: int, step: int) -> list[slice]:
    return [slice(start, min(start + step, n)) for start in range(0, n, step)]
