"""Vectors for compiled loops, where the shape of the machine code decides the speed.

Each function is one LLVM operation on ``<16 x float>`` (here) or any vector that :func:`vectors` was asked for, which
LLVM maps to whatever vector registers there are (one of AVX-512, two of AVX2, four of NEON). Indices are flat, unsigned
and not checked.
"""

# ruff: noqa: ARG001  (Numba fixes the signature of a code generator)
from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.base import BaseContext
from numba.core.datamodel.manager import DataModelManager
from numba.core.typing import Context as TypingContext
from numba.core.typing import Signature
from numba.extending import _Intrinsic, intrinsic, models, register_model

_BITS = ir.IntType(32)

type Values = Sequence[ir.Value]
"""The arguments of an operation, in LLVM's form."""
type Typed = tuple[Signature, Callable[[BaseContext, ir.IRBuilder, Signature, Values], ir.Value]]
"""The answer of an intrinsic to Numba: its signature, and a generator of its code."""


class Vector(types.Type):
    """The Numba type of vectors of so many lanes; of this module, so that compiled code that has it can be stored."""

    def __init__(self, name: str, lanes: int, double: bool) -> None:
        self.lanes, self.double = lanes, double
        super().__init__(name=name)

    @property
    def ir(self) -> ir.Type:
        """Type of the vector in LLVM."""
        return ir.VectorType(ir.DoubleType() if self.double else ir.FloatType(), self.lanes)


@register_model(Vector)
class _Model(models.PrimitiveModel):
    def __init__(self, manager: DataModelManager, type_: Vector) -> None:
        super().__init__(manager, type_, type_.ir)


def vectors(name: str, element: ir.Type, scalar: types.Float, lanes: int) -> SimpleNamespace:
    """A Numba type of vectors, and what to do with them.

    Returns
    -------
    SimpleNamespace
        ``type``, ``ir``; ``address`` for code generators; ``load(array, i)``, ``store(array, i, value)`` of items as
        wide as the element, their bits as they are; ``splat(x)``; ``add``, ``subtract``, ``multiply``, ``divide``;
        ``maximum`` and ``minimum``, which take the second where one is NaN; ``at_most``, ``below`` and ``differs``, bit
        masks as uint64; ``choose(mask, a, b)``: a in the lanes of a bit mask, b in the others.
    """
    kind = Vector(name, lanes, isinstance(element, ir.DoubleType))
    vector = kind.ir

    def address(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        array = context.make_array(signature.args[0])(context, builder, args[0])
        return builder.bitcast(builder.gep(array.data, [args[1]]), vector.as_pointer())

    @intrinsic
    def load(typing: TypingContext, array: types.Type, i: types.Type) -> Typed:
        def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
            value = builder.load(address(context, builder, signature, args))
            value.align = scalar.bitwidth // 8
            return value

        return kind(array, types.uint64), generate

    @intrinsic
    def store(typing: TypingContext, array: types.Type, i: types.Type, value: types.Type) -> Typed:
        def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
            builder.store(args[2], address(context, builder, signature, args)).align = scalar.bitwidth // 8
            return context.get_dummy_value()

        return types.void(array, types.uint64, kind), generate

    @intrinsic
    def splat(typing: TypingContext, x: types.Type) -> Typed:
        def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
            nothing = ir.Constant(vector, ir.Undefined)
            first = builder.insert_element(nothing, args[0], ir.Constant(_BITS, 0))
            return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_BITS, lanes), [0] * lanes))

        return kind(scalar), generate

    def binary(operation: str, *comparison: str) -> _Intrinsic:
        def typed(typing: TypingContext, a: types.Type, b: types.Type) -> Typed:
            def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
                if not comparison:
                    return getattr(builder, operation)(*args)
                return builder.select(builder.fcmp_ordered(*comparison, *args), *args)

            return kind(kind, kind), generate

        return intrinsic(typed)

    def compare(comparison: str) -> _Intrinsic:
        def typed(typing: TypingContext, a: types.Type, b: types.Type) -> Typed:
            def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
                bits = builder.bitcast(builder.fcmp_ordered(comparison, *args), ir.IntType(lanes))
                return builder.zext(bits, ir.IntType(64))

            return types.uint64(kind, kind), generate

        return intrinsic(typed)

    @intrinsic
    def choose(typing: TypingContext, mask: types.Type, a: types.Type, b: types.Type) -> Typed:
        def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
            mask = builder.bitcast(builder.trunc(args[0], ir.IntType(lanes)), ir.VectorType(ir.IntType(1), lanes))
            return builder.select(mask, args[1], args[2])

        return kind(types.uint64, kind, kind), generate

    return SimpleNamespace(
        type=kind, ir=vector, address=address, load=load, store=store, splat=splat, choose=choose,
        add=binary("fadd"), subtract=binary("fsub"), multiply=binary("fmul"), divide=binary("fdiv"),
        maximum=binary("", ">"), minimum=binary("", "<"), at_most=compare("<="), below=compare("<"),
        differs=compare("!="),
    )  # fmt: skip


LANES = 16
_OF_16 = vectors("Float32x16", ir.FloatType(), types.float32, LANES)
float32x16, _VECTOR, _address = _OF_16.type, _OF_16.ir, _OF_16.address
load, store, splat, choose, at_most = _OF_16.load, _OF_16.store, _OF_16.splat, _OF_16.choose, _OF_16.at_most
add, subtract, maximum, minimum = _OF_16.add, _OF_16.subtract, _OF_16.maximum, _OF_16.minimum
below = _OF_16.below


@intrinsic
def steps(typing: TypingContext, i: types.Type) -> Typed:
    """The int32 numbers i, i + 1, ..., i + 15, as bits."""

    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        kind = ir.VectorType(_BITS, LANES)
        nothing = ir.Constant(kind, ir.Undefined)
        first = builder.insert_element(nothing, args[0], ir.Constant(_BITS, 0))
        same = builder.shuffle_vector(first, nothing, ir.Constant(kind, [0] * LANES))
        return builder.bitcast(builder.add(same, ir.Constant(kind, list(range(LANES)))), _VECTOR)

    return float32x16(types.int32), generate


@intrinsic
def float_of(typing: TypingContext, bits: types.Type) -> Typed:
    """The float32 that an int32 is the bits of."""

    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        return builder.bitcast(args[0], ir.FloatType())

    return types.float32(types.int32), generate


@intrinsic
def floor(typing: TypingContext, x: types.Type) -> Typed:
    """The largest whole number that is not larger, in every lane."""

    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        kind = ir.FunctionType(_VECTOR, [_VECTOR])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.floor.v16f32"), args)

    return float32x16(float32x16), generate


@intrinsic
def fused(typing: TypingContext, a: types.Type, b: types.Type, c: types.Type) -> Typed:
    """a * b + c with one rounding, on any machine: slow where it has no such instruction."""

    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.fma.v16f32"), args)

    return float32x16(float32x16, float32x16, float32x16), generate


@intrinsic
def bits_of(typing: TypingContext, x: types.Type) -> Typed:
    """The bits of a float64, as an int64."""

    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), generate


@intrinsic
def double_of(typing: TypingContext, bits: types.Type) -> Typed:
    """The float64 that an int64 is the bits of."""

    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), generate


@intrinsic
def multiply_add(typing: TypingContext, a: types.Type, b: types.Type, c: types.Type) -> Typed:
    """a * b + c, with one rounding or two, whichever is faster."""

    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.fmuladd.v16f32"), args)

    return float32x16(float32x16, float32x16, float32x16), generate


@intrinsic
def prefetch(typing: TypingContext, array: types.Type, i: types.Type) -> Typed:
    """Ask for the cache line of ``array[i]`` of a contiguous array, by its flat index."""

    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        address = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [address.type, _BITS, _BITS, _BITS])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(function, [address, ir.Constant(_BITS, 0), ir.Constant(_BITS, 3), ir.Constant(_BITS, 1)])
        return context.get_dummy_value()

    return types.void(array, types.uint64), generate


@intrinsic
def compress(typing: TypingContext, array: types.Type, i: types.Type, value: types.Type, mask: types.Type) -> Typed:
    """Store the lanes named by a bit mask one after the other, from ``array[i]`` on."""

    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        lanes = ir.VectorType(ir.IntType(1), LANES)
        address = _address(context, builder, signature, args)
        kind = ir.FunctionType(ir.VoidType(), [_VECTOR, address.type, lanes])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.masked.compressstore.v16f32")
        selected = builder.bitcast(builder.trunc(args[3], ir.IntType(LANES)), lanes)
        builder.call(function, [args[2], address, selected])
        return context.get_dummy_value()

    return types.void(array, types.uint64, float32x16, types.uint64), generate


@intrinsic
def count_bits(typing: TypingContext, mask: types.Type) -> Typed:
    """Number of bits set in a uint64."""

    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64)])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.ctpop.i64"), args)

    return types.uint64(types.uint64), generate


@intrinsic
def lowest_bit(typing: TypingContext, mask: types.Type) -> Typed:
    """Number of the lowest bit set in a uint64 that is not 0."""

    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        kind = ir.FunctionType(ir.IntType(64), [ir.IntType(64), ir.IntType(1)])
        count = cgutils.get_or_insert_function(builder.module, kind, "llvm.cttz.i64")
        return builder.call(count, [args[0], ir.Constant(ir.IntType(1), 1)])

    return types.uint64(types.uint64), generate
