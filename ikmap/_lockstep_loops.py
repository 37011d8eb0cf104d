"""Compiled loop in which threads wait for each other, without Python."""

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

ARRIVED, MEETINGS, GIVEN_UP = 0, 16, 32
"""Places of the numbers by which threads wait for each other, each in cache lines of its own."""
MEETING_SIZE = 48
"""Number of all of them."""
SPINS = 2000
"""Number of looks at whether all have come, before the processor is offered to other threads at each further look."""


@intrinsic
def _add(typing: TypingContext, meeting: types.Type, place: types.Type, value: types.Type) -> Typed:
    """Add to a number that other threads add to; return what it was."""

    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        return builder.atomic_rmw("add", _address(context, builder, signature, args), args[2], "seq_cst")

    return types.int64(meeting, types.int64, types.int64), generate


@intrinsic
def _look(typing: TypingContext, meeting: types.Type, place: types.Type) -> Typed:
    """Return a number that other threads change, with all that they wrote before they did."""

    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        return builder.load_atomic(_address(context, builder, signature, args), "seq_cst", 8)

    return types.int64(meeting, types.int64), generate


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
def meet(meeting, n_threads):
    """Wait until so many threads have come here; return False if one of them has given up.

    What a thread wrote before it came, all see afterwards.

    Parameters
    ----------
    meeting : int64 array
        The numbers of the :class:`Team`.
    """
    if n_threads == 1:
        return True
    number = _look(meeting, MEETINGS)
    if _add(meeting, ARRIVED, 1) == n_threads - 1:
        _add(meeting, ARRIVED, -n_threads)
        _add(meeting, MEETINGS, 1)
        return True
    looks = 0
    while _look(meeting, MEETINGS) == number:
        if _look(meeting, GIVEN_UP):
            return False
        looks += 1
        if looks > SPINS:
            _let_others_run()
    return True
