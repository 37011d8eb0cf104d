"""The longest lifetime of Mondrian trees that fit into memory."""

from __future__ import annotations

import math

import numpy as np

from ikmap.partitioners.mondrian import FIRST_NODES, grown_tree
from ikmap.rows import Rows, as_dense

HELD = 2.5
"""Trees are in memory so often while they are put together and stored."""
STEPS = 8
"""Halvings, of the logarithm, of the interval in which the longest lifetime is looked for."""


def longest_lifetime(
    X: Rows, n_trees: int, lifetime: float, seed: int, room: float, of_cell: float = 0.0
) -> float | None:
    """Return the longest lifetime of trees that fit into memory, or None if the wanted lifetime fits.

    The first tree stands for all. What does not fit is not grown to its end.

    Parameters
    ----------
    X : float64 ndarray or csr_array, shape (n, d)
    n_trees : int
    lifetime : float
    seed : int
    room : float
        Bytes.
    of_cell : float
        Bytes that are kept of each cell beside the trees, once these are stored.
    """
    rows = np.ascontiguousarray(as_dense(X))
    n, d = rows.shape
    node = 16 * d + 40
    most = int(room / n_trees / max(HELD * node, node + of_cell / 2))  # nodes of a tree: half of them are cells

    def fits(asked: float) -> bool:
        return most > 0 and grown_tree(rows, asked, seed, 0, min(2 * n, FIRST_NODES, most), most) is not None

    if 2 * n - 1 <= most or fits(lifetime):
        return None
    short, long = lifetime, lifetime
    while short > 1e-12 * lifetime and not fits(short):
        short, long = short / 16, short
    if not fits(short):
        return 0.0
    for _ in range(STEPS):
        middle = math.sqrt(short * long)
        short, long = (middle, long) if fits(middle) else (short, middle)
    return short
