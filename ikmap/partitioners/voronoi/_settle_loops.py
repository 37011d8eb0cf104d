"""Compiled loops: the nearest member of each partitioning among scored centres, by float64 where it is close."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

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
from ikmap.compiled import compiled, group
from ikmap.partitioners.voronoi._nearest_loops import (
    EVERYTHING,
    NOBODY,
    farthest_of,
    key_of,
    lanes,
    margin_of,
    member_of,
    rounded_up,
    score_of,
    squared_distance,
)

U = np.uint64
NONE, RUN = np.uint32(2**31 - 1), np.uint32(2**31)
"""Words for what a place is a member of in a level: nothing; several things, in a run that begins at ``word - RUN``."""


@group("i4[:, ::1], f4[:, ::1], i8[::1]")
class Lists(NamedTuple):
    """Each row's list of near centres: their places, their scores, and how many they are, of whom not all may fit."""

    listed: np.ndarray
    found: np.ndarray
    sizes: np.ndarray


@group("u4[:, ::1], u4[::1], u4, i8")
class Membership(NamedTuple):
    """The memberships of each place.

    Attributes
    ----------
    words : ndarray of uint32, shape (levels, places)
        A membership ``i << shift | k``, ``NONE``, or ``RUN`` and where several stand in `runs`, after their number.
    runs : ndarray of uint32
    shift : uint32
    most : int
        How many memberships a level has, at most.
    """

    words: np.ndarray
    runs: np.ndarray
    shift: np.uint32
    most: int


class Words(NamedTuple):
    """:class:`Membership` in one level."""

    words: np.ndarray
    runs: np.ndarray
    shift: np.uint32


@compiled(
    {
        "anne sparse": (
            "f4[:, ::1], i8, i8[::1], i4[:, ::1], {Accuracy}, Tuple((f8[::1], i4[::1], i8[::1])), "
            "Tuple((f8[::1], i4[::1], i8[::1])), i4[:, :, ::1], i8[:, ::1]"
        ),
        "anne dense": (
            "f4[:, ::1], i8, i8[::1], i4[:, ::1], {Accuracy}, f8[:, ::1], f8[:, ::1], i4[:, :, ::1], i8[:, ::1]"
        ),
    }
)
def settle_blocks(scores, first, ends, members, accuracy, rows, centers, codes, keys):
    """Nearest member of every partitioning among the first ones, whose scores stand in blocks.

    ``scores[q, k * t + i]`` belongs to member k of partitioning i and row ``first + q``; sixteen scores more are read.
    After ``ends[e]`` members, ``codes[e]`` gets the answer (not stored beyond `codes`); `keys` keep the last.
    """
    lengths, reach, units = accuracy
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
                farthest = maximum(farthest, choose(lanes(t - v), nearest_of, farthest))
            begin = ends[e]
            store(worst, U(0), farthest)
            margin = margin_of(np.float64(worst.max()), lengths[r], reach, units[r])
            for i in range(t):
                position[i] = np.int32(at[i])
            for v in range(0, width if margin > 0.0 else 0, 16):
                apart = subtract(load(second, U(v)), load(low, U(v)))
                doubts = at_most(apart, splat(rounded_up(margin))) & lanes(t - v)
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
            keys[r, i] = key_of(bits[q, position[i] * t + i], position[i])


@njit(forceinline=True)
def _select(listed, found, at, n, above, limit, some, some_score, to):
    """Copy those of the n listed places from ``at`` on that score in (above, limit]; returns their number."""
    lowest, highest = splat(above), splat(limit)
    taken = U(0)
    for first in range(0, n, 16):
        scores = load(found, at + U(first))
        mask = at_most(scores, highest) & ~at_most(scores, lowest)
        mask &= lanes(n - first)
        compress(some_score, to + taken, scores, mask)
        compress(some, to + taken, load(listed, at + U(first)), mask)
        taken += count_bits(mask)
    return taken


@njit(forceinline=True)
def _add_near(places, scores, at, n, level, bound, several, entry, entry_score, near, near_score, taken):
    """Append the memberships of n places that score within the bound of their partitioning; returns their number.

    No branch hangs on a score, and none on how many memberships a place has, but for more than sixteen.
    """
    words, runs, shift = level
    nowhere, left = U(bound.size - 1), U(0)
    for c in range(n):
        word, s = words[U(places[at + U(c)])], scores[at + U(c)]
        near[taken], near_score[taken] = word, s
        taken += U(s <= bound[min(U(word >> shift), nowhere)])
        several[left] = c
        left += U(word >= RUN)
    count = U(0)
    for c in range(left):
        place = at + U(several[U(c)])
        m, s = np.int64(words[U(places[place])] - RUN), splat(scores[place])
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


@compiled
def _nearest_of(r, i, near, bits, taken, shift, bound, members, rows, centers, before):
    """Key of the nearest member of partitioning i, by float64, among those that score within the bound."""
    best, nearest = NOBODY, np.inf
    if before != NOBODY and score_of(before) <= bound:
        best, nearest = before, squared_distance(r, members[i, member_of(before)], rows, centers)
    for j in range(taken):
        e = near[U(j)]
        if np.int64(e >> shift) == i and float_of(bits[U(j)]) <= bound:
            k = np.int64(e & ((np.uint32(1) << shift) - np.uint32(1)))
            squared = squared_distance(r, members[i, k], rows, centers)
            if best == NOBODY or squared < nearest or (squared == nearest and k < member_of(best)):
                best, nearest = key_of(bits[U(j)], k), squared
    return best


@compiled(
    {
        "anne sparse": (
            "{Lists}, f4[:, ::1], i8, b1, {Membership}, i4[:, ::1], {Accuracy}, "
            "Tuple((f8[::1], i4[::1], i8[::1])), Tuple((f8[::1], i4[::1], i8[::1])), i8[:, ::1], b1[::1]"
        ),
        "anne dense": (
            "{Lists}, f4[:, ::1], i8, b1, {Membership}, i4[:, ::1], {Accuracy}, "
            "f8[:, ::1], f8[:, ::1], i8[:, ::1], b1[::1]"
        ),
    }
)
def settle_lists(lists, limits, number, more, membership, members, accuracy, rows, centers, keys, settled):
    """Bring the keys of the nearest members up to date with those of one level, from each row's list of near centres.

    ``limits`` (n, steps) ascend: a row is done as soon as all its cells are known to lie within one of them; the list
    holds the places of all centres within the last. ``settled[r]`` tells whether that was enough. If `more` levels
    follow, the first limit becomes the score above which a centre cannot change any cell; the list is shortened to it.

    Few of the memberships within the limit, which is that of the farthest cell, come near the cell that they could
    change: the others are left out first, without a branch.
    """
    listed, found, sizes = lists
    lengths, reach, units = accuracy
    words, runs, shift, most = membership
    level = Words(words[number], runs, shift)
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
    for r in range(sizes.size):
        settled[r] = False
        n = sizes[r]
        if n > width:
            continue
        at = U(r) * U(width)
        for i in range(t):
            low[i] = keys[r, i]
        farthest = farthest_of(low)
        margin = margin_of(farthest, lengths[r], reach, units[r])
        above, taken = np.float32(-np.inf), U(0)
        for step in range(limits.shape[1]):
            limit = limits[r, step]
            for i in range(t):
                known = low[i] != NOBODY and limit < EVERYTHING
                bound[i] = rounded_up(np.float64(score_of(low[i])) + margin) if known else EVERYTHING
            before = taken
            if limits.shape[1] == 1:
                taken = _add_near(
                    all_listed, all_found, at, n, level, bound, several, entry, entry_score, near, near_score, taken
                )
            else:
                chosen = _select(all_listed, all_found, at, n, above, limit, places, place_scores, U(0))
                taken = _add_near(
                    places, place_scores, U(0), chosen, level, bound, several,
                    entry, entry_score, near, near_score, taken,
                )  # fmt: skip
            for j in range(before, taken):
                e = near[U(j)]
                i = U(e >> shift)
                low[i] = min(low[i], key_of(bits[U(j)], e & member))
            above = limit
            farthest = farthest_of(low)
            if farthest < np.inf:
                # Margins found before are valid for these nearer cells too (margin_of): the least of all counts.
                margin = min(margin, margin_of(farthest, lengths[r], reach, units[r]))
                if limit >= EVERYTHING or farthest + margin <= limit:
                    settled[r] = True
                    break
        if not settled[r]:
            continue
        if margin > 0.0:
            doubts = U(0)
            for i in range(t):
                bound[i] = rounded_up(np.float64(score_of(low[i])) + margin)
                before = keys[r, i]
                doubtful[doubts] = i
                doubts += U((before != low[i]) & (before != NOBODY) & (score_of(before) <= bound[i]))
            for j in range(taken):
                e = near[U(j)]
                i = U(e >> shift)
                doubtful[doubts] = i
                doubts += U((near_score[U(j)] <= bound[i]) & (low[i] != key_of(bits[U(j)], e & member)))
            for q in range(doubts):
                i = doubtful[q]
                if bound[i] >= score_of(low[i]):
                    low[i] = _nearest_of(r, i, near, bits, taken, shift, bound[i], members, rows, centers, keys[r, i])
                    bound[i] = -np.inf
            if doubts:
                farthest = farthest_of(low)
        for i in range(t):
            keys[r, i] = low[i]
        if more:
            limits[r, 0] = rounded_up(farthest + margin)
            sizes[r] = _select(
                all_listed, all_found, at, n, np.float32(-np.inf), limits[r, 0], all_listed, all_found, at
            )


@compiled(
    {
        "anne": "i8[:, ::1], i8, i8, {Accuracy}, f4[:, ::1]",
    }
)
def limits_of(keys, start, stop, accuracy, limits):
    """Scores above which a centre cannot change any cell of rows ``start .. stop - 1``, rounded up."""
    lengths, reach, units = accuracy
    for r in range(start, stop):
        farthest = farthest_of(keys[r])
        limits[r, 0] = rounded_up(farthest + margin_of(farthest, lengths[r], reach, units[r]))
