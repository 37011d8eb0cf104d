"""The steps of a compiled learner on one row, for every layout: its product with the weights, and adding it to them.

A learner's loop is written once and calls the functions below. Numba picks the version for a layout by the type of the
``rows`` tuple. The layouts, as made by :func:`rows.row_arrays`:

    cells   (codes (n, t) unsigned, base (t,) uint64, value float)
    dense   (X (n, d) float64,)
    CSR     (data float64, indices, indptr)
    gapped  (codes (n, t) unsigned, base (t,), value float, absent integer): cells; code ``absent``: there is none
    counted (codes (n, t), base (t,), scale float, unit float): cells whose weights are whole numbers (int64), see below

In gapped rows a cell that is absent counts as one of weight 0. So a row that has all cells gives the same bits, whether
or not other rows lack some.

In the counted layout, weights are stored as whole numbers of 1/unit, where unit is a power of two (:func:`move`).
Sums of whole numbers are exact in any order. The weight of a cell is its number times value / unit, that of the
constant feature its number times bias / unit. A row's sum times ``scale`` = value^2 / unit is its product with the
weights.

Sums have a fixed order (no fastmath), so results are the same on every machine and for every chunking.

Positions in cells are unsigned throughout: for signed ones Numba emits a test for negative (wrapping) indices at every
access, which doubles the time of a loop.
"""

# ruff: noqa: ARG001  (all layouts of one operation share its signature)
import numpy as np
from numba import types
from numba.extending import overload

from ikmap._simd import prefetch
from ikmap.compiled import compiled
from ikmap.learners._memory_loops import opaque
from ikmap.learners._tally_loops import nearest

_0, _1, _2, _3, _4 = (np.uint64(k) for k in range(5))


def _layout(rows):
    """Name of the layout of a Numba tuple type."""
    if len(rows) == 3 and isinstance(rows[2], types.Float):
        return "cells"
    if len(rows) == 4:
        return "counted" if isinstance(rows[3], types.Float) else "gapped"
    return {1: "dense", 3: "csr"}[len(rows)]


def _summing(w):
    """Return what a loop needs to add up weights of this type: the zero to begin with, and a function for positions.

    Positions of whole-number weights go through :func:`opaque`. It keeps the optimiser from reading several weights in
    one vector instruction (a gather), which is slower here. Positions of floating-point weights are left as they are.
    """
    return (0, opaque) if isinstance(w.dtype, types.Integer) else (0.0, _position)


@compiled(forceinline=True)
def _position(position):
    return position


@compiled(forceinline=True)
def _present(w, base, code, absent):
    """The weight of a cell; 0 if the code says that there is no cell."""
    return w[base + np.uint64(code)] if code != absent else 0.0


def dot(rows, i, w):
    """w . x_i, in four interleaved partial sums."""
    raise NotImplementedError("compiled code only")


def axpy(rows, i, a, w):
    """w += a x_i."""
    raise NotImplementedError("compiled code only")


def constant(rows, bias, w):
    """Return the part of the constant feature, whose weight is the last, in a row's product."""
    raise NotImplementedError("compiled code only")


def move(rows, i, old, new, sign, bias, w):
    """Add row i and the constant feature to w, (new - old) sign times; counted weights round new and old first."""
    raise NotImplementedError("compiled code only")


def dot_ahead(rows, i, ahead, w):
    """:func:`dot`, bit for bit, that asks for the weights of row ``ahead`` on the way: for w larger than the cache."""
    raise NotImplementedError("compiled code only")


def fetch(rows, i):
    """Ask for the memory of row i ahead of its use."""
    raise NotImplementedError("compiled code only")


def squared_norm(rows, i, norms):
    """x_i . x_i; ``norms`` as given by squared_norms."""
    raise NotImplementedError("compiled code only")


@overload(dot)
def _dot(rows, i, w):
    zero, at = _summing(w)

    def cells(rows, i, w):
        codes, base, value = rows[0], rows[1], rows[2]
        i, t = np.uint64(i), np.uint64(codes.shape[1])
        s0 = s1 = s2 = s3 = zero
        j = _0
        while j + _4 <= t:
            s0 += w[at(base[j] + np.uint64(codes[i, j]))]
            s1 += w[at(base[j + _1] + np.uint64(codes[i, j + _1]))]
            s2 += w[at(base[j + _2] + np.uint64(codes[i, j + _2]))]
            s3 += w[at(base[j + _3] + np.uint64(codes[i, j + _3]))]
            j += _4
        while j < t:
            s0 += w[at(base[j] + np.uint64(codes[i, j]))]
            j += _1
        return value * ((s0 + s1) + (s2 + s3))

    def gapped(rows, i, w):
        codes, base, value, absent = rows
        i, t = np.uint64(i), np.uint64(codes.shape[1])
        s0 = s1 = s2 = s3 = 0.0
        j = _0
        while j + _4 <= t:
            s0 += _present(w, base[j], codes[i, j], absent)
            s1 += _present(w, base[j + _1], codes[i, j + _1], absent)
            s2 += _present(w, base[j + _2], codes[i, j + _2], absent)
            s3 += _present(w, base[j + _3], codes[i, j + _3], absent)
            j += _4
        while j < t:
            s0 += _present(w, base[j], codes[i, j], absent)
            j += _1
        return value * ((s0 + s1) + (s2 + s3))

    def dense(rows, i, w):
        X = rows[0]
        d = X.shape[1]
        s0 = s1 = s2 = s3 = 0.0
        whole = d - d % 4
        for j in range(0, whole, 4):
            s0 += X[i, j] * w[j]
            s1 += X[i, j + 1] * w[j + 1]
            s2 += X[i, j + 2] * w[j + 2]
            s3 += X[i, j + 3] * w[j + 3]
        for j in range(whole, d):
            s0 += X[i, j] * w[j]
        return (s0 + s1) + (s2 + s3)

    def csr(rows, i, w):
        data, indices, indptr = rows
        total = 0.0
        for e in range(indptr[i], indptr[i + 1]):
            total += data[e] * w[indices[e]]
        return total

    return {"cells": cells, "counted": cells, "gapped": gapped, "dense": dense, "csr": csr}[_layout(rows)]


@overload(axpy)
def _axpy(rows, i, a, w):
    def cells(rows, i, a, w):
        codes, base, value = rows
        i, t, step = np.uint64(i), np.uint64(codes.shape[1]), a * value
        j = _0
        while j < t:
            w[base[j] + np.uint64(codes[i, j])] += step
            j += _1

    def gapped(rows, i, a, w):
        codes, base, value, absent = rows
        i, step = np.uint64(i), a * value
        for j in range(np.uint64(codes.shape[1])):
            if codes[i, j] != absent:
                w[base[j] + np.uint64(codes[i, j])] += step

    def dense(rows, i, a, w):
        X = rows[0]
        for j in range(X.shape[1]):
            w[j] += a * X[i, j]

    def csr(rows, i, a, w):
        data, indices, indptr = rows
        for e in range(indptr[i], indptr[i + 1]):
            w[indices[e]] += a * data[e]

    return {"cells": cells, "gapped": gapped, "dense": dense, "csr": csr}[_layout(rows)]


@overload(constant)
def _constant(rows, bias, w):
    def counted(rows, bias, w):
        return bias * bias / rows[3] * w[w.size - 1] if bias != 0.0 else 0.0

    def other(rows, bias, w):
        return bias * w[w.size - 1]

    return counted if _layout(rows) == "counted" else other


@overload(move)
def _move(rows, i, old, new, sign, bias, w):
    def counted(rows, i, old, new, sign, bias, w):
        codes, base, _, unit = rows
        step = nearest(new * unit) - nearest(old * unit)
        if sign < 0.0:
            step = -step
        i, t = np.uint64(i), np.uint64(codes.shape[1])
        j = _0
        while j < t:
            w[base[j] + np.uint64(codes[i, j])] += step
            j += _1
        if bias != 0.0:
            w[w.size - 1] += step

    def other(rows, i, old, new, sign, bias, w):
        step = (new - old) * sign
        axpy(rows, i, step, w)
        w[w.size - 1] += bias * step

    return counted if _layout(rows) == "counted" else other


@overload(dot_ahead)
def _dot_ahead(rows, i, ahead, w):
    zero, at = _summing(w)

    def cells(rows, i, ahead, w):
        codes, base, value = rows[0], rows[1], rows[2]
        i, ahead, t = np.uint64(i), np.uint64(ahead), np.uint64(codes.shape[1])
        s0 = s1 = s2 = s3 = zero
        j = _0
        while j + _4 <= t:
            prefetch(w, base[j] + np.uint64(codes[ahead, j]))
            prefetch(w, base[j + _1] + np.uint64(codes[ahead, j + _1]))
            prefetch(w, base[j + _2] + np.uint64(codes[ahead, j + _2]))
            prefetch(w, base[j + _3] + np.uint64(codes[ahead, j + _3]))
            s0 += w[at(base[j] + np.uint64(codes[i, j]))]
            s1 += w[at(base[j + _1] + np.uint64(codes[i, j + _1]))]
            s2 += w[at(base[j + _2] + np.uint64(codes[i, j + _2]))]
            s3 += w[at(base[j + _3] + np.uint64(codes[i, j + _3]))]
            j += _4
        while j < t:
            s0 += w[at(base[j] + np.uint64(codes[i, j]))]
            j += _1
        return value * ((s0 + s1) + (s2 + s3))

    def other(rows, i, ahead, w):
        return dot(rows, i, w)

    return cells if _layout(rows) in ("cells", "counted") else other


@overload(fetch)
def _fetch(rows, i):
    per_line = np.uint64(64 // (rows[0].dtype.bitwidth // 8))

    def cells(rows, i):
        codes = rows[0]
        t = np.uint64(codes.shape[1])
        j, end = np.uint64(i) * t, np.uint64(i) * t + t
        while j < end:
            prefetch(codes, j)
            j += per_line
        prefetch(codes, end - _1)

    def other(rows, i):
        pass

    return cells if _layout(rows) in ("cells", "gapped", "counted") else other


@overload(squared_norm)
def _squared_norm(rows, i, norms):
    def cells(rows, i, norms):
        return norms[0]

    def other(rows, i, norms):
        return norms[i]

    return cells if _layout(rows) in ("cells", "counted") else other
