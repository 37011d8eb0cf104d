"""The Nystroem map: properties NO2 and NO3 of algorithms.md 6, its points, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from ikmap.cells import Cells
from ikmap.kernels import AdditiveChi2Kernel, GaussianKernel, LaplacianKernel
from ikmap.kernels.points import PointKernel
from ikmap.maps.nystroem import NystroemMap, draw_points
from tests.support.streams import stream

KERNELS = [LaplacianKernel(0.7), GaussianKernel(1.3), AdditiveChi2Kernel()]
NAMES = [kernel.name for kernel in KERNELS]


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_no2_what_is_missing_is_positive_and_does_not_grow_with_points(
    kernel: PointKernel,
) -> None:
    X, _ = stream("any", 80)
    K, order, missing = kernel.matrix(X), np.random.default_rng(0).permutation(80), np.inf
    for b in (1, 5, 20, 40, 80):
        Z = NystroemMap.fit(X[order[:b]], kernel, b).transform(X)
        rest = K - Z @ Z.T
        assert np.linalg.eigvalsh((rest + rest.T) / 2).min() > -1e-8
        assert np.trace(rest) <= missing + 1e-8
        missing = np.trace(rest)
    assert missing < 1e-8


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
@pytest.mark.parametrize("rank", [1, 7, 40])
def test_no3_features_of_the_points_are_whitened(kernel: PointKernel, rank: int) -> None:
    X, _ = stream("any", 40)
    map = NystroemMap.fit(X, kernel, rank)
    product = map.matrix @ kernel.matrix(X) @ map.matrix.T
    np.testing.assert_allclose(product, np.eye(map.n_features), atol=1e-6)
    assert map.n_features <= rank
    if rank < 40:
        assert map.n_features == min(rank, np.linalg.matrix_rank(kernel.matrix(X)))


def test_points_are_drawn_evenly() -> None:
    numbers = draw_points(1000, 100, 0)
    assert numbers.size == np.unique(numbers).size == 100
    assert (np.diff(numbers) > 0).all()
    assert (numbers != draw_points(1000, 100, 1)).any()
    np.testing.assert_array_equal(draw_points(1000, 100, 0), numbers)
    np.testing.assert_array_equal(draw_points(7, 100, 0), np.arange(7))
    counts = np.bincount(np.concatenate([draw_points(20, 5, seed) for seed in range(2000)]), minlength=20)
    assert abs(counts / 2000 - 0.25).max() < 5 * np.sqrt(0.25 * 0.75 / 2000)


def test_points_that_are_equal_lower_the_rank() -> None:
    X = np.repeat(np.random.default_rng(0).random((5, 3)), 4, axis=0)
    map = NystroemMap.fit(X, KERNELS[0], 20)
    assert map.n_features == 5
    np.testing.assert_allclose(map.transform(X) @ map.transform(X).T, KERNELS[0].matrix(X), atol=1e-10)


def test_bad_points() -> None:
    X = np.random.default_rng(0).random((4, 3))
    for points, rank in ((X[:0], 3), (X, 0)):
        with pytest.raises(ValueError, match="a Nystroem map needs points and a rank >= 1, got"):
            NystroemMap.fit(points, KERNELS[0], rank)
    with pytest.raises(ValueError, match=r"^the kernel of the points has no positive eigenvalue$"):
        NystroemMap.fit(np.zeros((4, 3)), AdditiveChi2Kernel(), 3)
    with pytest.raises(ValueError, match="got cells"):
        NystroemMap.fit(Cells(np.zeros((2, 3), dtype=np.int32), np.arange(4)), KERNELS[0], 3)
