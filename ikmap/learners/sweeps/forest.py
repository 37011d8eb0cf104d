"""The Mondrian forest on the same trees: each tree predicts by itself, from the rows of a cell alone.

Source: The Mondrian Kernel, section 5.4; algorithms.md, section 12.6. A forest has the least mean of the trees' losses,
ridge regression on the cells of all trees the least loss of the mean.
"""

from __future__ import annotations

import numpy as np

from ikmap.arrays import Floats


def forest_weights(columns: np.ndarray, y: np.ndarray, alpha: float, n_columns: int) -> Floats:
    """Weights of a forest, in the scale of ridge regression's: ``1 / sqrt(t)`` of the sum of targets over n + alpha.

    Parameters
    ----------
    columns : ndarray of int32, shape (n, t)
        Column of each row in each tree; -1 for none.
    y : ndarray of float64, shape (n,)
    alpha : float
        The paper's gamma^2, >= 0.
    n_columns : int

    Returns
    -------
    ndarray of float64, shape (n_columns,)
        The prediction of a row is the sum over its columns, divided by ``sqrt(t)``: the mean of the trees.
    """
    t = columns.shape[1]
    counts, sums = np.zeros(n_columns), np.zeros(n_columns)
    for m in range(t):
        inside = columns[:, m] >= 0
        counts += np.bincount(columns[inside, m], minlength=n_columns)
        sums += np.bincount(columns[inside, m], weights=y[inside], minlength=n_columns)
    weights: np.ndarray = sums / np.maximum(counts + alpha, np.finfo(float).tiny) / np.sqrt(t)
    return weights
