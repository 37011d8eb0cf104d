"""Compiled loop that finds the bins of values."""

from __future__ import annotations

import numpy as np

from ikmap.compiled import compiled

BYTE_BINS = 256
"""Number of bins that a byte tells apart."""
_TOGETHER = 512
"""Number of values of a column whose bins are looked up together."""


@compiled(
    {
        "boosting, forest": "f8[:, ::1], f8[::1], i8[::1], u1[:, ::1]",
        "boosting": "f8[:, ::1], f8[::1], i8[::1], u2[:, ::1]",
    }
)
def fill_bins(X, edges, begins, codes):
    """Write the bin of each value: how many of the edges of its column are at or below it.

    Parameters
    ----------
    edges : (number of all edges,)
        Ascending edges of each column, column after column.
    begins : (d + 1,)
        Where the edges of each column begin.
    """
    n, d = X.shape
    column, at = np.empty(_TOGETHER), np.empty(_TOGETHER, dtype=np.uint64)
    for start in range(0, n, _TOGETHER):
        size = min(_TOGETHER, n - start)
        for j in range(d):
            own = edges[begins[j] : begins[j + 1]]
            for i in range(size):
                column[i] = X[start + i, j]
                at[i] = 0
            # Many values take each step of the binary search together, without a branch that is guessed wrong.
            n_left = own.size
            while n_left > 1:
                half = np.uint64(n_left >> 1)
                for i in range(size):
                    at[i] += half * np.uint64(own[at[i] + half - np.uint64(1)] <= column[i])
                n_left -= n_left >> 1
            for i in range(size):
                if n_left:
                    at[i] += np.uint64(own[at[i]] <= column[i])
                codes[start + i, j] = at[i]
