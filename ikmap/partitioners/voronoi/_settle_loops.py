"""Compiled loops: the nearest member of each partitioning among scored centres, by float64 where it is close."""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.extending import overload

from ikmap._simd import at_most, choose, compress, count_bits, load, maximum, minimum, pairs, splat, store
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
def settle_blocks(scores, first, ends, width, members, lengths, reach, units, rows, centers, codes, keys):
    """Nearest member of every partitioning among the first ones, whose scores stand in blocks.

    ``scores[r, k * width + i]`` belongs to member k of partitioning i; row ``first + r`` of the block of rows. After
    ``ends[e]`` members, ``codes[e]`` gets the answer (not stored where e is beyond `codes`); `keys` keep the last one.
    """
    t = members.shape[0]
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
                    s = load(row, np.uint64(k * width) + lane)
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
                        if row[k * width + i] <= limit:
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
            keys[r, i] = _key_of(bits[q, position[i] * width + i], position[i])


@njit(cache=True, nogil=True)
def _select(listed, found, n, above, limit, some, score_of):
    """Copy the listed places that score in (above, limit]; returns their number."""
    lowest, highest = splat(above), splat(limit)
    taken = U(0)
    for first in range(0, n, 16):
        scores = load(found, U(first))
        mask = at_most(scores, highest) & ~at_most(scores, lowest)
        if n - first < 16:
            mask &= (U(1) << U(n - first)) - U(1)
        compress(score_of, taken, scores, mask)
        compress(some, taken, load(listed, U(first)), mask)
        taken += count_bits(mask)
    return taken


@njit(cache=True, nogil=True)
def _memberships(places, scores, n, level, start, taken):
    """Spell out what some places are members of in a level, as pairs: number of the membership, score of the centre.

    Eight pairs are written at once, so that no branch hangs on how many there are, but for more. Returns their number.
    """
    count = U(0)
    for c in range(n):
        p, s = U(places[U(c)]), scores[U(c)]
        m, end = start[level, p], start[level, p + U(1)]
        store(taken, U(2) * count, pairs(m, s))
        for more in range(m + 8, end, 8):
            store(taken, U(2) * (count + U(more - m)), pairs(np.int32(more), s))
        count += U(end - m)
    return count


@njit(cache=True, nogil=True)
def _compete(taken, count, entries, low, second):
    """Bring the nearest and second nearest of each partitioning up to date with some memberships, without a branch."""
    for j in range(count):
        m = U(taken[U(2) * U(j)])
        i = U(entries[m, U(0)])
        key, nearest = _key_of(taken[U(2) * U(j) + U(1)], entries[m, U(1)]), low[i]
        second[i] = min(second[i], max(nearest, key))
        low[i] = min(nearest, key)


@njit(inline="always")
def _largest(values):
    largest = values[0]
    for i in range(1, values.size):
        largest = values[i] if values[i] > largest else largest
    return largest


@njit(inline="always")
def _scores_of(keys, bits):
    for i in range(keys.size):
        bits[i] = _in_order(np.int32(keys[i] >> 32))


@njit(cache=True, nogil=True)
def settle_lists(
    listed, found, count, limits, level, more, membership, members, lengths, reach, units, rows, centers, keys, settled
):
    """Bring the keys of the nearest members up to date with those of one level, from each row's list of near centres.

    ``limits`` (n, steps) ascend: a row is done as soon as all its cells are known to lie within one of them; the list
    holds the places of all centres within the last. ``settled[r]`` tells whether that was enough. If `more` levels
    follow, the first limit becomes the score above which a centre cannot change any cell; the list is shortened to it.
    """
    start, entries, center_of = membership
    t = members.shape[0]
    low, second = np.empty(t, dtype=np.int64), np.empty(t, dtype=np.int64)
    score, runner_up = np.empty(t, dtype=np.float32), np.empty(t, dtype=np.float32)
    score_bits, runner_up_bits = score.view(np.int32), runner_up.view(np.int32)
    in_doubt, nearest = np.empty(t, dtype=np.bool_), np.empty(t)
    places, scores = np.empty(listed.shape[1] + 16, dtype=np.int32), np.empty(listed.shape[1] + 16, dtype=np.float32)
    taken = np.empty(2 * (start[level, start.shape[1] - 1] - start[level, 0]) + 16, dtype=np.int32)
    for r in range(count.size):
        settled[r] = False
        n = count[r]
        if n > listed.shape[1]:
            continue
        for i in range(t):
            low[i], second[i] = keys[r, i], NOBODY
        margin, above, farthest = np.inf, np.float32(-np.inf), np.inf
        for step in range(limits.shape[1]):
            limit = limits[r, step]
            if limits.shape[1] == 1:
                competitors = _memberships(listed[r], found[r], n, level, start, taken)
            else:
                chosen = _select(listed[r], found[r], n, above, limit, places, scores)
                competitors = _memberships(places, scores, chosen, level, start, taken)
            _compete(taken, competitors, entries, low, second)
            above = limit
            if _largest(low) != NOBODY:
                _scores_of(low, score_bits)
                farthest = np.float64(_largest(score))
                margin = margin_of(farthest, lengths[r], reach, units[r])
                if limit >= EVERYTHING or farthest + margin <= limit:
                    settled[r] = True
                    break
        if not settled[r]:
            continue
        doubts, widest = 0, np.float32(-np.inf)
        if margin > 0.0:
            _scores_of(second, runner_up_bits)
            for i in range(t):
                in_doubt[i] = second[i] != NOBODY and runner_up[i] - score[i] < margin
                doubts += in_doubt[i]
        if doubts:
            for i in range(t):
                if in_doubt[i]:
                    runner_up[i] = _up(score[i] + margin)  # from here on: the limit
                    widest = max(widest, runner_up[i])
                    low[i] = NOBODY
                    if keys[r, i] != NOBODY:
                        score_bits[i] = _in_order(np.int32(keys[r, i] >> 32))
                        if score[i] <= runner_up[i]:
                            low[i] = keys[r, i]
                            nearest[i] = squared_distance(r, members[i, _member_of(low[i])], rows, centers)
            chosen = _select(listed[r], found[r], n, np.float32(-np.inf), widest, places, scores)
            for c in range(chosen):
                squared = -1.0
                for m in range(start[level, places[c]], start[level, places[c] + 1]):
                    i, k = entries[m, 0], entries[m, 1]
                    if in_doubt[i] and scores[c] <= runner_up[i]:
                        if squared < 0.0:
                            squared = squared_distance(r, center_of[places[c]], rows, centers)
                        if (
                            low[i] == NOBODY
                            or squared < nearest[i]
                            or (squared == nearest[i] and k < _member_of(low[i]))
                        ):
                            nearest[i] = squared
                            score[i] = scores[c]
                            low[i] = _key_of(score_bits[i], k)
        for i in range(t):
            keys[r, i] = low[i]
        if more:
            _scores_of(low, score_bits)
            farthest = np.float64(_largest(score))
            limits[r, 0] = _up(farthest + margin_of(farthest, lengths[r], reach, units[r]))
            count[r] = _select(listed[r], found[r], n, np.float32(-np.inf), limits[r, 0], listed[r], found[r])


@njit(cache=True, nogil=True)
def limits_of(keys, lengths, reach, units, limits):
    """Scores above which a centre cannot change any cell of the row, rounded up."""
    score = np.empty(keys.shape[1], dtype=np.float32)
    for r in range(keys.shape[0]):
        _scores_of(keys[r], score.view(np.int32))
        farthest = np.float64(_largest(score))
        limits[r, 0] = _up(farthest + margin_of(farthest, lengths[r], reach, units[r]))
