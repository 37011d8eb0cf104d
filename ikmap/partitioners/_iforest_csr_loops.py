"""Compiled loops that grow one iForest tree on sparse points.

A random cut on sparse data splits off a few points and leaves the rest: trees are deep, and to look at every non-zero
of every node would cost the square of the subsample. Here a large node keeps books - how many of its points have each
column, and in a Fenwick tree which columns vary - and hands them to its larger child, so that only points that leave
are looked at. A point leaves for the smaller side at most log2(psi) times.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ikmap.compiled import compiled
from ikmap.partitioners._iforest_loops import LEAF, cut_between, push

SMALL = 24
"""Nodes of at most this many points are grown without books."""
NONE = -1

# What `count` counts.
NODES, SPLITS, LEAVES, BOOKS = 0, 1, 2, 3
# What books say about themselves: columns that vary, points they were opened for, their number.
VARYING, SIZE, MINE = 0, 1, 2


class Subtree(NamedTuple):
    """A subtree to grow: of the points rows[begin:end]; ``parent`` is the node whose right child it is, or NONE."""

    begin: int
    end: int
    depth: int
    parent: int


@compiled(
    {
        "iforest sparse": "f8[::1], i8[::1], i8[::1], i8, i8[::1], f8[:, ::1], i8, i4[::1], f8[::1], i4[::1]",
    }
)
def grow_csr(data, indices, indptr, n_features, rows, uniforms, max_depth, feature, threshold, right):
    """The tree that ``grow_dense`` grows on the same points; returns the number of nodes.

    `indices` must be smaller than `n_features`; pass columns renumbered (in ascending order) to those in use.
    """
    points = (data, indices, indptr)
    tree = (feature, threshold, right)
    scratch = (np.zeros(n_features), np.zeros(n_features), np.zeros(n_features, np.int64))
    rows = rows.copy()
    # Of each point: in which books it is, its number there, and its place in `rows`.
    n = indptr.size - 1
    where = (np.full(n, NONE, np.int64), np.empty(n, np.int64), np.empty(n, np.int64))
    count = np.zeros(4, np.int64)
    # Subtrees to grow, the next one in preorder on top, and whether the books on top of theirs are its own.
    todo = np.empty((2 * rows.size + 2, 5), np.int64)
    _put(todo, 0, 0, rows.size, 0, NONE, 0)
    height = 1
    nothing = np.int64(0)  # not a literal, which would be compiled for once more
    books = [_open_books(points, rows, nothing, nothing, where, nothing)]  # only to tell the compiler the type
    while height:
        height -= 1
        begin, end, depth, parent, opened = todo[height]
        subtree = Subtree(begin, end, depth, parent)
        if not opened and end - begin <= SMALL:
            _grow_small(points, rows, subtree, uniforms, max_depth, tree, scratch, count)
            continue
        if not opened:
            count[BOOKS] += 1
            books.append(_open_books(points, rows, begin, end, where, count[BOOKS]))
        height = _peel(rows, subtree, uniforms, max_depth, tree, where, count, books[-1], todo, height)
        if height < 0:
            height = -height - 1
            books.pop()
    return count[NODES]


@compiled
def _put(todo, height, begin, end, depth, parent, opened):
    """Write a subtree to grow, and whether its books are open."""
    push(todo, height, begin, end, depth, parent)
    todo[height, 4] = opened


@compiled
def _peel(rows, subtree, uniforms, max_depth, tree, where, count, book, todo, height):
    """Follow the larger children of a subtree's root through its books and put the smaller ones on the stack `todo`.

    Returns the new height of the stack; as -1 - height when the books are of no more use.
    """
    begin, end, depth, parent = subtree
    feature, threshold, _ = tree
    owner, number, place = where
    columns, local, start, col_start, col_point, col_value, have, varies, witness, fenwick, about = book
    size, mine = about[SIZE], about[MINE]
    while True:
        n_points = end - begin
        # A column that only some points have varies. One that all have may not; any point names these columns.
        p = number[rows[begin]]
        for a in range(start[p], start[p + 1]):
            j = local[a]
            if have[j] == n_points and varies[j]:
                inside = slice(col_start[j], col_start[j + 1])
                if not _differ(witness[j], col_point[inside], col_value[inside], owner, mine):
                    _settle(j, varies, fenwick, about)
        if about[VARYING] == 0 or (max_depth >= 0 and depth >= max_depth):
            _add_leaf(parent, tree, count)
            return -1 - height
        if n_points <= max(SMALL, size // 2):
            # Few are left of those the books were opened for: smaller books are faster.
            _put(todo, height, begin, end, depth, parent, 0)
            return -1 - (height + 1)
        node = _add_node(parent, tree, count)
        u, v = uniforms[count[SPLITS], 0], uniforms[count[SPLITS], 1]
        count[SPLITS] += 1
        j = _select(fenwick, min(np.int64(u * about[VARYING]), about[VARYING] - 1))
        low, high = np.inf, -np.inf
        if have[j] < n_points:  # some point lacks it: the value 0 belongs to the range
            low, high = 0.0, 0.0
        for a in range(col_start[j], col_start[j + 1]):
            if owner[col_point[a]] == mine:
                low, high = min(low, col_value[a]), max(high, col_value[a])
        cut = cut_between(low, high, v)
        feature[node], threshold[node] = columns[j], cut
        # Points that lack the column stay where they are, all on one side; of the others, those of the other side move.
        middle = end if cut > 0.0 else begin
        for a in range(col_start[j], col_start[j + 1]):
            p = col_point[a]
            if owner[p] == mine and (col_value[a] < cut) == (cut <= 0.0):
                middle -= cut > 0.0
                _swap(rows, place, place[p], middle)
                middle += cut <= 0.0
        left_leaves = 2 * (middle - begin) <= n_points
        leaving = rows[begin:middle] if left_leaves else rows[middle:end]
        for q in leaving:
            owner[q] = NONE
            for a in range(start[number[q]], start[number[q] + 1]):
                k = local[a]
                have[k] -= 1
                if have[k] == 0 and varies[k]:
                    _settle(k, varies, fenwick, about)
        depth += 1
        if left_leaves:
            _put(todo, height, middle, end, depth, node, 1)
            _put(todo, height + 1, begin, middle, depth, NONE, 0)
            return height + 2
        _put(todo, height, middle, end, depth, node, 0)
        height += 1
        end, parent = middle, NONE


@compiled
def _open_books(points, rows, begin, end, where, mine):
    """Books of ``rows[begin:end]``: points and columns renumbered, entries by point and by column.

    Columns; column and extent of each point's entries; extent, points and values of each column's entries; how many
    points have a column, whether it varies, two points that show it, the columns that vary as a Fenwick tree; about.
    """
    data, indices, indptr = points
    owner, number, place = where
    start = np.zeros(end - begin + 1, np.int64)
    for p in range(begin, end):
        point = rows[p]
        owner[point], number[point], place[point] = mine, p - begin, p
        start[p - begin + 1] = start[p - begin] + indptr[point + 1] - indptr[point]
    entries = np.empty(start[-1], np.int64)
    for p in range(begin, end):
        for a in range(start[p - begin], start[p - begin + 1]):
            entries[a] = indices[indptr[rows[p]] + a - start[p - begin]]
    columns = np.unique(entries)
    local = np.searchsorted(columns, entries)
    have, col_start = np.zeros(columns.size, np.int64), np.zeros(columns.size + 1, np.int64)
    for j in local:
        have[j] += 1
    for j in range(columns.size):
        col_start[j + 1] = col_start[j] + have[j]
    fill = col_start.copy()
    col_point, col_value = np.empty(entries.size, np.int64), np.empty(entries.size)
    for p in range(begin, end):
        for a in range(start[p - begin], start[p - begin + 1]):
            at = fill[local[a]]
            col_point[at] = rows[p]
            col_value[at] = data[indptr[rows[p]] + a - start[p - begin]]
            fill[local[a]] += 1
    about = np.array([columns.size, end - begin, mine])
    return (
        columns,
        local,
        start,
        col_start,
        col_point,
        col_value,
        have,
        np.ones(columns.size, np.bool_),
        np.full((columns.size, 2), NONE, np.int64),
        _all_set(columns.size),
        about,
    )


@compiled
def _differ(witness, col_point, col_value, owner, mine):
    """Return whether a column that all points have takes two values among them; two such points are remembered."""
    if witness[0] >= 0 and owner[witness[0]] == mine and owner[witness[1]] == mine:
        return True
    first = -1
    for a in range(col_point.size):
        if owner[col_point[a]] == mine:
            if first < 0:
                first = a
            elif col_value[a] != col_value[first]:
                witness[0], witness[1] = col_point[first], col_point[a]
                return True
    return False


@compiled
def _swap(rows, place, p, q):
    rows[p], rows[q] = rows[q], rows[p]
    place[rows[p]], place[rows[q]] = p, q


@compiled
def _all_set(n):
    """Fenwick tree (Fenwick 1994) over n flags, all set."""
    tree = np.empty(n + 1, np.int64)
    tree[0] = 0
    for k in range(1, n + 1):
        tree[k] = k & -k
    return tree


@compiled
def _clear(fenwick, j):
    k = j + 1
    while k < fenwick.size:
        fenwick[k] -= 1
        k += k & -k


@compiled
def _select(fenwick, skip):
    """Number of the set flag that has `skip` set ones before it."""
    step = 1
    while 2 * step < fenwick.size:
        step *= 2
    k = 0
    while step:
        if k + step < fenwick.size and fenwick[k + step] <= skip:
            k += step
            skip -= fenwick[k]
        step //= 2
    return k


@compiled
def _settle(j, varies, fenwick, about):
    """A column has stopped varying; among fewer points it never starts again."""
    varies[j] = False
    about[VARYING] -= 1
    _clear(fenwick, j)


@compiled
def _add_node(parent, tree, count):
    node = count[NODES]
    count[NODES] += 1
    if parent >= 0:
        tree[2][parent] = node
    return node


@compiled
def _add_leaf(parent, tree, count):
    feature, threshold, right = tree
    node = _add_node(parent, tree, count)
    feature[node], threshold[node], right[node] = LEAF, 0.0, count[LEAVES]
    count[LEAVES] += 1


@compiled
def _grow_small(points, rows, subtree, uniforms, max_depth, tree, scratch, count):
    """Grow a subtree in preorder, at a cost of O(non-zeros) a node, without books."""
    begin, end, depth, parent = subtree
    data, indices, indptr = points
    feature, threshold, _ = tree
    low, high, seen = scratch
    size, base = end - begin, begin
    value = np.empty(size)
    n_touched = 0
    for p in range(begin, end):
        n_touched += indptr[rows[p] + 1] - indptr[rows[p]]
    touched = np.empty(n_touched, np.int64)
    stack = np.empty((size + 1, 4), np.int64)
    push(stack, 0, begin, end, depth, parent)
    height = 1
    while height:
        height -= 1
        begin, end, depth, parent = stack[height]
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
                which = min(np.int64(uniforms[count[SPLITS], 0] * varying), varying - 1)
                chosen = np.partition(touched[:varying], which)[which]
        if chosen == LEAF:
            _add_leaf(parent, tree, count)
            continue
        node = _add_node(parent, tree, count)
        cut = cut_between(low[chosen], high[chosen], uniforms[count[SPLITS], 1])
        count[SPLITS] += 1
        feature[node], threshold[node] = chosen, cut
        for p in range(begin, end):
            value[p - base] = 0.0
            first, last = indptr[rows[p]], indptr[rows[p] + 1]
            a = first + np.searchsorted(indices[first:last], chosen)
            if a < last and indices[a] == chosen:
                value[p - base] = data[a]
        middle = begin
        for p in range(begin, end):
            if value[p - base] < cut:
                rows[middle], rows[p] = rows[p], rows[middle]
                value[middle - base], value[p - base] = value[p - base], value[middle - base]
                middle += 1
        push(stack, height, middle, end, depth + 1, node)
        push(stack, height + 1, begin, middle, depth + 1, -1)
        height += 2
