"""Compiled parts of a round of CoCoA+ that sequential coordinate descent does not have, for any row layout."""

import numpy as np

from ikmap.compiled import compiled
from ikmap.learners._rows_loops import axpy, dot, squared_norm
from ikmap.learners.dual._linear_svm_loops import HINGE, LOGISTIC, new_dual, row_cost, shuffle


@compiled
def sweeps(rows, norms, objective, w, alpha, eps, max_sweeps, shrinking, state, sigma):
    """Sweep over the rows until the projected gradients agree to eps; update w and alpha in place.

    The local subproblem of CoCoA+ (Ma et al. 2015, section 3, sigma'): ``sigma`` scales the quadratic term, w grows by
    sigma times the sum of the changes alpha_i c_i x_i. w has one entry more than there are columns: the weight of the
    constant feature. Rows are left out as in Hsieh et al. (2008).
    Returns (sweeps made, whether eps was reached).
    """
    y, positive, class_cost, sample_weight, bias, loss = objective
    last = w.size - 1
    order = np.empty(y.size, np.int32)
    n_all = 0
    for i in range(y.size):
        if row_cost(i, y, class_cost, sample_weight) > 0.0:
            order[n_all] = i
            n_all += 1
    n_active = n_all
    high, low = np.inf, -np.inf
    for sweep in range(max_sweeps):
        state = shuffle(order, n_active, state)
        most, least = 0.0, 0.0
        s = 0
        while s < n_active:
            i = np.int64(order[s])
            sign = 1.0 if y[i] == positive else -1.0
            cost = row_cost(i, y, class_cost, sample_weight)
            norm = sigma * (squared_norm(rows, i, norms) + bias * bias)
            margin = sign * (dot(rows, i, w) + bias * w[last])
            old = alpha[i]
            if shrinking and _leaves(loss, cost, margin, old, high, low):
                n_active -= 1
                order[s] = order[n_active]
                order[n_active] = i
                continue
            new, projected = new_dual(loss, cost, margin, norm, old)
            if loss == LOGISTIC:
                most = max(most, abs(projected))
            else:
                most, least = max(most, projected), min(least, projected)
            if new != old:
                alpha[i] = new
                step = sigma * (new - old) * sign
                axpy(rows, i, step, w)
                w[last] += bias * step
            s += 1
        if most - least <= eps:
            if n_active == n_all:
                return sweep + 1, True
            n_active = n_all
            high, low = np.inf, -np.inf
        else:
            high = most if most > 0.0 else np.inf
            low = least if least < 0.0 else -np.inf
    return max_sweeps, False


@compiled(forceinline=True)
def _leaves(loss, cost, margin, alpha, high, low):
    """Return whether a dual variable rests at a bound, further in than all that moved in the last sweep."""
    if alpha <= 0.0:
        return margin - 1.0 > high and loss != LOGISTIC
    return alpha >= cost and margin - 1.0 < low and loss == HINGE
