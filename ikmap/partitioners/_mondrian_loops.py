"""Compiled loops of Mondrian trees: growing on the boxes of the data, and finding the cells of rows.

Every draw is made of a node's key and a number, so a tree is the same however it is grown. Keys come from the seed and
the number of the tree, and those of children from their parent's.
"""

import numpy as np

from ikmap._simd import bits_of
from ikmap.compiled import compiled
from ikmap.partitioners._gcws_draws_loops import STEP, logarithm, mixed

LEAF = -1
"""Attribute, and children, of a node that is not cut."""
WHEN, WHICH, WHERE = np.uint64(1), np.uint64(2), np.uint64(3)
"""Purposes of the draws of a node: the time of its cut, the attribute, and the place."""
LEFT, RIGHT = np.uint64(5), np.uint64(7)
WORD_53 = 2.0**-53
NEAR_ONE = 0.999


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

    Nodes are in preorder. Cells are numbered as they come to be: of a cell that is cut, the left part keeps the number,
    and the right one gets the next. So a cell has the same number in trees of all lifetimes. `children` has shape
    (nodes, 2), `boxes` (nodes, 2, d): least and largest values of the rows of a node. Where these arrays are too short,
    both numbers are 0.
    """
    d = X.shape[1]
    lengths, low, high = np.empty(d), np.empty(d), np.empty(d)
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
        first = order[start]
        for j in range(d):
            low[j] = high[j] = X[first, j]
        for i in range(start + 1, stop):
            row = order[i]
            for j in range(d):
                low[j], high[j] = min(low[j], X[row, j]), max(high[j], X[row, j])
        rate = 0.0
        for j in range(d):
            boxes[node, 0, j], boxes[node, 1, j] = low[j], high[j]
            lengths[j] = high[j] - low[j]
            rate += lengths[j]
        time = begin - logarithm(uniform(keys[node], WHEN)) / rate if rate > 0.0 else np.inf
        if time > lifetime:
            times[node], features[node], thresholds[node] = lifetime, LEAF, 0.0
            children[node] = LEAF
            n_cells += 1
            continue
        feature = chosen(lengths, rate, uniform(keys[node], WHICH))
        at = place(low[feature], high[feature], uniform(keys[node], WHERE))
        times[node], features[node], thresholds[node] = time, feature, at
        middle = start
        for i in range(start, stop):
            if X[order[i], feature] <= at:
                order[middle], order[i] = order[i], order[middle]
                middle += 1
        starts[depth], stops[depth], parents[depth], begins[depth] = middle, stop, node, time
        depth += 1
        starts[depth], stops[depth], parents[depth], begins[depth] = start, middle, node, time
        depth += 1
    number_cells(times[:n_nodes], children, cells)
    return n_nodes, n_cells


@compiled
def number_cells(times, children, cells):
    """Give all nodes, which are in preorder, the numbers of their cells, see :func:`grow`."""
    number = 1
    cells[0] = 0
    right_of = np.empty(times.size, dtype=np.int32)
    for node in np.argsort(times, kind="mergesort"):
        if children[node, 0] >= 0:
            right_of[node] = number
            number += 1
    for node in range(times.size):
        if children[node, 0] >= 0:
            cells[children[node, 0]] = cells[node]
            cells[children[node, 1]] = right_of[node]


@compiled
def row_key(row):
    """A word made of the values of a row: equal for rows that are equal, -0.0 being 0.0."""
    key = np.uint64(0)
    for j in range(row.size):
        key = mixed((key ^ np.uint64(bits_of(row[j] + 0.0))) + STEP)
    return key


@compiled({"mondrian": "f8[:, ::1], u8[::1]"})
def row_keys(X, found):
    """The word of each row."""
    for i in range(X.shape[0]):
        found[i] = row_key(X[i])


@compiled
def outside(X, i, boxes, node):
    """Sum over the attributes of how far row i lies outside the box of a node."""
    found = 0
    for j in range(X.shape[1]):  # of all rows that the tree knows, and most others, nothing is: vectors tell it
        found |= (X[i, j] < boxes[node, 0, j]) | (X[i, j] > boxes[node, 1, j])
    far = 0.0
    if found:
        for j in range(X.shape[1]):
            far += max(boxes[node, 0, j] - X[i, j], 0.0) + max(X[i, j] - boxes[node, 1, j], 0.0)
    return far


@compiled(error_model="numpy")
def cut_off(X, i, own, root, times, features, thresholds, children, boxes, keys):
    """The last node of row i in the tree with this root, and when the row is cut off from it, or infinity.

    Outside the box of a node a cut may have come before that of the node, or its end: whether it has is drawn, by the
    node's key and the word of the row, `own`.
    """
    node, begin = root, 0.0
    while True:
        rate = outside(X, i, boxes, node)
        if rate > 0.0:
            draw = uniform(keys[node] ^ own, WHEN)
            # -ln u is at least 1 - u, by more than rounding where u is not near to 1: most logarithms are spared.
            if draw > NEAR_ONE or begin + (1.0 - draw) / rate < times[node]:
                cut = begin - logarithm(draw) / rate
                if cut < times[node]:
                    return node, cut
        if features[node] < 0:
            return node, np.inf
        begin = times[node]
        node = root + children[node, 0 if X[i, features[node]] <= thresholds[node] else 1]


@compiled(
    {
        "mondrian": "f8[:, ::1], u8[::1], i8, f8[::1], i4[::1], f8[::1], i4[:, ::1], f8[:, :, ::1], u8[::1], i4[::1], "
        "f8[::1]"
    },
    error_model="numpy",
)
def trace(X, own, root, times, features, thresholds, children, boxes, keys, last, until):
    """Follow rows down the tree with this root, which stays as it is: for each what :func:`cut_off` says.

    Nodes are counted from the root. (Arrays are indexed: slices and calls cost more than the rest.)
    """
    for i in range(X.shape[0]):
        node = root
        while features[node] >= 0:
            node = root + children[node, 0 if X[i, features[node]] <= thresholds[node] else 1]
        until[i] = np.inf
        found = 0
        for j in range(X.shape[1]):
            found |= (X[i, j] < boxes[node, 0, j]) | (X[i, j] > boxes[node, 1, j])
        if found:  # else the row is in all boxes on the way, as they lie in each other
            node, until[i] = cut_off(X, i, own[i], root, times, features, thresholds, children, boxes, keys)
        last[i] = node - root


@compiled
def ends(children, found):
    """Find the end of the subtree of each node: in preorder, it has the nodes from its own to before that."""
    for node in range(found.size - 1, -1, -1):
        right = children[node, 1]
        found[node] = node + 1 if right < 0 else found[right]


@compiled(
    {
        "mondrian": "f8[:, ::1], f8, f8[::1], i4[::1], f8[::1], i4[:, ::1], f8[:, :, ::1], u8[::1], i4[::1], i8, i8, "
        "i4[::1]"
    },
    error_model="numpy",
)
def insert(X, lifetime, times, features, thresholds, children, boxes, keys, cells, n_nodes, n_cells, found):
    """Let a tree grow by one row after the other (algorithms.md, 12.3); return its numbers of nodes and cells.

    The arrays have room for two more nodes a row. Whether a row outside the box of a node is cut off is drawn as
    :func:`trace` does: cut off are the rows that have no cell in the tree as it was. A cut comes above a node: what the
    node was moves to a new place, so that its parent need not know.
    """
    d = X.shape[1]
    lengths = np.empty(d)
    for i in range(X.shape[0]):
        node, begin, own, known = 0, 0.0, np.uint64(0), False
        while True:
            box = boxes[node]
            rate = outside(X, i, boxes, node)
            if rate > 0.0:
                if not known:
                    own, known = row_key(X[i]), True
                key = keys[node] ^ own
                time = begin - logarithm(uniform(key, WHEN)) / rate
                if time < times[node]:
                    for j in range(d):
                        lengths[j] = max(box[0, j] - X[i, j], 0.0) + max(X[i, j] - box[1, j], 0.0)
                    feature = chosen(lengths, rate, uniform(key, WHICH))
                    above = X[i, feature] > box[1, feature]
                    if above:
                        at = place(box[1, feature], X[i, feature], uniform(key, WHERE))
                    else:
                        at = place(X[i, feature], box[0, feature], uniform(key, WHERE))
                    moved, leaf = n_nodes, n_nodes + 1
                    n_nodes += 2
                    times[moved], features[moved], thresholds[moved] = times[node], features[node], thresholds[node]
                    children[moved, 0], children[moved, 1] = children[node, 0], children[node, 1]
                    keys[moved], cells[moved] = keys[node], cells[node]
                    times[leaf], features[leaf], thresholds[leaf] = lifetime, LEAF, 0.0
                    children[leaf, 0] = children[leaf, 1] = LEAF
                    keys[leaf], cells[leaf] = child_key(key, RIGHT), n_cells
                    times[node], features[node], thresholds[node] = time, feature, at
                    children[node, 0], children[node, 1] = (moved, leaf) if above else (leaf, moved)
                    keys[node] = child_key(key, LEFT)
                    for j in range(d):
                        boxes[moved, 0, j], boxes[moved, 1, j] = box[0, j], box[1, j]
                        boxes[leaf, 0, j] = boxes[leaf, 1, j] = X[i, j]
                        box[0, j], box[1, j] = min(box[0, j], X[i, j]), max(box[1, j], X[i, j])
                    found[i] = n_cells
                    n_cells += 1
                    break
                for j in range(d):
                    box[0, j], box[1, j] = min(box[0, j], X[i, j]), max(box[1, j], X[i, j])
            if features[node] < 0:
                found[i] = cells[node]
                break
            begin = times[node]
            node = children[node, 0 if X[i, features[node]] <= thresholds[node] else 1]
    return n_nodes, n_cells
