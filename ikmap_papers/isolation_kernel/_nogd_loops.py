"""Compiled loop of NOGD: online gradient descent on dense features."""

from __future__ import annotations

import numpy as np

from ikmap.compiled import compiled


@compiled
def nogd_pass(z, y, W, total, eta, predicted, n_updates):
    """Predict each row, then step on every class whose margin is below 1; return the rows stepped on.

    With one column of W, class 1 is positive; else class k is positive for column k. ``total``, unless it is empty,
    sums up the weights after each row stepped on.

    Parameters
    ----------
    z : ndarray of float64, shape (n, r)
    y : ndarray of int32, shape (n,)
    W : ndarray of float64, shape (r, K)
    total : ndarray of float64, shape (r, K) or (0, 0)
    eta : float
    predicted : ndarray of int32, shape (n,)
    n_updates : ndarray of int64, shape (K,)
    """
    n_classes = W.shape[1]
    f, step = np.empty(n_classes), np.empty(n_classes)
    support = 0
    for i in range(y.size):
        f[:] = 0.0
        for c in range(z.shape[1]):
            for k in range(n_classes):
                f[k] += z[i, c] * W[c, k]
        best, stepped = 0, False
        for k in range(n_classes):
            if f[k] > f[best]:
                best = k
            sign = 1.0 if y[i] == (k if n_classes > 1 else 1) else -1.0
            step[k] = 0.0
            if sign * f[k] < 1.0:
                step[k] = eta * sign
                n_updates[k] += 1
                stepped = True
        predicted[i] = best if n_classes > 1 else (1 if f[0] >= 0.0 else 0)
        if stepped:
            support += 1
            for c in range(z.shape[1]):
                for k in range(n_classes):
                    W[c, k] += z[i, c] * step[k]
            for c in range(total.shape[0]):
                for k in range(n_classes):
                    total[c, k] += W[c, k]
    return support
