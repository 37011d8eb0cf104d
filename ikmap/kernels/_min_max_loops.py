"""Compiled loops: sums of column-wise minima for all pairs of two sets of non-negative rows.

Each sum is made column by column, in order, for every pair by itself: its bits do not depend on what stands beside it.
A minimum that is 0 changes no bit of a sum, so dense rows, and sparse ones of which only common columns are visited,
have the same sums.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types

from ikmap._simd import vectors
from ikmap.compiled import compiled

LANES = 8
ROWS, PANEL = LANES, 2 * LANES
"""Number of rows that meet so many others at a time: their sums are in 16 vector registers."""
COLUMNS = 256
"""Columns are taken so many at a time: those of a panel and of eight rows then stay in the first level cache."""

_OF_8 = vectors("Float64x8", ir.DoubleType(), types.float64, LANES)
load, store, splat, add, minimum = _OF_8.load, _OF_8.store, _OF_8.splat, _OF_8.add, _OF_8.minimum
_0, _1, _8, _16 = np.uint64(0), np.uint64(1), np.uint64(LANES), np.uint64(PANEL)


@compiled
def dense_minima(left, right, out):
    """Sums of minima.

    Parameters
    ----------
    left, right : ndarray of float64, shapes (ceil(n / 16), d, 16) and (ceil(m / 16), d, 16)
        Panels of 16 rows, their values of one column side by side; rows that are none are zero.
    out : ndarray of float64, shape (16 ceil(n / 16), 16 ceil(m / 16))
    """
    d = np.uint64(left.shape[1])
    width = np.uint64(out.shape[1])
    out[:] = 0.0
    for begin in range(0, left.shape[1], COLUMNS):
        first = np.uint64(begin)
        last = min(first + np.uint64(COLUMNS), d)
        for right_panel in range(right.shape[0]):
            for eight in range(2 * left.shape[0]):
                panel = np.uint64(eight >> 1)
                row = _8 * np.uint64(eight & 1)
                place = (_16 * panel + row) * width + _16 * np.uint64(right_panel)
                _block(left, (panel * d) * _16 + row, right, (np.uint64(right_panel) * d) * _16, first, last,
                       out, place, width)  # fmt: skip


@compiled(forceinline=True)
def _block(left, a, right, b, first, last, out, at, width):
    """Eight rows with sixteen others, over some columns; a, b, at: where they begin, as flat indices."""
    flat = left.reshape(left.size)
    w1, w2, w3, w4 = at + width, at + _2 * width, at + _3 * width, at + _4 * width
    w5, w6, w7 = w4 + width, w4 + _2 * width, w4 + _3 * width
    p0, q0, p1, q1 = load(out, at), load(out, at + _8), load(out, w1), load(out, w1 + _8)
    p2, q2, p3, q3 = load(out, w2), load(out, w2 + _8), load(out, w3), load(out, w3 + _8)
    p4, q4, p5, q5 = load(out, w4), load(out, w4 + _8), load(out, w5), load(out, w5 + _8)
    p6, q6, p7, q7 = load(out, w6), load(out, w6 + _8), load(out, w7), load(out, w7 + _8)
    for k in range(first, last):
        i = a + k * _16
        x, y = load(right, b + k * _16), load(right, b + k * _16 + _8)
        z = splat(flat[i])
        p0, q0 = add(p0, minimum(x, z)), add(q0, minimum(y, z))
        z = splat(flat[i + _1])
        p1, q1 = add(p1, minimum(x, z)), add(q1, minimum(y, z))
        z = splat(flat[i + _2])
        p2, q2 = add(p2, minimum(x, z)), add(q2, minimum(y, z))
        z = splat(flat[i + _3])
        p3, q3 = add(p3, minimum(x, z)), add(q3, minimum(y, z))
        z = splat(flat[i + _4])
        p4, q4 = add(p4, minimum(x, z)), add(q4, minimum(y, z))
        z = splat(flat[i + _5])
        p5, q5 = add(p5, minimum(x, z)), add(q5, minimum(y, z))
        z = splat(flat[i + _6])
        p6, q6 = add(p6, minimum(x, z)), add(q6, minimum(y, z))
        z = splat(flat[i + _7])
        p7, q7 = add(p7, minimum(x, z)), add(q7, minimum(y, z))
    store(out, at, p0), store(out, at + _8, q0), store(out, w1, p1), store(out, w1 + _8, q1)
    store(out, w2, p2), store(out, w2 + _8, q2), store(out, w3, p3), store(out, w3 + _8, q3)
    store(out, w4, p4), store(out, w4 + _8, q4), store(out, w5, p5), store(out, w5 + _8, q5)
    store(out, w6, p6), store(out, w6 + _8, q6), store(out, w7, p7), store(out, w7 + _8, q7)


_2, _3, _4, _5, _6, _7 = (np.uint64(number) for number in range(2, 8))


@compiled
def sparse_minima(data, place, indptr, entries, entry_of, begin_of, out):
    """Sums of minima of sparse rows, from the columns that two rows have in common.

    Parameters
    ----------
    data, indptr : values and row starts of the left-hand rows (CSR)
    place : ndarray of int64, one for each value
        Which of the right-hand side's columns it stands in, or -1.
    entries, entry_of, begin_of
        Values of the right-hand rows by column, whose they are, where each column begins (CSC).
    out : ndarray of float64, shape (n, m)
    """
    for i in range(indptr.size - 1):
        row = out[i]
        row[:] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            if place[p] >= 0:
                a = data[p]
                for q in range(begin_of[place[p]], begin_of[place[p] + 1]):
                    row[entry_of[q]] += min(a, entries[q])


@compiled
def row_sums(values, indptr, out):
    """Sum of the values of each row, in order."""
    for i in range(out.size):
        total = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            total += values[k]
        out[i] = total


@compiled(error_model="numpy")
def ratios(minima, norms, other_norms, out):
    """Sum of minima over sum of maxima, which is the rest of both norms; 1 for two rows of zeros.

    Never above 1: all sums are made in one order, and rounding keeps the order of what it rounds.

    Parameters
    ----------
    minima : ndarray of float64, shape (at least n, at least m)
    norms, other_norms : ndarray of float64, shapes (n,) and (m,)
        Sums of the rows.
    out : ndarray of float64, shape (n, m)
    """
    for i in range(out.shape[0]):
        row, of_row, norm = out[i], minima[i], norms[i]
        for j in range(row.size):
            maxima = (norm + other_norms[j]) - of_row[j]
            row[j] = of_row[j] / maxima if maxima > 0.0 else 1.0


@compiled(error_model="numpy")
def far_ratios(values, columns, indptr, powers, others, other_columns, other_indptr, other_powers, out):
    """:func:`ratios` of sparse rows that differ too much in size for one scale: each pair has that of the larger row.

    Parameters
    ----------
    values, columns, indptr : CSR rows, columns ascending
    powers : ndarray of int64, shape (n,)
        The values of a row are to be multiplied by 2 to the power of this.
    others, other_columns, other_indptr, other_powers
        The same of the right-hand rows.
    out : ndarray of float64, shape (n, m)
    """
    for i in range(indptr.size - 1):
        for j in range(other_indptr.size - 1):
            p, end = indptr[i], indptr[i + 1]
            q, other_end = other_indptr[j], other_indptr[j + 1]
            a = b = 1.0
            if p < end and q < other_end:  # a row of zeros has no size
                a = 2.0 ** np.float64(min(powers[i] - other_powers[j], 0))
                b = 2.0 ** np.float64(min(other_powers[j] - powers[i], 0))
            minima = norm = other_norm = 0.0
            for k in range(p, end):
                norm += values[k] * a
            for k in range(q, other_end):
                other_norm += others[k] * b
            while p < end and q < other_end:
                if columns[p] == other_columns[q]:
                    minima += min(values[p] * a, others[q] * b)
                    p, q = p + 1, q + 1
                elif columns[p] < other_columns[q]:
                    p += 1
                else:
                    q += 1
            maxima = (norm + other_norm) - minima
            out[i, j] = minima / maxima if maxima > 0.0 else 1.0
