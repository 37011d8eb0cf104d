"""Compiled sweeps of dual coordinate descent for support vector regression, and its certificate, for any row layout.

Ho, Lin (2012). Of row i, with residual r = y - w.x, the loss is ``C max(0, |r| - epsilon)`` or its square (times C).
The dual variable b is in [-C, C], or free; w is the sum of b_i x_i. The functions have the names and roles of those in
``_linear_svm_loops``, so that :class:`~ikmap.learners.dual.block_minimization.BlockProblem` works with either.
"""

from typing import NamedTuple

import numpy as np

from ikmap.compiled import compiled, group
from ikmap.learners._rows_loops import axpy, constant, dot, dot_ahead, fetch, move, squared_norm
from ikmap.learners.dual._linear_svm_loops import AHEAD, FAR

EPSILON_INSENSITIVE, SQUARED_EPSILON_INSENSITIVE = 0, 1
LOSSES = {
    "epsilon_insensitive": EPSILON_INSENSITIVE,
    "squared_epsilon_insensitive": SQUARED_EPSILON_INSENSITIVE,
}


@group("f8[::1], f8[::1], f8[::1], f8, f8, i8")
class Targets(NamedTuple):
    """The objective that is minimised over the rows, whose targets are numbers.

    Targets; C, the only entry of an array; weights of the rows (empty: ones); value of the constant feature, 0 for
    none; epsilon; one of ``LOSSES``.
    """

    y: np.ndarray
    C: np.ndarray
    sample_weight: np.ndarray
    bias: float
    epsilon: float
    loss: int


@compiled
def row_cost(i, C, sample_weight):
    """C of row i: C times sample weight (an empty array means all ones)."""
    return C[0] * sample_weight[i] if sample_weight.size else C[0]


@compiled(forceinline=True)
def loss_and_gap(loss, epsilon, cost, residual, b):
    """One row's loss (times its cost), and its share of the duality gap (see :func:`certificate`)."""
    size = abs(residual)
    slack, a = max(0.0, size - epsilon), abs(b)
    # What the wrong sign of b, or a residual within epsilon of a row that holds the weights, costs: >= 0.
    waste = a * (max(size, epsilon) - (residual if b >= 0.0 else -residual))
    if loss == EPSILON_INSENSITIVE:
        return cost * slack, (cost - a) * slack + waste
    rest = slack - a * (0.5 / cost)
    return cost * slack * slack, cost * rest * rest + waste


@compiled(forceinline=True)
def new_dual(loss, epsilon, cost, residual, norm, old):
    """Minimise the dual over one variable; (its new value, the smallest of its projected subgradients)."""
    diag = 0.5 / cost if loss == SQUARED_EPSILON_INSENSITIVE else 0.0
    upper = np.inf if loss == SQUARED_EPSILON_INSENSITIVE else cost
    gradient = diag * old - residual
    if old > 0.0:
        projected = gradient + epsilon
        if old >= upper:
            projected = max(projected, 0.0)
    elif old < 0.0:
        projected = gradient - epsilon
        if old <= -upper:
            projected = min(projected, 0.0)
    else:
        projected = max(gradient - epsilon, 0.0) + min(gradient + epsilon, 0.0)
    if abs(projected) <= 1e-12:
        return old, projected
    curvature = norm + diag
    if curvature > 0.0:
        best, threshold = old - gradient / curvature, epsilon / curvature
        shrunk = max(best - threshold, 0.0) + min(best + threshold, 0.0)
        return min(max(shrunk, -upper), upper), projected
    # A row without features: its residual stays what it is.
    return (upper if residual > epsilon else -upper if residual < -epsilon else 0.0), projected


@compiled(
    {
        "svr": "{counted}, f8[::1], {Targets}, i8[::1], f8[::1], i4[::1], i8, f8",
    }
)
def one_pass(rows, norms, targets, w, beta, order, size, threshold):
    """One sweep over the rows order[:size]; update w and beta in place.

    Rows whose dual variable rests at -C, 0 or C, with a residual further than ``threshold`` from where it would leave,
    are left out of the order.

    Returns (new size, sum of losses, of shares of the duality gap, both as seen at each row's visit, largest projected
    gradient, root mean square of the rows' steps in their own prediction, growth of |w|^2).
    """
    y, C, sample_weight, bias, epsilon, loss = targets
    kept, moves = 0, 0
    losses, gap, most, squares, growth = 0.0, 0.0, 0.0, 0.0, 0.0
    far = w.size > FAR
    for s in range(size):
        i = np.int64(order[s])
        if s + AHEAD < size:
            fetch(rows, np.int64(order[s + AHEAD]))
        old, cost, norm = beta[i], row_cost(i, C, sample_weight), squared_norm(rows, i, norms) + bias * bias
        product = dot_ahead(rows, i, np.int64(order[min(s + 1, size - 1)]), w) if far else dot(rows, i, w)
        predicted = product + constant(rows, bias, w)
        residual = y[i] - predicted
        row_loss, row_gap = loss_and_gap(loss, epsilon, cost, residual, old)
        losses += row_loss
        gap += row_gap
        new, projected = new_dual(loss, epsilon, cost, residual, norm, old)
        most = max(most, abs(projected))
        if new != old:
            beta[i] = new
            move(rows, i, old, new, 1.0, bias, w)
            moves += 1
            moved = (new - old) * norm
            squares += moved * moved
            growth += (new - old) * (2.0 * predicted + moved)
        elif (
            projected == 0.0
            and abs(abs(residual) - epsilon) > threshold
            and (old == 0.0 or (loss == EPSILON_INSENSITIVE and abs(old) >= cost))
        ):
            continue
        order[kept] = i
        kept += 1
    rms = np.sqrt(squares / moves) if moves else 0.0
    return kept, losses, gap, most, rms, growth


@compiled(
    {
        "svr": "f8[::1], f8[::1], f8[::1], f8[::1], i4[::1]",
    }
)
def take_up(y, C, sample_weight, beta, order):
    """Take the marks of :func:`lay_down` off beta; put the rows without one that count at all into the order.

    Returns (how many these are, how many had a mark).
    """
    size, marked = 0, 0
    for i in range(y.size):
        b = beta[i]
        if np.isfinite(b):
            if row_cost(i, C, sample_weight) > 0.0:
                order[size] = i
                size += 1
        else:
            cost = row_cost(i, C, sample_weight)
            beta[i] = 0.0 if np.isnan(b) else (cost if b > 0.0 else -cost)
            marked += 1
    return size, marked


@compiled(
    {
        "svr": "f8[::1], f8[::1], f8[::1], f8[::1], i4[::1], i8",
    }
)
def lay_down(y, C, sample_weight, beta, order, size):
    """Mark rows that count, but are not among order[:size]: NaN where they rest at 0, else infinity with their sign."""
    left = np.ones(y.size, dtype=np.bool_)
    for s in range(size):
        left[order[s]] = False
    for i in range(y.size):
        if left[i] and row_cost(i, C, sample_weight) > 0.0:
            beta[i] = np.nan if beta[i] == 0.0 else (np.inf if beta[i] > 0.0 else -np.inf)


@compiled(
    {
        "svr": "{cells}, {Targets}, f8[::1], f8[::1], i8, i8",
    }
)
def certificate(rows, targets, w, beta, start, stop):
    """Sums of C loss, of shares of the duality gap, and |w|^2, over the rows start .. stop - 1 (-1: all).

    |w|^2 is the sum of b_i p_i, predictions p_i. The gap P - D equals
    sum_i (C_i loss_i(r_i) + conjugate_i(b_i) - b_i r_i), every term of which is >= 0.
    """
    y, C, sample_weight, bias, epsilon, loss = targets
    last, end = w.size - 1, y.size if stop < 0 else stop
    far = w.size > FAR
    total, gap, length = 0.0, 0.0, 0.0
    for i in range(start, end):
        cost = row_cost(i, C, sample_weight)
        if cost > 0.0:
            product = dot_ahead(rows, i, min(i + 1, end - 1), w) if far else dot(rows, i, w)
            predicted = product + bias * w[last]
            row_loss, row_gap = loss_and_gap(loss, epsilon, cost, y[i] - predicted, beta[i])
            total += row_loss
            gap += row_gap
            length += beta[i] * predicted
    return total, gap, length


@compiled
def accumulate(rows, targets, w, beta):
    """Clip beta into its bounds and add sum_i beta_i x_i to w."""
    y, C, sample_weight, bias, _, loss = targets
    last = w.size - 1
    for i in range(y.size):
        cost = row_cost(i, C, sample_weight)
        upper = np.inf if loss == SQUARED_EPSILON_INSENSITIVE and cost > 0.0 else cost
        beta[i] = min(max(beta[i], -upper), upper)
        if beta[i] != 0.0:
            axpy(rows, i, beta[i], w)
            w[last] += bias * beta[i]
