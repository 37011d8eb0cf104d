"""Facts on the nodes of isolation trees: depth, last descendant, and number of the cell."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ikmap.partitioners._iforest_loops import LEAF


class Nodes(NamedTuple):
    """Facts on the nodes of all trees, in preorder, numbered over all trees.

    Attributes
    ----------
    tree : ndarray of int64
    right : ndarray of int64
        Right child; of a leaf, the leaf itself.
    last : ndarray of int64
        The last node below it; of a leaf, the leaf itself.
    depth : ndarray of int64
        0 at a root.
    number : ndarray of int64
        The cell of a node within its tree. Cells are numbered as they come to be, those of less depth first: when one
        is cut, its left part keeps the number, and the right one gets the next.
    """

    tree: np.ndarray
    right: np.ndarray
    last: np.ndarray
    depth: np.ndarray
    number: np.ndarray


def nodes_of(feature: np.ndarray, right_of: np.ndarray, roots: np.ndarray) -> Nodes:
    """Describe the nodes of trees that are stored as in :class:`~ikmap.partitioners.iforest.IForestPartitions`."""
    leaf = feature == LEAF
    n, inner = leaf.size, np.flatnonzero(~leaf)
    nodes = np.arange(n)
    tree = np.repeat(np.arange(roots.size - 1), np.diff(roots))
    right = np.where(leaf, nodes, roots[tree] + right_of)
    last = right  # where one gets by going right: once, then twice, four times and so on
    while (last[last] != last).any():
        last = last[last]
    begins = np.zeros(n + 1, dtype=np.int64)
    begins[inner + 1] += 1
    np.subtract.at(begins, last[inner] + 1, 1)
    depth = np.cumsum(begins[:-1])
    # Of each tree the splits by depth, those of one depth in preorder: the k-th makes cell k.
    order = inner[np.lexsort((inner, depth[inner], tree[inner]))]
    first = np.searchsorted(tree[order], tree[order])
    number = np.zeros(n, dtype=np.int64)
    number[right[order]] = np.arange(order.size) - first + 1
    # A left child stands behind its parent: it has the number of the last node before it that is no left child.
    is_left = np.zeros(n, dtype=bool)
    is_left[inner + 1] = True
    number = number[np.maximum.accumulate(np.where(is_left, 0, nodes))]
    return Nodes(tree, right, last, depth, number)
