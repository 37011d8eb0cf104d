"""The linear model of the columns: how columns are brought to one size."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from ikmap.methods.linear import moments, standardized


def test_a_column_that_is_always_the_same_is_not_divided_by_a_rounding_error() -> None:
    """New rows may have another value: it moved a decision by 1e15."""
    rows = np.column_stack([np.full(1000, 0.1), np.arange(1000.0)])
    assert 0 < rows[:, 0].std() < 1e-15
    mean, deviation = moments(rows)
    assert deviation[0] == 1.0
    assert abs(standardized(np.array([[0.7, 0.0]]), mean, deviation)[0, 0]) < 1
    assert np.allclose(standardized(rows, mean, deviation).std(axis=0), [0, 1])
    assert moments(sp.csr_array(np.array([[0.0, 3.0], [0.0, 4.0]])))[1].tolist() == [1.0, np.sqrt(12.5)]
