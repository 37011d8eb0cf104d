"""Vectors of 16 float32 for compiled loops, where the shape of the machine code decides the speed.

Each function is one LLVM operation on ``<16 x float>``, which LLVM maps to whatever vector registers there are (one of
AVX-512, two of AVX2, four of NEON). Indices are flat, unsigned and not checked.
"""

# ruff: noqa: ARG001  (Numba fixes the signature of a code generator)
from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, models, register_model

LANES = 16
_BITS = ir.IntType(32)
_VECTOR = ir.VectorType(ir.FloatType(), LANES)


class _Float32x16(types.Type):
    def __init__(self) -> None:
        super().__init__(name="Float32x16")


float32x16 = _Float32x16()


@register_model(_Float32x16)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: Any, type_: Any) -> None:
        super().__init__(manager, type_, _VECTOR)


def _address(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    array = context.make_array(signature.args[0])(context, builder, args[0])
    return builder.bitcast(builder.gep(array.data, [args[1]]), _VECTOR.as_pointer())


@intrinsic
def load(typing: Any, array: Any, i: Any) -> Any:
    """``array[i : i + 16]`` of a contiguous array of 4-byte items, by its flat index: their bits as they are."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(_address(context, builder, signature, args))
        value.align = 4
        return value

    return float32x16(array, types.uint64), generate


@intrinsic
def store(typing: Any, array: Any, i: Any, value: Any) -> Any:
    """``array[i : i + 16] = value``, by its flat index."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        instruction = builder.store(args[2], _address(context, builder, signature, args))
        instruction.align = 4
        return context.get_dummy_value()

    return types.void(array, types.uint64, float32x16), generate


@intrinsic
def splat(typing: Any, x: Any) -> Any:
    """The float32 x in all lanes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        nothing = ir.Constant(_VECTOR, ir.Undefined)
        first = builder.insert_element(nothing, args[0], ir.Constant(_BITS, 0))
        return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_BITS, LANES), [0] * LANES))

    return float32x16(types.float32), generate


@intrinsic
def steps(typing: Any, i: Any) -> Any:
    """The int32 numbers i, i + 1, ..., i + 15, as bits."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.VectorType(_BITS, LANES)
        nothing = ir.Constant(kind, ir.Undefined)
        first = builder.insert_element(nothing, args[0], ir.Constant(_BITS, 0))
        same = builder.shuffle_vector(first, nothing, ir.Constant(kind, [0] * LANES))
        return builder.bitcast(builder.add(same, ir.Constant(kind, list(range(LANES)))), _VECTOR)

    return float32x16(types.int32), generate


@intrinsic
def float_of(typing: Any, bits: Any) -> Any:
    """The float32 that an int32 is the bits of."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), generate


@intrinsic
def multiply_add(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c, with one rounding or two, whichever is faster."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.fmuladd.v16f32"), args)

    return float32x16(float32x16, float32x16, float32x16), generate


def _binary(operation: str, *, maximum: bool | None = None) -> Any:
    def typed(typing: Any, a: Any, b: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            if maximum is None:
                return getattr(builder, operation)(*args)
            return builder.select(builder.fcmp_ordered(">" if maximum else "<", *args), *args)

        return float32x16(float32x16, float32x16), generate

    return typed


add = intrinsic(_binary("fadd"))
subtract = intrinsic(_binary("fsub"))
maximum = intrinsic(_binary("", maximum=True))
minimum = intrinsic(_binary("", maximum=False))


@intrinsic
def at_most(typing: Any, a: Any, b: Any) -> Any:
    """Bit mask of the lanes where a <= b, as uint64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        mask = builder.bitcast(builder.fcmp_ordered("<=", *args), ir.IntType(LANES))
        return builder.zext(mask, ir.IntType(64))

    return types.uint64(float32x16, float32x16), generate


@intrinsic
def choose(typing: Any, mask: Any, a: Any, b: Any) -> Any:
    """a in the lanes of a bit mask, b in the others."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = ir.VectorType(ir.IntType(1), LANES)
        return builder.select(builder.bitcast(builder.trunc(args[0], ir.IntType(LANES)), lanes), args[1], args[2])

    return float32x16(types.uint64, float32x16, float32x16), generate


@intrinsic
def prefetch(typing: Any, array: Any, i: Any) -> Any:
    """Ask for the cache line of ``array[i]`` of a contiguous array, by its flat index."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        address = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [address.type, _BITS, _BITS, _BITS])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [address, ir.Constant(_BITS, 0), ir.Constant(_BITS, 3), ir.Constant(_BITS, 1)])
        return context.get_dummy_value()

    return types.void(array, types.uint64), generate


@intrinsic
def compress(typing: Any, array: Any, i: Any, value: Any, mask: Any) -> Any:
    """Store the lanes named by a bit mask one after the other, from ``array[i]`` on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = ir.VectorType(ir.IntType(1), LANES)
        address = _address(context, builder, signature, args)
        kind = ir.FunctionType(ir.VoidType(), [_VECTOR, address.type, lanes])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.masked.compressstore.v16f32")
        selected = builder.bitcast(builder.trunc(args[3], ir.IntType(LANES)), lanes)
        builder.call(function, [args[2], address, selected])
        return context.get_dummy_value()

    return types.void(array, types.uint64, float32x16, types.uint64), generate


@intrinsic
def count_bits(typing: Any, mask: Any) -> Any:
    """Number of bits set in a uint64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.ctpop.i64"), args)

    return types.uint64(types.uint64), generate


@intrinsic
def lowest_bit(typing: Any, mask: Any) -> Any:
    """Number of the lowest bit set in a uint64 that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64), ir.IntType(1)])
        count = cgutils.get_or_insert_function(builder.module, kind, "llvm.cttz.i64")
        return builder.call(count, [args[0], ir.Constant(ir.IntType(1), 1)])

    return types.uint64(types.uint64), generate
