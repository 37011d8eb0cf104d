"""Memory of sweeps, and the largest value of a sweep that fits into memory."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

HELD = 4
"""Matrices of float64 that are in memory at once: counts, as they are enlarged, a factor, and what it is made of."""

NUMBERS_PER_OUTPUT = 4
"""Numbers that a sweep by gradient descent holds for each output of each column: weights have room for more columns,
and there are two arrays of them while they are enlarged."""
FOLLOWED = 700
"""Bytes of what says which cell has which column, and which splits come, for each column."""


def followed_bytes(n_outputs: int) -> int:
    """Return the bytes of a sweep by gradient descent, for each column, beside the map and the rows."""
    return 8 * NUMBERS_PER_OUTPUT * n_outputs + FOLLOWED


def sweep_bytes(n_rows: int, n_columns: int) -> int:
    """Return the bytes of exact ridge regression on cells: of the square of the columns, or of the rows if fewer."""
    return 8 * HELD * min(n_rows, n_columns) ** 2


def longest_sweep(n_partitions: int, values: Sequence[float] | np.ndarray, room: float) -> float:
    """Return the largest value of a field of a map whose cells fit into memory.

    Parameters
    ----------
    n_partitions : int
        Each has one cell before the first split.
    values : array of float
        Values of all splits, in ascending order.
    room : float
        Bytes.

    Returns
    -------
    float
        0 where not even one cell for each partitioning fits.
    """
    splits = int((room / (8 * HELD)) ** 0.5) - n_partitions
    if splits < 0:
        return 0.0
    # Up to just below the first split that is too many.
    return float(np.nextafter(values[splits], 0.0)) if splits < len(values) else float(values[-1])


def free_memory() -> int | None:
    """Return the available bytes of memory of this machine, or None if it does not tell."""
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None
