"""Trees of axis-parallel splits, whose leaves are cells: their arrays, and the walk of rows down the trees."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ikmap._threads import for_each_block
from ikmap.arrays import Floats
from ikmap.cells import Cells
from ikmap.device import Device
from ikmap.partitioners._iforest_loops import LEAF
from ikmap.partitioners._tree_walk_loops import LANES, pack_tree, walk_csr, walk_dense
from ikmap.partitioners.base import Partitions
from ikmap.partitioners.mapper import Mapper, Place
from ikmap.partitioners.tree_descent import Descent
from ikmap.partitioners.tree_kernel import Walk
from ikmap.rows import Rows, as_rows, csr_arrays

ROUTE_BLOCK = 2048
CACHE_BYTES = 1 << 19
"""Bytes of values of the rows that walk a tree together."""


@dataclass(frozen=True, eq=False)
class TreePartitions(Partitions):
    """t trees; the cell of a row is the leaf that it reaches.

    Parameters
    ----------
    feature : ndarray of int32, shape (N,)
        Nodes of all trees, each tree in preorder: the attribute to compare, or -1 in a leaf.
    threshold : ndarray of float64, shape (N,)
        A row goes left, to the next node, when its value is below.
    right : ndarray of int32, shape (N,)
        Right child, counted from the tree's root; in a leaf: the number of its cell.
    roots : ndarray of int64, shape (t + 1,)
        Where each tree begins.
    n_features : int
    """

    feature: np.ndarray
    threshold: Floats
    right: np.ndarray
    roots: np.ndarray
    n_features: int

    @property
    def n_partitions(self) -> int:
        return int(self.roots.size - 1)

    @property
    def n_leaves(self) -> np.ndarray:
        """Number of leaves of each tree, shape (t,)."""
        return np.add.reduceat(self.feature == LEAF, self.roots[:-1], dtype=np.int64)

    @property
    def offsets(self) -> np.ndarray:
        offsets = np.zeros(self.n_partitions + 1, dtype=np.int64)
        np.cumsum(self.n_leaves, out=offsets[1:])
        return offsets

    def cells(self, X: Rows, n_threads: int | None = None) -> Cells:
        """Map points to cells.

        Parameters
        ----------
        X : float64 ndarray or csr_array, shape (n, d)
        n_threads : int, optional
            At most this many threads; default: all usable cores.

        Returns
        -------
        Cells
            int32 codes of shape (n, t): the number of the leaf in each tree.
        """
        n = X.shape[0]
        if X.shape[1] != self.n_features:
            raise ValueError(f"X has {X.shape[1]} columns, the model was fitted on {self.n_features}")
        codes = np.empty((n, self.n_partitions), dtype=np.int32)
        nodes, heights, used, slot = self._forest
        at_once = rows_at_once(used.size)

        def work(start: int, stop: int) -> None:
            rows = as_rows(X[start:stop])
            trees = (nodes, self.roots, heights, at_once, codes[start:stop])
            if isinstance(rows, np.ndarray):
                walk_dense(rows, used, *trees)
            else:
                walk_csr(*csr_arrays(rows), slot, used.size, *trees)

        for_each_block(work, n, ROUTE_BLOCK, n_threads)
        return Cells(codes, self.offsets)

    def mapper(self, device: Device, budget: int | None = None) -> Mapper:
        """Return a mapper of the trees on a device."""
        _, heights, used, _ = self._forest
        trees = (self.feature, self.threshold, self.right, self.roots)
        place = Place(device, self.offsets, self.n_features, budget)
        if device.shared_bytes:
            return Walk(*trees, used, place)
        return Descent(*trees, int(heights.max(initial=0)), used, place)

    @cached_property
    def _forest(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Nodes in the layout of the loops, the height of each tree, the attributes in use, and the slot of each."""
        used = np.unique(self.feature[self.feature != LEAF])
        slot = np.full(self.n_features, -1, dtype=np.int32)
        slot[used] = np.arange(used.size, dtype=np.int32)
        nodes = np.empty((self.feature.size, 2), dtype=np.uint64)
        heights = np.empty(self.n_partitions, dtype=np.int64)
        for i in range(self.n_partitions):
            own = slice(self.roots[i], self.roots[i + 1])
            heights[i] = pack_tree(self.feature[own], self.threshold[own], self.right[own], slot, nodes[own])
        return nodes, heights, used, slot


def rows_at_once(n_slots: int) -> int:
    """Return the number of rows that go down one tree before the next tree, a multiple of LANES.

    The more, the longer a tree stays in the second-level cache; but their values have to fit in beside it.
    """
    rows = CACHE_BYTES // (8 * max(n_slots, 1))
    return max(LANES, min(rows, ROUTE_BLOCK) // LANES * LANES)
