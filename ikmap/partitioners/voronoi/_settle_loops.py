"""Compiled loops: the nearest member of each partitioning among scored centres, by float64 where it is close."""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.extending import overload

from ikmap._compiled import compiled
from ikmap._simd import (
    at_most,
    choose,
    compress,
    count_bits,
    float_of,
    load,
    lowest_bit,
    maximum,
    minimum,
    splat,
    store,
    subtract,
)
from ikmap.partitioners.voronoi._scores_loops import LEAST_ERROR

U = np.uint64
EVERYTHING = np.finfo(np.float32).max
"""The limit that every centre's score is within; padding, which scores infinity, is not."""
NOBODY = np.int64(2**63 - 1)
"""The key of no member at all, farther than any; see :func:`_key_of`."""
NONE, RUN = np.uint32(2**31 - 1), np.uint32(2**31)
"""Words for what a place is a member of in a level: nothing; several things, in a run that begins at ``word - RUN``."""


def squared_distance(r, u, rows, centers):
    """Squared distance of row r and centre u, added up in column order: bit for bit the same in every layout."""
    raise NotImplementedError("compiled code only")


def dense_distance(r, u, rows, centers):
    total = 0.0
    for j in range(rows.shape[1]):
        difference = rows[r, j] - centers[u, j]
        total += difference * difference
    return total


def csr_distance(r, u, rows, centers):
    data, indices, indptr = rows
    center_data, center_indices, center_indptr = centers
    a, a_end = indptr[r], indptr[r + 1]
    b, b_end = center_indptr[u], center_indptr[u + 1]
    total = 0.0
    while a < a_end or b < b_end:
        if b >= b_end or (a < a_end and indices[a] < center_indices[b]):
            difference = data[a]
            a += 1
        elif a >= a_end or center_indices[b] < indices[a]:
            difference = center_data[b]
            b += 1
        else:
            difference = data[a] - center_data[b]
            a += 1
            b += 1
        total += difference * difference
    return total


@overload(squared_distance)
def _choose_distance(r, u, rows, centers):  # noqa: ARG001
    return csr_distance if isinstance(rows, types.BaseTuple) else dense_distance


@compiled
def margin_of(worst, length, reach, unit):
    """How far apart two scores must be for rounding not to matter, among centres near the cells of one row.

    Scores of centres of length at most a are off by at most ``unit (length + a)^2``. Those that can matter lie about as
    near as ``worst``, the score of the farthest cell; only if rounding hides even that, all centres count.

    It need not fall with ``worst``, then. But what holds among the centres within some radius holds among fewer: a
    margin of a larger ``worst`` is one of a smaller, too.
    """
    if length < 0.0:
        return np.inf
    if unit == 0.0:
        return 0.0
    far = reach
    if worst < np.inf:
        squared = max(worst + length * length, 0.0)
        radius = 2.0 * np.sqrt(squared)
        if squared + 6.0 * unit * (2.0 * length + radius) ** 2 < radius * radius:
            far = min(reach, length + radius)
    return 2.0 * unit * (length + far) ** 2 + LEAST_ERROR


@njit(inline="always")
def _up(bound):
    """A float32 that is no less; at most the largest there is."""
    return np.float32(min(bound + abs(bound) * 2.0**-22, np.float64(EVERYTHING)))


@njit(inline="always")
def _in_order(bits):
    """Integers in the order of the float32 numbers that these bits are; and back."""
    return bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF))


@njit(inline="always")
def _key_of(bits, k):
    """One integer for a float32 score (its bits) and a member: least for the nearest, among equals for the first."""
    return (np.int64(_in_order(bits)) << 32) | np.int64(k)


@njit(inline="always")
def _member_of(key):
    return np.int32(key & np.int64(0xFFFFFFFF))


def members_of(keys):
    """Member numbers of an array of keys."""
    return keys.astype(np.int32)  # the lower half


def scores_of(keys):
    """Scores of an array of keys."""
    return _in_order.py_func((keys >> 32).astype(np.int32)).view(np.float32)


@njit(inline="always")
def _lanes(n):
    """Bit mask of the first n lanes."""
    return (U(1) << U(min(n, 16))) - U(1)


@compiled(
    {
        "anne sparse": (
            "f4[:, ::1], i8, i8[::1], i4[:, ::1], f8[::1], f8, f8[::1], Tuple((f8[::1], i8[::1], i8[::1])), "
            "Tuple((f8[::1], i8[::1], i8[::1])), i4[:, :, ::1], i8[:, ::1]"
        ),
        "anne dense": (
            "f4[:, ::1], i8, i8[::1], i4[:, ::1], f8[::1], f8, f8[::1], f8[:, ::1], f8[:, ::1], i4[:, :, "
            "::1], i8[:, ::1]"
        ),
    }
)
def settle_blocks(scores, first, ends, members, lengths, reach, units, rows, centers, codes, keys):
    """Nearest member of every partitioning among the first ones, whose scores stand in blocks.

    ``scores[q, k * t + i]`` belongs to member k of partitioning i and row ``first + q``; sixteen scores more are read.
    After ``ends[e]`` members, ``codes[e]`` gets the answer (not stored beyond `codes`); `keys` keep the last.
    """
    t = members.shape[0]
    width = -(-t // 16) * 16
    second = np.empty(width, dtype=np.float32)
    low = np.empty(width, dtype=np.float32)
    at = np.empty(width, dtype=np.float32)
    worst = np.empty(16, dtype=np.float32)
    position = np.empty(t, dtype=np.int32)
    bits = scores.view(np.int32)
    for q in range(scores.shape[0]):
        r = first + q
        row = scores[q]
        for v in range(width):
            low[v], second[v], at[v] = np.inf, np.inf, 0.0
        begin = 0
        for e in range(ends.size):
            farthest = splat(-np.float32(np.inf))
            for v in range(0, width, 16):
                lane = np.uint64(v)
                nearest_of, runner_up, where = load(low, lane), load(second, lane), load(at, lane)
                for k in range(begin, ends[e]):
                    s = load(row, np.uint64(k * t) + lane)
                    stays = at_most(nearest_of, s)
                    runner_up = minimum(runner_up, maximum(nearest_of, s))
                    where = choose(stays, where, splat(np.float32(k)))
                    nearest_of = minimum(nearest_of, s)
                store(low, lane, nearest_of)
                store(second, lane, runner_up)
                store(at, lane, where)
                farthest = maximum(farthest, choose(_lanes(t - v), nearest_of, farthest))
            begin = ends[e]
            store(worst, U(0), farthest)
            margin = margin_of(np.float64(worst.max()), lengths[r], reach, units[r])
            for i in range(t):
                position[i] = np.int32(at[i])
            for v in range(0, width if margin > 0.0 else 0, 16):
                apart = subtract(load(second, U(v)), load(low, U(v)))
                doubts = at_most(apart, splat(_up(margin))) & _lanes(t - v)
                while doubts:
                    i = v + np.int64(lowest_bit(doubts))
                    doubts &= doubts - U(1)
                    limit = low[i] + margin
                    nearest, chosen = np.inf, -1
                    for k in range(ends[e]):
                        if row[k * t + i] <= limit:
                            squared = squared_distance(r, members[i, k], rows, centers)
                            if squared < nearest or chosen < 0:  # the first one counts even if it overflows
                                nearest, chosen = squared, k
                    position[i] = chosen
            if e < codes.shape[0]:
                for i in range(t):
                    codes[e, r, i] = position[i]
        for i in range(t):
            keys[r, i] = _key_of(bits[q, position[i] * t + i], position[i])


@njit(forceinline=True)
def _select(listed, found, at, n, above, limit, some, score_of, to):
    """Copy those of the n listed places from ``at`` on that score in (above, limit]; returns their number."""
    lowest, highest = splat(above), splat(limit)
    taken = U(0)
    for first in range(0, n, 16):
        scores = load(found, at + U(first))
        mask = at_most(scores, highest) & ~at_most(scores, lowest)
        mask &= _lanes(n - first)
        compress(score_of, to + taken, scores, mask)
        compress(some, to + taken, load(listed, at + U(first)), mask)
        taken += count_bits(mask)
    return taken


@njit(forceinline=True)
def _add_near(
    places, scores, at, n, words, first, runs, shift, bound, several, entry, entry_score, near, near_score, taken
):
    """Append the memberships of n places that score within the bound of their partitioning; returns their number.

    No branch hangs on a score, and none on how many memberships a place has, but for more than sixteen.
    """
    nowhere, left = U(bound.size - 1), U(0)
    for c in range(n):
        word, s = words[first + U(places[at + U(c)])], scores[at + U(c)]
        near[taken], near_score[taken] = word, s
        taken += U(s <= bound[min(U(word >> shift), nowhere)])
        several[left] = c
        left += U(word >= RUN)
    count = U(0)
    for c in range(left):
        place = at + U(several[U(c)])
        m, s = np.int64(words[first + U(places[place])] - RUN), splat(scores[place])
        size = np.int64(runs[U(m)])
        for more in range(0, size, 16):
            store(entry, count + U(more), load(runs, U(m + 1 + more)))
            store(entry_score, count + U(more), s)
        count += U(size)
    for j in range(count):
        e, s = entry[U(j)], entry_score[U(j)]
        near[taken], near_score[taken] = e, s
        taken += U(s <= bound[U(e >> shift)])
    return taken


@njit(inline="always")
def _score_of(key):
    return float_of(_in_order(np.int32(key >> 32)))


@njit(inline="always")
def _farthest(keys):
    """Score of the farthest of some keys; infinite if one is of nobody."""
    largest = keys[0]
    for i in range(1, keys.size):
        largest = max(largest, keys[i])
    return np.inf if largest == NOBODY else np.float64(_score_of(largest))


@compiled
def _nearest_of(r, i, near, bits, taken, shift, bound, members, rows, centers, before):
    """Key of the nearest member of partitioning i, by float64, among those that score within the bound."""
    best, nearest = NOBODY, np.inf
    if before != NOBODY and _score_of(before) <= bound:
        best, nearest = before, squared_distance(r, members[i, _member_of(before)], rows, centers)
    for j in range(taken):
        e = near[U(j)]
        if np.int64(e >> shift) == i and float_of(bits[U(j)]) <= bound:
            k = np.int64(e & ((np.uint32(1) << shift) - np.uint32(1)))
            squared = squared_distance(r, members[i, k], rows, centers)
            if best == NOBODY or squared < nearest or (squared == nearest and k < _member_of(best)):
                best, nearest = _key_of(bits[U(j)], k), squared
    return best


@compiled(
    {
        "anne sparse": (
            "i4[:, ::1], f4[:, ::1], i8[::1], f4[:, ::1], i8, b1, Tuple((u4[:, ::1], u4[::1], u4, i8)), "
            "i4[:, ::1], f8[::1], f8, f8[::1], Tuple((f8[::1], i8[::1], i8[::1])), Tuple((f8[::1], i8[::1], "
            "i8[::1])), i8[:, ::1], b1[::1]"
        ),
        "anne dense": (
            "i4[:, ::1], f4[:, ::1], i8[::1], f4[:, ::1], i8, b1, Tuple((u4[:, ::1], u4[::1], u4, i8)), "
            "i4[:, ::1], f8[::1], f8, f8[::1], f8[:, ::1], f8[:, ::1], i8[:, ::1], b1[::1]"
        ),
    }
)
def settle_lists(
    listed, found, count, limits, level, more, membership, members, lengths, reach, units, rows, centers, keys, settled
):
    """Bring the keys of the nearest members up to date with those of one level, from each row's list of near centres.

    ``limits`` (n, steps) ascend: a row is done as soon as all its cells are known to lie within one of them; the list
    holds the places of all centres within the last. ``settled[r]`` tells whether that was enough. If `more` levels
    follow, the first limit becomes the score above which a centre cannot change any cell; the list is shortened to it.

    Few of the memberships within the limit, which is that of the farthest cell, come near the cell that they could
    change: the others are left out first, without a branch.
    """
    words, runs, shift, most = membership
    first, all_words = U(level) * U(words.shape[1]), words.ravel()
    all_listed, all_found = listed.ravel(), found.ravel()
    t, width = members.shape[0], listed.shape[1]
    member = (np.uint32(1) << shift) - np.uint32(1)
    low, bound = np.empty(t, dtype=np.int64), np.empty(t + 1, dtype=np.float32)
    bound[t] = -np.inf
    places, place_scores = np.empty(width + 16, dtype=np.int32), np.empty(width + 16, dtype=np.float32)
    several = np.empty(width + 1, dtype=np.int32)
    entry, entry_score = np.empty(most + 16, dtype=np.uint32), np.empty(most + 16, dtype=np.float32)
    near, near_score = np.empty(most + 16, dtype=np.uint32), np.empty(most + 16, dtype=np.float32)
    bits = near_score.view(np.int32)
    doubtful = np.empty(most + t + 1, dtype=np.int32)
    for r in range(count.size):
        settled[r] = False
        n = count[r]
        if n > width:
            continue
        at = U(r) * U(width)
        for i in range(t):
            low[i] = keys[r, i]
        farthest = _farthest(low)
        margin = margin_of(farthest, lengths[r], reach, units[r])
        above, taken = np.float32(-np.inf), U(0)
        for step in range(limits.shape[1]):
            limit = limits[r, step]
            for i in range(t):
                known = low[i] != NOBODY and limit < EVERYTHING
                bound[i] = _up(np.float64(_score_of(low[i])) + margin) if known else EVERYTHING
            before = taken
            if limits.shape[1] == 1:
                taken = _add_near(
                    all_listed, all_found, at, n, all_words, first, runs, shift, bound, several,
                    entry, entry_score, near, near_score, taken,
                )  # fmt: skip
            else:
                chosen = _select(all_listed, all_found, at, n, above, limit, places, place_scores, U(0))
                taken = _add_near(
                    places, place_scores, U(0), chosen, all_words, first, runs, shift, bound, several,
                    entry, entry_score, near, near_score, taken,
                )  # fmt: skip
            for j in range(before, taken):
                e = near[U(j)]
                i = U(e >> shift)
                low[i] = min(low[i], _key_of(bits[U(j)], e & member))
            above = limit
            farthest = _farthest(low)
            if farthest < np.inf:
                # A margin among the centres near farther cells is one near these, though it be found larger now.
                margin = min(margin, margin_of(farthest, lengths[r], reach, units[r]))
                if limit >= EVERYTHING or farthest + margin <= limit:
                    settled[r] = True
                    break
        if not settled[r]:
            continue
        if margin > 0.0:
            doubts = U(0)
            for i in range(t):
                bound[i] = _up(np.float64(_score_of(low[i])) + margin)
                before = keys[r, i]
                doubtful[doubts] = i
                doubts += U((before != low[i]) & (before != NOBODY) & (_score_of(before) <= bound[i]))
            for j in range(taken):
                e = near[U(j)]
                i = U(e >> shift)
                doubtful[doubts] = i
                doubts += U((near_score[U(j)] <= bound[i]) & (low[i] != _key_of(bits[U(j)], e & member)))
            for q in range(doubts):
                i = doubtful[q]
                if bound[i] >= _score_of(low[i]):
                    low[i] = _nearest_of(r, i, near, bits, taken, shift, bound[i], members, rows, centers, keys[r, i])
                    bound[i] = -np.inf
            if doubts:
                farthest = _farthest(low)
        for i in range(t):
            keys[r, i] = low[i]
        if more:
            limits[r, 0] = _up(farthest + margin)
            count[r] = _select(
                all_listed, all_found, at, n, np.float32(-np.inf), limits[r, 0], all_listed, all_found, at
            )


@compiled(
    {
        "anne": "i8[:, ::1], i8, i8, f8[::1], f8, f8[::1], f4[:, ::1]",
    }
)
def limits_of(keys, start, stop, lengths, reach, units, limits):
    """Scores above which a centre cannot change any cell of rows ``start .. stop - 1``, rounded up."""
    for r in range(start, stop):
        farthest = _farthest(keys[r])
        limits[r, 0] = _up(farthest + margin_of(farthest, lengths[r], reach, units[r]))
