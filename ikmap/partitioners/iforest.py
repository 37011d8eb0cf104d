"""iForest partitions: the cell of a point is its leaf in a random tree that isolates a small subsample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ikmap._threads import for_each_block
from ikmap.partitioners._iforest_csr_loops import grow_csr
from ikmap.partitioners._iforest_loops import LEAF, grow_dense
from ikmap.partitioners.iforest_nodes import nodes_of
from ikmap.partitioners.trees import TreePartitions
from ikmap.rows import Rows, as_rows, csr_arrays, take_rows
from ikmap.seeds import generator

SPLITS = 1
"""Second number of the seed path of a tree's splits; its subsample uses the path without it."""


@dataclass(frozen=True, eq=False)
class IForestPartitions(TreePartitions):
    """t axis-parallel random trees, each of which isolates psi of the training points.

    Parameters
    ----------
    feature, threshold, right, roots, n_features
        As in :class:`~ikmap.partitioners.trees.TreePartitions`.
    psi : int
    max_depth : str, int or None
        None: trees grow until every point is isolated. "log2": they stop at depth ceil(log2 psi). A number: they are
        those of None without what lies below this depth.

    Notes
    -----
    Source: Isolation Kernel, section 3.1 (iForest); algorithms.md, section 3.1.
    """

    kind: ClassVar[str] = "iforest"

    psi: int
    max_depth: str | int | None = None

    @property
    def offsets(self) -> np.ndarray:
        return np.arange(self.n_partitions + 1, dtype=np.int64) * self.psi

    def part(self, start: int, stop: int) -> IForestPartitions:
        """Return the trees ``start .. stop - 1``."""
        own, roots = slice(self.roots[start], self.roots[stop]), self.roots[start : stop + 1] - self.roots[start]
        nodes = (self.feature[own], self.threshold[own], self.right[own])
        return IForestPartitions(*nodes, roots, self.n_features, self.psi, self.max_depth)

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
