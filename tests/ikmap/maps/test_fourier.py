"""Orthogonal random frequencies: properties AR1 and AR2 of algorithms.md 7."""

from __future__ import annotations

import numpy as np
import pytest

from ikmap.maps.fourier import FourierMap, orthogonal_normals
from tests.support.streams import stream

pytestmark = pytest.mark.slow


def test_ar1_orthogonal_features_vary_no_more() -> None:
    X, _ = stream("any", 6, 8)
    variance = {}
    for orthogonal in (False, True):
        products = []
        for seed in range(400):
            z = FourierMap.gaussian(8, 8, 0.5, seed, orthogonal=orthogonal).transform(X)
            products.append((z @ z.T)[np.triu_indices(6, 1)])
        variance[orthogonal] = np.var(products, axis=0)
    assert variance[True].mean() < variance[False].mean()


@pytest.mark.parametrize(("n", "d"), [(4, 9), (9, 9), (23, 9), (1, 1), (5, 1)])
def test_ar2_rows_within_a_block_are_orthogonal(n: int, d: int) -> None:
    V = orthogonal_normals(n, d, 3)
    assert V.shape == (n, d)
    for start in range(0, n, d):
        block = V[start : start + d]
        product = block @ block.T
        np.testing.assert_allclose(product - np.diag(np.diag(product)), 0, atol=1e-10)
    if n > d > 1:
        assert np.abs(V[:d] @ V[d:].T).max() > 0.1  # Blocks are independent of each other.


def test_ar2_lengths_and_directions_are_those_of_normal_vectors() -> None:
    V = np.concatenate([orthogonal_normals(3, 3, seed) for seed in range(3000)])
    squares = (V**2).sum(axis=1)
    assert abs(squares.mean() - 3) < 5 * np.sqrt(6 / squares.size)
    assert abs(squares.var() - 6) < 0.6
    assert np.abs(V.mean(axis=0)).max() < 5 / np.sqrt(V.shape[0])
    np.testing.assert_allclose(V.T @ V / V.shape[0], np.eye(3), atol=0.06)
