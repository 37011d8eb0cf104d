"""Compiled loop of online gradient descent in the dual."""

from __future__ import annotations

from ikmap.compiled import compiled


@compiled
def dual_pass(kernel, sums, y, margin, predicted, steps):
    """Predict and learn from the rows of a block, one after the other.

    Parameters
    ----------
    kernel : ndarray of float64, shape (n, n)
        Kernel of the block's rows, in steps.
    sums : ndarray of float64, shape (n, K)
        What earlier support points add up to, in steps; what the block's own add is added here, one after the other.
    y : ndarray of int32, shape (n,)
        Class numbers.
    margin : float
        Sum below which a row becomes a support point of a class: margin 1.
    predicted : ndarray of int32, shape (n,)
    steps : ndarray of int8, shape (n, K)
        Written: the sign of each row's step for each class, 0 for none.
    """
    n, n_classes = sums.shape
    for i in range(n):
        if n_classes == 1:
            predicted[i] = sums[i, 0] >= 0.0
        else:
            best = 0
            for k in range(1, n_classes):
                if sums[i, k] > sums[i, best]:
                    best = k
            predicted[i] = best
        for k in range(n_classes):
            positive = y[i] == (1 if n_classes == 1 else k)
            c = 1.0 if positive else -1.0
            if c * sums[i, k] < margin:
                steps[i, k] = 1 if positive else -1
                for j in range(i + 1, n):
                    sums[j, k] += c * kernel[i, j]
