"""Compiled loops of stochastic gradient descent on columns of cells that split."""

import math

import numpy as np

from ikmap._simd import prefetch
from ikmap.compiled import compiled

SQUARED, HINGE, SQUARED_HINGE, LOGISTIC = 0, 1, 2, 3
"""Losses: (y - f)^2, max(0, 1 - y f), its square, and log(1 + exp(-y f)); with y of -1 and 1 but for the first."""
TOGETHER = 8
"""Rows whose columns are fetched at once."""
SMALLEST = 1e-100
"""The scale of the weights is folded into them before it gets smaller than this."""

LINE = np.uint64(16)
"""Columns in a line of the cache."""
_0, _1, _2, _3, _4 = (np.uint64(k) for k in range(5))


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
def total_of(of, flat, k):
    """Sum of `flat` at places, k further: four sums, none of which waits for the one before."""
    # Unsigned positions: Numba then emits no test for negative (wrapping) indices.
    t, m, k = np.uint64(of.size), _0, np.uint64(k)
    a = b = c = d = 0.0
    while m + _4 <= t:
        a += flat[of[m] + k]
        b += flat[of[m + _1] + k]
        c += flat[of[m + _2] + k]
        d += flat[of[m + _3] + k]
        m += _4
    while m < t:
        a += flat[of[m] + k]
        m += _1
    return (a + b) + (c + d)


@compiled
def add(of, change, flat, k):
    """Add the change to `flat` at places, k further."""
    t, m, k = np.uint64(of.size), _0, np.uint64(k)
    while m < t:
        flat[of[m] + k] += change
        m += _1


@compiled
def ask_for(columns, i):
    """Have row i brought near."""
    t = np.uint64(columns.shape[1])
    at, m = np.uint64(i) * t, _0
    while m < t:
        prefetch(columns, at + m)
        m += LINE


@compiled
def fetch(columns, i, outputs, nothing, of):
    """Places of the first outputs of the columns of row i; that of no column is `nothing`."""
    for m in range(columns.shape[1]):
        of[m] = np.uint32(columns[i, m]) * outputs if columns[i, m] >= 0 else nothing


@compiled({"sweep": "i4[:, ::1], f8[:, ::1], i8[::1], f8[::1], f8[:, ::1], f8, i8, f8, f8, f8, f8"})
def descend(columns, targets, order, weight, v, scale, loss, alpha, eta, value, n_steps):
    """Take one step for each row of `order`; return the scale of the weights, which are ``scale * v``.

    A step subtracts ``step * (alpha w + loss'(w . x) x)``, with w as it was before the step. The weight of a row
    multiplies the second part, which is never longer than the first step of a row of weight 1: with squared losses a
    longer one would increase the error of the row, from step to step.

    Row i of `columns` has the columns of its cells, -1 for none; features are `value`. `weight` is empty where all rows
    weigh 1. `v` has a row for each column, a column for each output, and a last row, of zeros, for no column. The k-th
    step, k from `n_steps` on, has the size ``eta / (1 + eta alpha k)``, for a squared norm that weighs alpha / 2.
    """
    t, outputs, flat = columns.shape[1], np.uint32(v.shape[1]), v.reshape(v.size)
    nothing = np.uint32(v.shape[0] - 1) * outputs
    of, change = np.empty((TOGETHER, t), dtype=np.uint32), np.empty(v.shape[1])
    for begin in range(0, order.size, TOGETHER):
        n = min(TOGETHER, order.size - begin)
        for j in range(n):  # some rows at once, so that memory is waited for once
            fetch(columns, order[begin + j], outputs, nothing, of[j])
        for j in range(n):
            i = order[begin + j]
            if begin + j + TOGETHER < order.size:
                ask_for(columns, order[begin + j + TOGETHER])
            slower = 1.0 + eta * alpha * n_steps
            step = eta / slower
            n_steps += 1.0
            for k in range(outputs):  # the gradient is taken at the weights before the step, so before they shrink
                change[k] = change_of(loss, value * scale * total_of(of[j], flat, k), targets[i, k])
            scale *= 1.0 - step * alpha
            if scale < SMALLEST:
                for c in range(flat.size):
                    flat[c] *= scale
                scale = 1.0
            times = value * step / scale * (min(weight[i], slower) if weight.size else 1.0)
            for k in range(outputs):
                if change[k] != 0.0:
                    add(of[j], change[k] * times, flat, k)
                    flat[nothing + k] = 0.0
    return scale


@compiled({"sweep": "f8[:, ::1], i8[::1], i8"})
def copy_parts(v, left, first):
    """Let columns from `first` on begin with what those that they were split from have, one after the other."""
    for k in range(left.size):
        for j in range(v.shape[1]):
            v[first + k, j] = v[left[k], j]


@compiled({"sweep": "i4[:, ::1], f8[:, ::1], f8, f8[:, ::1]"})
def decide(columns, v, factor, decision):
    """Decisions of rows: the sums of `v`, which is as of :func:`descend`, over their columns, times a factor."""
    outputs, flat = np.uint32(v.shape[1]), v.reshape(v.size)
    nothing = np.uint32(v.shape[0] - 1) * outputs
    of = np.empty(columns.shape[1], dtype=np.uint32)
    for i in range(columns.shape[0]):
        fetch(columns, i, outputs, nothing, of)
        for k in range(outputs):
            decision[i, k] = factor * total_of(of, flat, k)
