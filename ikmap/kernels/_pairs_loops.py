"""Compiled loops: sums over columns for all pairs of two sets of rows.

Each sum is made column by column, in order, for every pair by itself: its bits do not depend on what stands beside it.
"""

from __future__ import annotations

import numpy as np

from ikmap.compiled import compiled

L1, SQUARES, CHI2, PRODUCTS = 0, 1, 2, 3
"""Numbers of the sums over the columns: |x - y|, (x - y)^2, 2 x y / (x + y) with 0/0 = 0, and x y."""

COLUMNS = 256
"""Columns are taken so many at a time: those of 256 points then stay in the second level cache."""


@compiled({"kernel-terms dense": "f8[:, ::1], f8[:, ::1], i8, f8[:, ::1]"}, error_model="numpy")
def dense_sums(left, columns, measure, out):
    """Sums for all pairs; columns: the right-hand points transposed, so that points lie side by side in registers.

    Parameters
    ----------
    left : ndarray of float64, shape (n, d)
    columns : ndarray of float64, shape (d, m)
    measure : {L1, SQUARES, CHI2, PRODUCTS}
    out : ndarray of float64, shape (n, m)
    """
    n, m, d = left.shape[0], columns.shape[1], left.shape[1]
    out[:] = 0.0
    for begin in range(0, d, COLUMNS):
        end = min(begin + COLUMNS, d)
        i = 0
        while i + 4 <= n:
            _four(left, i, columns, begin, end, measure, out[i], out[i + 1], out[i + 2], out[i + 3], m)
            i += 4
        while i < n:
            row = out[i]
            for k in range(begin, end):
                a, b = left[i, k], columns[k]
                if measure == L1:
                    for j in range(m):
                        row[j] += abs(a - b[j])
                elif measure == SQUARES:
                    for j in range(m):
                        row[j] += (a - b[j]) * (a - b[j])
                elif measure == PRODUCTS:
                    for j in range(m):
                        row[j] += a * b[j]
                elif a != 0.0:
                    for j in range(m):
                        row[j] += 2.0 * (a * b[j]) / (a + b[j])
            i += 1


@compiled(error_model="numpy", inline="always")
def _four(left, i, columns, begin, end, measure, r0, r1, r2, r3, m):
    """Four rows at a time: a value of the columns that is loaded serves them all."""
    for k in range(begin, end):
        b = columns[k]
        a0, a1, a2, a3 = left[i, k], left[i + 1, k], left[i + 2, k], left[i + 3, k]
        if measure == L1:
            for j in range(m):
                r0[j] += abs(a0 - b[j])
                r1[j] += abs(a1 - b[j])
                r2[j] += abs(a2 - b[j])
                r3[j] += abs(a3 - b[j])
        elif measure == SQUARES:
            for j in range(m):
                r0[j] += (a0 - b[j]) * (a0 - b[j])
                r1[j] += (a1 - b[j]) * (a1 - b[j])
                r2[j] += (a2 - b[j]) * (a2 - b[j])
                r3[j] += (a3 - b[j]) * (a3 - b[j])
        elif measure == PRODUCTS:
            for j in range(m):
                r0[j] += a0 * b[j]
                r1[j] += a1 * b[j]
                r2[j] += a2 * b[j]
                r3[j] += a3 * b[j]
        else:
            if a0 != 0.0:
                for j in range(m):
                    r0[j] += 2.0 * (a0 * b[j]) / (a0 + b[j])
            if a1 != 0.0:
                for j in range(m):
                    r1[j] += 2.0 * (a1 * b[j]) / (a1 + b[j])
            if a2 != 0.0:
                for j in range(m):
                    r2[j] += 2.0 * (a2 * b[j]) / (a2 + b[j])
            if a3 != 0.0:
                for j in range(m):
                    r3[j] += 2.0 * (a3 * b[j]) / (a3 + b[j])


@compiled
def pack_bits(rows, words):
    """Set bit k of a row's words where column k is not 0; words are zero before."""
    for i in range(rows.shape[0]):
        for k in range(rows.shape[1]):
            if rows[i, k] != 0.0:
                words[i, k >> 6] |= np.uint64(1) << np.uint64(k & 63)


@compiled
def pack_entries(indices, indptr, words):
    """Do the same for CSR rows."""
    for i in range(indptr.size - 1):
        for p in range(indptr[i], indptr[i + 1]):
            words[i, indices[p] >> 6] |= np.uint64(1) << np.uint64(indices[p] & 63)


@compiled(inline="always")
def _ones(x):
    """Number of bits set, in the form that LLVM knows as one instruction, on vectors too."""
    x -= (x >> np.uint64(1)) & np.uint64(0x5555555555555555)
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (x * np.uint64(0x0101010101010101)) >> np.uint64(56)


@compiled
def bit_sums(left, columns, common, out):
    """Number of columns that differ (or, if `common`, that both have) for rows of zeros and ones.

    Parameters
    ----------
    left : ndarray of uint64, shape (n, words)
    columns : ndarray of uint64, shape (words, m)
    out : ndarray of float64, shape (n, m)
    """
    for i in range(left.shape[0]):
        row = out[i]
        for j in range(row.size):
            row[j] = 0.0
        for w in range(left.shape[1]):
            a, b = left[i, w], columns[w]
            if common:
                for j in range(row.size):
                    row[j] += np.float64(_ones(a & b[j]))
            else:
                for j in range(row.size):
                    row[j] += np.float64(_ones(a ^ b[j]))


@compiled(error_model="numpy")
def sparse_sums(data, place, indptr, norms, entries, entry_of, begin_of, entry_norms, measure, out):
    """Sums for pairs of sparse rows, from what they have in common: |x - y| = |x| + |y| - 2 common, and squares so too.

    Rows that are equal have a sum of exactly 0, for what they have in common then is their norm, added up alike.

    Parameters
    ----------
    data, indptr : values and row starts of the left-hand rows (CSR)
    place : ndarray of int64, one for each value
        Which of the right-hand side's columns it stands in, or -1.
    norms, entry_norms : ndarray of float64, shapes (n,) and (m,)
        Each row's own sum: of |x| or x^2, of nothing for CHI2 and PRODUCTS.
    entries, entry_of, begin_of
        Values of the right-hand points by column, whose they are, where each column begins (CSC).
    """
    for i in range(indptr.size - 1):
        row = out[i]
        for j in range(row.size):
            row[j] = 0.0
        for p in range(indptr[i], indptr[i + 1]):
            if place[p] < 0:
                continue
            a = data[p]
            for q in range(begin_of[place[p]], begin_of[place[p] + 1]):
                b = entries[q]
                if measure == L1:
                    if (a > 0.0) == (b > 0.0):
                        row[entry_of[q]] += min(abs(a), abs(b))
                elif measure != CHI2:
                    row[entry_of[q]] += a * b
                else:
                    row[entry_of[q]] += 2.0 * (a * b) / (a + b)
        if measure in (L1, SQUARES):
            for j in range(row.size):
                row[j] = max((norms[i] + entry_norms[j]) - 2.0 * row[j], 0.0)
