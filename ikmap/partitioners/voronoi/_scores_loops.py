"""Compiled loops that score rows against tiles of 64 centres: |u|^2 - 2 <x, u>, in float32 vectors.

A tile is an array (1 + D, 64): squared lengths, then one line for each coordinate. Rows come in two layouts:

    dense   (left (n, D),)                    left = -2 x
    sparse  (values, lines, indptr, begun)    values = -2 x, lines = 1 + coordinate; begun (n, positions) holds
                                              scores begun elsewhere, or is (0, 0)
"""

# ruff: noqa: ARG001  (both layouts share a signature)
from __future__ import annotations

import numpy as np
from numba import njit
from numba.extending import overload

from ikmap._simd import (
    add,
    at_most,
    compress,
    count_bits,
    load,
    lowest_bit,
    maximum,
    multiply_add,
    prefetch,
    splat,
    steps,
    store,
    subtract,
)
from ikmap.compiled import compiled

TILE = 64
GROUP = 6
"""Rows that share the lines of a tile while these are in registers: with 6 x 64 sums they are nearly full."""
LEAST_ERROR = 2.0**-100
"""Bounds the errors of float32 numbers too small to have 24 bits, which are not relative to anything."""
U = np.uint64


def score_group(rows, r, tile, c, scores):
    """``scores[g, lane]`` of the rows ``r[g]`` of a group against tile number c."""
    raise NotImplementedError("compiled code only")


@overload(score_group)
def _score_group(rows, r, tile, c, scores):
    def dense(rows, r, tile, c, scores):
        left = rows[0]
        width = U(left.shape[1])
        n0, n1, n2, n3 = load(tile, U(0)), load(tile, U(16)), load(tile, U(32)), load(tile, U(48))
        s00, s01, s02, s03 = n0, n1, n2, n3
        s10, s11, s12, s13 = n0, n1, n2, n3
        s20, s21, s22, s23 = n0, n1, n2, n3
        s30, s31, s32, s33 = n0, n1, n2, n3
        s40, s41, s42, s43 = n0, n1, n2, n3
        s50, s51, s52, s53 = n0, n1, n2, n3
        r0, r1, r2, r3, r4, r5 = U(r[0]), U(r[1]), U(r[2]), U(r[3]), U(r[4]), U(r[5])
        at = U(TILE)
        for j in range(width):
            z0, z1, z2, z3 = load(tile, at), load(tile, at + U(16)), load(tile, at + U(32)), load(tile, at + U(48))
            at += U(TILE)
            s00, s01, s02, s03 = _add(left[r0, j], z0, z1, z2, z3, s00, s01, s02, s03)
            s10, s11, s12, s13 = _add(left[r1, j], z0, z1, z2, z3, s10, s11, s12, s13)
            s20, s21, s22, s23 = _add(left[r2, j], z0, z1, z2, z3, s20, s21, s22, s23)
            s30, s31, s32, s33 = _add(left[r3, j], z0, z1, z2, z3, s30, s31, s32, s33)
            s40, s41, s42, s43 = _add(left[r4, j], z0, z1, z2, z3, s40, s41, s42, s43)
            s50, s51, s52, s53 = _add(left[r5, j], z0, z1, z2, z3, s50, s51, s52, s53)
        _put(scores, U(0 * TILE), s00, s01, s02, s03)
        _put(scores, U(1 * TILE), s10, s11, s12, s13)
        _put(scores, U(2 * TILE), s20, s21, s22, s23)
        _put(scores, U(3 * TILE), s30, s31, s32, s33)
        _put(scores, U(4 * TILE), s40, s41, s42, s43)
        _put(scores, U(5 * TILE), s50, s51, s52, s53)

    def sparse(rows, r, tile, c, scores):
        values, lines, indptr, begun = rows
        zero = splat(np.float32(0.0))
        if begun.size:
            for g in range(1, GROUP):
                for v in range(0, TILE, 16):
                    prefetch(begun, U(r[g]) * U(begun.shape[1]) + U(c) * U(TILE) + U(v))
        for g in range(GROUP):
            if begun.size:
                at = U(r[g]) * U(begun.shape[1]) + U(c) * U(TILE)
                s0, s1 = load(begun, at), load(begun, at + U(16))
                s2, s3 = load(begun, at + U(32)), load(begun, at + U(48))
            else:
                s0, s1, s2, s3 = load(tile, U(0)), load(tile, U(16)), load(tile, U(32)), load(tile, U(48))
            # Two sums for each lane: one addition need not wait for the last one.
            u0, u1, u2, u3 = zero, zero, zero, zero
            e, end = U(indptr[r[g]]), U(indptr[r[g] + 1])
            while e + U(1) < end:
                s0, s1, s2, s3 = _add_line(values[e], tile, U(lines[e]), s0, s1, s2, s3)
                u0, u1, u2, u3 = _add_line(values[e + U(1)], tile, U(lines[e + U(1)]), u0, u1, u2, u3)
                e += U(2)
            if e < end:
                s0, s1, s2, s3 = _add_line(values[e], tile, U(lines[e]), s0, s1, s2, s3)
            _put(scores, U(g * TILE), add(s0, u0), add(s1, u1), add(s2, u2), add(s3, u3))

    return dense if len(rows) == 1 else sparse


@njit(inline="always")
def _add(value, z0, z1, z2, z3, s0, s1, s2, s3):
    x = splat(value)
    return multiply_add(x, z0, s0), multiply_add(x, z1, s1), multiply_add(x, z2, s2), multiply_add(x, z3, s3)


@njit(inline="always")
def _add_line(value, tile, line, s0, s1, s2, s3):
    at = line * U(TILE)
    z0, z1, z2, z3 = load(tile, at), load(tile, at + U(16)), load(tile, at + U(32)), load(tile, at + U(48))
    return _add(value, z0, z1, z2, z3, s0, s1, s2, s3)


@njit(inline="always")
def _put(scores, at, s0, s1, s2, s3):
    store(scores, at, s0)
    store(scores, at + U(16), s1)
    store(scores, at + U(32), s2)
    store(scores, at + U(48), s3)


@compiled(
    {
        "anne sparse": "Tuple((f4[::1], i4[::1], i8[::1], f4[:, ::1])), i8, i8, f4[:, :, ::1], f4[:, ::1]",
        "anne dense": "UniTuple(f4[:, ::1], 1), i8, i8, f4[:, :, ::1], f4[:, ::1]",
    }
)
def score_all(rows, start, stop, tiles, out):
    """``out[r - start]``: scores of row r against all tiles."""
    scores = np.empty((GROUP, TILE), dtype=np.float32)
    r = np.empty(GROUP, dtype=np.int64)
    for c in range(tiles.shape[0]):
        tile = tiles[c]
        for first in range(start, stop, GROUP):
            for g in range(GROUP):
                r[g] = min(first + g, stop - 1)
            score_group(rows, r, tile, c, scores)
            for g in range(min(GROUP, stop - first)):
                at = U(first + g - start) * U(out.shape[1]) + U(c * TILE)
                for v in range(0, TILE, 16):
                    store(out, at + U(v), load(scores, U(g * TILE + v)))


@compiled(
    {
        "anne dense": "f8[:, ::1], f8[::1], f8, f8, f4[:, ::1], f8[::1]",
    }
)
def prepare(rows, shift, scale, farthest, left, lengths):
    """Shift and scale dense rows: ``left`` gets -2 x, ``lengths`` |x|; beyond farthest 0 and -1."""
    d = rows.shape[1]
    for r in range(rows.shape[0]):
        total = 0.0
        for j in range(d):
            x = (rows[r, j] - shift[j]) * scale
            total += x * x
            left[r, j] = np.float32(-2.0 * x)
        lengths[r] = np.sqrt(total)
        if not (lengths[r] <= farthest):
            lengths[r] = -1.0
            left[r] = 0.0


@compiled(
    {
        "anne sparse": (
            "f8[::1], i4[::1], i8[::1], f8, f8, i4[::1], Tuple((f4[::1], i4[::1], i8[::1])), "
            "Tuple((f4[::1], i4[::1], i8[::1])), f8[::1]"
        ),
    }
)
def prepare_sparse(data, indices, indptr, scale, farthest, line_of, lined, rest, lengths):
    """The same for sparse rows: `lined` and `rest` get the columns with a line and without.

    Both are (values, lines or columns, indptr).
    """
    values, lines, line_ends = lined
    rest_values, columns, rest_ends = rest
    a, b = 0, 0
    line_ends[0] = rest_ends[0] = 0
    for r in range(lengths.size):
        total = 0.0
        for e in range(indptr[r], indptr[r + 1]):
            x = data[e] * scale
            total += x * x
        lengths[r] = np.sqrt(total)
        factor = -2.0 * scale
        if not (lengths[r] <= farthest):
            lengths[r] = -1.0
            factor = 0.0
        for e in range(indptr[r], indptr[r + 1]):
            value, line = np.float32(data[e] * factor), line_of[indices[e]]
            if line > 0:
                values[a], lines[a] = value, line
                a += 1
            else:
                rest_values[b], columns[b] = value, indices[e]
                b += 1
        line_ends[r + 1], rest_ends[r + 1] = a, b


@compiled
def begin_scores(values, columns, indptr, list_start, list_position, list_value, squared, begun):
    """Scores of sparse rows as far as columns with short lists of centres go; ``list_value`` goes with a position."""
    for r in range(begun.shape[0]):
        row = begun[r]
        row[:] = squared
        for e in range(indptr[r], indptr[r + 1]):
            x = values[e]
            for a in range(list_start[columns[e]], list_start[columns[e] + 1]):
                row[list_position[a]] += x * list_value[a]


@njit(inline="always")
def _list(scores, at, row, limit, first_place, listed, found, count):
    """Add the places of a tile that score within the limit to the row's list; without room the count exceeds it."""
    t = splat(limit)
    s0, s1, s2, s3 = load(scores, at), load(scores, at + U(16)), load(scores, at + U(32)), load(scores, at + U(48))
    m0, m1, m2, m3 = at_most(s0, t), at_most(s1, t), at_most(s2, t), at_most(s3, t)
    if m0 | m1 | m2 | m3:
        width, n = U(listed.shape[1]), U(count[row])
        if n + U(TILE) <= width:
            # Once anything is near, all four: which of them is hard to predict.
            n = _append(s0, m0, first_place, row, n, listed, found)
            n = _append(s1, m1, first_place + 16, row, n, listed, found)
            n = _append(s2, m2, first_place + 32, row, n, listed, found)
            n = _append(s3, m3, first_place + 48, row, n, listed, found)
        else:  # full: this row has more than there is room for
            n = max(n, width) + U(1)
        count[row] = n


@njit(inline="always")
def _append(s, mask, first_place, row, n, listed, found):
    to = U(row) * U(listed.shape[1]) + n
    compress(found, to, s, mask)
    compress(listed, to, steps(np.int32(first_place)), mask)
    return n + count_bits(mask)


@compiled(
    {
        "anne": "f4[:, ::1], i8, f4[::1], i4[:, ::1], f4[:, ::1], i8[::1]",
    }
)
def list_scored(scores, start, limit, listed, found, count):
    """List the places from 0 on that row ``start + q`` scores within its limit, from ``scores[q]``."""
    for q in range(scores.shape[0]):
        for c in range(0, scores.shape[1], TILE):
            at = U(q) * U(scores.shape[1]) + U(c)
            _list(scores, at, start + q, limit[start + q], c, listed, found, count)


@compiled(
    {
        "anne sparse": (
            "Tuple((f4[::1], i4[::1], i8[::1], f4[:, ::1])), f4[:, :, ::1], i8, f4[::1], i4[:, ::1], f4[:, "
            "::1], i8[::1]"
        ),
        "anne dense": "UniTuple(f4[:, ::1], 1), f4[:, :, ::1], i8, f4[::1], i4[:, ::1], f4[:, ::1], i8[::1]",
    }
)
def collect(rows, tiles, first_tile, limit, listed, found, count):
    """List for each row the places of the centres whose score is at most its limit; every tile is scored."""
    scores = np.empty((GROUP, TILE), dtype=np.float32)
    r = np.empty(GROUP, dtype=np.int64)
    for c in range(first_tile, first_tile + tiles.shape[0]):
        tile = tiles[c - first_tile]
        for first in range(0, limit.size, GROUP):
            for g in range(GROUP):
                r[g] = min(first + g, limit.size - 1)
            score_group(rows, r, tile, c, scores)
            for g in range(min(GROUP, limit.size - first)):
                _list(scores, U(g * TILE), r[g], limit[r[g]], c * TILE, listed, found, count)


@compiled(
    {
        "anne sparse": (
            "Tuple((f4[::1], i4[::1], i8[::1], f4[:, ::1])), f4[:, ::1], f4[:, :, ::1], i8, f4[:, ::1], "
            "f4[:, ::1], f4[::1], f4[::1], i4[:, ::1], f4[:, ::1], i8[::1]"
        ),
        "anne dense": (
            "UniTuple(f4[:, ::1], 1), f4[:, ::1], f4[:, :, ::1], i8, f4[:, ::1], f4[:, ::1], f4[::1], "
            "f4[::1], i4[:, ::1], f4[:, ::1], i8[::1]"
        ),
    }
)
def collect_in_boxes(rows, points, tiles, first_tile, low, high, limit, reach, listed, found, count):
    """The same, leaving out tiles whose bounding box is farther from the row's point than its reach (squared).

    ``low`` and ``high`` have shape (k, boxes), boxes padded to a multiple of 16; ``points`` (n, k) are the rows in the
    same coordinates.
    """
    n_tiles, k = tiles.shape[0], low.shape[0]
    n_boxes = low.shape[1]
    visitors = np.empty((n_tiles, limit.size), dtype=np.int32)
    n_visitors = np.zeros(n_tiles, dtype=np.int64)
    zero = splat(np.float32(0.0))
    for r in range(limit.size):
        radius = splat(reach[r])
        for b in range(0, n_boxes, 16):
            total = zero
            for j in range(k):
                at = U(j) * U(n_boxes) + U(b)
                x = splat(points[r, j])
                gap = maximum(maximum(subtract(load(low, at), x), subtract(x, load(high, at))), zero)
                total = multiply_add(gap, gap, total)
            mask = at_most(total, radius)
            while mask:
                c = b + np.int64(lowest_bit(mask))
                mask &= mask - U(1)
                if c < n_tiles:
                    visitors[c, n_visitors[c]] = r
                    n_visitors[c] += 1
    scores = np.empty((GROUP, TILE), dtype=np.float32)
    group = np.empty(GROUP, dtype=np.int64)
    visits = 0
    for c in range(n_tiles):
        tile = tiles[c]
        n = n_visitors[c]
        visits += n
        for first in range(0, n, GROUP):
            for g in range(GROUP):
                group[g] = visitors[c, min(first + g, n - 1)]
            score_group(rows, group, tile, first_tile + c, scores)
            for g in range(min(GROUP, n - first)):
                _list(scores, U(g * TILE), group[g], limit[group[g]], (first_tile + c) * TILE, listed, found, count)
    return visits


@compiled(
    {
        "anne": "f4[:, ::1], i8[::1], f4[:, ::1]",
    }
)
def order_statistics(scores, ranks, out):
    """``out[r, j]``: number ``ranks[j]`` (from 1, ascending) of row r in order; rows have a multiple of 16 entries."""
    k = ranks[-1]
    best = np.empty(k, dtype=np.float32)
    n, width = scores.shape
    for r in range(n):
        best[:] = np.inf
        worst = best[k - 1]
        for b in range(0, width, 16):
            mask = at_most(load(scores, U(r) * U(width) + U(b)), splat(worst))
            while mask:
                s = scores[r, b + np.int64(lowest_bit(mask))]
                mask &= mask - U(1)
                if s < worst:
                    p = k - 1
                    while p > 0 and best[p - 1] > s:
                        best[p] = best[p - 1]
                        p -= 1
                    best[p] = s
                    worst = best[k - 1]
        for j in range(ranks.size):
            out[r, j] = best[ranks[j] - 1]
