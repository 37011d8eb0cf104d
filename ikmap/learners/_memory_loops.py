"""What compiled code tells the processor and the optimiser about memory."""

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


@intrinsic
def opaque(typingctx, position):
    """The same position, uint64, of which the optimiser knows nothing: what is read there is read by a single load."""

    def codegen(context, builder, signature, args):
        word = ir.IntType(64)
        # No instruction at all, in a register of any machine.
        return builder.asm(ir.FunctionType(word, [word]), "", "=r,0", [args[0]], False)

    return types.uint64(types.uint64), codegen
