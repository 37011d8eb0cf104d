"""Cells of trees on a device: all rows go down all trees together, level by level."""

from __future__ import annotations

from typing import cast

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Floats
from ikmap.device import DeviceArray
from ikmap.partitioners._iforest_loops import LEAF
from ikmap.partitioners.mapper import Mapper, Place
from ikmap.rows import Rows

BYTES_OF_A_WALK = 64
"""Bytes that a row takes in a tree: its node, and the value that it compares there."""


class Descent(Mapper):
    """Trees on a device.

    Parameters
    ----------
    feature, threshold, right, roots
        The same as in :class:`~ikmap.partitioners.iforest.IForestPartitions`.
    height : int
        Height of the highest tree.
    used : ndarray of int
        Attributes that some node compares, ascending.
    place : Place
    """

    def __init__(
        self,
        feature: np.ndarray,
        threshold: np.ndarray,
        right: np.ndarray,
        roots: np.ndarray,
        height: int,
        used: np.ndarray,
        place: Place,
    ) -> None:
        super().__init__(place)
        leaf = feature == LEAF
        nodes = np.arange(feature.size, dtype=np.int64)
        first = np.repeat(roots[:-1], np.diff(roots))
        put = self.device.put
        # A leaf leads to itself, so that all walks may take as many steps as the longest.
        self._slot = put(np.where(leaf, 0, np.searchsorted(used, feature)).astype(np.int64))
        self._threshold = put(threshold)
        self._left = put(np.where(leaf, nodes, nodes + 1))
        self._right = put(np.where(leaf, nodes, first + right))
        self._cell = put(np.where(leaf, right, -1).astype(np.int32))
        self._roots = put(np.ascontiguousarray(roots[:-1], dtype=np.int64))
        self._host_used, self._used = used, put(used.astype(np.int64))
        self._height = height
        self.held_bytes = 36 * feature.size
        self.row_bytes = BYTES_OF_A_WALK * (roots.size - 1) + 24 * max(1, used.size)
        self.why = f"trees, all rows in step, {height} levels"

    def block(self, rows: Rows | DeviceArray) -> DeviceArray:
        xp, put = self.device.xp, self.device.put
        n, t, width = rows.shape[0], self._roots.shape[0], max(1, self._host_used.size)
        at = xp.broadcast_to(self._roots, (n, t))
        if self._height:
            if isinstance(rows, np.ndarray):
                dense = cast("Floats", rows)
                values = put(np.ascontiguousarray(dense[:, self._host_used]))
            elif sp.issparse(rows):
                values = self.device.put_dense(sp.csr_array(cast("sp.csr_array", rows)[:, self._host_used]))
            else:
                values = xp.take(rows, self._used, axis=1)
            values = xp.reshape(values, (-1,))
            row = put(np.arange(n, dtype=np.int64)[:, None] * width)
        for _ in range(self._height):
            value = self._of(values, row + self._of(self._slot, at))
            below = value < self._of(self._threshold, at)
            at = xp.where(below, self._of(self._left, at), self._of(self._right, at))
        return self._of(self._cell, at)

    def _of(self, table: DeviceArray, at: DeviceArray) -> DeviceArray:
        """Return ``table[at]`` for `at` of any shape."""
        xp = self.device.xp
        return xp.reshape(xp.take(table, xp.reshape(at, (-1,)), axis=0), at.shape)
