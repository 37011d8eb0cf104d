"""The steps of a compiled learner on one row for eight problems at once, for every row layout of ``_rows_loops``.

The weights of eight problems stand side by side, W of shape (columns, 8), aligned to 64 bytes: what a row needs of a
column is then one cache line and one vector of eight float64, which LLVM maps to the vector registers there are. Each
lane is summed up in the order of :func:`_rows_loops.dot`, so it is the same bits whatever stands beside it.
"""

# ruff: noqa: ARG001  (all layouts of one operation share its signature)
from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import overload

from ikmap._simd import prefetch, vectors
from ikmap.compiled import compiled
from ikmap.learners._rows_loops import _0, _1, _2, _3, _4, _layout

LANES = 8
_8 = np.uint64(LANES)
_OF_8 = vectors("Float64x8", ir.DoubleType(), types.float64, LANES)
float64x8 = _OF_8.type
load, store, splat, choose = _OF_8.load, _OF_8.store, _OF_8.splat, _OF_8.choose
add, subtract, multiply, divide = _OF_8.add, _OF_8.subtract, _OF_8.multiply, _OF_8.divide
larger, smaller, at_most, differs = _OF_8.maximum, _OF_8.minimum, _OF_8.at_most, _OF_8.differs


def dot_lanes(rows, i, ahead, W):
    """The vector sum_j x_ij W[j, :]; asks for the weights of row ``ahead`` on the way."""
    raise NotImplementedError("compiled code only")


def axpy_lanes(rows, i, step, W):
    """W[j, :] += x_ij step for the entries of row i; ``step`` is a vector."""
    raise NotImplementedError("compiled code only")


@compiled(forceinline=True)
def _plus_present(total, W, base, code, absent):
    """The sum so far, with the weights of a cell unless the code stands for none."""
    return add(total, load(W, _8 * (base + np.uint64(code)))) if code != absent else total


@overload(dot_lanes, jit_options={"forceinline": True})
def _dot_lanes(rows, i, ahead, W):
    def cells(rows, i, ahead, W):
        codes, base, value = rows
        i, ahead, t = np.uint64(i), np.uint64(ahead), np.uint64(codes.shape[1])
        s0 = s1 = s2 = s3 = splat(0.0)
        j = _0
        while j + _4 <= t:
            prefetch(W, _8 * (base[j] + np.uint64(codes[ahead, j])))
            prefetch(W, _8 * (base[j + _1] + np.uint64(codes[ahead, j + _1])))
            prefetch(W, _8 * (base[j + _2] + np.uint64(codes[ahead, j + _2])))
            prefetch(W, _8 * (base[j + _3] + np.uint64(codes[ahead, j + _3])))
            s0 = add(s0, load(W, _8 * (base[j] + np.uint64(codes[i, j]))))
            s1 = add(s1, load(W, _8 * (base[j + _1] + np.uint64(codes[i, j + _1]))))
            s2 = add(s2, load(W, _8 * (base[j + _2] + np.uint64(codes[i, j + _2]))))
            s3 = add(s3, load(W, _8 * (base[j + _3] + np.uint64(codes[i, j + _3]))))
            j += _4
        while j < t:
            s0 = add(s0, load(W, _8 * (base[j] + np.uint64(codes[i, j]))))
            j += _1
        return multiply(splat(value), add(add(s0, s1), add(s2, s3)))

    def gapped(rows, i, ahead, W):
        codes, base, value, absent = rows
        i, ahead, t = np.uint64(i), np.uint64(ahead), np.uint64(codes.shape[1])
        s0 = s1 = s2 = s3 = splat(0.0)
        j = _0
        while j + _4 <= t:
            for q in range(_4):
                prefetch(W, _8 * (base[j + q] + np.uint64(codes[ahead, j + q])))
            s0 = _plus_present(s0, W, base[j], codes[i, j], absent)
            s1 = _plus_present(s1, W, base[j + _1], codes[i, j + _1], absent)
            s2 = _plus_present(s2, W, base[j + _2], codes[i, j + _2], absent)
            s3 = _plus_present(s3, W, base[j + _3], codes[i, j + _3], absent)
            j += _4
        while j < t:
            s0 = _plus_present(s0, W, base[j], codes[i, j], absent)
            j += _1
        return multiply(splat(value), add(add(s0, s1), add(s2, s3)))

    def dense(rows, i, ahead, W):
        X = rows[0]
        i, d = np.uint64(i), np.uint64(X.shape[1])
        s0 = s1 = s2 = s3 = splat(0.0)
        j = _0
        while j + _4 <= d:
            s0 = add(s0, multiply(splat(X[i, j]), load(W, _8 * j)))
            s1 = add(s1, multiply(splat(X[i, j + _1]), load(W, _8 * (j + _1))))
            s2 = add(s2, multiply(splat(X[i, j + _2]), load(W, _8 * (j + _2))))
            s3 = add(s3, multiply(splat(X[i, j + _3]), load(W, _8 * (j + _3))))
            j += _4
        while j < d:
            s0 = add(s0, multiply(splat(X[i, j]), load(W, _8 * j)))
            j += _1
        return add(add(s0, s1), add(s2, s3))

    def csr(rows, i, ahead, W):
        data, indices, indptr = rows
        total = splat(0.0)
        for e in range(indptr[i], indptr[i + 1]):
            total = add(total, multiply(splat(data[e]), load(W, _8 * np.uint64(indices[e]))))
        return total

    return {"cells": cells, "gapped": gapped, "dense": dense, "csr": csr}[_layout(rows)]


@overload(axpy_lanes, jit_options={"forceinline": True})
def _axpy_lanes(rows, i, step, W):
    def cells(rows, i, step, W):
        codes, base, value = rows
        i, t = np.uint64(i), np.uint64(codes.shape[1])
        change = multiply(splat(value), step)
        j = _0
        while j + _4 <= t:
            c0 = _8 * (base[j] + np.uint64(codes[i, j]))
            c1 = _8 * (base[j + _1] + np.uint64(codes[i, j + _1]))
            c2 = _8 * (base[j + _2] + np.uint64(codes[i, j + _2]))
            c3 = _8 * (base[j + _3] + np.uint64(codes[i, j + _3]))
            w0, w1, w2, w3 = load(W, c0), load(W, c1), load(W, c2), load(W, c3)
            store(W, c0, add(w0, change))
            store(W, c1, add(w1, change))
            store(W, c2, add(w2, change))
            store(W, c3, add(w3, change))
            j += _4
        while j < t:
            at = _8 * (base[j] + np.uint64(codes[i, j]))
            store(W, at, add(load(W, at), change))
            j += _1

    def gapped(rows, i, step, W):
        codes, base, value, absent = rows
        i, change = np.uint64(i), multiply(splat(value), step)
        for j in range(np.uint64(codes.shape[1])):
            if codes[i, j] != absent:
                at = _8 * (base[j] + np.uint64(codes[i, j]))
                store(W, at, add(load(W, at), change))

    def dense(rows, i, step, W):
        X = rows[0]
        for j in range(X.shape[1]):
            at = _8 * np.uint64(j)
            store(W, at, add(load(W, at), multiply(splat(X[i, j]), step)))

    def csr(rows, i, step, W):
        data, indices, indptr = rows
        for e in range(indptr[i], indptr[i + 1]):
            at = _8 * np.uint64(indices[e])
            store(W, at, add(load(W, at), multiply(splat(data[e]), step)))

    return {"cells": cells, "gapped": gapped, "dense": dense, "csr": csr}[_layout(rows)]
