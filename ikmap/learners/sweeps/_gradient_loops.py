"""Compiled loops of stochastic gradient descent on columns of cells that split."""

import math

from ikmap._compiled import compiled

SQUARED, HINGE, SQUARED_HINGE, LOGISTIC = 0, 1, 2, 3
"""Losses: (y - f)^2, max(0, 1 - y f), its square, and log(1 + exp(-y f)); with y of -1 and 1 but for the first."""
SMALLEST = 1e-100
"""The scale of the weights is folded into them before it gets smaller than this."""


@compiled({"sweep": "i4[:, ::1], f8[:, ::1], i8[::1], f8[::1], f8[:, ::1], f8, i8, f8, f8, f8, f8"})
def descend(columns, targets, order, weight, v, scale, loss, alpha, eta, value, n_steps):
    """One step for each row of `order`; return the scale of the weights, which are ``scale * v``.

    Row i of `columns` has the columns of its cells, -1 for none; features are `value`. `weight` is empty where all rows
    weigh 1. `v` has a row for each column, and a column for each output. The k-th step, k from `n_steps` on, has the
    size ``eta / (1 + eta alpha k)``, for a squared norm that weighs alpha / 2.
    """
    t, outputs = columns.shape[1], v.shape[1]
    for i in order:
        step = eta / (1.0 + eta * alpha * n_steps)
        n_steps += 1.0
        scale *= 1.0 - step * alpha
        if scale < SMALLEST:
            for c in range(v.shape[0]):
                for k in range(outputs):
                    v[c, k] *= scale
            scale = 1.0
        times = value * step / scale * (weight[i] if weight.size else 1.0)
        for k in range(outputs):
            total = 0.0
            for m in range(t):
                if columns[i, m] >= 0:
                    total += v[columns[i, m], k]
            f, y = value * scale * total, targets[i, k]
            if loss == SQUARED:
                change = 2.0 * (y - f)
            elif loss == HINGE:
                change = y if y * f < 1.0 else 0.0
            elif loss == SQUARED_HINGE:
                change = 2.0 * y * max(1.0 - y * f, 0.0)
            else:
                change = y / (1.0 + math.exp(min(y * f, 700.0)))
            if change != 0.0:
                change *= times
                for m in range(t):
                    if columns[i, m] >= 0:
                        v[columns[i, m], k] += change
    return scale


@compiled({"sweep": "i4[:, ::1], f8[:, ::1], f8, f8[:, ::1]"})
def decide(columns, v, factor, decision):
    """Decisions of rows: the sums of `v` over their columns, times a factor."""
    t, outputs = columns.shape[1], v.shape[1]
    for i in range(columns.shape[0]):
        for k in range(outputs):
            total = 0.0
            for m in range(t):
                if columns[i, m] >= 0:
                    total += v[columns[i, m], k]
            decision[i, k] = factor * total
