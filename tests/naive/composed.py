"""Maps side by side, straight from the definition: cell by cell, and pair by pair of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def side_by_side(codes: Sequence[np.ndarray], offsets: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The cells of the same rows in several maps, one map after the other, and the first column of each."""
    starts = [0]
    for of in offsets:
        for i in range(len(of) - 1):
            starts.append(starts[-1] + int(of[i + 1] - of[i]))
    rows = [[int(code) for of in codes for code in of[r]] for r in range(codes[0].shape[0])]
    return np.array(rows, dtype=np.int32), np.array(starts, dtype=np.int64)


def kernel(cells: Any) -> np.ndarray:
    """For each pair of rows, the share of partitionings in which both are in the same cell."""
    codes = cells.codes
    n, t = codes.shape
    found = np.zeros((n, n))
    for r in range(n):
        for s in range(n):
            found[r, s] = sum(codes[r, i] == codes[s, i] != -1 for i in range(t)) / t
    return found
