"""Sums and steps of momentum over the rows: dual variables that stay in their bounds, and the dual objective."""

import numpy as np

from ikmap.compiled import compiled
from ikmap.learners._rows_loops import move
from ikmap.learners.dual._linear_svm_loops import HINGE, SQUARED_HINGE, row_cost


@compiled(
    {
        "cells-batch binary": "{counted}, {Objective}, i8[::1], f8[::1], f8[::1], f8, f8, f8[::1]",
        "cells-batch multiclass": "{cells}, {Objective}, f8[::1], f8[::1], f8[::1], f8, f8, f8[::1]",
        "linear-model binary dense, linear-model multiclass dense": (
            "{dense}, {Objective}, f8[::1], f8[::1], f8[::1], f8, f8, f8[::1]"
        ),
        "linear-model binary sparse, linear-model multiclass sparse": (
            "{csr}, {Objective}, f8[::1], f8[::1], f8[::1], f8, f8, f8[::1]"
        ),
    }
)
def extrapolate(rows, objective, w, alpha, before, beta, sigma, start):
    """Let ``start`` be alpha + beta (alpha - before), clipped into the bounds; add what clipping changes, sigma times.

    ``start`` may be ``before``.
    """
    y, positive, class_cost, sample_weight, bias, loss = objective
    for i in range(y.size):
        if alpha[i] == before[i]:
            start[i] = alpha[i]
            continue
        cost = row_cost(i, y, class_cost, sample_weight)
        upper = np.inf if loss == SQUARED_HINGE and cost > 0.0 else cost
        wanted = alpha[i] + beta * (alpha[i] - before[i])
        start[i] = min(max(wanted, 0.0), upper)
        if start[i] != wanted:
            move(rows, i, 0.0, sigma * (start[i] - wanted), 1.0 if y[i] == positive else -1.0, bias, w)


@compiled(
    {
        "cells-batch": "{Objective}, f8[::1]",
    }
)
def dual_sum(objective, alpha):
    """Sum over rows of minus the conjugate loss at -alpha_i: the dual objective without its quadratic term."""
    y, _, class_cost, sample_weight, _, loss = objective
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
