"""Compiled loops of stochastic gradient descent on columns of cells that split."""

import math

import numpy as np

from ikmap._compiled import compiled

SQUARED, HINGE, SQUARED_HINGE, LOGISTIC = 0, 1, 2, 3
"""Losses: (y - f)^2, max(0, 1 - y f), its square, and log(1 + exp(-y f)); with y of -1 and 1 but for the first."""
TOGETHER = 8
"""Rows whose columns are fetched at once."""
SMALLEST = 1e-100
"""The scale of the weights is folded into them before it gets smaller than this."""


@compiled
def change_of(loss, f, y):
    """Minus the slope of a loss at the decision f."""
    if loss == SQUARED:
        return 2.0 * (y - f)
    if loss == HINGE:
        return y if y * f < 1.0 else 0.0
    if loss == SQUARED_HINGE:
        return 2.0 * y * max(1.0 - y * f, 0.0)
    return y / (1.0 + math.exp(min(y * f, 700.0)))


@compiled
def total_of(of, j, flat, k):
    """Sum of `flat` at the places of row j of `of`, k further: four sums, none of which waits for the one before."""
    t = of.shape[1]
    a = b = c = d = 0.0
    for m in range(0, t - 3, 4):
        a += flat[of[j, m] + k]
        b += flat[of[j, m + 1] + k]
        c += flat[of[j, m + 2] + k]
        d += flat[of[j, m + 3] + k]
    for m in range(t - t % 4, t):
        a += flat[of[j, m] + k]
    return (a + b) + (c + d)


@compiled
def fetch(columns, i, outputs, nothing, of, j):
    """Places of the first outputs of the columns of row i, into row j of `of`; that of no column is `nothing`."""
    for m in range(columns.shape[1]):
        of[j, m] = np.uint32(columns[i, m]) * outputs if columns[i, m] >= 0 else nothing


@compiled({"sweep": "i4[:, ::1], f8[:, ::1], i8[::1], f8[::1], f8[:, ::1], f8, i8, f8, f8, f8, f8"})
def descend(columns, targets, order, weight, v, scale, loss, alpha, eta, value, n_steps):
    """One step for each row of `order`; return the scale of the weights, which are ``scale * v``.

    Row i of `columns` has the columns of its cells, -1 for none; features are `value`. `weight` is empty where all rows
    weigh 1. `v` has a row for each column, a column for each output, and a last row, of zeros, for no column. The k-th
    step, k from `n_steps` on, has the size ``eta / (1 + eta alpha k)``, for a squared norm that weighs alpha / 2.
    """
    t, outputs, flat = columns.shape[1], np.uint32(v.shape[1]), v.reshape(v.size)
    nothing = np.uint32(v.shape[0] - 1) * outputs
    of = np.empty((TOGETHER, t), dtype=np.uint32)
    for begin in range(0, order.size, TOGETHER):
        n = min(TOGETHER, order.size - begin)
        for j in range(n):  # some rows at once, so that memory is waited for once
            fetch(columns, order[begin + j], outputs, nothing, of, j)
        for j in range(n):
            i = order[begin + j]
            step = eta / (1.0 + eta * alpha * n_steps)
            n_steps += 1.0
            scale *= 1.0 - step * alpha
            if scale < SMALLEST:
                for c in range(flat.size):
                    flat[c] *= scale
                scale = 1.0
            times = value * step / scale * (weight[i] if weight.size else 1.0)
            for k in range(outputs):
                change = change_of(loss, value * scale * total_of(of, j, flat, k), targets[i, k])
                if change != 0.0:
                    change *= times
                    for m in range(t):
                        flat[of[j, m] + k] += change
                    flat[nothing + k] = 0.0
    return scale


@compiled({"sweep": "i4[:, ::1], f8[:, ::1], f8, f8[:, ::1]"})
def decide(columns, v, factor, decision):
    """Decisions of rows: the sums of `v`, which is as of :func:`descend`, over their columns, times a factor."""
    outputs, flat = np.uint32(v.shape[1]), v.reshape(v.size)
    nothing = np.uint32(v.shape[0] - 1) * outputs
    of = np.empty((1, columns.shape[1]), dtype=np.uint32)
    for i in range(columns.shape[0]):
        fetch(columns, i, outputs, nothing, of, 0)
        for k in range(outputs):
            decision[i, k] = factor * total_of(of, 0, flat, k)
