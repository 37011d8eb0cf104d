"""Prefetching in compiled code."""

# ruff: noqa: ARG001  (an intrinsic's arguments are named for its callers)
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def prefetch(typingctx, array, position):
    """Ask for the cache line of ``array[position]`` (flat, unsigned, not checked) ahead of its use."""

    def codegen(context, builder, signature, args):
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        word, address = ir.IntType(32), ir.PointerType(ir.IntType(8))
        function = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [address, word, word, word]), "llvm.prefetch.p0"
        )
        item = builder.bitcast(builder.gep(data, [args[1]]), address)
        # For reading, to be kept in every cache, data.
        builder.call(function, [item, ir.Constant(word, 0), ir.Constant(word, 3), ir.Constant(word, 1)])
        return context.get_dummy_value()

    return types.void(array, types.uint64), codegen
