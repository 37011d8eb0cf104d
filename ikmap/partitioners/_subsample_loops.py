"""Compiled loop: the beginning of a random order."""

from __future__ import annotations

import numpy as np

from ikmap.compiled import compiled


@compiled({"anne, iforest": "i8[::1], i8[::1]"})
def prefix_of_shuffle(swaps, out):
    """First entries of a Fisher-Yates shuffle of range(n), in memory proportional to the prefix.

    What has been moved is kept in a table with open addressing: Numba's dictionary takes a second to compile.
    """
    bits = 1
    while (1 << bits) < 4 * swaps.size:
        bits += 1
    mask, shift = np.uint64((1 << bits) - 1), np.uint64(64 - bits)
    places = np.full(1 << bits, -1, dtype=np.int64)
    moved = np.empty(1 << bits, dtype=np.int64)
    for j in range(swaps.size):
        k = swaps[j]
        at, own = _slot(places, k, shift, mask), _slot(places, j, shift, mask)
        here = moved[own] if places[own] == j else np.int64(j)
        out[j] = moved[at] if places[at] == k else k
        places[at], moved[at] = k, here


@compiled
def _slot(places, place, shift, mask):
    """Return the slot of the table that has a place, or that it would be put into."""
    at = (np.uint64(place) * np.uint64(0x9E3779B97F4A7C15)) >> shift
    while places[at] != -1 and places[at] != place:
        at = (at + np.uint64(1)) & mask
    return at
