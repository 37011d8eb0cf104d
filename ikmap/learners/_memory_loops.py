"""Hints of compiled code to the processor and the optimiser about memory."""

# ruff: noqa: ARG001  (an intrinsic's arguments are named for its callers)
import os
import platform

from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def opaque(typingctx, position):
    """The same position, uint64, of which the optimiser knows nothing: what is read there is read by a single load."""

    def codegen(context, builder, signature, args):
        word = ir.IntType(64)
        # No instruction at all, in a register of any machine.
        return builder.asm(ir.FunctionType(word, [word]), "", "=r,0", [args[0]], False)

    return types.uint64(types.uint64), codegen


@intrinsic
def copy(typingctx, target, i, source, j, count):
    """``target[i : i + count] = source[j : j + count]`` for contiguous arrays of one type; positions as above."""
    size = source.dtype.bitwidth // 8

    def codegen(context, builder, signature, args):
        there, here = (
            builder.gep(context.make_array(signature.args[k])(context, builder, args[k]).data, [args[k + 1]])
            for k in (0, 2)
        )
        word, flag, address = ir.IntType(64), ir.IntType(1), ir.PointerType(ir.IntType(8))
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [address, address, word, flag]), "llvm.memcpy.p0.p0.i64"
        )
        items = builder.mul(args[4], ir.Constant(word, size))
        pointers = [builder.bitcast(pointer, address) for pointer in (there, here)]
        builder.call(function, [*pointers, items, ir.Constant(flag, 0)])
        return context.get_dummy_value()

    return types.void(target, types.uint64, source, types.uint64, types.uint64), codegen


@intrinsic
def acquire(typingctx, flags, position):
    """``flags[position]`` of uint64: what its writer wrote before :func:`release` is seen by what reads later."""

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.load_atomic(builder.gep(data, [args[1]]), "acquire", 8)

    return types.uint64(flags, types.uint64), codegen


@intrinsic
def release(typingctx, flags, position, value):
    """``flags[position] = value``, after everything that was written before."""

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        builder.store_atomic(args[2], builder.gep(data, [args[1]]), "release", 8)
        return context.get_dummy_value()

    return types.void(flags, types.uint64, types.uint64), codegen


@intrinsic
def pause(typingctx):
    """Tell the processor that this is a loop that waits; nothing where it cannot be told."""

    def codegen(context, builder, signature, args):
        if platform.machine() in ("x86_64", "AMD64"):
            kind = ir.FunctionType(ir.VoidType(), [])
            builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.x86.sse2.pause"), [])
        return context.get_dummy_value()

    return types.void(), codegen


if hasattr(os, "sched_yield"):
    let_others_run = types.ExternalFunction("sched_yield", types.int32())
else:

    @njit
    def let_others_run():
        """Nothing: there is no such call here."""
        return 0
