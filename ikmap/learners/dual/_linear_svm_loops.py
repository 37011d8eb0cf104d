"""Compiled sweeps of dual coordinate descent (algorithms.md 8.2) and its certificate, for any row layout."""

from typing import NamedTuple

import numpy as np

from ikmap.compiled import compiled, group
from ikmap.learners._rows_loops import axpy, constant, dot, dot_ahead, fetch, move, squared_norm

HINGE, SQUARED_HINGE, LOGISTIC = 0, 1, 2
LOSSES = {"hinge": HINGE, "squared_hinge": SQUARED_HINGE, "logistic": LOGISTIC}
AHEAD = 6
"""Rows between a visit and the one whose memory is asked for meanwhile."""
FAR = 2**16
"""Weights beyond which they are taken not to stay in a core's own cache."""
_GOLDEN, _MIX1, _MIX2 = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)
_S27, _S30, _S31, _S32 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)


@group("i4[::1], i8, f8[::1], f8[::1], f8, i8")
class Objective(NamedTuple):
    """The objective that is minimised over the rows, one class against the rest.

    Classes of the rows and the number of the positive one; C of each class; weights of the rows (empty: ones); value of
    the constant feature, 0 for none; one of ``LOSSES``.
    """

    y: np.ndarray
    positive: int
    class_cost: np.ndarray
    sample_weight: np.ndarray
    bias: float
    loss: int


@group("i8, i8, i8, f8, f8, f8, f8, f8")
class Begun(NamedTuple):
    """Sums of the numbers that :func:`one_pass` returns, over the visits of a sweep before order[first]."""

    first: int
    kept: int
    moves: int
    losses: float
    gap: float
    most: float
    squares: float
    growth: float


AT_FIRST = Begun(0, 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0)
"""A sweep that has made no visit yet."""


@compiled(
    {
        "cells-batch": "i4[::1], i8, u8",
    }
)
def shuffle(order, size, state):
    """Fisher-Yates on order[:size] with the splitmix64 generator; return the generator's new state."""
    for last in range(size - 1, 0, -1):
        state += _GOLDEN
        z = (state ^ (state >> _S30)) * _MIX1
        z = (z ^ (z >> _S27)) * _MIX2
        z ^= z >> _S31
        other = ((z >> _S32) * np.uint64(last + 1)) >> _S32
        order[last], order[other] = order[other], order[last]
    return state


@compiled
def row_cost(i, y, class_cost, sample_weight):
    """C of row i: C times class weight times sample weight (an empty array means all ones)."""
    cost = class_cost[y[i]]
    return cost * sample_weight[i] if sample_weight.size else cost


@compiled
def log1p_exp(x):
    """log(1 + exp(x)) without overflow."""
    return x + np.log1p(np.exp(-x)) if x > 0 else np.log1p(np.exp(x))


@compiled
def logistic_step(margin, a, norm, cost):
    """Best new value z in (0, C) of one dual variable: log(z / (C - z)) + norm (z - a) + margin = 0.

    Solved for s = log(z / (C - z)), where the equation is increasing with slope >= 1 and the root lies
    within a known bracket: Newton's method, by bisection where it would leave the bracket.
    """
    shift = margin - norm * a
    low, high = -shift - norm * cost, -shift
    s = np.log(a / (cost - a)) if 0.0 < a < cost else 0.0
    s = min(max(s, low), high)
    p = 0.5
    for _ in range(60):
        if s >= 0:
            p = 1.0 / (1.0 + np.exp(-s))
        else:
            e = np.exp(s)
            p = e / (1.0 + e)
        h = s + norm * cost * p + shift
        if h > 0:
            high = s
        else:
            low = s
        new = s - h / (1.0 + norm * cost * p * (1.0 - p))
        if not low < new < high:
            new = 0.5 * (low + high)
        if abs(new - s) <= 1e-12 * (1.0 + abs(s)):
            break
        s = new
    return cost * p


@compiled
def divergence(q, logit):
    """Kullback-Leibler divergence of Bernoulli(q) from the Bernoulli distribution with this logit."""
    if 0.0 < q < 1.0:
        d = logit - np.log(q / (1.0 - q))
        if abs(d) < 1.0:  # Close: this form does not lose its digits in a difference of large terms.
            return max(0.0, np.log1p(q * np.expm1(d)) - q * d)
    entropy = (q * np.log(q) if q > 0.0 else 0.0) + ((1.0 - q) * np.log1p(-q) if q < 1.0 else 0.0)
    return max(0.0, log1p_exp(logit) + entropy - q * logit)


@compiled(forceinline=True)
def loss_and_gap(loss, cost, margin, alpha):
    """One row's loss (times its cost), and its share of the duality gap (see :func:`certificate`)."""
    slack = max(0.0, 1.0 - margin)
    if loss == HINGE:
        return cost * slack, (cost - alpha) * slack + alpha * max(0.0, margin - 1.0)
    if loss == SQUARED_HINGE:
        rest = slack - alpha * (0.5 / cost)
        return cost * slack * slack, cost * rest * rest + alpha * max(0.0, margin - 1.0)
    return cost * log1p_exp(-margin), cost * divergence(alpha / cost, -margin)


@compiled(forceinline=True)
def new_dual(loss, cost, margin, norm, old):
    """Minimise the dual over one variable; (its new value, its projected gradient)."""
    if loss == LOGISTIC:
        new = logistic_step(margin, old, norm, cost)
        # The dual's curvature is at least norm + 4/C, so this is a projected gradient's lower bound.
        return new, (new - old) * (norm + 4.0 / cost)
    diag = 0.5 / cost if loss == SQUARED_HINGE else 0.0
    upper = np.inf if loss == SQUARED_HINGE else cost
    gradient = margin - 1.0 + diag * old
    projected = gradient
    if old <= 0.0:
        projected = min(gradient, 0.0)
    elif old >= upper:
        projected = max(gradient, 0.0)
    if abs(projected) <= 1e-12:
        return old, projected
    curvature = norm + diag
    return (min(max(old - gradient / curvature, 0.0), upper) if curvature > 0.0 else upper), projected


@compiled(
    {
        "cells-batch binary": "{counted}, f8[::1], {Objective}, i8[::1], f8[::1], i4[::1], i8, f8, {Begun}",
        "linear-model binary dense": "{dense}, f8[::1], {Objective}, f8[::1], f8[::1], i4[::1], i8, f8, {Begun}",
        "linear-model binary sparse": "{csr}, f8[::1], {Objective}, f8[::1], f8[::1], i4[::1], i8, f8, {Begun}",
    }
)
def one_pass(rows, norms, objective, w, alpha, order, size, threshold, begun):
    """One sweep over the rows order[:size] as they stand, or the rest of one; update w and alpha in place.

    Rows whose dual variable rests at a bound, with a gradient that keeps it there by more than ``threshold``, are
    left out of the order.

    Returns (new size, sum of losses, of shares of the duality gap, both as seen at each row's visit, largest projected
    gradient, root mean square of the rows' steps in their own margin, growth of |w|^2).
    """
    y, positive, class_cost, sample_weight, bias, loss = objective
    first, kept, moves, losses, gap, most, squares, growth = begun
    far = w.size > FAR
    for s in range(first, size):
        i = np.int64(order[s])
        if s + AHEAD < size:
            fetch(rows, np.int64(order[s + AHEAD]))
        # What is read here arrives while the product is summed up.
        old, cost, norm = (
            alpha[i],
            row_cost(i, y, class_cost, sample_weight),
            squared_norm(rows, i, norms) + bias * bias,
        )
        sign = 1.0 if y[i] == positive else -1.0
        product = dot_ahead(rows, i, np.int64(order[min(s + 1, size - 1)]), w) if far else dot(rows, i, w)
        margin = sign * (product + constant(rows, bias, w))
        row_loss, row_gap = loss_and_gap(loss, cost, margin, old)
        losses += row_loss
        gap += row_gap
        new, projected = new_dual(loss, cost, margin, norm, old)
        most = max(most, abs(projected))
        if new != old:
            alpha[i] = new
            move(rows, i, old, new, sign, bias, w)
            moves += 1
            moved = (new - old) * norm
            squares += moved * moved
            growth += (new - old) * (2.0 * margin + moved)
        elif rests(loss, cost, margin, old, projected, threshold):
            continue
        order[kept] = i
        kept += 1
    rms = np.sqrt(squares / moves) if moves else 0.0
    return kept, losses, gap, most, rms, growth


@compiled(forceinline=True)
def rests(loss, cost, margin, alpha, projected, threshold):
    """Return whether a dual variable that did not move rests at a bound, further from leaving it than ``threshold``."""
    return abs(margin - 1.0) > threshold and projected == 0.0 and (alpha <= 0.0 or alpha >= cost) and loss != LOGISTIC


@compiled
def take_up(y, class_cost, sample_weight, alpha, order):
    """Take the marks of :func:`lay_down` off alpha; put the rows without one that count at all into the order.

    Returns (how many these are, how many had a mark).
    """
    size, marked = 0, 0
    for i in range(y.size):
        if np.signbit(alpha[i]):
            alpha[i] = -alpha[i]
            marked += 1
        elif row_cost(i, y, class_cost, sample_weight) > 0.0:
            order[size] = i
            size += 1
    return size, marked


@compiled
def lay_down(y, class_cost, sample_weight, alpha, order, size):
    """Mark rows that count, but are not among order[:size], by a minus sign: no dual variable is negative."""
    for i in range(y.size):
        if row_cost(i, y, class_cost, sample_weight) > 0.0:
            alpha[i] = -alpha[i]
    for s in range(size):
        alpha[order[s]] = -alpha[order[s]]


@compiled(
    {
        "cells-batch": "{cells}, {Objective}, f8[::1], f8[::1], i8, i8",
        "linear-model binary dense, linear-model multiclass dense": "{dense}, {Objective}, f8[::1], f8[::1], i8, i8",
        "linear-model binary sparse, linear-model multiclass sparse": "{csr}, {Objective}, f8[::1], f8[::1], i8, i8",
    }
)
def certificate(rows, objective, w, alpha, start, stop):
    """Sums of C loss, of shares of the duality gap and of |w|^2 over the rows start .. stop - 1 (-1: all).

    |w|^2 is the sum of a_i m_i, margins m_i. The gap P - D equals
    sum_i (C_i loss_i(m_i) + conjugate_i(-a_i) + a_i m_i).
    Every term is >= 0 (Fenchel-Young), so the sum keeps its accuracy when the gap is tiny.
    """
    y, positive, class_cost, sample_weight, bias, loss = objective
    last, end = w.size - 1, y.size if stop < 0 else stop
    far = w.size > FAR
    total, gap, length = 0.0, 0.0, 0.0
    for i in range(start, end):
        cost = row_cost(i, y, class_cost, sample_weight)
        if cost > 0.0:
            sign = 1.0 if y[i] == positive else -1.0
            product = dot_ahead(rows, i, min(i + 1, end - 1), w) if far else dot(rows, i, w)
            margin = sign * (product + bias * w[last])
            row_loss, row_gap = loss_and_gap(loss, cost, margin, alpha[i])
            total += row_loss
            gap += row_gap
            length += alpha[i] * margin
    return total, gap, length


@compiled(
    {
        "cells-batch": "f8[::1]",
    }
)
def squared_length(w):
    """w . w in four partial sums, the same however many threads BLAS has."""
    s0 = s1 = s2 = s3 = 0.0
    whole = w.size - w.size % 4
    for j in range(0, whole, 4):
        s0 += w[j] * w[j]
        s1 += w[j + 1] * w[j + 1]
        s2 += w[j + 2] * w[j + 2]
        s3 += w[j + 3] * w[j + 3]
    for j in range(whole, w.size):
        s0 += w[j] * w[j]
    return (s0 + s1) + (s2 + s3)


@compiled(
    {
        "cells-batch": "{cells}, {Objective}, f8[::1], f8[::1]",
    }
)
def accumulate(rows, objective, w, alpha):
    """Clip alpha into its bounds and add sum_i alpha_i c_i x_i to w."""
    y, positive, class_cost, sample_weight, bias, loss = objective
    last = w.size - 1
    for i in range(y.size):
        cost = row_cost(i, y, class_cost, sample_weight)
        upper = np.inf if loss == SQUARED_HINGE and cost > 0.0 else cost
        alpha[i] = min(max(alpha[i], 0.0), upper)
        if alpha[i] > 0.0:
            step = alpha[i] if y[i] == positive else -alpha[i]
            axpy(rows, i, step, w)
            w[last] += bias * step
