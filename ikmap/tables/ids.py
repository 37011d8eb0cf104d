"""Detection of columns that number the rows, such as ids: whole numbers that are nearly all different."""

from __future__ import annotations

import numpy as np

from ikmap.arrays import Floats

NEARLY = 0.99
"""Share of the rows whose number no other row has, at least."""
SURE = 1e-3
"""Chance, at most, that numbers drawn one by one would repeat as rarely."""


def id_columns(X: Floats) -> list[int]:
    """Return the numbers of the columns that look like ids (:func:`numbers_rows`), ascending.

    Parameters
    ----------
    X : ndarray of float64, shape (n, d)
        Cells of some rows; NaN where one is missing.
    """
    # Of thousands of columns at once, those first whose first cells are whole numbers: often these are few.
    whole = np.arange(X.shape[1])
    for rows in (slice(0, 1), slice(None)):
        cells = X[rows, whole]
        with np.errstate(invalid="ignore"):  # a damaged file may have NaN that processors signal
            whole = whole[(np.isnan(cells) | (np.floor(cells) == cells)).all(axis=0)]
    return [j for j in whole.tolist() if numbers_rows(X[:, j])]


def numbers_rows(values: np.ndarray) -> bool:
    """Return whether a column looks like an id.

    That every number is different says little by itself: amounts in cents or weights in grams may be so too. So the
    numbers are compared with measurements from the same range. Of n that are independent, at least n (n - 1) / (2 r)
    pairs are expected to be equal, where r is the count of whole numbers from the smallest to the largest: uniform
    ones repeat least. Where far fewer are, one number has been given to each row. Ids that are drawn from a range much
    wider than n^2 cannot be told from measurements, and are not found.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        Cells of some rows; NaN where one is missing.
    """
    there = values[~np.isnan(values)]
    if there.size < 2 or there.size < NEARLY * values.size or (there != np.floor(there)).any():
        return False
    _, counts = np.unique(there, return_counts=True)
    if np.count_nonzero(counts == 1) < NEARLY * there.size:
        return False
    from scipy.stats import poisson

    equal = int((counts * (counts - 1) // 2).sum())
    pairs = there.size * (there.size - 1) / 2
    return bool(poisson.cdf(equal, pairs / (there.max() - there.min() + 1)) < SURE)
