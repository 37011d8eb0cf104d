"""Compiled loop that grows one tree by the targets of its points; splits are between bins of values."""

from __future__ import annotations

import numpy as np

from ikmap.compiled import compiled
from ikmap.partitioners._bins_loops import BYTE_BINS
from ikmap.partitioners._iforest_loops import LEAF, push

GINI, ENTROPY, SQUARED = range(3)
"""Criteria of splits: the decrease of the Gini impurity or the entropy of classes, or of the squared error."""
WIDTH = 32
"""Number of bytes of which a row's bins are a multiple, so that loops over them have no remainder."""

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
def _add_targets(classes, numbers, sums):
    """Write the number of points of each class, or the sum of their numbers."""
    sums[:] = 0
    if sums.size == 1:
        for k in range(numbers.size):
            sums[0] += numbers[k]
    else:
        for k in range(classes.size):
            sums[classes[k]] += 1


@compiled
def _by_class(classes, n_outputs):
    """Return the numbers of the points, those of each class together, in their order."""
    begins = np.zeros(n_outputs + 1, np.int64)
    for value in classes:
        begins[value + 1] += 1
    for c in range(n_outputs):
        begins[c + 1] += begins[c]
    order = np.empty(classes.size, np.int64)
    for k in range(classes.size):
        order[begins[classes[k]]] = k
        begins[classes[k]] += 1
    return order


@compiled
def _find_ranges(codes, rows, low, high):
    """Write the lowest and the highest bin of each column among some rows."""
    first = codes[np.uint64(rows[0])]
    for j in range(low.size):
        low[j] = high[j] = first[j]
    # Two rows at a time, which halves the reads and writes of the bounds.
    for k in range(1, rows.size - 1, 2):
        one, two = codes[np.uint64(rows[k])], codes[np.uint64(rows[k + 1])]
        for j in range(low.size):
            low[j] = min(low[j], min(one[j], two[j]))
            high[j] = max(high[j], max(one[j], two[j]))
    last = codes[np.uint64(rows[rows.size - 1])]
    for j in range(low.size):
        low[j], high[j] = min(low[j], last[j]), max(high[j], last[j])


@compiled
def _count_below(codes, rows, splits, into):
    """Add, for each column, how many of the rows are in a bin below its split: four rows at a time."""
    n_fours = rows.size // 4 * 4
    for k in range(0, n_fours, 4):
        one, two = codes[np.uint64(rows[k])], codes[np.uint64(rows[k + 1])]
        three, four = codes[np.uint64(rows[k + 2])], codes[np.uint64(rows[k + 3])]
        for j in range(splits.size):
            split = splits[j]
            first = np.uint8(one[j] < split) + np.uint8(two[j] < split)
            second = np.uint8(three[j] < split) + np.uint8(four[j] < split)
            into[j] += np.int32(np.uint8(first) + np.uint8(second))
    for k in range(n_fours, rows.size):
        own = codes[np.uint64(rows[k])]
        for j in range(splits.size):
            into[j] += np.int32(own[j] < splits[j])


@compiled
def _add_below(codes, rows, classes, numbers, splits, counts, totals):
    """Add up, for each column, the targets of the rows whose bin is below its split: a row at a time, all its columns.

    Parameters
    ----------
    splits : (d,)
    counts : (number of classes or 1, d)
        Where the number of these rows is written of each class that some row has; of numbers, of all.
    totals : (1, d)
        Where the sums of their numbers are written; unused for classes.
    """
    if counts.shape[0] > 1:
        begin = 0
        while begin < rows.size:  # rows of one class stand together
            end = begin + 1
            while end < rows.size and classes[end] == classes[begin]:
                end += 1
            own_counts = counts[np.uint64(classes[begin])]
            own_counts[:] = 0
            _count_below(codes, rows[begin:end], splits, own_counts)
            begin = end
        return
    counts[:] = 0
    totals[:] = 0
    into, total = counts[0], totals[0]
    for k in range(rows.size):
        own, number = codes[np.uint64(rows[k])], numbers[k]
        for j in range(splits.size):
            below = own[j] < splits[j]
            into[j] += np.int32(below)
            total[j] += number * np.int64(below)


@compiled
def _gather(codes, rows, column, own):
    """Write the bins of some rows in a column."""
    for k in range(rows.size):
        own[k] = codes[np.uint64(rows[k]), column]


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
        "forest": "u1[:, ::1], i8, i8[::1], i4[::1], i8[::1], i8, i8, i8, b1, i8, i8, u8[::1], i4[::1], i8[::1], "
        "i4[::1]",
    }
)
def grow_guided(
    bins,
    d,
    draw,
    classes,
    numbers,
    n_outputs,
    criterion,
    n_tried,
    at_random,
    max_depth,
    min_leaf,
    state,
    feature,
    cut,
    right,
):
    """Grow one tree; nodes are written in preorder. Returns the number of nodes.

    Parameters
    ----------
    bins : (n, at least d)
        Bins of all rows, and zeros up to a multiple of :data:`WIDTH`.
    draw : (m,)
        Numbers of the rows that are the points.
    classes, numbers : (m,)
        Class of each point and 1, or 0 and the number to predict; the numbers are reordered.
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
    m, width = draw.size, bins.shape[1]
    codes = np.empty((m, width), np.uint8)
    order_by_class = _by_class(classes, n_outputs)
    for k in range(m):
        point, row = codes[k], bins[draw[order_by_class[k]]]
        for j in range(width):
            point[j] = row[j]
    rows, order = np.arange(m).astype(np.uint32), np.arange(d)
    stack = np.empty((m + 1, 4), dtype=np.int64)  # begin, end, depth, parent to patch (or -1)
    classes = classes[order_by_class]  # in each node, points of a class stand together
    sums, left, other = np.empty(n_outputs, np.int64), np.empty(n_outputs, np.int64), np.empty(n_outputs, np.int64)
    scratch = np.zeros((BYTE_BINS, n_outputs), np.int64), np.zeros(BYTE_BINS, np.int64), left, other
    own = np.empty(m, dtype=np.uint8)
    other_rows, other_classes, other_numbers = rows.copy(), classes.copy(), numbers.copy()
    low, high, splits = np.empty(width, np.uint8), np.empty(width, np.uint8), np.zeros(width, np.uint8)
    tried = np.empty(min(n_tried, d), np.int64)
    counts, totals = np.empty((n_outputs, width), np.int32), np.empty((1, width), np.int64)
    push(stack, 0, 0, m, 0, -1)
    height, n_nodes, n_leaves = 1, 0, 0
    while height:
        height -= 1
        begin, end, depth, parent = stack[height]
        node = n_nodes
        n_nodes += 1
        if parent >= 0:
            right[parent] = node
        chosen, chosen_cut, best = LEAF, 0, -np.inf
        n = end - begin
        within, own_classes, own_numbers = rows[begin:end], classes[begin:end], numbers[begin:end]
        if n >= 2 * min_leaf and (max_depth < 0 or depth < max_depth) and not _all_alike(own_classes, own_numbers):
            _add_targets(own_classes, own_numbers, sums)
            _find_ranges(codes, within, low, high)
            number, remaining = 0, d
            while number < tried.size and remaining:
                place = min(np.int64(next_uniform(state) * remaining), remaining - 1)
                column = order[place]
                remaining -= 1
                order[place], order[remaining] = order[remaining], column
                n_cuts = np.int64(high[column]) - np.int64(low[column])
                if n_cuts == 0:
                    continue
                tried[number] = column
                number += 1
                if at_random:
                    splits[column] = low[column] + 1 + min(np.int64(next_uniform(state) * n_cuts), n_cuts - 1)
            if at_random:
                _add_below(codes, within, own_classes, own_numbers, splits, counts, totals)
            for column in tried[:number]:
                if at_random:
                    split, both = np.int64(splits[column]), -np.inf
                    splits[column] = 0
                    n_left = np.int64(0)
                    for k in range(n_outputs):
                        left[k] = counts[k, column] if n_outputs == 1 or sums[k] else 0
                        n_left += left[k]
                        if n_outputs == 1:
                            left[k] = totals[0, column]
                        other[k] = sums[k] - left[k]
                    if n_left >= min_leaf and n - n_left >= min_leaf:
                        both = purity(left, n_left, criterion) + purity(other, n - n_left, criterion)
                else:
                    _gather(codes, within, column, own)
                    split, both = _best_split(
                        own[:n],
                        own_classes,
                        own_numbers,
                        np.int64(low[column]),
                        np.int64(high[column]),
                        sums,
                        min_leaf,
                        criterion,
                        scratch,
                    )
                if both > best:
                    chosen, chosen_cut, best = column, split, both
        feature[node] = chosen
        cut[node] = chosen_cut
        if chosen == LEAF:
            right[node] = n_leaves
            n_leaves += 1
            continue
        n_left = n_right = np.uint64(0)
        for k in range(n):
            row = within[k]
            is_left = np.uint64(codes[np.uint64(row), chosen] < chosen_cut)
            other_rows[n_right], other_classes[n_right] = row, own_classes[k]
            within[n_left], own_classes[n_left] = row, own_classes[k]
            if n_outputs == 1:
                other_numbers[n_right] = own_numbers[k]
                own_numbers[n_left] = own_numbers[k]
            n_left += is_left
            n_right += np.uint64(1) - is_left
        middle = begin + np.int64(n_left)
        for k in range(end - middle):
            rows[middle + k], classes[middle + k] = other_rows[k], other_classes[k]
            if n_outputs == 1:  # the number of each class is 1
                numbers[middle + k] = other_numbers[k]
        push(stack, height, middle, end, depth + 1, node)
        push(stack, height + 1, begin, middle, depth + 1, -1)
        height += 2
    return n_nodes
