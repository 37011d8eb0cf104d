"""The Isolation Kernel from cells: the share of partitionings in which two points fall in the same cell."""

from __future__ import annotations

import numpy as np

from ikmap._threads import for_each_block
from ikmap.cells import Cells
from ikmap.kernels._isolation_loops import TILE, count_equal


def isolation_kernel(a: Cells, b: Cells | None = None, n_threads: int | None = None) -> np.ndarray:
    """Kernel matrix between the rows of two sets of cells.

    Equal cells are counted as integers and divided by t once, so values are exact multiples of 1/t and the matrix
    of a set with itself is exactly symmetric with ones on its diagonal (algorithms.md, section 3.4).

    Parameters
    ----------
    a, b : Cells
        Cells of n and m rows under one model; b defaults to a.

    Returns
    -------
    ndarray of float64, shape (n, m)
        Values in [0, 1].

    Raises
    ------
    ValueError
        If the two come from different partitionings.
    """
    b = a if b is None else b
    if not np.array_equal(a.offsets, b.offsets):
        raise ValueError(
            f"cells of different partitionings: {a.n_partitions} of {a.n_columns} cells in all, "
            f"{b.n_partitions} of {b.n_columns}"
        )
    left, right = a.packed().codes, b.packed().codes
    kernel = np.empty((a.n_rows, b.n_rows))
    for_each_block(lambda i, j: count_equal(left[i:j], right, kernel[i:j]), a.n_rows, TILE, n_threads)
    kernel /= a.n_partitions
    return kernel
