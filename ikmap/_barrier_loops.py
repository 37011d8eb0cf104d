"""A barrier for compiled loops: threads wait for each other there without Python."""

# ruff: noqa: ARG001  (Numba fixes the signature of a code generator)
from __future__ import annotations

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.base import BaseContext
from numba.core.typing import Context as TypingContext
from numba.core.typing import Signature
from numba.extending import intrinsic

from ikmap._simd import Typed, Values
from ikmap.compiled import compiled

ARRIVED, GENERATION, CANCELLED = 0, 16, 32
"""Places in the array of a barrier, each in cache lines of its own: number of threads that wait there, number of times
that all have come, and whether one never will."""
BARRIER_SIZE = 48
"""Size of the array of a barrier, of int64 zeros at first."""
SPINS = 2000
"""Number of looks at whether all have come, before a thread offers its processor to others between two looks."""


@intrinsic
def _add(typing: TypingContext, barrier: types.Type, place: types.Type, value: types.Type) -> Typed:
    """Add to a number of a barrier, and return what it was before."""

    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        return builder.atomic_rmw("add", _address(context, builder, signature, args), args[2], "seq_cst")

    return types.int64(barrier, types.int64, types.int64), generate


@intrinsic
def _look(typing: TypingContext, barrier: types.Type, place: types.Type) -> Typed:
    """Return a number of a barrier; what the thread that changed it wrote before is then seen, too."""

    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        return builder.load_atomic(_address(context, builder, signature, args), "seq_cst", 8)

    return types.int64(barrier, types.int64), generate


@intrinsic
def _let_others_run(typing: TypingContext) -> Typed:
    """Offer the processor to other threads."""

    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        kind = ir.FunctionType(ir.IntType(32), [])
        builder.call(cgutils.get_or_insert_function(builder.module, kind, "sched_yield"), [])
        return context.get_dummy_value()

    return types.void(), generate


def _address(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
    data = context.make_array(signature.args[0])(context, builder, args[0]).data
    return builder.gep(data, [args[1]])


@compiled
def wait_at_barrier(barrier, n_threads):
    """Wait until so many threads have come to a barrier; return False if one of them has failed.

    Afterwards every thread sees what the others wrote before they came.
    """
    if n_threads == 1:
        return True
    number = _look(barrier, GENERATION)
    if _add(barrier, ARRIVED, 1) == n_threads - 1:
        _add(barrier, ARRIVED, -n_threads)
        _add(barrier, GENERATION, 1)
        return True
    looks = 0
    while _look(barrier, GENERATION) == number:
        if _look(barrier, CANCELLED):
            return False
        looks += 1
        if looks > SPINS:
            _let_others_run()
    return True
