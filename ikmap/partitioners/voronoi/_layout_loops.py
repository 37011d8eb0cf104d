"""Compiled loops that lay out a search: which centre stands where, and what a place is a member of."""

from __future__ import annotations

import numpy as np

from ikmap.compiled import compiled
from ikmap.partitioners.voronoi._scores_loops import TILE
from ikmap.partitioners.voronoi._settle_loops import NONE, RUN

SMALL = 4 * TILE
"""Fewer points are cut where they spread widest; more, where they vary most."""


@compiled(
    {
        "anne": "i4[:, ::1], i8",
    }
)
def firsts(members, n_centers):
    """True where a centre stands first among the members of its partitioning: shape (t, psi)."""
    t, psi = members.shape
    first = np.empty((t, psi), dtype=np.bool_)
    last_seen = np.full(n_centers, -1, dtype=np.int32)
    for i in range(t):
        for k in range(psi):
            c = members[i, k]
            first[i, k] = last_seen[c] != i
            last_seen[c] = i
    return first


@compiled(
    {
        "anne": "i4[:, ::1], b1[:, ::1], i8[::1], i8",
    }
)
def first_levels(members, first, edges, n_centers):
    """The level that each centre comes up first in; the number of levels, where it is in none.

    Level l has the members ``edges[l] .. edges[l + 1] - 1`` of all partitionings.
    """
    n_levels = edges.size - 1
    level_of = np.full(n_centers, n_levels, dtype=np.int32)
    for level in range(n_levels - 1, -1, -1):
        for i in range(members.shape[0]):
            for k in range(edges[level], edges[level + 1]):
                if first[i, k]:
                    level_of[members[i, k]] = level
    return level_of


@compiled(
    {
        "anne": "i4[:, ::1], b1[:, ::1], i8[::1], i8[::1], i8, u4",
    }
)
def memberships(members, first, edges, place_of, n_places, shift):
    """Find the memberships of each place: words (levels, places), lists of places with several, the most of a level."""
    n_levels = edges.size - 1
    count = np.zeros((n_levels, n_places), dtype=np.uint32)
    most = 0
    for level in range(n_levels):
        total = 0
        for i in range(members.shape[0]):
            for k in range(edges[level], edges[level + 1]):
                if first[i, k]:
                    count[level, place_of[members[i, k]]] += np.uint32(1)
                    total += 1
        most = max(most, total)
    words = np.full((n_levels, n_places), NONE, dtype=np.uint32)
    size = 0
    for level in range(n_levels):
        for place in range(n_places):
            if count[level, place] > 1:
                words[level, place] = np.uint32(size) + RUN
                size += np.int64(count[level, place]) + 1
    runs = np.zeros(size + 16, dtype=np.uint32)  # whole vectors are read
    for level in range(n_levels):
        for i in range(members.shape[0]):
            for k in range(edges[level], edges[level + 1]):
                if first[i, k]:
                    place = place_of[members[i, k]]
                    entry = (np.uint32(i) << shift) | np.uint32(k)
                    word = words[level, place]
                    if count[level, place] == 1:
                        words[level, place] = entry
                    else:
                        run = np.int64(word - RUN)
                        runs[run] += np.uint32(1)
                        runs[run + np.int64(runs[run])] = entry
    return words, runs, most


@compiled(
    {
        "anne": "f8[:, ::1]",
    }
)
def near_order(points):
    """Order of points (n, k) in which each run of 64, counted from the start, is a box of a k-d tree."""
    n, width = points.shape
    order = np.arange(n)
    key = np.empty(n, dtype=points.dtype)
    # Halves wait here: at most one for each time that n can be halved. (A list of tuples takes a second to compile.)
    begins, ends, waiting = np.zeros(64, dtype=np.int64), np.full(64, n), 1
    while waiting > 0:
        waiting -= 1
        start, stop = begins[waiting], ends[waiting]
        tiles = -(-(stop - start) // TILE)
        if tiles <= 1:
            continue
        axis = _axis_to_cut(points, order[start:stop], width)
        for j in range(start, stop):
            key[j] = points[order[j], axis]
        half = start + tiles // 2 * TILE
        _select(key, order, start, stop, half)
        begins[waiting], ends[waiting] = start, half
        begins[waiting + 1], ends[waiting + 1] = half, stop
        waiting += 2
    return order


@compiled
def _axis_to_cut(points, part, width):
    """The axis that these points spread widest along."""
    total, squares = np.zeros(width), np.zeros(width)
    low, high = np.full(width, np.inf), np.full(width, -np.inf)
    small = part.size < SMALL
    origin = points[part[0]]
    for p in part:
        if small:
            for j in range(width):
                low[j], high[j] = min(low[j], points[p, j]), max(high[j], points[p, j])
        else:
            for j in range(width):
                moved = points[p, j] - origin[j]
                total[j] += moved
                squares[j] += moved * moved
    spread = high - low if small else squares - total * total / part.size
    return np.argmax(spread)


@compiled
def _select(key, order, start, stop, nth):
    """Reorder ``start .. stop - 1`` so that no key before place `nth` is greater than one from there on (Hoare)."""
    low, high = start, stop - 1
    state = np.uint64(stop - start)
    while low < high:
        # A pivot from anywhere: no order that data come in takes quadratic time.
        state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        pivot = key[low + np.int64((state >> np.uint64(33)) % np.uint64(high - low + 1))]
        left, right = low, high
        while left <= right:
            while key[left] < pivot:
                left += 1
            while key[right] > pivot:
                right -= 1
            if left <= right:
                key[left], key[right] = key[right], key[left]
                order[left], order[right] = order[right], order[left]
                left += 1
                right -= 1
        if nth <= right:
            high = right
        elif nth >= left:
            low = left
        else:
            return


@compiled(
    {
        "anne dense": "f8[:, ::1], f8[::1], f8, i4[::1], f4[:, :, ::1]",
    }
)
def fill_lines(centers, shift, scale, numbers, lines):
    """``lines[c, 1 + j, lane]``: coordinate j, shifted and scaled, of the centre that stands there; 0 for none."""
    for c in range(lines.shape[0]):
        for lane in range(TILE):
            u = numbers[c * TILE + lane]
            for j in range(centers.shape[1] if u >= 0 else 0):
                lines[c, 1 + j, lane] = (centers[u, j] - shift[j]) * scale


@compiled(
    {
        "anne sparse": "f8[::1], i4[::1], i8[::1], f8, i4[::1], i4[::1], f4[:, :, ::1]",
    }
)
def fill_sparse_lines(data, indices, indptr, scale, line_of, numbers, lines):
    """The same of sparse centres, which are not shifted, for the columns that have a line."""
    for c in range(lines.shape[0]):
        for lane in range(TILE):
            u = numbers[c * TILE + lane]
            for e in range(indptr[max(u, 0)], indptr[u + 1] if u >= 0 else 0):
                line = line_of[indices[e]]
                if line > 0:
                    lines[c, line, lane] = data[e] * scale
