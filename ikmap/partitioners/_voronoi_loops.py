"""Compiled loops of the Voronoi partitions: nearest member per partitioning, and the float64 recheck."""

from __future__ import annotations

import numba
import numpy as np
from numba.extending import overload


@numba.njit(cache=True, nogil=True)
def settle(scores, tolerance, members, ends, codes, doubtful):
    """Find the lowest score among the first ``ends[e]`` members of each partitioning.

    ``codes[e, r, i]`` gets its position (ties: the lowest); ``doubtful[e, r, i]`` is set where another centre's
    score lies within twice the row's tolerance, so that rounding could have changed the answer.
    Returns the number of doubtful entries.
    """
    n_doubtful = 0
    for r in range(scores.shape[0]):
        row = scores[r]
        margin = 2.0 * tolerance[r]
        for i in range(members.shape[0]):
            group = members[i]
            best, second = np.inf, np.inf
            position, center = 0, -1
            begin = 0
            for e in range(ends.size):
                for k in range(begin, ends[e]):
                    score = row[group[k]]
                    if score < second:
                        if score < best:
                            second, best, position, center = best, score, k, group[k]
                        elif group[k] != center:
                            second = score
                begin = ends[e]
                codes[e, r, i] = position
                doubtful[e, r, i] = second - best < margin
                n_doubtful += doubtful[e, r, i]
    return n_doubtful


def _squared_distance(r, u, rows, centers):
    """Squared distance of row r and centre u, added up in column order: bit for bit the same in every layout."""
    raise NotImplementedError("compiled code only")


def _dense_distance(r, u, rows, centers):
    total = 0.0
    for j in range(rows.shape[1]):
        difference = rows[r, j] - centers[u, j]
        total += difference * difference
    return total


def _csr_distance(r, u, rows, centers):
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


@overload(_squared_distance)
def _choose_distance(r, u, rows, centers):  # noqa: ARG001
    return _csr_distance if isinstance(rows, numba.types.BaseTuple) else _dense_distance


@numba.njit(cache=True, nogil=True)
def recheck(scores, tolerance, members, ends, codes, doubtful, rows, centers):
    """Settle the doubtful entries by float64 distances; `rows` and `centers` are matrices, or CSR triples."""
    for e in range(ends.size):
        for r in range(scores.shape[0]):
            row = scores[r]
            for i in range(members.shape[0]):
                if not doubtful[e, r, i]:
                    continue
                group = members[i]
                limit = row[group[codes[e, r, i]]] + 2.0 * tolerance[r]
                nearest, center = np.inf, -1
                for k in range(ends[e]):
                    if row[group[k]] <= limit and group[k] != center:
                        squared = _squared_distance(r, group[k], rows, centers)
                        if squared < nearest or center < 0:  # the first one counts even if it overflows
                            nearest, center = squared, group[k]
                            codes[e, r, i] = k


@numba.njit(cache=True, nogil=True)
def inverted_scores(data, indices, indptr, column_start, column_center, column_value, squared_norms, scores):
    """Scores |z|^2 - 2 <x, z> of sparse rows against all centres, through lists of centres by column."""
    for r in range(scores.shape[0]):
        row = scores[r]
        row[:] = squared_norms
        for a in range(indptr[r], indptr[r + 1]):
            twice = 2.0 * data[a]
            j = indices[a]
            for b in range(column_start[j], column_start[j + 1]):
                row[column_center[b]] -= twice * column_value[b]


@numba.njit(cache=True, nogil=True)
def hash_dense_rows(rows, out):
    """64-bit hash of each row's values."""
    bits = rows.view(np.uint64)
    for r in range(rows.shape[0]):
        h = np.uint64(0x9E3779B97F4A7C15)
        for j in range(rows.shape[1]):
            h = _mix(h ^ bits[r, j])
        out[r] = h


@numba.njit(cache=True, nogil=True)
def hash_csr_rows(data, indices, indptr, out):
    """64-bit hash of each sparse row's columns and values."""
    bits = data.view(np.uint64)
    for r in range(out.size):
        h = np.uint64(0x9E3779B97F4A7C15)
        for a in range(indptr[r], indptr[r + 1]):
            h = _mix(_mix(h ^ bits[a]) ^ np.uint64(indices[a]))
        out[r] = h


@numba.njit(inline="always")
def _mix(h):
    h ^= h >> np.uint64(32)
    h *= np.uint64(0xD6E8FEB86659FD93)
    h ^= h >> np.uint64(29)
    h *= np.uint64(0x9FB21C651E98DF25)
    return h ^ (h >> np.uint64(32))
