"""Counts of rows in each cell, of equal or fading weight."""

from __future__ import annotations

import numpy as np

from ikmap.arrays import Floats
from ikmap.cells import Cells, absent_code
from ikmap.learners.novelty._masses_loops import count_rows
from ikmap.learners.rows import check_rows


def add_rows(rows: Cells, masses: Floats) -> None:
    """Count each row once in each of its cells.

    Parameters
    ----------
    masses : ndarray of float64, shape (n_columns,)
        By feature column; whole numbers in it stay exact up to 2**53.

    Raises
    ------
    ValueError
        The rows do not fit.
    """
    check_rows(rows, masses.size)
    codes = np.ascontiguousarray(rows.codes)
    if codes.dtype.kind == "i":
        codes = codes.view(f"u{codes.itemsize}")
    count_rows(codes, rows.offsets, absent_code(codes.dtype, rows.offsets), masses)
