"""Compiled loop of the isolation kernel."""

from __future__ import annotations

from ikmap.compiled import compiled

TILE = 128


@compiled
def count_equal(left, right, out):
    """Number of equal codes for each pair of rows, in tiles that stay in cache."""
    for begin in range(0, right.shape[0], TILE):
        for r in range(left.shape[0]):
            for c in range(begin, min(begin + TILE, right.shape[0])):
                equal = 0
                for i in range(left.shape[1]):
                    equal += left[r, i] == right[c, i]
                out[r, c] = equal
