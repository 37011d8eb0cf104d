"""Vectors of whole numbers for compiled loops: cells that rows share, and sums corrected by multiples of their number.

Each function works on :data:`EIGHT` rows; positions are flat, unsigned and not checked.
"""

# ruff: noqa: ARG001  (Numba fixes the signature of a code generator)
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

EIGHT = 8
BYTES = 64
"""Cells are compared so many bytes at a time."""
_INT, _LONG = ir.IntType(32), ir.IntType(64)


def _pointer(context, builder, signature, args, array, position, kind):
    """Address of a vector in the array that is argument ``array``, at ``position``."""
    data = context.make_array(signature.args[array])(context, builder, args[array]).data
    return builder.bitcast(builder.gep(data, [position]), ir.PointerType(kind))


def _load(context, builder, signature, args, array, position, kind):
    value = builder.load(_pointer(context, builder, signature, args, array, position, kind))
    value.align = 1
    return value


@intrinsic
def nearest(typingctx, x):
    """The whole number nearest to x, an even one of two, as int64."""

    def codegen(context, builder, signature, args):
        kind = ir.FunctionType(_LONG, [ir.DoubleType()])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.lrint.i64.f64"), args)

    return types.int64(types.float64), codegen


@intrinsic
def tally(typingctx, cells, i, stride, j, counts, k):
    """counts[k + q] += how many of the 64 bytes of cells at ``i + q stride`` equal those at j, for q = 0 .. 7."""
    lanes = 8 * BYTES // cells.dtype.bitwidth

    def codegen(context, builder, signature, args):
        row = ir.VectorType(ir.IntType(cells.dtype.bitwidth), lanes)
        total = ir.VectorType(ir.IntType(counts.dtype.bitwidth), EIGHT)
        ones = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_LONG, [_LONG]), "llvm.ctpop.i64")
        mine, position = _load(context, builder, signature, args, 0, args[3], row), args[1]
        found = ir.Constant(total, ir.Undefined)
        for q in range(EIGHT):
            theirs = _load(context, builder, signature, args, 0, position, row)
            equal = builder.bitcast(builder.icmp_unsigned("==", mine, theirs), ir.IntType(lanes))
            number = builder.call(ones, [equal if lanes == 64 else builder.zext(equal, _LONG)])
            found = builder.insert_element(found, builder.trunc(number, total.element), ir.Constant(_INT, q))
            position = builder.add(position, args[2])
        here = _pointer(context, builder, signature, args, 4, args[5], total)
        before = _load(context, builder, signature, args, 4, args[5], total)
        builder.store(builder.add(before, found), here).align = 1
        return context.get_dummy_value()

    return types.void(cells, types.uint64, types.uint64, types.uint64, counts, types.uint64), codegen


@intrinsic
def add_multiples(typingctx, sums, i, counts, j, k, step):
    """sums[i + q] += step (counts[j + q] + counts[k + q]) in int64, for q = 0 .. 7."""

    def codegen(context, builder, signature, args):
        wide = ir.VectorType(_LONG, EIGHT)
        narrow = ir.VectorType(ir.IntType(counts.dtype.bitwidth), EIGHT)
        one, two = (builder.zext(_load(context, builder, signature, args, 2, args[p], narrow), wide) for p in (3, 4))
        nothing = ir.Constant(wide, ir.Undefined)
        first = builder.insert_element(nothing, args[5], ir.Constant(_INT, 0))
        steps = builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(_INT, EIGHT), [0] * EIGHT))
        here = _pointer(context, builder, signature, args, 0, args[1], wide)
        before = _load(context, builder, signature, args, 0, args[1], wide)
        builder.store(builder.add(before, builder.mul(steps, builder.add(one, two))), here).align = 8
        return context.get_dummy_value()

    return types.void(sums, types.uint64, counts, types.uint64, types.uint64, types.int64), codegen
