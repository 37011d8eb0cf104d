"""Compiled loops: the nearest member of each partitioning among scored centres, by float64 where it is close."""

from __future__ import annotations

import numpy as np
from numba import njit, types
from numba.extending import overload

from ikmap._simd import at_most, choose, compress, count_bits, load, maximum, minimum, prefetch, splat, store

U = np.uint64
EVERYTHING = np.finfo(np.float32).max
"""The limit that every centre's score is within; padding, which scores infinity, is not."""


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
    far = reach
    if worst < np.inf:
        squared = max(worst + length * length, 0.0)
        radius = 2.0 * np.sqrt(squared)
        if squared + 6.0 * unit * (2.0 * length + radius) ** 2 < radius * radius:
            far = min(reach, length + radius)
    return 2.0 * unit * (length + far) ** 2


@njit(inline="always")
def _up(bound):
    """A float32 that is no less; at most the largest there is."""
    return np.float32(min(bound + abs(bound) * 2.0**-22, np.float64(EVERYTHING)))


@njit(cache=True, nogil=True)
def settle_blocks(scores, first, ends, width, members, lengths, reach, units, rows, centers, codes, best, position):
    """Nearest member of every partitioning among the first ones, whose scores stand in blocks.

    ``scores[r, k * width + i]`` belongs to member k of partitioning i; row ``first + r`` of the block of rows. After
    ``ends[e]`` members, ``codes[e]`` gets the positions (not stored where e is beyond `codes`); `best` and `position`
    keep the last answer.
    """
    t = members.shape[0]
    second = np.empty(width, dtype=np.float32)
    low = np.empty(width, dtype=np.float32)
    at = np.empty(width, dtype=np.float32)
    for q in range(scores.shape[0]):
        r = first + q
        row = scores[q]
        low[:] = np.inf
        second[:] = np.inf
        at[:] = 0.0
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
                    position[r, i] = chosen
                else:
                    position[r, i] = np.int32(at[i])
            if e < codes.shape[0]:
                for i in range(t):
                    codes[e, r, i] = position[r, i]
        for i in range(t):
            best[r, i] = row[position[r, i] * width + i]


@njit(inline="always")
def _update(i, k, s, score, second, chosen):
    """Let member k of partitioning i, which scores s, compete; without a branch, for none could be foreseen."""
    old, runner_up, at = score[i], second[i], chosen[i]
    larger = s if s > old else old
    second[i] = larger if larger < runner_up else runner_up
    chosen[i] = k if s < old or (s == old and k < at) else at
    score[i] = s if s < old else old


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
        if mask:
            compress(score_of, taken, scores, mask)
            compress(some, taken, load(listed, U(first)), mask)
            taken += count_bits(mask)
    return taken


@njit(cache=True, nogil=True)
def _largest(score):
    """Largest entry of an array of whole vectors."""
    largest = load(score, U(0))
    for v in range(16, score.size, 16):
        largest = maximum(largest, load(score, U(v)))
    lanes = np.empty(16, dtype=np.float32)
    store(lanes, U(0), largest)
    result = lanes[0]
    for v in range(1, 16):
        result = lanes[v] if lanes[v] > result else result
    return result


@njit(cache=True, nogil=True)
def _take(taken, level, start, entries, some, score_of, score, second, chosen):
    """Bring the nearest and second nearest up to date with the first `taken` of some places; they are used up."""
    for c in range(taken):
        prefetch(entries, U(2) * U(start[U(some[c]), level]))
    # Most centres are members once in a level: those first, then what is left of the others.
    several = U(0)
    for c in range(taken):
        p = U(some[c])
        m, end = U(start[p, level]), U(start[p, level + 1])
        s = score_of[c] if m < end else np.float32(np.inf)
        _update(U(entries[m, 0]), entries[m, 1], s, score, second, chosen)
        some[several], score_of[several] = some[c], score_of[c]
        several += U(m + U(1) < end)
    for c in range(several):
        s, p = score_of[c], U(some[c])
        for m in range(U(start[p, level]) + U(1), U(start[p, level + 1])):
            _update(U(entries[m, 0]), entries[m, 1], s, score, second, chosen)


@njit(cache=True, nogil=True)
def settle_lists(
    listed,
    found,
    count,
    limits,
    level,
    membership,
    members,
    lengths,
    reach,
    units,
    rows,
    centers,
    best,
    position,
    settled,
):
    """Bring `best` and `position` up to date with the members of one level, from each row's list of near centres.

    ``limits`` (n, steps) ascend: a row is done as soon as all its cells are known to lie within one of them; the list
    holds the places of all centres within the last. ``settled[r]`` tells whether that was enough.
    """
    start, entries, center_of = membership
    t = members.shape[0]
    second = np.empty(t, dtype=np.float32)
    score = np.full(-(-t // 16) * 16, -np.inf, dtype=np.float32)
    chosen = np.empty(t, dtype=np.int32)
    in_doubt = np.empty(t, dtype=np.bool_)
    nearest = np.empty(t)
    some = np.empty(listed.shape[1] + 16, dtype=np.int32)
    score_of = np.empty(listed.shape[1] + 16, dtype=np.float32)
    for r in range(count.size):
        settled[r] = False
        n = count[r]
        if n > listed.shape[1]:
            continue
        places, scores = listed[r], found[r]
        score[:t] = best[r]
        chosen[:] = position[r]
        second[:] = np.inf
        margin, above = np.inf, np.float32(-np.inf)
        for step in range(limits.shape[1]):
            limit = limits[r, step]
            taken = _select(places, scores, n, above, limit, some, score_of)
            _take(taken, level, start, entries, some, score_of, score, second, chosen)
            worst = _largest(score)
            above = limit
            if worst < np.inf:
                margin = margin_of(worst, lengths[r], reach, units[r])
                if limit >= EVERYTHING or worst + margin <= limit:
                    settled[r] = True
                    break
        if not settled[r]:
            continue
        doubts, widest = 0, np.float32(-np.inf)
        for i in range(t):
            in_doubt[i] = second[i] - score[i] < margin
            doubts += in_doubt[i]
        if doubts:
            for i in range(t):
                if in_doubt[i]:
                    second[i] = _up(score[i] + margin)  # from here on: the limit
                    widest = max(widest, second[i])
                    chosen[i] = -1
                    if position[r, i] >= 0 and best[r, i] <= second[i]:
                        chosen[i], score[i] = position[r, i], best[r, i]
                        nearest[i] = squared_distance(r, members[i, chosen[i]], rows, centers)
            for c in range(_select(places, scores, n, np.float32(-np.inf), widest, some, score_of)):
                p, s = some[c], score_of[c]
                squared = -1.0
                for m in range(start[p, level], start[p, level + 1]):
                    i = entries[m, 0]
                    if in_doubt[i] and s <= second[i]:
                        if squared < 0.0:
                            squared = squared_distance(r, center_of[p], rows, centers)
                        k = entries[m, 1]
                        if chosen[i] < 0 or squared < nearest[i] or (squared == nearest[i] and k < chosen[i]):
                            nearest[i], chosen[i], score[i] = squared, k, s
        best[r] = score[:t]
        position[r] = chosen


@njit(cache=True, nogil=True)
def limits_of(best, lengths, reach, units, limit):
    """Scores above which a centre cannot change any cell of the row, rounded up."""
    for r in range(best.shape[0]):
        worst = -np.inf
        for i in range(best.shape[1]):
            worst = max(worst, best[r, i])
        bound = worst + margin_of(worst, lengths[r], reach, units[r])
        limit[r, 0] = _up(bound)


@njit(cache=True, nogil=True)
def shorten_lists(listed, found, count, limit):
    """Drop what lies beyond a lower limit."""
    width = U(listed.shape[1])
    for r in range(count.size):
        n = count[r]
        if n > listed.shape[1]:
            continue
        highest = splat(limit[r, 0])
        kept = U(0)
        for first in range(0, n, 16):
            at = U(r) * width + U(first)
            scores = load(found, at)
            mask = at_most(scores, highest)
            if n - first < 16:
                mask &= (U(1) << U(n - first)) - U(1)
            if mask:
                places = load(listed, at)
                compress(found, U(r) * width + kept, scores, mask)
                compress(listed, U(r) * width + kept, places, mask)
                kept += count_bits(mask)
        count[r] = kept
