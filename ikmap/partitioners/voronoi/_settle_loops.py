"""Compiled loops: the nearest member of each partitioning among scored centres, by float64 where it is close."""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.extending import overload

from ikmap._simd import at_most, choose, compress, count_bits, float_of, load, maximum, minimum, splat, store
from ikmap.partitioners.voronoi._scores_loops import LEAST_ERROR

U = np.uint64
EVERYTHING = np.finfo(np.float32).max
"""The limit that every centre's score is within; padding, which scores infinity, is not."""
NOBODY = np.int64(2**63 - 1)
"""The key of no member at all, farther than any; see :func:`_key_of`."""


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


@njit(cache=True, nogil=True)
def margin_of(worst, length, reach, unit):
    """How far apart two scores must be for rounding not to matter, among centres near the cells of one row.

    Scores of centres of length at most a are off by at most ``unit (length + a)^2``. Those that can matter lie about as
    near as ``worst``, the score of the farthest cell; only if rounding hides even that, all centres count.
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


@njit(cache=True, nogil=True)
def settle_blocks(scores, first, ends, members, lengths, reach, units, rows, centers, codes, keys):
    """Nearest member of every partitioning among the first ones, whose scores stand in blocks.

    ``scores[q, k * t + i]`` belongs to member k of partitioning i and row ``first + q``. After ``ends[e]`` members, ``codes[e]`` gets the answer (not stored where e is beyond `codes`); `keys` keep the last one.
    """
    t = members.shape[0]
    width = -(-t // 16) * 16
    second = np.empty(width, dtype=np.float32)
    low = np.empty(width, dtype=np.float32)
    at = np.empty(width, dtype=np.float32)
    position = np.empty(t, dtype=np.int32)
    bits = scores.view(np.int32)
    for q in range(scores.shape[0]):
        r = first + q
        row = scores[q]
        for v in range(width):
            low[v], second[v], at[v] = np.inf, np.inf, 0.0
        begin = 0
        for e in range(ends.size):
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
            begin = ends[e]
            worst = -np.inf
            for i in range(t):
                worst = max(worst, low[i])
            margin = margin_of(worst, lengths[r], reach, units[r])
            for i in range(t):
                if second[i] - low[i] < margin:
                    limit = low[i] + margin
                    nearest, chosen = np.inf, -1
                    for k in range(ends[e]):
                        if row[k * t + i] <= limit:
                            squared = squared_distance(r, members[i, k], rows, centers)
                            if squared < nearest or chosen < 0:  # the first one counts even if it overflows
                                nearest, chosen = squared, k
                    position[i] = chosen
                else:
                    position[i] = np.int32(at[i])
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
        if n - first < 16:
            mask &= (U(1) << U(n - first)) - U(1)
        compress(score_of, to + taken, scores, mask)
        compress(some, to + taken, load(listed, at + U(first)), mask)
        taken += count_bits(mask)
    return taken


@njit(forceinline=True)
def _memberships(places, scores, at, n, level, start, entries, entry, score):
    """Spell out what n places are members of in a level: entries, and the score of each. Returns their number.

    Sixteen are copied at once, so that no branch hangs on how many there are, but for more.
    """
    count, first = U(0), U(level) * U(start.shape[1])
    ends = start.ravel()
    for c in range(n):
        p, s = first + U(places[at + U(c)]), splat(scores[at + U(c)])
        m, end = ends[p], ends[p + U(1)]
        store(entry, count, load(entries, U(m)))
        store(score, count, s)
        for more in range(m + 16, end, 16):
            store(entry, count + U(more - m), load(entries, U(more)))
            store(score, count + U(more - m), s)
        count += U(end - m)
    return count


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


@njit(cache=True, nogil=True)
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
    start, entries, shift = membership
    t, width = members.shape[0], listed.shape[1]
    all_listed, all_found = listed.ravel(), found.ravel()
    member = (np.uint32(1) << np.uint32(shift)) - np.uint32(1)
    low, bound = np.empty(t, dtype=np.int64), np.empty(t, dtype=np.float32)
    places, place_scores = np.empty(width + 16, dtype=np.int32), np.empty(width + 16, dtype=np.float32)
    most = start[level, start.shape[1] - 1] - start[level, 0] + 16
    entry, score = np.empty(most, dtype=np.uint32), np.empty(most, dtype=np.float32)
    near, near_score = np.empty(most, dtype=np.uint32), np.empty(most, dtype=np.float32)
    bits = near_score.view(np.int32)
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
        slack, above, taken = margin, np.float32(-np.inf), U(0)
        for step in range(limits.shape[1]):
            limit = limits[r, step]
            slack = min(slack, margin)
            for i in range(t):
                known = low[i] != NOBODY and limit < EVERYTHING
                bound[i] = _up(np.float64(_score_of(low[i])) + slack) if known else EVERYTHING
            if limits.shape[1] == 1:
                competitors = _memberships(all_listed, all_found, at, n, level, start, entries, entry, score)
            else:
                chosen = _select(all_listed, all_found, at, n, above, limit, places, place_scores, U(0))
                competitors = _memberships(places, place_scores, U(0), chosen, level, start, entries, entry, score)
            before = taken
            for j in range(competitors):
                e, s = entry[U(j)], score[U(j)]
                near[taken], near_score[taken] = e, s
                taken += U(s <= bound[U(e >> shift)])
            for j in range(before, taken):
                e = near[U(j)]
                i = U(e >> shift)
                low[i] = min(low[i], _key_of(bits[U(j)], e & member))
            above = limit
            farthest = _farthest(low)
            if farthest < np.inf:
                margin = margin_of(farthest, lengths[r], reach, units[r])
                if limit >= EVERYTHING or (margin <= slack and farthest + margin <= limit):
                    settled[r] = True
                    break
        if not settled[r]:
            continue
        if margin > 0.0:
            rivals = U(0)
            for i in range(t):
                bound[i] = _up(np.float64(_score_of(low[i])) + margin)
                rival = keys[r, i] != low[i] and keys[r, i] != NOBODY and _score_of(keys[r, i]) <= bound[i]
                rivals += U(rival)
            for j in range(taken):
                e = near[U(j)]
                i = U(e >> shift)
                rivals += U(near_score[U(j)] <= bound[i] and low[i] != _key_of(bits[U(j)], e & member))
            if rivals:
                _settle_by_distance(r, near[:taken], near_score[:taken], shift, bound, members, rows, centers, keys, low)
                farthest = _farthest(low)
                margin = margin_of(farthest, lengths[r], reach, units[r])
        for i in range(t):
            keys[r, i] = low[i]
        if more:
            limits[r, 0] = _up(farthest + margin)
            count[r] = _select(
                all_listed, all_found, at, n, np.float32(-np.inf), limits[r, 0], all_listed, all_found, at
            )


@njit(cache=True, nogil=True)
def _settle_by_distance(r, entry, score, shift, bound, members, rows, centers, keys, low):
    """Nearest member, by float64, of each partitioning in which more than one scores within the bound."""
    t = members.shape[0]
    bits = score.view(np.int32)
    contenders, nearest = np.zeros(t, dtype=np.int64), np.empty(t)
    for i in range(t):
        contenders[i] = keys[r, i] != NOBODY and _score_of(keys[r, i]) <= bound[i]
    for j in range(entry.size):
        i = entry[j] >> shift
        contenders[i] += score[j] <= bound[i]
    for i in range(t):
        if contenders[i] > 1:
            low[i] = NOBODY
            if keys[r, i] != NOBODY and _score_of(keys[r, i]) <= bound[i]:
                low[i] = keys[r, i]
                nearest[i] = squared_distance(r, members[i, _member_of(low[i])], rows, centers)
    center, squared = -1, 0.0
    for j in range(entry.size):
        i = entry[j] >> shift
        k = np.int64(entry[j] & ((np.uint32(1) << np.uint32(shift)) - np.uint32(1)))
        if contenders[i] > 1 and score[j] <= bound[i]:
            if members[i, k] != center:
                center = members[i, k]
                squared = squared_distance(r, center, rows, centers)
            if low[i] == NOBODY or squared < nearest[i] or (squared == nearest[i] and k < _member_of(low[i])):
                nearest[i] = squared
                low[i] = _key_of(bits[j], k)


@njit(cache=True, nogil=True)
def limits_of(keys, start, stop, lengths, reach, units, limits):
    """Scores above which a centre cannot change any cell of rows ``start .. stop - 1``, rounded up."""
    for r in range(start, stop):
        farthest = _farthest(keys[r])
        limits[r, 0] = _up(farthest + margin_of(farthest, lengths[r], reach, units[r]))
