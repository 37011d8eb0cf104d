"""Nested random subsamples, one for each partitioning: that of a smaller psi is a prefix of that of a larger one."""

from __future__ import annotations

import numpy as np

from ikmap.partitioners._subsample_loops import prefix_of_shuffle
from ikmap.seeds import generator

FEW_ROWS = 16
"""Rows for each number that is drawn, up to which there is an entry of a table for each row."""


def draw_subsamples(n: int, n_partitions: int, psi: int, seed: int, *, disjoint: bool = False) -> np.ndarray:
    """Draw psi distinct row numbers out of n for each of t partitionings.

    Every subset is equally likely and subsets are independent (Isolation Kernel, section 3.2; algorithms.md,
    section 2). Each is the beginning of one uniformly random order of all n rows, so the draw for psi is the
    first psi columns of the draw for any larger psi.

    Parameters
    ----------
    n : int
        Number of rows to draw from.
    n_partitions, psi : int
        t >= 1 and 1 <= psi <= n.
    seed : int
        Partitioning i draws from ``generator(seed, i)``.
    disjoint : bool
        Subsets do not overlap while t * psi <= n (they do not nest then).

    Returns
    -------
    ndarray of int64, shape (t, psi)

    Raises
    ------
    ValueError
        If psi or t is out of range.
    """
    if n_partitions < 1:
        raise ValueError(f"the number of partitionings must be at least 1, got {n_partitions}")
    if not 1 <= psi <= n:
        raise ValueError(f"psi must be between 1 and the number of training rows, {n}, got {psi}")
    draws = np.empty((n_partitions, psi), dtype=np.int64)
    if disjoint:
        in_one_order = n // psi
        for start in range(0, n_partitions, in_one_order):
            order = generator(seed, start).permutation(n)
            stop = min(start + in_one_order, n_partitions)
            draws[start:stop] = order[: (stop - start) * psi].reshape(-1, psi)
        return draws
    for i in range(n_partitions):
        # Position j of a Fisher-Yates shuffle swaps with a uniform position in [j, n).
        prefix_of_shuffle(generator(seed, i).integers(np.arange(psi), n), draws[i])
    return draws


def rows_drawn(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the ascending row numbers that are drawn, each once, and the place of each draw among them.

    Parameters
    ----------
    draws : ndarray of int64, any shape
        Row numbers >= 0.

    Returns
    -------
    used : ndarray of int64, shape (number of different rows,)
    position : ndarray of int64, of the shape of `draws`
    """
    n = int(draws.max(initial=-1)) + 1
    if n > FEW_ROWS * draws.size:
        used, position = np.unique(draws, return_inverse=True)
        return used, position.reshape(draws.shape)
    # To sort the draws would take much longer.
    is_drawn = np.zeros(n, dtype=np.bool_)
    is_drawn[draws] = True
    return np.flatnonzero(is_drawn), (np.cumsum(is_drawn) - 1)[draws]
