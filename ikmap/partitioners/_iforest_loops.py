"""Compiled loops of the iForest partitions: grow one tree, and route rows through all of them."""

from __future__ import annotations

import numba
import numpy as np

LEAF = -1


@numba.njit(cache=True, nogil=True)
def _cut(low, high, u):
    """A cut in (low, high], uniform for u uniform on [0, 1): rows below it and rows at or above it both exist."""
    cut = low + (1.0 - u) * (high - low)
    return high if cut <= low or cut > high else cut


@numba.njit(cache=True, nogil=True)
def grow_dense(points, rows, uniforms, max_depth, feature, threshold, right):
    """Grow one tree on ``points[rows]``; nodes are written in preorder. Returns the number of nodes.

    Split number s (in preorder) takes attribute ``floor(u * |A|)`` of the varying attributes A in ascending order
    for ``u = uniforms[s, 0]`` and cuts at a point set by ``uniforms[s, 1]``.
    """
    n_features = points.shape[1]
    rows = rows.copy()
    low, high = np.empty(n_features), np.empty(n_features)
    stack = np.empty((rows.size + 1, 4), dtype=np.int64)  # begin, end, depth, parent to patch (or -1)
    stack[0] = (0, rows.size, 0, -1)
    height, n_nodes, n_splits, n_leaves = 1, 0, 0, 0
    while height:
        height -= 1
        begin, end, depth, parent = stack[height]
        node = n_nodes
        n_nodes += 1
        if parent >= 0:
            right[parent] = node
        chosen = LEAF
        if end - begin > 1 and (max_depth < 0 or depth < max_depth):
            low[:] = points[rows[begin]]
            high[:] = low
            for p in range(begin + 1, end):
                point = points[rows[p]]
                for j in range(n_features):
                    low[j] = min(low[j], point[j])
                    high[j] = max(high[j], point[j])
            varying = 0
            for j in range(n_features):
                varying += high[j] > low[j]
            if varying:
                skip = min(np.int64(uniforms[n_splits, 0] * varying), varying - 1)
                for j in range(n_features):
                    if high[j] > low[j]:
                        if skip == 0:
                            chosen = j
                            break
                        skip -= 1
        feature[node] = chosen
        if chosen == LEAF:
            threshold[node] = 0.0
            right[node] = n_leaves
            n_leaves += 1
            continue
        cut = _cut(low[chosen], high[chosen], uniforms[n_splits, 1])
        n_splits += 1
        threshold[node] = cut
        middle = begin
        for p in range(begin, end):
            if points[rows[p], chosen] < cut:
                rows[middle], rows[p] = rows[p], rows[middle]
                middle += 1
        stack[height] = (middle, end, depth + 1, node)
        stack[height + 1] = (begin, middle, depth + 1, -1)
        height += 2
    return n_nodes


@numba.njit(cache=True, nogil=True)
def grow_csr(data, indices, indptr, n_features, rows, uniforms, max_depth, feature, threshold, right):
    """The tree that :func:`grow_dense` grows on the same points, at a cost of O(non-zeros) a node.

    `indices` must be smaller than `n_features`; pass columns renumbered (in ascending order) to those in use.
    """
    rows = rows.copy()
    low, high = np.zeros(n_features), np.zeros(n_features)
    seen = np.zeros(n_features, dtype=np.int64)
    touched = np.empty(n_features, dtype=np.int64)
    value = np.empty(rows.size)
    stack = np.empty((rows.size + 1, 4), dtype=np.int64)
    stack[0] = (0, rows.size, 0, -1)
    height, n_nodes, n_splits, n_leaves = 1, 0, 0, 0
    while height:
        height -= 1
        begin, end, depth, parent = stack[height]
        node = n_nodes
        n_nodes += 1
        if parent >= 0:
            right[parent] = node
        chosen = LEAF
        if end - begin > 1 and (max_depth < 0 or depth < max_depth):
            n_touched = 0
            for p in range(begin, end):
                for a in range(indptr[rows[p]], indptr[rows[p] + 1]):
                    j = indices[a]
                    if seen[j] == 0:
                        touched[n_touched] = j
                        n_touched += 1
                        low[j] = high[j] = data[a]
                    else:
                        low[j] = min(low[j], data[a])
                        high[j] = max(high[j], data[a])
                    seen[j] += 1
            varying = 0
            for k in range(n_touched):
                j = touched[k]
                if seen[j] < end - begin:  # some point lacks it: the value 0 belongs to the range
                    low[j] = min(low[j], 0.0)
                    high[j] = max(high[j], 0.0)
                seen[j] = 0
                if high[j] > low[j]:
                    touched[varying] = j
                    varying += 1
            if varying:
                which = min(np.int64(uniforms[n_splits, 0] * varying), varying - 1)
                chosen = np.partition(touched[:varying], which)[which]
        feature[node] = chosen
        if chosen == LEAF:
            threshold[node] = 0.0
            right[node] = n_leaves
            n_leaves += 1
            continue
        cut = _cut(low[chosen], high[chosen], uniforms[n_splits, 1])
        n_splits += 1
        threshold[node] = cut
        for p in range(begin, end):
            value[p] = 0.0
            first, last = indptr[rows[p]], indptr[rows[p] + 1]
            a = first + np.searchsorted(indices[first:last], chosen)
            if a < last and indices[a] == chosen:
                value[p] = data[a]
        middle = begin
        for p in range(begin, end):
            if value[p] < cut:
                rows[middle], rows[p] = rows[p], rows[middle]
                value[middle], value[p] = value[p], value[middle]
                middle += 1
        stack[height] = (middle, end, depth + 1, node)
        stack[height + 1] = (begin, middle, depth + 1, -1)
        height += 2
    return n_nodes


@numba.njit(cache=True, nogil=True, inline="always")
def _route(point, feature, threshold, right, roots, codes):
    for i in range(codes.size):
        node = roots[i]
        while feature[node] != LEAF:
            # Nodes stand in preorder: the left child is the next one; `right` is counted from the root.
            node = node + 1 if point[feature[node]] < threshold[node] else roots[i] + right[node]
        codes[i] = right[node]


@numba.njit(cache=True, nogil=True)
def route_dense(points, feature, threshold, right, roots, codes):
    """Cell of each dense row in each tree."""
    for r in range(points.shape[0]):
        _route(points[r], feature, threshold, right, roots, codes[r])


@numba.njit(cache=True, nogil=True)
def route_csr(data, indices, indptr, slot, n_slots, feature, threshold, right, roots, codes):
    """Cell of each sparse row; ``slot[j]`` renumbers the attributes the trees use (-1: unused), as `feature` does."""
    point = np.zeros(n_slots)
    for r in range(codes.shape[0]):
        for a in range(indptr[r], indptr[r + 1]):
            if slot[indices[a]] >= 0:
                point[slot[indices[a]]] = data[a]
        _route(point, feature, threshold, right, roots, codes[r])
        for a in range(indptr[r], indptr[r + 1]):
            if slot[indices[a]] >= 0:
                point[slot[indices[a]]] = 0.0
