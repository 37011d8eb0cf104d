"""Products of rows with a matrix, with bits that do not depend on the other rows."""

from __future__ import annotations

import numpy as np

from ikmap._threads import for_each_block
from ikmap.arrays import Floats
from ikmap.learners._scores_loops import decisions
from ikmap.learners.rows import check_rows, row_arrays
from ikmap.rows import Rows

BLOCK = 256


def project(X: Rows, matrix: Floats, n_threads: int | None = None) -> Floats:
    """Return ``X @ matrix``, float64 of shape (n, r).

    A library's product of matrices may add up in another order where a block ends, so that the last bits of a row
    depend on its neighbours; here they do not.

    Raises
    ------
    ValueError
        If a value is not finite or the number of columns is not that of the matrix's rows.
    """
    check_rows(X, matrix.shape[0])
    out = np.empty((X.shape[0], matrix.shape[1]))
    matrix, nothing = np.ascontiguousarray(matrix), np.zeros(matrix.shape[1])

    def block(start: int, stop: int) -> None:
        decisions(row_arrays(X[start:stop]), matrix, 1.0, nothing, out[start:stop])

    for_each_block(block, X.shape[0], BLOCK, n_threads)
    return out
