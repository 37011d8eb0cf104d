"""The Mondrian forest on the same trees, each of which predicts from the rows of a cell alone.

Source: The Mondrian Kernel, section 5.4; algorithms.md, section 12.6. A forest has the least mean of the trees' losses,
ridge regression on the cells of all trees the least loss of the mean.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def add_rows(
    columns: NDArray[np.integer], y: NDArray[np.float64], rows: NDArray[np.float64], sums: NDArray[np.float64],
    weight: NDArray[np.float64] | None = None,
) -> None:  # fmt: skip
    """Add rows to the number of rows of each column and to the sum of their targets, both in place.

    Parameters
    ----------
    columns : ndarray of integers, shape (n, t)
        Column of each row in each tree; -1 for none.
    y : ndarray of float64, shape (n,)
    rows, sums : ndarray of float64, shape (n_columns,)
    weight : ndarray of float64, shape (n,), optional
        A row counts as so many, its target too.
    """
    for of_tree in columns.T:
        inside = of_tree >= 0
        np.add.at(rows, of_tree[inside], 1.0 if weight is None else weight[inside])
        np.add.at(sums, of_tree[inside], y[inside] if weight is None else weight[inside] * y[inside])


def weights_of_sums(
    rows: NDArray[np.float64], sums: NDArray[np.float64], alpha: float, n_trees: int
) -> NDArray[np.float64]:
    """Return the weights of a forest, in the scale of ridge regression's: ``1 / sqrt(t)`` of the sum over n + alpha."""
    weights: NDArray[np.float64] = sums / np.maximum(rows + alpha, np.finfo(float).tiny) / np.sqrt(n_trees)
    return weights


def forest_weights(
    columns: NDArray[np.integer], y: NDArray[np.float64], alpha: float, n_columns: int
) -> NDArray[np.float64]:
    """Return the weights of a forest of some rows.

    Parameters
    ----------
    columns, y
        The same as in :func:`add_rows`.
    alpha : float
        The paper's gamma^2, >= 0.
    n_columns : int

    Returns
    -------
    ndarray of float64, shape (n_columns,)
        The prediction of a row is the sum over its columns, divided by ``sqrt(t)``: the mean of the trees.
    """
    rows, sums = np.zeros(n_columns), np.zeros(n_columns)
    add_rows(columns, y, rows, sums)
    return weights_of_sums(rows, sums, alpha, columns.shape[1])
