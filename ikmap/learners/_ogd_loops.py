"""Compiled loop of online gradient descent (algorithms.md 5.3), for any row layout."""

# mypy: disallow-untyped-defs=False
import numpy as np
from numba import njit

from ikmap.learners._rows_loops import add_outer, scores


@njit(cache=True, nogil=True)
def ogd_pass(rows, y, sample_weight, W, eta, divisor, predicted, n_updates):
    """Predict each row, then step on every class whose margin is below 1. Returns the rows stepped on.

    With one column of W, class 1 is positive; else class k is positive for column k. ``sample_weight``
    scales the step (an empty array means all ones), and a row of weight 0 is only predicted.
    """
    n_classes = W.shape[1]
    f = np.empty(n_classes)
    step = np.empty(n_classes)
    support = 0
    for i in range(y.size):
        scores(rows, i, W, f)
        weight = sample_weight[i] if sample_weight.size else 1.0
        best = 0
        stepped = False
        for k in range(n_classes):
            f[k] /= divisor
            if f[k] > f[best]:
                best = k
            sign = 1.0 if y[i] == (k if n_classes > 1 else 1) else -1.0
            step[k] = 0.0
            if sign * f[k] < 1.0 and weight > 0.0:
                step[k] = eta * weight * sign
                n_updates[k] += 1
                stepped = True
        predicted[i] = best if n_classes > 1 else (1 if f[0] >= 0.0 else 0)
        if stepped:
            support += 1
            add_outer(rows, i, step, W)
    return support
