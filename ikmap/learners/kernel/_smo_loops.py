"""Compiled loop: sequential minimal optimisation on a matrix of kernel values (algorithms.md 8.3)."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import types

from ikmap._simd import vectors
from ikmap.compiled import compiled

CURVATURE = 1e-12
"""The least curvature that is reckoned with: of rows that are alike, or of a kernel that is not semidefinite."""

LANES = 8
_OF_8 = vectors("Float64x8", ir.DoubleType(), types.float64, LANES)
load, store, splat, choose, at_most = _OF_8.load, _OF_8.store, _OF_8.splat, _OF_8.choose, _OF_8.at_most
add, subtract, multiply, divide = _OF_8.add, _OF_8.subtract, _OF_8.multiply, _OF_8.divide
maximum, minimum = _OF_8.maximum, _OF_8.minimum


@compiled(error_model="numpy")
def optimize(K, low, high, coef, left, tol, max_steps):
    """Move two coefficients at a time until no pair violates the optimality conditions by more than the tolerance.

    Parameters
    ----------
    K : ndarray of float64, shape (n, n)
        Kernel values.
    low, high : ndarray of float64, shape (n,)
        Bounds of the coefficients y_i alpha_i: 0 and C where y_i = 1, -C and 0 where it is -1.
    coef : ndarray of float64, shape (n,)
        Where to begin, with the sum 0; changed in place.
    left : ndarray of float64, shape (n,)
        y_i - sum_j coef_j K_ij; kept up to date.
    tol : float
    max_steps : int

    Returns
    -------
    (int, float)
        Number of steps, and the violation that is left.
    """
    n = coef.size
    whole = np.uint64(n - n % LANES)
    diagonal, gains, lanes = np.empty(n), np.empty(n), np.empty(LANES)
    for t in range(n):
        diagonal[t] = K[t, t]
    i = j = steps = 0
    step = 0.0
    while True:
        # What the step before has changed, and which pair violates most now: rows that may go up, or down.
        of_i, of_j = K[i], K[j]
        ups, downs, by = splat(-np.inf), splat(np.inf), splat(step)
        for t in range(np.uint64(0), whole, np.uint64(LANES)):
            now = subtract(load(left, t), multiply(by, subtract(load(of_i, t), load(of_j, t))))
            store(left, t, now)
            at = load(coef, t)
            ups = maximum(ups, choose(at_most(load(high, t), at), splat(-np.inf), now))
            downs = minimum(downs, choose(at_most(at, load(low, t)), splat(np.inf), now))
        store(lanes, np.uint64(0), ups)
        up = lanes.max()
        store(lanes, np.uint64(0), downs)
        down = lanes.min()
        for t in range(whole, n):
            left[t] -= step * (of_i[t] - of_j[t])
            up = max(up, left[t] if coef[t] < high[t] else -np.inf)
            down = min(down, left[t] if coef[t] > low[t] else np.inf)
        if up - down <= tol or steps >= max_steps:
            return steps, up - down
        i = 0
        while not (left[i] == up and coef[i] < high[i]):
            i += 1
        # The second one: where the pair's objective falls most, by its second order.
        of_i, at_i = K[i], diagonal[i]
        bests, ups, flattest = splat(-1.0), splat(up), splat(CURVATURE)
        for t in range(np.uint64(0), whole, np.uint64(LANES)):
            of_t = load(of_i, t)
            curvature = subtract(add(splat(at_i), load(diagonal, t)), add(of_t, of_t))
            gap = maximum(subtract(ups, load(left, t)), splat(0.0))
            gain = divide(multiply(gap, gap), maximum(curvature, flattest))
            gain = choose(at_most(load(coef, t), load(low, t)), splat(-1.0), gain)
            store(gains, t, gain)
            bests = maximum(bests, gain)
        store(lanes, np.uint64(0), bests)
        best = lanes.max()
        for t in range(whole, n):
            gap = max(up - left[t], 0.0)
            gain = gap * gap / max((at_i + diagonal[t]) - (of_i[t] + of_i[t]), CURVATURE)
            gains[t] = gain if coef[t] > low[t] else -1.0
            best = max(best, gains[t])
        j = 0
        while gains[j] != best:
            j += 1
        step = (up - left[j]) / max((at_i + diagonal[j]) - (of_i[j] + of_i[j]), CURVATURE)
        room_i, room_j = high[i] - coef[i], coef[j] - low[j]
        step = min(step, room_i, room_j)
        coef[i] = high[i] if step == room_i else coef[i] + step
        coef[j] = low[j] if step == room_j else coef[j] - step
        steps += 1
