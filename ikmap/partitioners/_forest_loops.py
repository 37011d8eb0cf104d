"""Compiled loop that grows one tree by the targets of its points; splits are between bins of values."""

from __future__ import annotations

import numpy as np

from ikmap.compiled import compiled
from ikmap.partitioners._iforest_loops import LEAF

GINI, ENTROPY, SQUARED = range(3)
"""Criteria of splits: the decrease of the Gini impurity or the entropy of classes, or of the squared error."""
BINS = 256

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_UNIT = 1.0 / (1 << 53)


@compiled
def next_uniform(state):
    """Return a uniform number on [0, 1), and the next state: SplitMix64."""
    state[0] += _GOLDEN
    mixed = state[0]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    mixed ^= mixed >> np.uint64(31)
    return np.float64(mixed >> np.uint64(11)) * _UNIT


@compiled
def purity(sums, count, criterion):
    """Return the purity of a node times its number of rows; a split is the better, the larger the sum of both sides.

    `sums` has the number of rows of each class, or the sum of the numbers.
    """
    total = 0.0
    if criterion == ENTROPY:
        for value in sums:
            if value > 0:
                total += value * np.log(value / count)
        return total
    for value in sums:
        total += np.float64(value) * np.float64(value)
    return total / count


@compiled
def _all_alike(classes, numbers):
    """Return whether all points have the same target."""
    k = 1
    while k < classes.size and classes[k] == classes[0] and numbers[k] == numbers[0]:
        k += 1
    return k >= classes.size


@compiled
def _gather(values, rows, own):
    """Write the bins of some rows; return the lowest and the highest."""
    for k in range(rows.size):
        own[k] = values[np.uint64(rows[k])]
    low = high = own[0]
    for k in range(rows.size):
        low, high = min(low, own[k]), max(high, own[k])
    return np.int64(low), np.int64(high)


@compiled
def _sum_below(own, classes, numbers, split, sums):
    """Add up the targets of the rows whose bin is below `split`; return how many rows these are.

    `own` has the bin of each row.
    """
    n_below, total = np.int64(0), np.int64(0)
    if sums.size == 1:
        for k in range(own.size):
            below = np.int64(own[k] < split)
            n_below += below
            total += numbers[k] * below
        sums[0] = total
        return n_below
    if sums.size == 2:
        for k in range(own.size):
            below = np.int64(own[k] < split)
            n_below += below
            total += classes[k] * below
        sums[0], sums[1] = n_below - total, total
        return n_below
    sums[:] = 0
    for k in range(own.size):
        below = np.int64(own[k] < split)
        n_below += below
        sums[classes[k]] += below
    return n_below


@compiled
def _best_split(own, classes, numbers, low, high, sums, min_leaf, criterion, scratch):
    """Return the best split of a column and the purity of its two sides; (0, -inf) if no split is allowed."""
    histogram, counts, left, other = scratch
    n_outputs, n = sums.size, own.size
    if n_outputs == 1:
        for k in range(n):
            value = own[k]
            histogram[value, 0] += numbers[k]
            counts[value] += 1
    else:
        for k in range(n):
            value = own[k]
            histogram[value, classes[k]] += 1
            counts[value] += 1
    left[:] = 0
    n_left, chosen, best = 0, 0, -np.inf
    for b in range(low, high):
        n_left += counts[b]
        for k in range(n_outputs):
            left[k] += histogram[b, k]
        if counts[b] and n_left >= min_leaf and n - n_left >= min_leaf:
            for k in range(n_outputs):
                other[k] = sums[k] - left[k]
            both = purity(left, n_left, criterion) + purity(other, n - n_left, criterion)
            if both > best:
                chosen, best = b + 1, both
    histogram[low : high + 1] = 0
    counts[low : high + 1] = 0
    return chosen, best


@compiled(
    {
        "forest": "u1[:, ::1], i4[::1], i8[::1], i8, i8, i8, b1, i8, i8, u8[::1], i4[::1], i8[::1], i4[::1]",
    }
)
def grow_guided(
    codes, classes, numbers, n_outputs, criterion, n_tried, at_random, max_depth, min_leaf, state, feature, cut, right
):
    """Grow one tree; nodes are written in preorder. Returns the number of nodes.

    Parameters
    ----------
    codes : (d, m)
        Bins of the points, column by column.
    classes, numbers : (m,)
        Class of each point and 1, or 0 and the number to predict. Both arrays are reordered.
    n_outputs : int
        Number of classes; 1 for numbers.
    n_tried : int
        Number of columns whose splits are compared, drawn from those that vary.
    at_random : bool
        Whether one random split of each column is compared, in place of all its splits.
    max_depth : int
        Largest number of splits above a leaf; < 0: any number.
    state : (1,)
        State of the random numbers; it is changed.
    feature, cut, right : (at least the number of nodes,)
        Column of each node, or LEAF; the first bin that goes right; the right child, or the number of the cell.
    """
    d, m = codes.shape
    rows, order = np.arange(m).astype(np.uint32), np.arange(d)
    stack = np.empty((m + 1, 4), dtype=np.int64)  # begin, end, depth, parent to patch (or -1)
    sums, left, other = np.empty(n_outputs, np.int64), np.empty(n_outputs, np.int64), np.empty(n_outputs, np.int64)
    scratch = np.zeros((BINS, n_outputs), dtype=np.int64), np.zeros(BINS, dtype=np.int64), left, other
    own = np.empty(m, dtype=np.uint8)
    other_rows, other_classes, other_numbers = rows.copy(), classes.copy(), numbers.copy()
    # Nodes from the root to this one; and the node and its depth where a column was last found to be constant, which it
    # is below that node, too.
    path, constant_at, constant_depth = np.full(m + 1, -1), np.full(d, -2), np.zeros(d, np.int64)
    stack[0] = (0, m, 0, -1)
    height, n_nodes, n_leaves = 1, 0, 0
    while height:
        height -= 1
        begin, end, depth, parent = stack[height]
        node = n_nodes
        n_nodes += 1
        path[depth] = node
        if parent >= 0:
            right[parent] = node
        chosen, chosen_cut, best = LEAF, 0, -np.inf
        n = end - begin
        within, own_classes, own_numbers = rows[begin:end], classes[begin:end], numbers[begin:end]
        if n >= 2 * min_leaf and (max_depth < 0 or depth < max_depth) and not _all_alike(own_classes, own_numbers):
            own[:n] = 0
            _sum_below(own[:n], own_classes, own_numbers, 1, sums)
            tried, remaining = 0, d
            while tried < n_tried and remaining:
                place = min(np.int64(next_uniform(state) * remaining), remaining - 1)
                column = order[place]
                remaining -= 1
                order[place], order[remaining] = order[remaining], column
                if constant_depth[column] < depth and path[constant_depth[column]] == constant_at[column]:
                    continue
                low, high = _gather(codes[column], within, own)
                if low == high:
                    constant_at[column], constant_depth[column] = node, depth
                    continue
                tried += 1
                if at_random:
                    split, both = low + 1 + min(np.int64(next_uniform(state) * (high - low)), high - low - 1), -np.inf
                    n_left = _sum_below(own[:n], own_classes, own_numbers, split, left)
                    if n_left >= min_leaf and n - n_left >= min_leaf:
                        for k in range(n_outputs):
                            other[k] = sums[k] - left[k]
                        both = purity(left, n_left, criterion) + purity(other, n - n_left, criterion)
                else:
                    split, both = _best_split(
                        own[:n], own_classes, own_numbers, low, high, sums, min_leaf, criterion, scratch
                    )
                if both > best:
                    chosen, chosen_cut, best = column, split, both
        feature[node] = chosen
        cut[node] = chosen_cut
        if chosen == LEAF:
            right[node] = n_leaves
            n_leaves += 1
            continue
        values = codes[chosen]
        n_left = n_right = np.uint64(0)
        for k in range(n):
            row = within[k]
            is_left = np.uint64(values[np.uint64(row)] < chosen_cut)
            other_rows[n_right], other_classes[n_right] = row, own_classes[k]
            within[n_left], own_classes[n_left] = row, own_classes[k]
            if n_outputs == 1:
                other_numbers[n_right] = own_numbers[k]
                own_numbers[n_left] = own_numbers[k]
            n_left += is_left
            n_right += np.uint64(1) - is_left
        middle = begin + np.int64(n_left)
        rows[middle:end] = other_rows[: n - np.int64(n_left)]
        classes[middle:end] = other_classes[: n - np.int64(n_left)]
        if n_outputs == 1:  # the number of each class is 1
            numbers[middle:end] = other_numbers[: n - np.int64(n_left)]
        stack[height] = (middle, end, depth + 1, node)
        stack[height + 1] = (begin, middle, depth + 1, -1)
        height += 2
    return n_nodes
