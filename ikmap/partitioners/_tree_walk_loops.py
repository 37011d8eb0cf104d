"""Compiled loops that walk rows down the trees of a forest, eight rows at a time.

A walk is a chain of dependent loads: node, value of its attribute, next node. One walk alone leaves the processor
waiting some 30 cycles at each node. Here eight rows walk the same tree in step, in straight-line code without a branch,
so that their loads overlap: about 3 cycles a node, near the 2 that its four loads need. Two things make that possible.
A leaf leads to itself, so all rows may take as many steps as the slowest; and the values of eight rows stand side by
side, so that one register holds all that a walk has to know.

A node takes 16 bytes: its threshold, 8 bytes; the byte offset of its attribute among the values of the eight rows,
4 bytes; and how many bytes further on its left child stands, 4 bytes, with the right child next to that. In a leaf the
threshold is a NaN, which no value reaches, that carries the number of the cell; and the child is the leaf itself.
"""

# ruff: noqa: ARG001  (Numba fixes the signature of a code generator)

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ikmap.compiled import compiled
from ikmap.partitioners._iforest_loops import LEAF

LANES = 8
LEVELS = 4
"""Steps between two looks at whether all rows have arrived."""

_NODE = np.uint64(16)
_VALUES = np.uint64(8 * LANES)
_LOW = np.uint64(0xFFFFFFFF)
_HIGH = np.uint64(32)
_NAN = np.uint64(0x7FF8 << 48)


@compiled(
    {
        "iforest, forest, boosting": "i4[::1], f8[::1], i4[::1], i4[::1], u8[:, ::1]",
    }
)
def pack_tree(feature, threshold, right, slot, nodes):
    """Write the nodes of one tree, given in preorder, in the form described above; returns its height.

    ``slot[j]`` renumbers the attributes. Pairs of siblings stand in preorder: the last levels of a walk, where memory
    is slow, mostly stay in one cache line.
    """
    n = feature.size
    place = np.empty(n, np.int64)
    depth = np.empty(n, np.int64)
    stack = np.empty(n, np.int64)
    place[0] = depth[0] = stack[0] = 0
    waiting, placed, height = 1, 1, 0
    while waiting:
        waiting -= 1
        node = stack[waiting]
        own = place[node]
        height = max(height, depth[node])
        if feature[node] == LEAF:
            nodes[own, 0] = _NAN | np.uint64(right[node])
            nodes[own, 1] = 0
            continue
        offset = np.uint64(slot[feature[node]]) * _VALUES
        nodes[own, 0] = threshold[node : node + 1].view(np.uint64)[0]
        nodes[own, 1] = offset | (np.uint64(placed - own) * _NODE) << _HIGH
        left, other = node + 1, right[node]
        place[left], place[other] = placed, placed + 1
        depth[left] = depth[other] = depth[node] + 1
        placed += 2
        stack[waiting], stack[waiting + 1] = other, left
        waiting += 2
    return height


@intrinsic
def _descend(_, nodes, values, group, at):
    """Take LEVELS steps with each of LANES walks, ``at``: byte offsets into `nodes`. Returns 0 if all have arrived.

    `group` is the byte offset of the rows into `values`. (A view of them would cost as much as some steps.)
    """

    def codegen(context, builder, signature, arguments):
        i8, i32, i64, f64 = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.DoubleType()

        def data(k):
            array = context.make_array(signature.args[k])(context, builder, arguments[k])
            return builder.bitcast(array.data, i8.as_pointer())

        def load(start, offset, kind):
            return builder.load(builder.bitcast(builder.gep(start, [offset]), kind.as_pointer()))

        forest, place = data(0), data(3)
        rows = builder.gep(data(1), [arguments[2]])
        walks = [load(place, i64(8 * lane), i64) for lane in range(LANES)]
        moving = i32(0)
        for level in range(LEVELS):
            for lane, walk in enumerate(walks):
                node = builder.gep(forest, [walk])
                threshold = load(node, i64(0), f64)
                attribute = builder.zext(load(node, i64(8), i32), i64)
                child = load(node, i64(12), i32)
                value = load(builder.gep(rows, [attribute]), i64(8 * lane), f64)
                goes_right = builder.zext(builder.fcmp_ordered(">=", value, threshold), i64)
                step = builder.add(builder.zext(child, i64), builder.shl(goes_right, i64(4)))
                walks[lane] = builder.add(walk, step)
                if level == LEVELS - 1:
                    moving = builder.or_(moving, child)
        for lane, walk in enumerate(walks):
            builder.store(walk, builder.bitcast(builder.gep(place, [i64(8 * lane)]), i64.as_pointer()))
        return moving

    return types.uint32(nodes, values, types.uint64, at), codegen


@compiled
def _walk(nodes, roots, heights, values, codes):
    """Cells of as many rows as `codes` has; `values` holds theirs, shape (groups of LANES rows, slots, LANES)."""
    n_rows = codes.shape[0]
    group_bytes = np.uint64(values.shape[1]) * _VALUES
    at = np.empty(LANES, np.uint64)
    for tree in range(heights.size):
        root = np.uint64(roots[tree]) * _NODE
        for first in range(0, n_rows, LANES):
            for lane in range(LANES):
                at[lane] = root
            group = np.uint64(first // LANES) * group_bytes
            for _ in range(0, heights[tree], LEVELS):
                if _descend(nodes, values, group, at) == 0:
                    break
            for lane in range(min(LANES, n_rows - first)):
                codes[first + lane, tree] = nodes[at[lane] // _NODE, np.uint64(0)] & _LOW


@compiled(
    {
        "iforest dense, forest dense, boosting dense": [
            "f8[:, ::1], i4[::1], u8[:, ::1], i8[::1], i8[::1], i8, i4[:, ::1]",
        ],
    }
)
def walk_dense(points, used, nodes, roots, heights, at_once, codes):
    """Cell of each dense row in each tree; `used` lists the attributes that have a slot, `at_once` rows share cache."""
    n_rows = points.shape[0]
    values = np.zeros((at_once // LANES, used.size, LANES))
    for start in range(0, n_rows, at_once):
        stop = min(start + at_once, n_rows)
        for first in range(start, stop, LANES):
            group = values[(first - start) // LANES]
            for slot in range(used.size):
                for lane in range(min(LANES, stop - first)):
                    group[slot, lane] = points[first + lane, used[slot]]
        _walk(nodes, roots, heights, values, codes[start:stop])


@compiled(
    {
        "iforest sparse, forest sparse, boosting sparse": [
            "f8[::1], i4[::1], i8[::1], i4[::1], i8, u8[:, ::1], i8[::1], i8[::1], i8, i4[:, ::1]",
        ],
    }
)
def walk_csr(data, indices, indptr, slot, n_slots, nodes, roots, heights, at_once, codes):
    """Cell of each sparse row; ``slot[j]`` renumbers the attributes the trees use (-1: unused)."""
    n_rows = codes.shape[0]
    values = np.zeros((at_once // LANES, n_slots, LANES))
    for start in range(0, n_rows, at_once):
        stop = min(start + at_once, n_rows)
        _spread(data, indices, indptr, start, stop, slot, values, 1.0)
        _walk(nodes, roots, heights, values, codes[start:stop])
        _spread(data, indices, indptr, start, stop, slot, values, 0.0)


@compiled
def _spread(data, indices, indptr, start, stop, slot, values, factor):
    """Write the entries of some rows, times 1 or 0, to their places."""
    for r in range(start, stop):
        # Unsigned positions: Numba then emits no test for negative (wrapping) indices.
        group, lane = np.uint64((r - start) // LANES), np.uint64((r - start) % LANES)
        for a in range(np.uint64(indptr[r]), np.uint64(indptr[r + 1])):
            k = slot[np.uint64(indices[a])]
            if k >= 0:
                values[group, np.uint64(k), lane] = data[a] * factor
