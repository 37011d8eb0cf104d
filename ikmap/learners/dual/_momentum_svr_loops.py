"""Sums and steps of momentum over rows whose targets are numbers; names and roles are those of ``_momentum_loops``."""

import numpy as np

from ikmap.compiled import compiled
from ikmap.learners._rows_loops import move
from ikmap.learners.dual._linear_svr_loops import SQUARED_EPSILON_INSENSITIVE, row_cost


@compiled(
    {
        "svr": "{counted}, {Targets}, i8[::1], f8[::1], f8[::1], f8, f8, f8[::1]",
    }
)
def extrapolate(rows, targets, w, beta, before, share, sigma, start):
    """Let ``start`` be beta + share (beta - before) within the bounds; add what clipping changes, sigma times, to w."""
    _, C, sample_weight, bias, _, loss = targets
    for i in range(beta.size):
        if beta[i] == before[i]:
            start[i] = beta[i]
            continue
        cost = row_cost(i, C, sample_weight)
        upper = np.inf if loss == SQUARED_EPSILON_INSENSITIVE and cost > 0.0 else cost
        wanted = beta[i] + share * (beta[i] - before[i])
        start[i] = min(max(wanted, -upper), upper)
        if start[i] != wanted:
            move(rows, i, 0.0, sigma * (start[i] - wanted), 1.0, bias, w)


@compiled(
    {
        "svr": "{Targets}, f8[::1]",
    }
)
def dual_sum(targets, beta):
    """Sum over rows of minus the conjugate loss: the dual objective without its quadratic term."""
    y, C, sample_weight, _, epsilon, loss = targets
    total = 0.0
    for i in range(beta.size):
        cost, b = row_cost(i, C, sample_weight), beta[i]
        if cost > 0.0:
            total += b * y[i] - epsilon * abs(b)
            if loss == SQUARED_EPSILON_INSENSITIVE:
                total -= 0.25 * b * b / cost
    return total
