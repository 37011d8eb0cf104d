"""Compiled conversion of decimal numbers in text to float64, rounded as ``float()`` rounds.

The text is given by its :func:`address` and its size, has at least 8 bytes and ends in a newline, so that every inner
loop stops on its own.
"""

# ruff: noqa: ARG001  (Numba fixes the signature of a code generator)
from __future__ import annotations

import sys

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ikmap.compiled import compiled

EXACT, SLOW, BAD = range(3)
"""Results of :func:`number`: it has read the number; it has left it to ``float()``; it has found no number."""

_TAB, _NEWLINE, _RETURN, _SPACE, _HASH, _PLUS, _MINUS, _DOT, _ZERO = 9, 10, 13, 32, 35, 43, 45, 46, 48
_MOST_DIGITS = 19  # as many as a 64-bit integer always holds
_POWERS = np.array([10.0**k for k in range(23)])  # each is exact in float64
_WHOLE_POWERS = np.array([10**k for k in range(9)], dtype=np.uint64)
_FAR = 1_000_000  # no exponent is read beyond that
_SMALLEST, _LARGEST = -342, 308
"""Powers of ten that matter: with 19 digits, a smaller one gives 0 and a larger one inf."""


def _powers_of_five() -> np.ndarray:
    """The first 128 bits of 5^q, those of a negative power rounded up, as (high, low), shape (651, 2)."""
    rows = []
    for q in range(_SMALLEST, _LARGEST + 1):
        power = 5 ** abs(q)
        if q < 0:
            bits = 2 * power.bit_length() + 128 if q < -27 else (power - 1).bit_length() + 127
            power = (1 << bits) // power + 1
        shift = power.bit_length() - 128
        power = power >> shift if shift > 0 else power << -shift
        rows.append((power >> 64, power & (1 << 64) - 1))
    return np.array(rows, dtype=np.uint64)


_FIVES = _powers_of_five()


@intrinsic
def address(_, text):
    """Return the address of the bytes of an array. Passing an array to a function costs more than reading a number."""

    def codegen(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.ptrtoint(array.data, ir.IntType(64))

    return types.int64(text), codegen


@intrinsic
def byte(_, text, p):
    """Byte `p` of the text at an address, not checked."""

    def codegen(context, builder, signature, arguments):
        return builder.load(builder.inttoptr(builder.add(*arguments), ir.IntType(8).as_pointer()))

    return types.uint8(types.int64, types.int64), codegen


@intrinsic
def _eight_bytes(_, text, p):
    """Bytes `p` to ``p + 7`` as one number, the first one lowest; not checked."""

    def codegen(context, builder, signature, arguments):
        start = builder.inttoptr(builder.add(*arguments), ir.IntType(64).as_pointer())
        value = builder.load(start, align=1)
        return value if sys.byteorder == "little" else builder.bswap(value)

    return types.uint64(types.int64, types.int64), codegen


@intrinsic
def _trailing_zeros(_, value):
    def codegen(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return types.int64(types.uint64), codegen


@intrinsic
def _leading_zeros(_, value):
    def codegen(context, builder, signature, arguments):
        return builder.ctlz(arguments[0], ir.IntType(1)(0))

    return types.int64(types.uint64), codegen


@intrinsic
def _high_product(_, a, b):
    """The upper 64 bits of a product."""

    def codegen(context, builder, signature, arguments):
        wide = ir.IntType(128)
        product = builder.mul(*(builder.zext(argument, wide) for argument in arguments))
        return builder.trunc(builder.lshr(product, wide(64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), codegen


@intrinsic
def _float64_of(_, bits):
    def codegen(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.uint64), codegen


@compiled
def _many_digits(text, size, p, value):
    """Append the decimal digits at `p` to `value` (modulo 2^64): the new value, and where they end.

    Eight bytes at a time, without a branch for each (Lemire, "Number parsing at a gigabyte per second", 2021).
    """
    while True:
        start = min(p, size - 8)
        eight = _eight_bytes(text, start) >> np.uint64(8 * (p - start))
        eight ^= np.uint64(0x3030303030303030)
        others = (eight + np.uint64(0x7676767676767676) | eight) & np.uint64(0x8080808080808080)
        digits = _trailing_zeros(others) >> 3
        # The digits go to the upper end, zeros before them.
        eight = eight << np.uint64(64 - 8 * digits) if digits else np.uint64(0)
        eight = eight * np.uint64(10) + (eight >> np.uint64(8))
        pairs = np.uint64(0x000000FF000000FF)
        eight = (eight & pairs) * np.uint64(0x000F424000000064) + ((eight >> np.uint64(16)) & pairs) * np.uint64(
            0x0000271000000001
        ) >> np.uint64(32)
        value = value * _WHOLE_POWERS[np.uint64(digits)] + eight
        p += digits
        if digits < 8:
            return value, p


@compiled
def ends_token(c):
    return c in (_SPACE, _NEWLINE, _TAB, _RETURN, _HASH)


@compiled
def number(text, size, p):
    """Read a decimal number at `p`: its kind, its value and where it ends."""
    start = p
    c = byte(text, p)
    negative = c == _MINUS
    p += negative or c == _PLUS
    first = p
    mantissa = np.uint64(0)
    while True:
        d = np.uint8(byte(text, p) - np.uint8(_ZERO))
        if d > 9:
            break
        mantissa = mantissa * np.uint64(10) + np.uint64(d)
        p += 1
    digits = p - first
    exponent = 0
    c = byte(text, p)
    if c == _DOT:
        mantissa, p = _many_digits(text, size, p + 1, mantissa)
        exponent = digits + first + 1 - p
        digits -= exponent
        c = byte(text, p)
    if digits and c | 32 == 101:  # e, E
        return _scientific(text, start, p, mantissa, exponent, digits)
    if digits == 0 or not ends_token(c):
        return BAD, 0.0, p
    if digits <= _MOST_DIGITS and mantissa <= np.uint64(1 << 53) and exponent >= -22:
        value = _one_rounding(mantissa, exponent)
        return EXACT, -value if negative else value, p
    kind, value = _rounded(text, start, mantissa, exponent, digits)
    return kind, -value if negative else value, p


@compiled
def _scientific(text, start, p, mantissa, exponent, digits):
    """The rest of :func:`number` for a number with an exponent, whose "e" is at `p`."""
    negative = byte(text, start) == _MINUS
    p += 1
    lower = byte(text, p) == _MINUS
    p += lower or byte(text, p) == _PLUS
    first = p
    power = 0
    while np.uint8(byte(text, p) - np.uint8(_ZERO)) <= 9:
        if power < _FAR:
            power = power * 10 + np.int64(byte(text, p)) - _ZERO
        p += 1
    if p == first or not ends_token(byte(text, p)):
        return BAD, 0.0, p
    exponent += -power if lower else power
    if digits <= _MOST_DIGITS and mantissa <= np.uint64(1 << 53) and -22 <= exponent <= 22:
        value = _one_rounding(mantissa, exponent)
        return EXACT, -value if negative else value, p
    kind, value = _rounded(text, start, mantissa, exponent, digits)
    return kind if power < _FAR else SLOW, -value if negative else value, p


@compiled
def _one_rounding(mantissa, exponent):
    """A mantissa up to 2^53 times or over an exact power of ten (10^22 at most) is rounded once, hence correctly.

    Clinger, "How to read floating point numbers accurately", 1990.
    """
    if exponent < 0:
        return np.float64(mantissa) / _POWERS[np.uint64(-exponent)]
    return np.float64(mantissa) * _POWERS[np.uint64(exponent)]


@compiled
def _rounded(text, start, mantissa, exponent, digits):
    """Kind and absolute value of the number at `start`, whatever its length and size."""
    if digits <= _MOST_DIGITS:
        value = _nearest(mantissa, exponent)
        return SLOW if value == np.inf else EXACT, value
    mantissa, left_out, rest = _first_digits(text, start)
    value = _nearest(mantissa, exponent + left_out)
    if value == np.inf or (rest and value != _nearest(mantissa + np.uint64(1), exponent + left_out)):
        return SLOW, value
    return EXACT, value


@compiled
def _first_digits(text, p):
    """The first 19 significant digits; how many digits follow them; whether one of those is not 0."""
    p += byte(text, p) == _MINUS or byte(text, p) == _PLUS
    mantissa = np.uint64(0)
    taken = left_out = 0
    rest = False
    while True:
        d = np.uint8(byte(text, p) - np.uint8(_ZERO))
        if d <= 9:
            if taken < _MOST_DIGITS:
                mantissa = mantissa * np.uint64(10) + np.uint64(d)
                taken += mantissa != 0
            else:
                left_out += 1
                rest |= d != 0
        elif byte(text, p) != _DOT:
            return mantissa, left_out, rest
        p += 1


@compiled
def _nearest(mantissa, exponent):
    """The float64 nearest to mantissa 10^exponent, ties to even; inf beyond the largest.

    Eisel and Lemire's algorithm (Lemire 2021, section 5), which needs no other as a fallback (Mushtak and Lemire,
    "Fast number parsing without fallback", 2023).
    """
    if mantissa == 0 or exponent < _SMALLEST:
        return 0.0
    if exponent > _LARGEST:
        return np.inf
    shift = _leading_zeros(mantissa)
    mantissa <<= np.uint64(shift)
    five = np.uint64(exponent - _SMALLEST)
    high, low = _FIVES[five, 0], _FIVES[five, 1]
    upper, lower = _high_product(mantissa, high), mantissa * high
    if upper & np.uint64(0x1FF) == np.uint64(0x1FF):  # the next 64 bits may carry into those that count
        correction = _high_product(mantissa, low)
        lower += correction
        upper += np.uint64(lower < correction)
    top = np.int64(upper >> np.uint64(63))
    bits = upper >> np.uint64(top + 9)  # 54 of them, the last one for rounding
    power = ((217706 * exponent) >> 16) + 63 + top - shift + 1023
    if power <= 0:  # subnormal
        if power <= -63:
            return 0.0
        bits >>= np.uint64(1 - power)
        bits = (bits + (bits & np.uint64(1))) >> np.uint64(1)
        return _float64_of(bits)  # 2^52, if it rounded up to that, is the smallest normal number
    if lower <= 1 and -4 <= exponent <= 23 and bits & np.uint64(3) == 1 and bits << np.uint64(top + 9) == upper:
        bits &= ~np.uint64(1)  # a tie, to even
    bits = (bits + (bits & np.uint64(1))) >> np.uint64(1)
    if bits == np.uint64(1 << 53):
        bits = np.uint64(1 << 52)
        power += 1
    if power >= 0x7FF:
        return np.inf
    return _float64_of(bits & np.uint64((1 << 52) - 1) | np.uint64(power) << np.uint64(52))
