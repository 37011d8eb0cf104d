"""Splits of the cells of isolation trees as the depth grows, with the rows on either side.

A tree that is cut off at a depth has the splits of the whole tree above it. So the cells of all depths are nested, and
one pass can follow them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ikmap.cells import Cells
from ikmap.partitioners._iforest_loops import LEAF
from ikmap.partitioners.iforest import IForestPartitions
from ikmap.partitioners.iforest_nodes import nodes_of
from ikmap.rows import Rows
from ikmap.splits import CellSplit


def iforest_splits(
    model: IForestPartitions, row_sets: Sequence[Rows], limit: int, n_threads: int | None = None
) -> tuple[list[Cells], Iterator[CellSplit]]:
    """Return the cells of sets of rows at depth 0, and all splits up to a depth, in ascending order.

    After all splits with a value or a smaller one, the cells are those of ``model.at(value)``.

    Parameters
    ----------
    model : IForestPartitions
        Trees that isolate every point.
    limit : int
        Depth of the last splits.
    """
    t = model.n_partitions
    # Leaves of such trees are numbered from left to right, so the rows of a node are a slice of those by their leaves.
    leaves = [model.cells(rows, n_threads).codes for rows in row_sets]
    followed = [[_by_leaf(codes[:, m]) for m in range(t)] for codes in leaves]
    start = [Cells(np.zeros_like(codes), np.arange(t + 1, dtype=np.int64)) for codes in leaves]
    return start, _splits(model, followed, limit)


def _by_leaf(leaf: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(leaf, kind="stable").astype(np.int32)
    return order, leaf[order]


def _splits(
    model: IForestPartitions, followed: Sequence[Sequence[tuple[np.ndarray, np.ndarray]]], limit: int
) -> Iterator[CellSplit]:
    of = nodes_of(model.feature, model.right, model.roots)
    leaf = model.feature == LEAF
    counted = np.cumsum(leaf) - leaf
    leaves_before = counted - counted[model.roots[of.tree]]
    inner = np.flatnonzero(~leaf & (of.depth < limit))
    for node in inner[np.lexsort((inner, of.depth[inner]))]:
        m, right = int(of.tree[node]), of.right[node]
        ends = (leaves_before[node], leaves_before[right], leaves_before[of.last[node]] + 1)
        sides = []
        for one in followed:
            order, sorted_leaves = one[m]
            a, b, c = np.searchsorted(sorted_leaves, ends)
            sides.append((order[a:b], order[b:c]))
        number = int(of.number[node])
        yield CellSplit(int(of.depth[node]) + 1, m, number, number, int(of.number[right]), sides)
