"""Distinct rows of a matrix, since data with duplicates needs one distance for each distinct centre only."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ikmap.partitioners._distinct_loops import hash_csr_rows, hash_dense_rows
from ikmap.rows import csr_arrays


def distinct_rows(X: np.ndarray | sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Find which rows repeat.

    Parameters
    ----------
    X : float64 ndarray or canonical csr_array, shape (n, d)

    Returns
    -------
    first : ndarray of int64
        Ascending row numbers, one for each distinct row: where it stands first.
    inverse : ndarray of int64, shape (n,)
        ``X[first][inverse]`` equals X.

    Notes
    -----
    Rows are compared through a 64-bit hash and then value by value with the first row of the same hash, so a
    collision can at worst keep a duplicate, never merge two different rows.
    """
    n = X.shape[0]
    hashes = np.empty(n, dtype=np.uint64)
    if isinstance(X, np.ndarray):
        X = np.ascontiguousarray(X + 0.0)  # -0.0 becomes 0.0
        hash_dense_rows(X, hashes)
    else:
        values, columns, begin = csr_arrays(X)
        hash_csr_rows(values + 0.0, columns, begin, hashes)
    order = np.argsort(hashes, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(hashes[order]) != 0])
    head = np.empty(n, dtype=np.int64)
    head[order] = np.repeat(order[starts], np.diff(np.r_[starts, n]))
    repeats = np.flatnonzero(head != np.arange(n))
    for chunk in np.array_split(repeats, max(1, repeats.size // 4096)):
        unequal = X[chunk] != X[head[chunk]]
        different = np.asarray(unequal.sum(axis=1)).ravel() > 0
        head[chunk[different]] = chunk[different]
    first, inverse = np.unique(head, return_inverse=True)
    return first, inverse
