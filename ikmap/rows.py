"""Rows of data in the forms that maps take: dense float64, or canonical CSR."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Floats, Int64s, Integers, Matrix

type Rows = Floats | sp.csr_array


def as_rows(X: Matrix) -> Rows:
    """Return X as a C-ordered float64 array or a canonical float64 csr_array (no copy when it is one already)."""
    if sp.issparse(X):
        X = sp.csr_array(X, dtype=np.float64)
        if not (X.has_canonical_format and (X.data != 0).all()):
            X = X.copy()
            X.sum_duplicates()
            X.eliminate_zeros()
        return X
    return np.ascontiguousarray(X, dtype=np.float64)


def as_dense(X: Rows) -> Floats:
    """Return rows as a dense array; meant for blocks, never for a whole sparse matrix."""
    return X if isinstance(X, np.ndarray) else X.toarray()


def as_csr(X: Rows) -> sp.csr_array:
    return sp.csr_array(X) if isinstance(X, np.ndarray) else X


def csr_arrays(X: sp.csr_array | sp.csr_matrix) -> tuple[Floats, Integers, Int64s]:
    """Return values, columns and row starts with the integer types for which loops are compiled.

    Columns are int32 and beginnings int64, whatever SciPy chose; int64 both for 2^31 columns or more.
    """
    columns = np.int32 if X.shape[1] <= np.iinfo(np.int32).max else np.int64
    return X.data, X.indices.astype(columns, copy=False), X.indptr.astype(np.int64, copy=False)


def take_rows(X: Rows, numbers: Integers) -> Rows:
    """Return a copy of some rows."""
    return X[numbers]


def nbytes_of(X: Rows) -> int:
    """Return the bytes of the values, and of the columns of sparse rows."""
    return int(X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes)


def check_finite(X: Rows, first_row: int = 0) -> None:
    """Raise ValueError naming the first entry that is not finite.

    Parameters
    ----------
    first_row : int
        Added to the row number in the message, for a block of a larger matrix.
    """
    values = X if isinstance(X, np.ndarray) else X.data
    if np.isfinite(values).all():
        return
    if isinstance(X, np.ndarray):
        row, column = np.argwhere(~np.isfinite(X))[0]
        value = X[row, column]
    else:
        entry = int(np.flatnonzero(~np.isfinite(X.data))[0])
        row, column = np.searchsorted(X.indptr, entry, side="right") - 1, X.indices[entry]
        value = X.data[entry]
    raise ValueError(
        f"row {first_row + int(row)}, column {int(column)}: found {value}, expected a finite number, not NaN or inf"
    )


BLOCK_BYTES = 16 << 20
"""Memory of one block of :func:`row_blocks`: small enough to be refused by no worker, large enough for NumPy."""


def row_blocks(n_rows: int, row_bytes: float, block_bytes: int = BLOCK_BYTES) -> Iterator[slice]:
    """Yield slices that together cover all rows, each of as many rows as fit into a bounded number of bytes.

    A map or learner written in NumPy works through its rows with it, so that the arrays it needs on the way take the
    same memory for any number of rows.

    Parameters
    ----------
    n_rows : int
        Number of rows, at least 0.
    row_bytes : float
        Bytes that one row takes on the way, in all temporary arrays together.
    block_bytes : int
        Bytes that one block may take; a single row may take more.

    Examples
    --------
    >>> list(row_blocks(5, row_bytes=8, block_bytes=16))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, int(block_bytes // max(1.0, row_bytes)))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))
