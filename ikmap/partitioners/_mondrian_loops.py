"""Compiled loops of Mondrian trees: growing on the boxes of the data, and finding the cells of rows.

Every draw is made of a node's key and a number, so a tree is the same however it is grown. Keys come from the seed and
the number of the tree, and those of children from their parent's.
"""

import numpy as np

from ikmap._compiled import compiled
from ikmap._simd import bits_of
from ikmap.partitioners._gcws_draws_loops import STEP, logarithm, mixed

LEAF = -1
"""Attribute of a node that is not cut, and cell of a node that is."""
WHEN, WHICH, WHERE = np.uint64(1), np.uint64(2), np.uint64(3)
"""What a draw of a node is for: the time of its cut, the attribute, and the place."""
LEFT, RIGHT = np.uint64(5), np.uint64(7)
WORD_53 = 2.0**-53


@compiled
def uniform(key, number):
    """A draw from the open interval (0, 1)."""
    return (float(mixed(key + STEP * number) >> np.uint64(11)) + 0.5) * WORD_53


@compiled
def child_key(key, side):
    """Key of a child; `side` is LEFT or RIGHT."""
    return mixed(key + STEP * side)


@compiled
def chosen(lengths, rate, draw):
    """The attribute with this share of the sum of all lengths before it; never one of length 0."""
    left, last = draw * rate, 0
    for d in range(lengths.size):
        if lengths[d] > 0.0:
            last = d
            if left < lengths[d]:
                return d
            left -= lengths[d]
    return last


@compiled
def place(low, high, draw):
    """A place of the cut in [low, high), so that neither side of it is empty."""
    at = low + draw * (high - low)
    return low if at >= high else at


@compiled(
    {"mondrian": "f8[:, ::1], i8[::1], u8, f8, f8[::1], i4[::1], f8[::1], i4[:, ::1], f8[:, :, ::1], u8[::1], i4[::1]"},
    error_model="numpy",
)
def grow(X, order, key, lifetime, times, features, thresholds, children, boxes, keys, cells):
    """Grow a tree on the rows ``X[order]``, which is put into another order; return its numbers of nodes and cells.

    Nodes are in preorder, and cells are numbered in the order of the leaves. `children` has shape (nodes, 2), `boxes`
    (nodes, 2, d): least and largest values of the rows of a node. Where these arrays are too short, both numbers are 0.
    """
    d = X.shape[1]
    lengths = np.empty(d)
    starts, stops = np.empty(order.size + 1, dtype=np.int64), np.empty(order.size + 1, dtype=np.int64)
    parents, begins = np.empty(order.size + 1, dtype=np.int64), np.empty(order.size + 1)
    starts[0], stops[0], parents[0], begins[0] = 0, order.size, -1, 0.0
    depth, n_nodes, n_cells = 1, 0, 0
    while depth > 0:
        depth -= 1
        start, stop, parent, begin = starts[depth], stops[depth], parents[depth], begins[depth]
        node = n_nodes
        if node == times.size:
            return 0, 0
        n_nodes += 1
        if parent < 0:
            keys[node] = key
        elif node == parent + 1:
            children[parent, 0] = node
            keys[node] = child_key(keys[parent], LEFT)
        else:
            children[parent, 1] = node
            keys[node] = child_key(keys[parent], RIGHT)
        box = boxes[node]
        box[0] = X[order[start]]
        box[1] = box[0]
        for i in range(start + 1, stop):
            row = X[order[i]]
            for j in range(d):
                box[0, j] = min(box[0, j], row[j])
                box[1, j] = max(box[1, j], row[j])
        rate = 0.0
        for j in range(d):
            lengths[j] = box[1, j] - box[0, j]
            rate += lengths[j]
        time = begin - logarithm(uniform(keys[node], WHEN)) / rate if rate > 0.0 else np.inf
        if not time < lifetime:
            times[node], features[node], thresholds[node] = lifetime, LEAF, 0.0
            children[node] = LEAF
            cells[node] = n_cells
            n_cells += 1
            continue
        feature = chosen(lengths, rate, uniform(keys[node], WHICH))
        at = place(box[0, feature], box[1, feature], uniform(keys[node], WHERE))
        times[node], features[node], thresholds[node], cells[node] = time, feature, at, LEAF
        middle = start
        for i in range(start, stop):
            if X[order[i], feature] <= at:
                order[middle], order[i] = order[i], order[middle]
                middle += 1
        starts[depth], stops[depth], parents[depth], begins[depth] = middle, stop, node, time
        depth += 1
        starts[depth], stops[depth], parents[depth], begins[depth] = start, middle, node, time
        depth += 1
    return n_nodes, n_cells


@compiled
def row_key(row):
    """A word made of the values of a row: equal for rows that are equal, -0.0 being 0.0."""
    key = np.uint64(0)
    for j in range(row.size):
        key = mixed((key ^ np.uint64(bits_of(row[j] + 0.0))) + STEP)
    return key


@compiled(
    {"mondrian": "f8[:, ::1], f8[::1], i4[::1], f8[::1], i4[:, ::1], f8[:, :, ::1], u8[::1], i4[::1], i4[::1]"},
    error_model="numpy",
)
def find(X, times, features, thresholds, children, boxes, keys, cells, found):
    """Cells of rows in a tree that stays as it is: -1 where a row would have been cut off from all that is known.

    Outside the box of a node a cut may have come before that of the node, or its end: whether it has is drawn, by the
    node's key and the values of the row.
    """
    d = X.shape[1]
    for i in range(X.shape[0]):
        node, begin, own = 0, 0.0, np.uint64(0)
        known = False
        while True:
            outside = 0
            for j in range(d):  # of all rows that the tree knows, and most others, none is: vectors tell it
                outside |= (X[i, j] < boxes[node, 0, j]) | (X[i, j] > boxes[node, 1, j])
            if outside:
                rate = 0.0
                for j in range(d):
                    x = X[i, j]
                    rate += max(boxes[node, 0, j] - x, 0.0) + max(x - boxes[node, 1, j], 0.0)
                if not known:
                    own, known = row_key(X[i]), True
                if begin - logarithm(uniform(keys[node] ^ own, WHEN)) / rate < times[node]:
                    found[i] = -1
                    break
            if features[node] < 0:
                found[i] = cells[node]
                break
            begin = times[node]
            node = children[node, 0 if X[i, features[node]] <= thresholds[node] else 1]
