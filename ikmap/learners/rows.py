"""Rows of learners: integer cells, dense or CSR rows, in memory or block by block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Array, Floats, Int64s, Integers, Words
from ikmap.cells import Cells, absent_code
from ikmap.learners._codes_loops import first_bad_code, largest_codes
from ikmap.rows import csr_arrays

type Rows = Cells | Floats | sp.csr_array | sp.csr_matrix
type CellArrays = tuple[Integers, Words, float]
"""Codes, beginnings of partitionings and the value of a cell, where every row has a cell in each partitioning."""
type RowArrays = CellArrays | tuple[Integers, Words, float, int] | tuple[Floats, Integers, Int64s] | tuple[Floats]
"""Rows as compiled loops take them: cells, cells of which some are absent, CSR and dense rows."""


class Block(NamedTuple):
    """Some rows of a training set.

    Parameters
    ----------
    rows : Cells, dense array (n, d) or CSR matrix (n, d)
    y : ndarray, shape (n,)
        Target of every row, of the dtype of the task: for classes their numbers, int32.
    sample_weight : ndarray of float64, shape (n,), optional
        Weights >= 0; a row of weight 0 counts as absent.
    row_id : ndarray, shape (n,), optional
        Number of each row; in a run, among all training (or test) rows, from 0.
    """

    rows: Rows
    y: np.ndarray
    sample_weight: np.ndarray | None = None
    row_id: np.ndarray | None = None


@dataclass(frozen=True)
class PieceRows:
    """Consecutive rows of a training set that one process works on in rounds.

    Attributes
    ----------
    blocks : sequence of Block
        The rows in order, which may be read again and again.
    start, stop : int
        Number of the first row, and of the first one that follows.
    in_memory : bool
        Whether the rows may be held in memory; else they are read from a file in each round.
    n_threads : int
    zeros : callable
        Function from shape and dtype to a new array of zeros, for what is kept of the rows from round to round.
    """

    blocks: Sequence[Block]
    start: int
    stop: int
    in_memory: bool = True
    n_threads: int = 1
    zeros: Callable[[tuple[int, ...], type[np.generic]], Array] = np.zeros


#: A training set: ``blocks[k]`` may read from disk, and gives the same rows in the same order each time.
#: Learners hold one block at a time, or several small ones put together.
type Blocks = Sequence[Block]


def concatenated(blocks: Blocks) -> Block:
    """Join some blocks of one training set into one block."""
    if len(blocks) == 1:
        return blocks[0]
    rows = [block.rows for block in blocks]
    if isinstance(rows[0], Cells):
        together: Rows = Cells.concatenated(cast("list[Cells]", rows))
    elif isinstance(rows[0], np.ndarray):
        together = np.concatenate(cast("list[Floats]", rows))
    else:
        together = sp.csr_array(sp.vstack(rows, format="csr"))
    weights = None
    if any(block.sample_weight is not None for block in blocks):
        ones = (np.ones(block.y.size) if block.sample_weight is None else block.sample_weight for block in blocks)
        weights = np.concatenate(list(ones))
    known = all(block.row_id is not None for block in blocks)
    ids = np.concatenate([block.row_id for block in blocks if block.row_id is not None]) if known else None
    return Block(together, np.concatenate([block.y for block in blocks]), weights, ids)


def n_rows(rows: Rows) -> int:
    """Return the number of rows of any layout."""
    return rows.n_rows if isinstance(rows, Cells) else int(rows.shape[0])


def n_columns(rows: Rows) -> int:
    """Return the number of feature columns of any layout."""
    return rows.n_columns if isinstance(rows, Cells) else int(rows.shape[1])


def check_weights(weight: Floats, n: int) -> None:
    """Refuse sample weights that are not n finite numbers >= 0 (ValueError)."""
    if weight.shape != (n,):
        raise ValueError(f"sample_weight has shape {weight.shape}, expected ({n},)")
    bad = np.flatnonzero(~((weight >= 0) & (weight < np.inf)))
    if bad.size:
        raise ValueError(f"row {bad[0]}: sample weight {weight[bad[0]]} is not >= 0 and finite")


def balanced_weights(counts: np.ndarray) -> np.ndarray:
    """Return the weight of each class by which all weigh the same, from the (weighted) number of rows of each."""
    weights, present = np.ones(counts.size), counts > 0
    weights[present] = counts.sum() / (counts.size * counts[present])
    return weights


def check_classes(y: np.ndarray, n: int, n_classes: int) -> None:
    """Refuse class numbers that are not n integers in 0..n_classes - 1 (ValueError)."""
    if y.shape != (n,) or not np.issubdtype(y.dtype, np.integer):
        raise ValueError(f"class numbers must be {n} integers, got {y.dtype} {y.shape}")
    bad = np.flatnonzero((y < 0) | (y >= n_classes))
    if bad.size:
        raise ValueError(f"row {bad[0]}: class {y[bad[0]]} is outside 0..{n_classes - 1}")


def check_numbers(y: np.ndarray, n: int) -> None:
    """Refuse targets that are not n finite numbers (ValueError)."""
    if y.shape != (n,):
        raise ValueError(f"targets have shape {y.shape}, expected ({n},)")
    bad = np.flatnonzero(~np.isfinite(y))
    if bad.size:
        raise ValueError(f"row {bad[0]}: target {y[bad[0]]} is not finite")


def check_rows(rows: Rows, columns: int | None = None) -> bool:
    """Refuse rows that a compiled loop cannot take safely.

    Returns
    -------
    bool
        True if the rows are cells and none of them lacks one, so that :func:`row_arrays` need not check again.

    Raises
    ------
    ValueError
        If the number of feature columns is not ``columns``, a cell number lies outside its block, or a
        feature value is not finite; row and column are named, counted from 0.
    """
    if columns is not None and n_columns(rows) != columns:
        raise ValueError(f"rows have {n_columns(rows)} feature columns, expected {columns}")
    if isinstance(rows, Cells):
        # Cells read back from CSR have no block boundaries: there the whole width is the limit.
        widths = np.diff(rows.offsets)
        limits = widths if (widths > 0).all() else rows.n_columns - rows.offsets[:-1]
        codes = np.ascontiguousarray(rows.codes)
        # One fast look at the codes as unsigned numbers, where a negative one exceeds every limit.
        unsigned = codes.view(f"u{codes.itemsize}")
        largest = np.zeros(rows.n_partitions, dtype=unsigned.dtype)
        if (limits <= np.iinfo(codes.dtype).max).any() or codes.dtype != unsigned.dtype:
            largest_codes(unsigned, largest)
        if (largest < limits).all():
            return True
        bad = first_bad_code(codes, limits, rows.absent)
        if bad >= 0:
            row, i = divmod(bad, rows.n_partitions)
            raise ValueError(f"row {row}, column {i}: cell {rows.codes[row, i]}, expected 0..{limits[i] - 1}")
        return False
    matrix = cast("sp.csr_array", rows)
    values: Floats = matrix.data if sp.issparse(rows) else np.asarray(rows)
    if np.isfinite(values).all():
        return False
    if sp.issparse(rows):
        entry = int(np.flatnonzero(~np.isfinite(values))[0])
        row = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
        column = int(matrix.indices[entry])
    else:
        row, column = (int(v) for v in np.argwhere(~np.isfinite(values))[0])
    raise ValueError(f"row {row}, column {column}: value is not finite")


def row_arrays(rows: Rows, value: float = 1.0, *, complete: bool = False) -> RowArrays:
    """Return the tuple of arrays that compiled loops take (see ``_rows_loops``), without a copy if types fit.

    Codes are unsigned, of 8, 16 or 32 bits, so that each loop is compiled for three types and not for eight.

    ``value`` is the feature value of a cell, ``complete`` what :func:`check_rows` returned.
    """
    if isinstance(rows, Cells):
        codes = np.ascontiguousarray(rows.codes)
        if codes.itemsize == 8 and np.diff(rows.offsets).max(initial=0) < np.iinfo(np.uint32).max:
            codes = codes.astype(np.uint32)
        codes = codes.view(f"u{codes.itemsize}")
        arrays = codes, rows.offsets[:-1].astype(np.uint64), float(value)
        return arrays if complete or rows.complete else (*arrays, absent_code(codes.dtype, rows.offsets))
    if sp.issparse(rows):
        matrix = cast("sp.csr_array", rows)
        if not matrix.has_canonical_format:  # Repeated entries of a row would spoil its norm.
            matrix = matrix.copy()
            matrix.sum_duplicates()
        values, columns, begin = csr_arrays(matrix)
        return np.ascontiguousarray(values, dtype=np.float64), columns, begin
    return (np.ascontiguousarray(rows, dtype=np.float64),)


def squared_norms(arrays: RowArrays) -> Floats:
    """Return the squared Euclidean norm of every row, or a single one for complete cells, whose norms are equal."""
    match arrays:
        case (X,):
            norms: Floats = np.einsum("ij,ij->i", X, X)
            return norms
        case codes, _, float(value):
            return np.array([codes.shape[1] * value**2])
        case codes, _, value, absent:
            of_cells: Floats = np.count_nonzero(codes != absent, axis=1) * float(value) ** 2
            return of_cells
    data, indices, indptr = arrays
    squares = sp.csr_array((data**2, indices, indptr), shape=(indptr.size - 1, int(indices.max(initial=-1)) + 1))
    return np.asarray(squares.sum(axis=1), dtype=np.float64).ravel()
