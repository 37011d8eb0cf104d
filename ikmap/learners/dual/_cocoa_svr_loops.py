"""Compiled parts of a round of CoCoA+ on targets that are numbers; names and roles are those of ``_cocoa_loops``."""

import numpy as np

from ikmap.compiled import compiled
from ikmap.learners._rows_loops import axpy, dot, squared_norm
from ikmap.learners.dual._linear_svm_loops import shuffle
from ikmap.learners.dual._linear_svr_loops import new_dual, row_cost


@compiled
def sweeps(rows, norms, targets, w, beta, eps, max_sweeps, shrinking, state, sigma):  # noqa: ARG001
    """Sweep over the rows until no projected gradient is above eps; update w and beta in place.

    ``sigma`` scales the quadratic term: w grows by sigma times the sum of the changes beta_i x_i. No row is left out,
    whatever ``shrinking`` says: a round is a single sweep, in which none has been seen before.
    Returns (sweeps made, whether eps was reached).
    """
    y, C, sample_weight, bias, epsilon, loss = targets
    last = w.size - 1
    order = np.empty(y.size, np.int32)
    size = 0
    for i in range(y.size):
        if row_cost(i, C, sample_weight) > 0.0:
            order[size] = i
            size += 1
    for sweep in range(max_sweeps):
        state = shuffle(order, size, state)
        most = 0.0
        for s in range(size):
            i = np.int64(order[s])
            norm = sigma * (squared_norm(rows, i, norms) + bias * bias)
            residual = y[i] - (dot(rows, i, w) + bias * w[last])
            new, projected = new_dual(loss, epsilon, row_cost(i, C, sample_weight), residual, norm, beta[i])
            most = max(most, abs(projected))
            if new != beta[i]:
                step = sigma * (new - beta[i])
                beta[i] = new
                axpy(rows, i, step, w)
                w[last] += bias * step
        if most <= eps:
            return sweep + 1, True
    return max_sweeps, False
