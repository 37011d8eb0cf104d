"""Compiled parts of a round of CoCoA+ that sequential coordinate descent does not have, for any row layout."""

import numpy as np

from ikmap._compiled import compiled
from ikmap.learners._rows_loops import axpy
from ikmap.learners.dual._linear_svm_loops import HINGE, SQUARED_HINGE, row_cost


@compiled
def extrapolate(
    rows, y, positive, class_cost, sample_weight, bias, loss, w, alpha, alpha_before, beta, sigma, start
):  # fmt: skip
    """Let ``start`` be alpha + beta (alpha - alpha_before), clipped into the bounds; add what clipping changes to w."""
    last = w.size - 1
    for i in range(y.size):
        cost = row_cost(i, y, class_cost, sample_weight)
        upper = np.inf if loss == SQUARED_HINGE and cost > 0.0 else cost
        wanted = alpha[i] + beta * (alpha[i] - alpha_before[i])
        start[i] = min(max(wanted, 0.0), upper)
        if start[i] != wanted:
            step = sigma * (start[i] - wanted)
            if y[i] != positive:
                step = -step
            axpy(rows, i, step, w)
            w[last] += bias * step


@compiled
def dual_sum(y, class_cost, sample_weight, loss, alpha):
    """Sum over rows of minus the conjugate loss at -alpha_i: the dual objective without its quadratic term."""
    total = 0.0
    for i in range(y.size):
        cost = row_cost(i, y, class_cost, sample_weight)
        if cost <= 0.0:
            continue
        a = alpha[i]
        if loss == HINGE:
            total += a
        elif loss == SQUARED_HINGE:
            total += a - 0.25 * a * a / cost
        else:
            if a > 0.0:
                total -= a * np.log(a / cost)
            if a < cost:
                total -= (cost - a) * np.log1p(-a / cost)
    return total
