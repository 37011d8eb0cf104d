"""Compiled loops of the LIBSVM reader: count what a block of text can hold, then parse it.

The text is a ``uint8`` array that ends in a newline, so that every inner loop stops on its own.
"""

from __future__ import annotations

import numpy as np
from numba import njit

# What stopped the parser.
OK, BAD_LABEL, BAD_PAIR, BAD_VALUE, BAD_QID, INDEX_ZERO, INDEX_ORDER, INDEX_COLUMNS = range(8)

MAX_INDEX = 2**31 - 1

_TAB, _NEWLINE, _RETURN, _SPACE, _HASH, _PLUS, _MINUS, _DOT, _COLON = 9, 10, 13, 32, 35, 43, 45, 46, 58
_EXACT, _SLOW, _BAD = range(3)
_POWERS = np.array([10.0**k for k in range(23)])  # each is exact in float64


@njit(cache=True, nogil=True)
def count(text):
    """Upper bounds of the rows and of the pairs in `text`: its newlines and its colons."""
    newlines = 0
    colons = 0
    for c in text:
        newlines += c == 10
        colons += c == 58
    return newlines, colons


@njit(cache=True, nogil=True)
def _ends_token(c):
    return c in (_SPACE, _NEWLINE, _TAB, _RETURN, _HASH)


@njit(cache=True, nogil=True)
def _number(text, p):
    """Read a decimal number at `p`: (_EXACT, value, end), or (_SLOW, 0, end) where float() has to decide.

    A mantissa below 2^53 times or over an exact power of ten (10^22 at most) takes one rounding, hence is the
    correctly rounded value (Clinger, "How to read floating point numbers accurately", 1990).
    """
    negative = text[p] == _MINUS
    if negative or text[p] == _PLUS:
        p += 1
    mantissa = np.uint64(0)
    exponent = 0
    digits = 0
    while True:
        d = np.uint8(text[p] - np.uint8(48))
        if d > 9:
            break
        mantissa = mantissa * np.uint64(10) + np.uint64(d)
        digits += 1
        p += 1
    if text[p] == _DOT:
        p += 1
        first = p
        while True:
            d = np.uint8(text[p] - np.uint8(48))
            if d > 9:
                break
            mantissa = mantissa * np.uint64(10) + np.uint64(d)
            p += 1
        exponent = first - p
        digits += p - first
    if digits == 0:
        return _BAD, 0.0, p
    if text[p] == 101 or text[p] == 69:  # e, E
        p += 1
        lower = text[p] == _MINUS
        if lower or text[p] == _PLUS:
            p += 1
        first = p
        power = 0
        while True:
            d = np.uint8(text[p] - np.uint8(48))
            if d > 9:
                break
            if power < 100_000:
                power = power * 10 + int(d)
            p += 1
        if p == first:
            return _BAD, 0.0, p
        exponent += -power if lower else power
    if not _ends_token(text[p]):
        return _BAD, 0.0, p
    # Past 19 digits the mantissa may have wrapped round.
    if digits > 19 or mantissa > np.uint64(9007199254740992) or abs(exponent) > 22:
        return _SLOW, 0.0, p
    value = np.float64(mantissa)
    if exponent < 0:
        value /= _POWERS[-exponent]
    else:
        value *= _POWERS[exponent]
    return _EXACT, -value if negative else value, p


@njit(cache=True, nogil=True)
def parse(text, zero_based, n_columns, labels, indptr, indices, data, slow):
    """Fill the arrays of a CSR block; stop at the first fault.

    Parameters
    ----------
    text : uint8 array ending in a newline
    zero_based : bool
    n_columns : int
        Columns allowed; -1 for any.
    labels, indptr, indices, data : arrays
        Outputs with room for what :func:`count` found (`indptr`: one more).
    slow : int32 array (k, 3)
        For each number left to ``float()``: its place in `data`, or -1 - its place in `labels`; and where in
        `text` it starts and ends.

    Returns
    -------
    rows, pairs, n_slow, width : int
        `width` is one more than the largest column.
    fault, position, index : int
        What stopped the parser (OK at the end), the byte where the token at fault starts, and its index.
    """
    n = text.size
    p = rows = pairs = n_slow = width = 0
    indptr[0] = 0
    base = 0 if zero_based else 1
    while p < n:
        c = text[p]
        if c in (_SPACE, _NEWLINE, _TAB, _RETURN):
            p += 1
            continue
        if c == _HASH:
            while text[p] != _NEWLINE:
                p += 1
            continue
        start = p
        status, value, p = _number(text, p)
        if status == _BAD:
            return rows, pairs, n_slow, width, BAD_LABEL, start, 0
        if status == _SLOW:
            slow[n_slow, 0] = -1 - rows
            slow[n_slow, 1] = start
            slow[n_slow, 2] = p
            n_slow += 1
        labels[rows] = value
        previous = -1
        first = True
        while True:
            c = text[p]
            if c in (_SPACE, _TAB, _RETURN):
                p += 1
                continue
            if c == _NEWLINE:
                p += 1
                break
            if c == _HASH:
                while text[p] != _NEWLINE:
                    p += 1
                continue
            start = p
            if first and c == 113 and text[p + 1] == 105 and text[p + 2] == 100 and text[p + 3] == _COLON:
                first = False  # qid:N groups rows for ranking; it is no feature
                p += 4
                digits = p
                while np.uint8(text[p] - np.uint8(48)) <= 9:
                    p += 1
                if p == digits or not _ends_token(text[p]):
                    return rows, pairs, n_slow, width, BAD_QID, start, 0
                continue
            first = False
            index = 0
            while True:
                d = np.uint8(text[p] - np.uint8(48))
                if d > 9:
                    break
                if index <= MAX_INDEX:
                    index = index * 10 + int(d)
                p += 1
            if p == start or text[p] != _COLON:
                return rows, pairs, n_slow, width, BAD_PAIR, start, 0
            column = index - base
            if column < 0:
                return rows, pairs, n_slow, width, INDEX_ZERO, start, index
            if column <= previous:
                return rows, pairs, n_slow, width, INDEX_ORDER, start, previous + base
            if column >= n_columns >= 0 or index > MAX_INDEX:
                return rows, pairs, n_slow, width, INDEX_COLUMNS, start, index
            previous = column
            p += 1
            status, value, end = _number(text, p)
            if status == _BAD:
                return rows, pairs, n_slow, width, BAD_VALUE, p, index
            if status == _SLOW:
                slow[n_slow, 0] = pairs
                slow[n_slow, 1] = p
                slow[n_slow, 2] = end
                n_slow += 1
            p = end
            indices[pairs] = column
            data[pairs] = value
            pairs += 1
        width = max(width, previous + 1)
        rows += 1
        indptr[rows] = pairs
    return rows, pairs, n_slow, width, OK, n, 0
