"""Compiled loop that grows one iForest tree on dense points."""

from __future__ import annotations

import numpy as np

from ikmap.compiled import compiled

LEAF = -1


@compiled
def cut_between(low, high, u):
    """A cut in (low, high], uniform for u uniform on [0, 1): rows below it and rows at or above it both exist."""
    cut = low + (1.0 - u) * (high - low)
    return high if cut <= low or cut > high else cut


@compiled
def push(stack, height, begin, end, depth, parent):
    """Write a subtree to grow; a tuple for the whole row would take seconds to compile, for the message of its size."""
    stack[height, 0], stack[height, 1], stack[height, 2], stack[height, 3] = begin, end, depth, parent


@compiled(
    {
        "iforest dense": "f8[:, ::1], i8[::1], f8[:, ::1], i8, i4[::1], f8[::1], i4[::1]",
    }
)
def grow_dense(points, rows, uniforms, max_depth, feature, threshold, right):
    """Grow one tree on ``points[rows]``; nodes are written in preorder. Returns the number of nodes.

    Split number s (in preorder) takes attribute ``floor(u * |A|)`` of the varying attributes A in ascending order
    for ``u = uniforms[s, 0]`` and cuts at a point set by ``uniforms[s, 1]``.
    """
    n_features = points.shape[1]
    rows = rows.copy()
    low, high = np.empty(n_features), np.empty(n_features)
    stack = np.empty((rows.size + 1, 4), dtype=np.int64)  # begin, end, depth, parent to patch (or -1)
    push(stack, 0, 0, rows.size, 0, -1)
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
            point = points[rows[begin]]
            for j in range(n_features):
                low[j] = high[j] = point[j]
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
        cut = cut_between(low[chosen], high[chosen], uniforms[n_splits, 1])
        n_splits += 1
        threshold[node] = cut
        middle = begin
        for p in range(begin, end):
            if points[rows[p], chosen] < cut:
                rows[middle], rows[p] = rows[p], rows[middle]
                middle += 1
        push(stack, height, middle, end, depth + 1, node)
        push(stack, height + 1, begin, middle, depth + 1, -1)
        height += 2
    return n_nodes
