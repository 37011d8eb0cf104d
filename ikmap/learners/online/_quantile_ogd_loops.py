"""Compiled loop of online quantile regression on cells."""

import numpy as np

from ikmap.compiled import compiled

_REST = "i8[::1], i8, f8[::1], f8[::1], f8, f8[:, ::1], i8[::1], f8[::1], f8[::1], f8[:, ::1]"


@compiled(
    {
        "quantile narrow": f"u1[:, ::1], {_REST}",
        "quantile wide": f"u2[:, ::1], {_REST}",
        "quantile": f"u4[:, ::1], {_REST}",
    }
)
def quantile_pass(codes, offsets, absent, y, levels, eta, weights, rows, intercepts, numbers, predicted):
    """Predict all quantiles of each row, then take a step on the pinball loss of each.

    `numbers`: rows seen, the sum of their targets, and the sum of the distances of targets from the mean of those
    before them. The mean of these distances is the unit of a step. A step of a weight is divided by the root of the
    number of rows that were in its cell, that of an intercept by the root of the number of rows. `rows`: those of each
    cell. `weights` have shape (levels, cells), `predicted` has shape (n, levels).
    """
    n, t = codes.shape
    seen, total, spread = numbers[0], numbers[1], numbers[2]
    for i in range(n):
        for k in range(levels.size):
            found = 0.0
            for j in range(t):
                if codes[i, j] != absent:
                    found += weights[k, offsets[j] + codes[i, j]]
            predicted[i, k] = intercepts[k] + found / t
        if seen == 0.0:
            intercepts[:] = y[i]
        else:
            spread += abs(y[i] - total / seen)
            unit = eta * spread / seen
            for j in range(t):
                if codes[i, j] != absent:
                    rows[offsets[j] + codes[i, j]] += 1
            for k in range(levels.size):
                if y[i] == predicted[i, k]:
                    continue
                step = unit * (levels[k] if y[i] > predicted[i, k] else levels[k] - 1.0)
                intercepts[k] += step / np.sqrt(seen)
                for j in range(t):
                    if codes[i, j] != absent:
                        cell = offsets[j] + codes[i, j]
                        weights[k, cell] += step / np.sqrt(rows[cell])
        seen += 1.0
        total += y[i]
    numbers[0], numbers[1], numbers[2] = seen, total, spread
