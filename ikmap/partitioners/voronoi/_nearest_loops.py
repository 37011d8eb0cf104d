"""Compiled parts of a search for nearest members: distances, margins of rounding, and keys that order what is found."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit, types
from numba.extending import overload

from ikmap._simd import float_of
from ikmap.compiled import compiled, group
from ikmap.partitioners.voronoi._scores_loops import LEAST_ERROR

U = np.uint64
EVERYTHING = np.finfo(np.float32).max
"""The limit that every centre's score is within; padding, which scores infinity, is not."""
NOBODY = np.int64(2**63 - 1)
"""The key of no member at all, farther than any; see :func:`key_of`."""


@group("f8[::1], f8, f8[::1]")
class Accuracy(NamedTuple):
    """The bounds of the rounding of scores: lengths of the rows, the largest of a centre, units of the rows."""

    lengths: np.ndarray
    reach: float
    units: np.ndarray


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
    """Return the distance of two scores from which rounding does not matter, among centres near the cells of one row.

    Scores of centres of length at most a are off by at most ``unit (length + a)^2``. Those that can matter lie about as
    near as ``worst``, the score of the farthest cell; only if rounding hides even that, all centres count.

    So the margin may grow where ``worst`` falls. A margin found for a larger ``worst`` is valid for a smaller one too,
    as it holds among more centres: callers keep the least that they have found.
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
def rounded_up(bound):
    """A float32 that is no less; at most the largest there is."""
    return np.float32(min(bound + abs(bound) * 2.0**-22, np.float64(EVERYTHING)))


@njit(inline="always")
def in_order(bits):
    """Integers in the order of the float32 numbers that these bits are; and back."""
    return bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF))


@njit(inline="always")
def key_of(bits, k):
    """One integer for a float32 score (its bits) and a member: least for the nearest, among equals for the first."""
    return (np.int64(in_order(bits)) << 32) | np.int64(k)


@njit(inline="always")
def member_of(key):
    return np.int32(key & np.int64(0xFFFFFFFF))


def members_of(keys):
    """Member numbers of an array of keys."""
    return keys.astype(np.int32)  # the lower half


def scores_of(keys):
    """Scores of an array of keys."""
    return in_order.py_func((keys >> 32).astype(np.int32)).view(np.float32)


@njit(inline="always")
def lanes(n):
    """Bit mask of the first n lanes."""
    return (U(1) << U(min(n, 16))) - U(1)


@njit(inline="always")
def score_of(key):
    return float_of(in_order(np.int32(key >> 32)))


@njit(inline="always")
def farthest_of(keys):
    """Score of the farthest of some keys; infinite if one is of nobody."""
    largest = keys[0]
    for i in range(1, keys.size):
        largest = max(largest, keys[i])
    return np.inf if largest == NOBODY else np.float64(score_of(largest))
