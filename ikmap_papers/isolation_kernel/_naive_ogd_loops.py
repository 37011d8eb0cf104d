"""Compiled loops of online gradient descent with full products over one-hot rows.

Steps are whole numbers, kept as float64: sums are exact in whatever order, so that they may be made by vectors.
"""

from __future__ import annotations

import numpy as np

from ikmap.compiled import compiled


@compiled
def _columns_of(codes, base, absent, i, out):
    """Write the columns of the cells of row i; return how many there are."""
    size = 0
    for j in range(codes.shape[1]):
        if np.int64(codes[i, j]) != absent:
            out[size] = base[j] + np.uint64(codes[i, j])
            size += 1
    return size


@compiled(fastmath={"reassoc"})
def _products(steps, row):
    """Sum of all products of the steps of a class with a one-hot row."""
    total = 0.0
    for c in range(row.size):
        total += steps[c] * row[c]
    return total


@compiled
def naive_pass(codes, base, absent, y, steps, margin, predicted, n_updates):
    """Predict each row, then step on every class whose sum of steps is below ``margin``; return the rows stepped on.

    Parameters
    ----------
    codes : ndarray of unsigned integers, shape (n, t)
    base : ndarray of uint64, shape (t,)
        First column of each partitioning.
    absent : int
        Code of a cell that a row lacks, or -1.
    y : ndarray of int32, shape (n,)
    steps : ndarray of float64, shape (K, n_columns)
    """
    n_classes = steps.shape[0]
    row, columns = np.zeros(steps.shape[1]), np.empty(codes.shape[1], np.uint64)
    sums, support = np.empty(n_classes), 0
    for i in range(y.size):
        size = _columns_of(codes, base, absent, i, columns)
        for e in range(size):
            row[columns[e]] = 1.0
        stepped = False
        for k in range(n_classes):
            sums[k] = _products(steps[k], row)
            sign = 1.0 if y[i] == (k if n_classes > 1 else 1) else -1.0
            if sign * sums[k] < margin:
                for e in range(size):
                    steps[k, columns[e]] += sign
                n_updates[k] += 1
                stepped = True
        predicted[i] = np.argmax(sums) if n_classes > 1 else np.int64(sums[0] >= 0.0)
        support += stepped
        for e in range(size):
            row[columns[e]] = 0.0
    return support


@compiled
def naive_decisions(codes, base, absent, steps, eta, divisor, out):
    """out[i, k] = eta (product of row i with the steps of class k) / divisor."""
    row, columns = np.zeros(steps.shape[1]), np.empty(codes.shape[1], np.uint64)
    for i in range(out.shape[0]):
        size = _columns_of(codes, base, absent, i, columns)
        for e in range(size):
            row[columns[e]] = 1.0
        for k in range(steps.shape[0]):
            out[i, k] = eta * _products(steps[k], row) / divisor
        for e in range(size):
            row[columns[e]] = 0.0
