"""Cells without the columns that no row has, so that few weights suffice where few of many columns occur.

A weight of a column that does not occur stays 0, so leaving it out changes nothing but the time: no sweep looks at it,
but every certificate, every step of momentum and every copy of the weights does.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ikmap.arrays import Int64s
from ikmap.learners.rows import RowArrays

AT_ONCE = 1 << 18
"""Cells that are looked at together."""
WORTH = 4
"""Least number of columns, for each one that occurs, for which a copy of the codes pays."""


def only_occurring(rows: RowArrays, n_columns: int, most_bytes: int) -> tuple[RowArrays, Int64s] | None:
    """Drop the columns that do not occur.

    Parameters
    ----------
    rows : tuple of arrays
        In any layout of ``_rows_loops``; nothing is left out but of cells.
    n_columns : int
        Columns there are.
    most_bytes : int
        Largest number of bytes of the copy of the codes.

    Returns
    -------
    rows : tuple of arrays
        In the same layout, with numbers of cells among those that occur, in their order.
    columns : ndarray of int64, ascending
        Which columns are left.
    None instead where too few would be left out, or cells of different partitionings have columns in common.
    """
    if len(rows) < 3 or rows[0].ndim != 2:
        return None
    codes, base = rows[:2]
    apart = bool((base[1:] > base[:-1]).all()) and bool(base[-1] < n_columns)
    if not apart or codes.nbytes > most_bytes:
        return None
    absent = rows[3] if len(rows) == 4 else None
    there = np.zeros(n_columns, dtype=bool)
    # A partitioning has a column at least: so their first ones ascend, as they do in the layout.
    there[base] = True
    for _, part in _parts(codes):
        columns = part + base
        there[columns if absent is None else columns[part != absent]] = True
    columns = np.flatnonzero(there)
    if columns.size * WORTH > n_columns:
        return None
    left = np.cumsum(there, dtype=np.int32 if n_columns <= np.iinfo(np.int32).max else np.int64)
    few = np.empty_like(codes)
    for start, part in _parts(codes):
        # The number of an absent cell is beyond those of all cells, so no cell comes to have it.
        known = part if absent is None else np.where(part == absent, 0, part)
        renumbered = few[start : start + len(part)]
        renumbered[:] = left[known + base] - left[base]
        if absent is not None:
            renumbered[part == absent] = absent
    return (few, (left[base] - 1).astype(np.uint64), *rows[2:]), columns


def _parts(codes: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the rows in parts: the start of each, and its codes as column numbers."""
    step = max(1, AT_ONCE // codes.shape[1])
    for start in range(0, len(codes), step):
        yield start, codes[start : start + step].astype(np.uint64)
