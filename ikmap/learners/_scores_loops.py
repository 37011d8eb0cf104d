"""The steps of a compiled learner on a row and the weights of several classes; layouts are those of ``_rows_loops``."""

# ruff: noqa: ARG001  (all layouts of one operation share its signature)
import numpy as np
from numba.extending import overload

from ikmap.compiled import compiled
from ikmap.learners._rows_loops import _0, _1, _2, _3, _4, _layout, _present, axpy, dot


def scores(rows, i, W, out):
    """out[k] = sum_j x_ij W[j, k]: entries in order, cells four at a time; the value of a cell is 1 here."""
    raise NotImplementedError("compiled code only")


def add_outer(rows, i, step, W):
    """W[j, :] += x_ij step for the entries of row i; the value of a cell is 1 here."""
    raise NotImplementedError("compiled code only")


@overload(scores)
def _scores(rows, i, W, out):
    def cells(rows, i, W, out):
        codes, base, _ = rows
        # Unsigned positions: Numba then emits no test for negative (wrapping) indices.
        i, t, one, four = np.uint64(i), np.uint64(codes.shape[1]), np.uint64(1), np.uint64(4)
        j = np.uint64(0)
        if out.size == 1:
            s0 = s1 = s2 = s3 = 0.0
            while j + four <= t:
                s0 += W[base[j] + np.uint64(codes[i, j]), 0]
                s1 += W[base[j + one] + np.uint64(codes[i, j + one]), 0]
                s2 += W[base[j + np.uint64(2)] + np.uint64(codes[i, j + np.uint64(2)]), 0]
                s3 += W[base[j + np.uint64(3)] + np.uint64(codes[i, j + np.uint64(3)]), 0]
                j += four
            while j < t:
                s0 += W[base[j] + np.uint64(codes[i, j]), 0]
                j += one
            out[0] = (s0 + s1) + (s2 + s3)
            return
        out[:] = 0.0
        while j + four <= t:
            c0 = base[j] + np.uint64(codes[i, j])
            c1 = base[j + one] + np.uint64(codes[i, j + one])
            c2 = base[j + np.uint64(2)] + np.uint64(codes[i, j + np.uint64(2)])
            c3 = base[j + np.uint64(3)] + np.uint64(codes[i, j + np.uint64(3)])
            for k in range(out.size):
                out[k] += (W[c0, k] + W[c1, k]) + (W[c2, k] + W[c3, k])
            j += four
        while j < t:
            column = base[j] + np.uint64(codes[i, j])
            for k in range(out.size):
                out[k] += W[column, k]
            j += one

    def gapped(rows, i, W, out):
        codes, base, _, absent = rows
        i, t = np.uint64(i), np.uint64(codes.shape[1])
        for k in range(out.size):
            w = W[:, k]
            if out.size == 1:
                out[k] = dot((codes, base, 1.0, absent), i, w)
                continue
            total, j = 0.0, _0
            while j + _4 <= t:
                w0 = _present(w, base[j], codes[i, j], absent)
                w1 = _present(w, base[j + _1], codes[i, j + _1], absent)
                w2 = _present(w, base[j + _2], codes[i, j + _2], absent)
                w3 = _present(w, base[j + _3], codes[i, j + _3], absent)
                total += (w0 + w1) + (w2 + w3)
                j += _4
            while j < t:
                total += _present(w, base[j], codes[i, j], absent)
                j += _1
            out[k] = total

    def dense(rows, i, W, out):
        X = rows[0]
        out[:] = 0.0
        for j in range(X.shape[1]):
            for k in range(out.size):
                out[k] += X[i, j] * W[j, k]

    def csr(rows, i, W, out):
        data, indices, indptr = rows
        out[:] = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            for k in range(out.size):
                out[k] += data[e] * W[indices[e], k]

    return {"cells": cells, "gapped": gapped, "dense": dense, "csr": csr}[_layout(rows)]


@overload(add_outer)
def _add_outer(rows, i, step, W):
    def cells(rows, i, step, W):
        codes, base, _ = rows
        i, t, one = np.uint64(i), np.uint64(codes.shape[1]), np.uint64(1)
        # Class by class: of many classes, few take a step on the same row.
        for k in range(step.size):
            if step[k] != 0.0:
                j = np.uint64(0)
                while j < t:
                    W[base[j] + np.uint64(codes[i, j]), k] += step[k]
                    j += one

    def gapped(rows, i, step, W):
        codes, base, _, absent = rows
        for k in range(step.size):
            if step[k] != 0.0:
                axpy((codes, base, 1.0, absent), i, step[k], W[:, k])

    def dense(rows, i, step, W):
        X = rows[0]
        for j in range(X.shape[1]):
            for k in range(step.size):
                W[j, k] += X[i, j] * step[k]

    def csr(rows, i, step, W):
        data, indices, indptr = rows
        for e in range(indptr[i], indptr[i + 1]):
            for k in range(step.size):
                W[indices[e], k] += data[e] * step[k]

    return {"cells": cells, "gapped": gapped, "dense": dense, "csr": csr}[_layout(rows)]


def binary_scores(rows, W, out):
    """:func:`scores` of every row, bit for bit, for a single column: out[i, 0] = sum_j x_ij W[j, 0]."""
    raise NotImplementedError("compiled code only")


@overload(binary_scores)
def _binary_scores(rows, W, out):
    def cells(rows, W, out):
        # In one loop: calling a function for every row would count references to its arrays, for half of the time.
        codes, base, _ = rows
        w, t = W.ravel(), np.uint64(codes.shape[1])
        for i in range(np.uint64(out.shape[0])):
            s0 = s1 = s2 = s3 = 0.0
            j = _0
            while j + _4 <= t:
                s0 += w[base[j] + np.uint64(codes[i, j])]
                s1 += w[base[j + _1] + np.uint64(codes[i, j + _1])]
                s2 += w[base[j + _2] + np.uint64(codes[i, j + _2])]
                s3 += w[base[j + _3] + np.uint64(codes[i, j + _3])]
                j += _4
            while j < t:
                s0 += w[base[j] + np.uint64(codes[i, j])]
                j += _1
            out[i, _0] = (s0 + s1) + (s2 + s3)

    def other(rows, W, out):
        for i in range(out.shape[0]):
            scores(rows, i, W, out[i])

    return cells if _layout(rows) == "cells" else other


@compiled(
    {
        "cells-batch, cells-online": [
            "{cells}, f8[:, ::1], f8, f8[::1], f8[:, ::1]",
            "{mapped}, f8[:, ::1], f8, f8[::1], f8[:, ::1]",
        ],
        "norma mondrian, norma binning": "{gapped}, f8[:, ::1], f8, f8[::1], f8[:, ::1]",
        "kernel-terms, linear-model dense": "{dense}, f8[:, ::1], f8, f8[::1], f8[:, ::1]",
        "linear-model sparse": "{csr}, f8[:, ::1], f8, f8[::1], f8[:, ::1]",
    }
)
def decisions(rows, W, divisor, intercept, out):
    """out[i] = (x_i W) / divisor + intercept."""
    n, n_classes = out.shape
    if n_classes == 1:
        binary_scores(rows, W, out)
    else:
        for i in range(n):
            scores(rows, i, W, out[i])
    for i in range(n):
        for k in range(n_classes):
            out[i, k] = out[i, k] / divisor + intercept[k]


@compiled
def add_products(X, W, out):
    """out[i] += X[i] W, of which W[0] comes first: so out may have been begun by other products."""
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            for k in range(W.shape[1]):
                out[i, k] += X[i, j] * W[j, k]
