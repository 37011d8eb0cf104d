"""What a compiled learner does with one row for eight problems at once, for every row layout of ``_rows_loops``.

The weights of eight problems stand side by side, W of shape (columns, 8), aligned to 64 bytes: what a row needs of a
column is then one cache line and one vector of eight float64, which LLVM maps to the vector registers there are. Each
lane is summed up in the order of :func:`_rows_loops.dot`, so it is the same bits whatever stands beside it.
"""

# ruff: noqa: ARG001  (all layouts of one operation share its signature, an intrinsic's arguments are named for callers)
from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, overload, register_model

from ikmap.learners._memory_loops import prefetch
from ikmap.learners._rows_loops import _0, _1, _2, _3, _4, _layout

LANES = 8
_8 = np.uint64(LANES)
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)


class _Float64x8(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Float64x8")


float64x8 = _Float64x8()


@register_model(_Float64x8)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, type_: Any) -> None:
        super().__init__(manager, type_, _VECTOR)


def _address(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    data = context.make_array(signature.args[0])(context, builder, args[0]).data
    return builder.bitcast(builder.gep(data, [args[1]]), _VECTOR.as_pointer())


@intrinsic
def load(typing: Any, array: Any, i: Any) -> Any:
    """``array[i : i + 8]`` of a contiguous float64 array, by its flat index, not checked."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(_address(context, builder, signature, args))
        value.align = 8
        return value

    return float64x8(array, types.uint64), generate


@intrinsic
def store(typing: Any, array: Any, i: Any, value: Any) -> Any:
    """``array[i : i + 8] = value``, by its flat index, not checked."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _address(context, builder, signature, args)).align = 8
        return context.get_dummy_value()

    return types.void(array, types.uint64, float64x8), generate


@intrinsic
def splat(typing: Any, x: Any) -> Any:
    """The float64 x in all lanes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        nothing = ir.Constant(_VECTOR, ir.Undefined)
        first = builder.insert_element(nothing, args[0], ir.Constant(ir.IntType(32), 0))
        return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))

    return float64x8(types.float64), generate


def _binary(operation: str, *comparison: str) -> Any:
    def typed(typing: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            if not comparison:
                return getattr(builder, operation)(*args)
            return builder.select(builder.fcmp_ordered(*comparison, *args), *args)

        return float64x8(float64x8, float64x8), generate

    return intrinsic(typed)


def _compare(comparison: str) -> Any:
    def typed(typing: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            bits = builder.bitcast(builder.fcmp_ordered(comparison, *args), ir.IntType(LANES))
            return builder.zext(bits, ir.IntType(64))

        return types.uint64(float64x8, float64x8), generate

    return intrinsic(typed)


add, subtract, multiply, divide = (_binary(name) for name in ("fadd", "fsub", "fmul", "fdiv"))
larger, smaller = _binary("", ">"), _binary("", "<")
#: Bit masks, as uint64, of the lanes where a <= b, and where a differs from b.
at_most, differs = _compare("<="), _compare("!=")


@intrinsic
def choose(typing: Any, mask: Any, a: Any, b: Any) -> Any:
    """a in the lanes of a bit mask, b in the others."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = ir.VectorType(ir.IntType(1), LANES)
        return builder.select(builder.bitcast(builder.trunc(args[0], ir.IntType(LANES)), lanes), args[1], args[2])

    return float64x8(types.uint64, float64x8, float64x8), generate


def dot_lanes(rows, i, ahead, W):
    """The vector sum_j x_ij W[j, :]; asks for the weights of row ``ahead`` on the way."""
    raise NotImplementedError("compiled code only")


def axpy_lanes(rows, i, step, W):
    """W[j, :] += x_ij step for the entries of row i; ``step`` is a vector."""
    raise NotImplementedError("compiled code only")


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

    return {"cells": cells, "dense": dense, "csr": csr}[_layout(rows)]


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

    return {"cells": cells, "dense": dense, "csr": csr}[_layout(rows)]
