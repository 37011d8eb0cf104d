"""iForest partitions: the cell of a point is its leaf in a random tree that isolates a small subsample."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ikmap._threads import for_each_block
from ikmap.arrays import Floats
from ikmap.cells import Cells
from ikmap.device import Device
from ikmap.partitioners._iforest_csr_loops import grow_csr
from ikmap.partitioners._iforest_loops import LEAF, grow_dense
from ikmap.partitioners._iforest_walk_loops import LANES, pack_tree, walk_csr, walk_dense
from ikmap.partitioners.base import Partitions
from ikmap.partitioners.iforest_descent import Descent
from ikmap.partitioners.iforest_kernel import Walk
from ikmap.partitioners.iforest_nodes import nodes_of
from ikmap.partitioners.mapper import Mapper, Place
from ikmap.rows import Rows, as_rows, csr_arrays, take_rows
from ikmap.seeds import generator

ROUTE_BLOCK = 2048
CACHE_BYTES = 1 << 19
"""Bytes of values of the rows that walk a tree together."""
SPLITS = 1
"""Second number of the seed path of a tree's splits; its subsample uses the path without it."""


@dataclass(frozen=True, eq=False)
class IForestPartitions(Partitions):
    """t axis-parallel random trees, each of which isolates psi of the training points.

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
    psi, n_features : int
    max_depth : str, int or None
        None: trees grow until every point is isolated. "log2": they stop at depth ceil(log2 psi). A number: they are
        those of None without what lies below this depth.

    Notes
    -----
    Source: Isolation Kernel, section 3.1 (iForest); algorithms.md, section 3.1.
    """

    kind: ClassVar[str] = "iforest"

    feature: np.ndarray
    threshold: Floats
    right: np.ndarray
    roots: np.ndarray
    psi: int
    n_features: int
    max_depth: str | int | None = None

    @property
    def n_partitions(self) -> int:
        return int(self.roots.size - 1)

    @property
    def offsets(self) -> np.ndarray:
        return np.arange(self.n_partitions + 1, dtype=np.int64) * self.psi

    @property
    def n_leaves(self) -> np.ndarray:
        """Number of cells in use, shape (t,): psi for different points and unlimited depth."""
        return np.add.reduceat(self.feature == LEAF, self.roots[:-1], dtype=np.int64)

    def part(self, start: int, stop: int) -> IForestPartitions:
        """Return the trees ``start .. stop - 1``."""
        own, roots = slice(self.roots[start], self.roots[stop]), self.roots[start : stop + 1] - self.roots[start]
        nodes = (self.feature[own], self.threshold[own], self.right[own])
        return IForestPartitions(*nodes, roots, self.psi, self.n_features, self.max_depth)

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
            int32 codes of shape (n, t), each in [0, psi).
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

    def at(self, depth: int) -> IForestPartitions:
        """Return the trees, cut at a depth; a cell has the same number at all depths.

        Raises
        ------
        ValueError
            The depth is negative, or these trees do not isolate every point.
        """
        if depth < 0 or self.max_depth is not None:
            raise ValueError(f"expected trees of all depths and a depth >= 0, got {self.max_depth!r} and {depth!r}")
        nodes = nodes_of(self.feature, self.right, self.roots)
        kept, cut = nodes.depth <= depth, (nodes.depth < depth) & (self.feature != LEAF)
        before = np.concatenate([[0], np.cumsum(kept)])
        roots = before[self.roots]
        right = np.where(cut, before[nodes.right] - roots[nodes.tree], nodes.number)
        return IForestPartitions(
            feature=np.where(cut, self.feature, LEAF)[kept].astype(np.int32),
            threshold=np.where(cut, self.threshold, 0.0)[kept],
            right=right[kept].astype(np.int32),
            roots=roots,
            psi=self.psi,
            n_features=self.n_features,
            max_depth=int(depth),
        )

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


def fit_iforest(
    X: Rows, draws: np.ndarray, seed: int, *, max_depth: str | int | None = None, n_threads: int | None = None
) -> IForestPartitions:
    """Fit iForest partitions.

    Parameters
    ----------
    X : float64 ndarray or csr_array, shape (n, d)
        Points; only those named in `draws` matter.
    draws : ndarray of int, shape (t, psi)
        Row numbers of each subsample (:func:`~ikmap.partitioners.subsample.draw_subsamples`).
    seed : int
        Tree i draws its splits from ``generator(seed, i, 1)``.
    max_depth : None, "log2", or int >= 1
        None isolates every point; "log2" stops at depth ceil(log2 psi), as the authors' released code does. Trees of
        all numbers are nested: each is what None gives, cut off at that depth
        (:meth:`IForestPartitions.at`).

    Raises
    ------
    ValueError
        If max_depth is none of them.
    """
    if isinstance(max_depth, int | np.integer) and max_depth >= 1:
        return fit_iforest(X, draws, seed, n_threads=n_threads).at(int(max_depth))
    if max_depth not in (None, "log2"):
        raise ValueError(f'max_depth must be None, "log2" or a whole number >= 1, got {max_depth!r}')
    n_partitions, psi = draws.shape
    depth = -1 if max_depth is None else int(np.ceil(np.log2(psi))) if psi > 1 else 0
    shape = (n_partitions, 2 * psi - 1)
    feature, right = np.empty(shape, dtype=np.int32), np.empty(shape, dtype=np.int32)
    threshold = np.empty(shape)
    n_nodes = np.empty(n_partitions, dtype=np.int64)

    def work(start: int, stop: int) -> None:
        for i in range(start, stop):
            points = as_rows(take_rows(X, draws[i]))
            uniforms = generator(seed, i, SPLITS).random((psi, 2))
            tree = (np.arange(psi), uniforms, depth, feature[i], threshold[i], right[i])
            if isinstance(points, np.ndarray):
                n_nodes[i] = grow_dense(points, *tree)
            else:
                values, columns, begin = csr_arrays(points)
                used, places = np.unique(columns, return_inverse=True)
                n_nodes[i] = grow_csr(values, places, begin, used.size, *tree)
                split = feature[i] != LEAF
                split[n_nodes[i] :] = False
                feature[i, split] = used[feature[i, split]]

    for_each_block(work, n_partitions, 1, n_threads)
    kept = np.arange(shape[1]) < n_nodes[:, None]
    return IForestPartitions(
        feature=feature[kept],
        threshold=threshold[kept],
        right=right[kept],
        roots=np.r_[0, np.cumsum(n_nodes)],
        psi=psi,
        n_features=int(X.shape[1]),
        max_depth=max_depth,
    )
