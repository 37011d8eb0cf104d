"""Cells of trees on a GPU: a thread for each row and several trees, ``tree_walk.cu``."""

from __future__ import annotations

from importlib.resources import files
from typing import cast

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Floats
from ikmap.device import DeviceArray, in_order
from ikmap.partitioners._iforest_loops import LEAF
from ikmap.partitioners.mapper import Mapper, Place
from ikmap.rows import Rows

NAME = "walk_trees"
THREADS = 256
WARP = 32
"""Rows of a block."""
TREES = 32
"""Trees of a block."""
NODE = np.dtype([("threshold", np.float64), ("feature", np.int32), ("right", np.int32)])
COLUMN_SHARE = 0.5
"""Rows go to the device whole if trees use more than this share of the columns: to pick columns takes as long."""


def source() -> str:
    """Return the kernel in CUDA C."""
    return (files(__package__) / "tree_walk.cu").read_text(encoding="utf-8")


def defines() -> dict[str, int]:
    """Return the definitions with which the kernel is compiled."""
    return {"THREADS": THREADS, "TREES": TREES}


class Walk(Mapper):
    """Trees on a device that runs kernels.

    Parameters
    ----------
    feature, threshold, right, roots
        The same as in :class:`~ikmap.partitioners.iforest.IForestPartitions`.
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
        used: np.ndarray,
        place: Place,
    ) -> None:
        super().__init__(place)
        device = self.device
        self._used = used if used.size <= COLUMN_SHARE * self.n_features else None
        nodes = np.empty(feature.size, dtype=NODE)
        nodes["threshold"], nodes["right"] = threshold, right
        nodes["feature"] = feature
        if self._used is not None:
            nodes["feature"] = np.where(feature == LEAF, LEAF, np.searchsorted(used, feature))
        self._nodes = device.put(nodes.view(np.int32))
        self._roots = device.put(np.ascontiguousarray(roots[:-1], dtype=np.int64))
        self._kernel = device.compile(source(), NAME, defines())
        self.held_bytes = nodes.nbytes
        self.row_bytes = 24 * (self.n_features if self._used is None else used.size) + 4 * (roots.size - 1)
        self.why = "trees, one kernel"

    def block(self, rows: Rows | DeviceArray) -> DeviceArray:
        xp, n, t = self.device.xp, rows.shape[0], self._roots.shape[0]
        values = in_order(xp, self._values(rows))
        codes = xp.empty((n, t), dtype=xp.int32)
        sizes = map(np.int32, (n, t, values.shape[1]))
        self._kernel((-(-n // WARP), -(-t // TREES)), (THREADS,), (*sizes, values, self._nodes, self._roots, codes))
        return codes

    def _values(self, rows: Rows | DeviceArray) -> DeviceArray:
        """Return the columns that trees use, or all, on the device."""
        xp, used = self.device.xp, self._used
        if isinstance(rows, np.ndarray):
            dense = cast("Floats", rows)
            return self.device.put(dense if used is None else np.ascontiguousarray(dense[:, used]))
        if sp.issparse(rows):
            sparse = cast("sp.csr_array", rows)
            return self.device.put_dense(sparse if used is None else sp.csr_array(sparse[:, used]))
        on_device = cast(DeviceArray, rows)
        return on_device if used is None else xp.take(on_device, self.device.put(used), axis=1)
