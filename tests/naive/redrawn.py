"""Partitionings drawn anew, by the definition: one cell at a time."""

from __future__ import annotations

import numpy as np


def carried(
    values: np.ndarray, before: np.ndarray, after: np.ndarray, old: np.ndarray, new: np.ndarray, drawn: np.ndarray
) -> np.ndarray:
    """Values by feature column, carried over to partitionings of which some were drawn anew.

    `before` and `after` are codes of the same rows, shape (n, t); `old` and `new` the offsets of the cells.
    """
    found = np.zeros((new[-1], *values.shape[1:]))
    for i in range(len(drawn)):
        for cell in range(new[i + 1] - new[i]):
            if not drawn[i]:
                found[new[i] + cell] = values[old[i] + cell]
                continue
            rows = [r for r in range(len(after)) if after[r, i] == cell]
            for r in rows:
                if before[r, i] >= 0:
                    found[new[i] + cell] += values[old[i] + before[r, i]] / len(rows)
    return found
