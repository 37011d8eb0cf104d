"""Compiled loop of ridge regression on cells: residuals of some rows, and their sums over the cells.

Cells stand here partitioning by partitioning: the weights of one partitioning, which the loop looks up and adds to,
stay in the fastest cache.
"""

import numpy as np

from ikmap.compiled import compiled

ONES, RESIDUALS, PRODUCTS = 0, 1, 2
"""Kinds of sums: of 1 for each row, of ``y - shift - sum of p``, or of the sum of p over the row's cells."""
AT_ONCE = np.uint64(4)
"""Partitionings that are looked up in, and added to, side by side: additions to the same cell wait for each other."""


@compiled(
    {
        "ridge narrow": "u1[:, ::1], i8, u8[::1], f8[::1], f8[::1], i8, f8, f8[::1], f8[::1], f8[::1]",
        "ridge wide": "u2[:, ::1], i8, u8[::1], f8[::1], f8[::1], i8, f8, f8[::1], f8[::1], f8[::1]",
    }
)
def add_sums(codes, absent, base, y, weight, kind, shift, p, out, sums):
    """Add to out[c] the values of the rows in cell c, times their weights, in the order of the rows.

    ``codes`` has a row for each partitioning and a column for each row of data; ``absent`` is the code of no cell, -1
    where every row has all cells. ``weight`` is empty where all are 1. ``sums`` gets those of the weighted squares of
    the values, of the weighted values and of the weighted targets.
    """
    t, n = np.uint64(codes.shape[0]), np.uint64(codes.shape[1])
    gapped = absent >= 0
    whole = np.uint64(0) if gapped else t - t % AT_ONCE
    value = np.zeros(n)
    if kind != ONES:
        for j in range(np.uint64(0), whole, AT_ONCE):
            k, o, m = j + np.uint64(1), j + np.uint64(2), j + np.uint64(3)
            a, b, c, d = p[base[j] :], p[base[k] :], p[base[o] :], p[base[m] :]
            for i in range(n):
                value[i] = (
                    ((value[i] + a[np.uint64(codes[j, i])]) + b[np.uint64(codes[k, i])]) + c[np.uint64(codes[o, i])]
                ) + d[np.uint64(codes[m, i])]
        for j in range(whole, t):
            inside = p[base[j] :]
            for i in range(n):
                if codes[j, i] != absent:
                    value[i] += inside[np.uint64(codes[j, i])]
    s0, s1, s2 = sums[0], sums[1], sums[2]
    for i in range(n):
        if kind == ONES:
            r = 1.0
        elif kind == RESIDUALS:
            r = (y[i] - shift) - value[i]
        else:
            r = value[i]
        times = weight[i] if weight.size else 1.0
        value[i] = times * r
        s0 += times * r * r
        s1 += times * r
        s2 += times * y[i]
    sums[0], sums[1], sums[2] = s0, s1, s2
    for j in range(np.uint64(0), whole, AT_ONCE):
        k, o, m = j + np.uint64(1), j + np.uint64(2), j + np.uint64(3)
        a, b, c, d = out[base[j] :], out[base[k] :], out[base[o] :], out[base[m] :]
        for i in range(n):
            a[np.uint64(codes[j, i])] += value[i]
            b[np.uint64(codes[k, i])] += value[i]
            c[np.uint64(codes[o, i])] += value[i]
            d[np.uint64(codes[m, i])] += value[i]
    for j in range(whole, t):
        inside = out[base[j] :]
        for i in range(n):
            if codes[j, i] != absent:
                inside[np.uint64(codes[j, i])] += value[i]
