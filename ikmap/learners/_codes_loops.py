"""Compiled checks of codes of cells."""

import numpy as np

from ikmap.compiled import compiled


@compiled(
    {
        "cells-batch narrow, cells-online narrow": "u1[:, ::1], u1[::1]",
        "cells-batch wide, cells-online wide": "u2[:, ::1], u2[::1]",
        "cells-batch, cells-online": "u4[:, ::1], u4[::1]",
    }
)
def largest_codes(codes, largest):
    """Raise largest[j] to the largest code of column j. Both unsigned and of one type, so that vectors do it."""
    for i in range(np.uint64(codes.shape[0])):
        for j in range(np.uint64(codes.shape[1])):
            largest[j] = max(largest[j], codes[i, j])


@compiled(
    {
        "norma mondrian narrow, norma binning narrow": "u1[:, ::1], i8[::1], i8",
        "norma mondrian wide, norma binning wide": "u2[:, ::1], i8[::1], i8",
    }
)
def first_bad_code(codes, limits, absent):
    """Flat position of the first code outside [0, limits[j]), or -1; the code ``absent`` ("no cell") is let pass."""
    n, t = codes.shape
    for i in range(n):
        bad = np.int64(0)
        for j in range(t):
            code = np.int64(codes[i, j])
            bad += np.int64(code != absent) & (np.int64(code < 0) | np.int64(code >= limits[j]))
        if bad:
            for j in range(t):
                code = np.int64(codes[i, j])
                if code != absent and (code < 0 or code >= limits[j]):
                    return i * t + j
    return -1
