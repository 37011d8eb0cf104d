"""Compiled loops that move rows to new columns, count which cells share rows, and follow columns back to those they
were split from."""

import numpy as np

from ikmap.compiled import compiled


@compiled({"sweep": "i4[:, ::1], i4[::1], i8[::1], i8[::1], i8"})
def move(columns, rows, ends, partitionings, first):
    """Give the rows of each of some splits, which end at `ends`, a column of its own; that of the first is `first`."""
    begin = 0
    for k in range(ends.size):
        m, column = partitionings[k], np.int32(first + k)
        for e in range(begin, ends[k]):
            columns[rows[e], m] = column
        begin = ends[k]


@compiled({"sweep": "i4[:, ::1], i4[::1], f8[::1]"})
def add_counts(columns, rows, counts):
    """Add to counts[c] how many of some rows are in column c."""
    t = columns.shape[1]
    for i in rows:
        for m in range(t):
            if columns[i, m] >= 0:
                counts[columns[i, m]] += 1.0


@compiled({"sweep": "f8[:, ::1], i4[::1], i4[::1]"})
def part(shared, left, right):
    """Take 1 from what each row on the left shares with each on the right, and the other way round."""
    for i in left:
        for j in right:
            shared[i, j] -= 1.0
    for i in right:
        for j in left:
            shared[i, j] -= 1.0


@compiled({"sweep": "i8[::1], i8, i4[::1]"})
def earlier(origin, n, found):
    """Find the column that each column was part of when there were n; `origin` has the column each was split from."""
    for c in range(origin.size):
        found[c] = c if c < n else found[origin[c]]


@compiled({"sweep": "i4[:, ::1], i8[::1], i4[::1], i4[:, ::1]"})
def renumber(codes, offsets, table, columns):
    """Columns of cells, by a table of all feature columns; all cells must be known."""
    for i in range(codes.shape[0]):
        for m in range(codes.shape[1]):
            columns[i, m] = table[offsets[m] + codes[i, m]]
