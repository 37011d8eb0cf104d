"""Compiled loop of AdaRaker: many learners of every kernel, each alive for an interval of the stream."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ikmap.compiled import compiled

HINGE, LOGISTIC = 0, 1
SMALLEST = 1e-300
"""No weight of a kernel or interval falls below this: all stay positive."""
BETA, KERNEL_FLOOR, INTERVAL_FLOOR = 0.5, 1e-4, 1e-10
"""Factor of the weight of a kernel on a mistake in the reference script, and what it adds to weights after each round:
before they are scaled to sum 1, to those of kernels; after, to those of intervals."""


class Rules(NamedTuple):
    """The rules by which learners learn.

    Attributes
    ----------
    adaptive : bool
        Intervals start and end; else there is one without end, of step `eta`.
    eta, decay : float
        Step of an interval of length 1, before the cap of 1/2; without intervals the step. The factor lambda of the
        penalty.
    loss : {HINGE, LOGISTIC}
    script : bool
        Weights of kernels and intervals by the rules of the reference script.
    """

    adaptive: bool
    eta: float
    decay: float
    loss: int
    script: bool


@compiled
def round_of(t, script):
    """Round by which intervals are counted: the script begins with two rounds of one."""
    return max(1, t - 1) if script else t


@compiled
def active_levels(t):
    """Number of intervals ``[k 2^j, (k + 1) 2^j - 1]``, k >= 1, that hold round t >= 1: floor(log2 t) + 1."""
    levels = 0
    while t > 0:
        levels += 1
        t >>= 1
    return levels


@compiled
def _slope(f, c, loss):
    """Derivative of the loss of decision f for the sign c."""
    if loss == HINGE:
        return -c if c * f < 1.0 else 0.0
    return -c / (1.0 + math.exp(min(c * f, 700.0)))


@compiled
def _bounded(f, c, loss):
    """Loss, at most 1."""
    if loss == HINGE:
        return min(1.0, max(0.0, 1.0 - c * f))
    return min(1.0, math.log1p(math.exp(-c * f)) if c * f > -30.0 else 1.0)


@compiled
def _normalise(weights):
    """Scale the weights of one interval's kernels to sum 1."""
    total = 0.0
    for p in range(weights.size):
        weights[p] = max(weights[p], SMALLEST)
        total += weights[p]
    for p in range(weights.size):
        weights[p] = max(weights[p] / total, SMALLEST)


@compiled
def decide(z, theta, u, log_h, levels, of_kernel, of_interval):
    """Decision on one row; the decisions of kernels and intervals are left in `of_kernel` and `of_interval`."""
    largest = log_h[0]
    for j in range(1, levels):
        largest = max(largest, log_h[j])
    above, below = 0.0, 0.0
    for j in range(levels):
        f, total = 0.0, 0.0
        for p in range(z.shape[0]):
            value = 0.0
            for k in range(z.shape[1]):
                value += theta[j, p, k] * z[p, k]
            of_kernel[j, p] = value
            f += u[j, p] * value
            total += u[j, p]
        of_interval[j] = f / total
        h = math.exp(log_h[j] - largest)
        above += h * of_interval[j]
        below += h
    return above / below


@compiled
def step_size(eta, level):
    """Step of an interval of length 2^level."""
    return min(0.5, eta / math.sqrt(float(1 << level)))


@compiled
def _weigh_as_script(log_h, of_interval, levels, c, step):
    """Multiply the weights of intervals that err by the longest one's step, and divide the others; if some of both.

    If all of them err, or none, all weights are multiplied by it, which leaves their shares alone but for the floor.
    """
    wrong = 0
    for j in range(levels):
        wrong += c * of_interval[j] < 0.0
    total = 0.0
    for j in range(levels):
        errs = wrong in (0, levels) or c * of_interval[j] < 0.0
        log_h[j] += math.log(step) if errs else -math.log(step)
    for j in range(levels):
        log_h[j] = math.exp(log_h[j]) + INTERVAL_FLOOR
        total += log_h[j]
    for j in range(levels):
        log_h[j] = math.log(log_h[j] / total)


@compiled
def adaraker_pass(z, y, t, theta, u, log_h, rules, decisions, stepped):
    """Predict each row, then learn from it.

    Parameters
    ----------
    z : ndarray of float64, shape (n, P, 2 D)
    y : ndarray of int8, shape (n,)
        Signs.
    t : int
        Number of the first row's round, from 1.
    theta, u, log_h : ndarray of float64, shapes (J, P, 2 D), (J, P), (J,)
        Weights of features and kernels in the intervals of length 2^j, logarithms of the intervals' weights; changed
        in place. Logarithms, for the weight of an interval of n rounds may reach exp(sqrt(n) / 2).
    rules : Rules
    decisions : ndarray of float64, shape (n,)
    stepped : ndarray of bool, shape (n,)
        Set where some learner took a step.
    """
    adaptive, eta, decay, loss, script = rules
    n, n_kernels = z.shape[0], z.shape[1]
    of_kernel, of_interval = np.empty((log_h.size, n_kernels)), np.empty(log_h.size)
    for i in range(n):
        now = round_of(t + i, script)
        levels = active_levels(now) if adaptive else 1
        for j in range(levels if adaptive else 0):
            if now % (1 << j) == 0:
                log_h[j] = math.log(step_size(eta, j))
                if not script:
                    theta[j] = 0.0
                    u[j] = 1.0 / n_kernels
        c = float(y[i])
        f = decide(z[i], theta, u, log_h, levels, of_kernel, of_interval)
        decisions[i] = f
        own = _bounded(f, c, loss)
        for j in range(levels):
            step = step_size(eta, j) if adaptive else eta
            keep = 1.0 - step * decay
            for p in range(n_kernels):
                value = of_kernel[j, p]
                slope = _slope(value, c, loss)
                if slope != 0.0:
                    stepped[i] = True
                for k in range(z.shape[2]):
                    theta[j, p, k] = keep * theta[j, p, k] - step * slope * z[i, p, k]
                if not script:
                    u[j, p] *= math.exp(-step * _bounded(value, c, loss))
                else:
                    u[j, p] = u[j, p] * (BETA if c * value < 0.0 else 1.0) + KERNEL_FLOOR
            _normalise(u[j])
            if adaptive and not script:
                log_h[j] += step * (own - _bounded(of_interval[j], c, loss))
        if adaptive and script:
            _weigh_as_script(log_h, of_interval, levels, c, step_size(eta, levels - 1))
