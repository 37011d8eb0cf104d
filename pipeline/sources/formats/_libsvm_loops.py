"""Compiled loops for LIBSVM text: count what a block of text can hold, then parse it.

The text is a ``uint8`` array of at least 8 bytes that ends in a newline, so that every inner loop stops on its own.
"""

from __future__ import annotations

import numpy as np

from ikmap.compiled import compiled
from pipeline.sources.formats._decimal_loops import BAD, SLOW, address, byte, ends_token, number

# What stopped the parser.
OK, BAD_LABEL, BAD_PAIR, BAD_VALUE, BAD_QID, INDEX_ZERO, INDEX_ORDER, INDEX_COLUMNS = range(8)

MAX_INDEX = 2**31 - 1

_TAB, _NEWLINE, _RETURN, _SPACE, _HASH, _COLON = 9, 10, 13, 32, 35, 58


@compiled(
    {
        "libsvm": 'Array(u1, 1, "C", readonly=True)',
    }
)
def count(text):
    """Upper bounds of the rows and of the pairs in `text`: its newlines and its colons."""
    newlines = 0
    colons = 0
    for c in text:
        newlines += c == 10
        colons += c == 58
    return newlines, colons


@compiled(
    {
        "libsvm": 'Array(u1, 1, "C", readonly=True), b1, i8, f8[::1], i4[::1], i4[::1], f8[::1], i4[:, ::1]',
    }
)
def parse(codes, zero_based, n_columns, labels, indptr, indices, data, slow):
    """Fill the arrays of a CSR block; stop at the first fault.

    Parameters
    ----------
    codes : uint8 array of at least 8 bytes, ending in a newline
        The text.
    zero_based : bool
    n_columns : int
        Columns allowed; -1 for any.
    labels, indptr, indices, data : arrays
        Outputs with room for what :func:`count` found (`indptr`: one more).
    slow : int32 array (k, 3)
        For each number left to ``float()``: its place in `data`, or -1 - its place in `labels`; and where in
        the text it starts and ends.

    Returns
    -------
    rows, pairs, n_slow, width : int
        `width` is one more than the largest column.
    fault, position, index : int
        What stopped the parser (OK at the end), the byte where the token at fault starts, and its index.
    """
    n = codes.size
    text = address(codes)
    p = rows = pairs = n_slow = width = 0
    indptr[0] = 0
    base = 0 if zero_based else 1
    while p < n:
        c = byte(text, p)
        if c in (_SPACE, _NEWLINE, _TAB, _RETURN):
            p += 1
            continue
        if c == _HASH:
            while byte(text, p) != _NEWLINE:
                p += 1
            continue
        start = p
        status, value, p = number(text, n, p)
        if status == BAD:
            return rows, pairs, n_slow, width, BAD_LABEL, start, 0
        if status == SLOW:
            slow[n_slow, 0] = -1 - rows
            slow[n_slow, 1] = start
            slow[n_slow, 2] = p
            n_slow += 1
        labels[rows] = value
        previous = -1
        first = True
        while True:
            c = byte(text, p)
            if c in (_SPACE, _TAB, _RETURN):
                p += 1
                continue
            if c == _NEWLINE:
                p += 1
                break
            if c == _HASH:
                while byte(text, p) != _NEWLINE:
                    p += 1
                continue
            start = p
            if (
                first
                and c == 113
                and byte(text, p + 1) == 105
                and byte(text, p + 2) == 100
                and byte(text, p + 3) == _COLON
            ):
                first = False  # qid:N groups rows for ranking; it is no feature
                p += 4
                digits = p
                while np.uint8(byte(text, p) - np.uint8(48)) <= 9:
                    p += 1
                if p == digits or not ends_token(byte(text, p)):
                    return rows, pairs, n_slow, width, BAD_QID, start, 0
                continue
            first = False
            index = 0
            while True:
                d = np.uint8(byte(text, p) - np.uint8(48))
                if d > 9:
                    break
                if index <= MAX_INDEX:
                    index = index * 10 + np.int64(d)
                p += 1
            if p == start or byte(text, p) != _COLON:
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
            status, value, end = number(text, n, p)
            if status == BAD:
                return rows, pairs, n_slow, width, BAD_VALUE, p, index
            if status == SLOW:
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
