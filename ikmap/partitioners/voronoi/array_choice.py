"""Choice of the nearest members on a device, with functions of the array API standard only."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ikmap.device import Device, DeviceArray
from ikmap.partitioners.voronoi.device_rows import DeviceBlock, EitherRows, limits_of

type Budget = Callable[[], int]

LEAST_PIECE = 1 << 20
"""Bytes of a piece of exact work, at least."""


class ArrayChoice:
    """A choice of the nearest members by functions of arrays.

    Parameters
    ----------
    rows : DenseRows or SparseRows
    members : ndarray of int32, shape (t, psi)
    reach : float
        Length of the longest centre.
    device : Device
    """

    def __init__(self, rows: EitherRows, members: np.ndarray, reach: float, device: Device) -> None:
        self.device, self._rows, self._reach = device, rows, reach
        (self._t, self._psi), n_centers = members.shape, rows.norms.shape[1]
        # So many partitionings at a time that their members' scores take no more room than those of all centres.
        self._group = int(np.clip(n_centers // self._psi, 1, self._t))
        self._members = [
            device.put(members[i : i + self._group].ravel().astype(np.int64)) for i in range(0, self._t, self._group)
        ]
        self.held_bytes = 8 * members.size
        self.row_bytes = 4 * n_centers + 8 * self._group * self._psi + 128 * self._t

    def codes[Left, Held](self, block: DeviceBlock[Left, Held], products: DeviceArray, budget: Budget) -> DeviceArray:
        """Return the number of the nearest member in each partitioning, int32 of shape (n, t).

        Parameters
        ----------
        block : DeviceBlock
        products : float32 array, shape (n, n_centers)
        budget : callable
            Returns the bytes that exact work can take.
        """
        products += self._rows.norms
        choices = [self._nearest(block, products, members, budget) for members in self._members]
        return self.device.xp.concat(choices, axis=1)

    def _nearest[Left, Held](
        self, block: DeviceBlock[Left, Held], scores: DeviceArray, members: DeviceArray, budget: Budget
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
        settled = self._settle(block, xp.reshape(near, (-1, psi)), entries, members, budget)
        place = xp.cumulative_sum(xp.astype(flat, xp.int64)) - 1
        found = xp.take(settled, xp.where(place > 0, place, 0))
        return xp.where(doubtful, xp.reshape(found, doubtful.shape), chosen)

    def _settle[Left, Held](
        self,
        block: DeviceBlock[Left, Held],
        near: DeviceArray,
        entries: DeviceArray,
        members: DeviceArray,
        budget: Budget,
    ) -> DeviceArray:
        """Return the exactly nearest of the near members for some pairs of row and partitioning, int32."""
        xp = self.device.xp
        room = max(LEAST_PIECE, budget() // 4)
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
