"""The isolation kernel: properties IK1 to IK13 of algorithms.md, section 3.6."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ikmap.cells import Cells
from ikmap.kernels.isolation import isolation_kernel
from ikmap.partitioners import METHODS, draw_subsamples, fit_partitions
from ikmap.rows import as_csr
from tests.naive import partitioners as naive
from tests.support.point_sets import DATA, queries_of

T = 20


def _cells(X: np.ndarray, Q: np.ndarray, method: str, psi: int, seed: int, t: int = T) -> Cells:
    draws = draw_subsamples(X.shape[0], t, psi, seed)
    return fit_partitions(X, draws, method=method, seed=seed).cells(Q)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=25)
@given(name=st.sampled_from(sorted(DATA)), psi=st.integers(1, 60), seed=st.integers(0, 1000))
def test_features_and_kernel(method: str, name: str, psi: int, seed: int) -> None:
    """IK1 to IK4."""
    cells = _cells(DATA[name], queries_of(DATA[name])[::3], method, psi, seed)
    assert cells.codes.shape == (cells.n_rows, T)
    assert cells.codes.min() >= 0
    assert cells.codes.max() < psi
    Phi = cells.to_csr(normalize=False)
    assert (np.diff(Phi.indptr) == T).all()
    np.testing.assert_allclose(np.sqrt((Phi.toarray() ** 2).sum(axis=1)), np.sqrt(T))

    K = isolation_kernel(cells)
    assert (np.diag(K) == 1.0).all()
    assert K.min() >= 0.0
    assert K.max() <= 1.0
    np.testing.assert_array_equal(K, np.rint(K * T) / T)
    np.testing.assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K).min() >= -1e-10

    np.testing.assert_array_equal(K, (Phi @ Phi.T).toarray() / T)
    np.testing.assert_array_equal(K, Phi.toarray() @ Phi.toarray().T / T)
    normalised = cells.to_csr()
    np.testing.assert_allclose(K, (normalised @ normalised.T).toarray(), rtol=1e-12)


@given(
    n=st.integers(0, 9),
    m=st.integers(0, 9),
    t=st.integers(1, 6),
    width=st.sampled_from([1, 3, 300]),
    seed=st.integers(0, 99),
)
def test_kernel_of_the_definition(n: int, m: int, t: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    offsets = np.arange(t + 1) * width
    a, b = (Cells(rng.integers(0, width, size=(k, t), dtype=np.int32), offsets) for k in (n, m))
    np.testing.assert_array_equal(isolation_kernel(a, b), naive.isolation_kernel(a.codes, b.codes).reshape(n, m))


@pytest.mark.parametrize("method", METHODS)
def test_large_kernel_in_tiles(method: str) -> None:
    X = np.random.default_rng(0).random((301, 3))
    cells = _cells(X, X, method, 16, 0)
    expected = (cells.codes[:, None] == cells.codes[None]).sum(axis=2) / T
    for n_threads in (1, 2, 4):
        np.testing.assert_array_equal(isolation_kernel(cells, n_threads=n_threads), expected)
    np.testing.assert_array_equal(isolation_kernel(cells[:7], cells), expected[:7])


def test_cells_of_different_partitionings() -> None:
    a, b = (Cells(np.zeros((2, t), dtype=np.int32), np.arange(t + 1) * 4) for t in (3, 5))
    with pytest.raises(ValueError, match="cells of different partitionings: 3 of 12 cells in all, 5 of 20"):
        isolation_kernel(a, b)


@pytest.mark.parametrize("method", METHODS)
def test_one_cell_and_as_many_as_points(method: str) -> None:
    """IK5."""
    X = DATA["continuous"]
    assert (isolation_kernel(_cells(X, X, method, 1, 0)) == 1.0).all()
    np.testing.assert_array_equal(isolation_kernel(_cells(X, X, method, X.shape[0], 0)), np.eye(X.shape[0]))


def test_a_subsample_point_has_its_own_number() -> None:
    """IK7. (IK6, for trees, stands in test_iforest.)"""
    X = DATA["continuous"]
    draws = draw_subsamples(X.shape[0], T, 16, 0)
    codes = fit_partitions(X, draws, method="anne", seed=0).cells(X).codes
    for i, draw in enumerate(draws):
        np.testing.assert_array_equal(codes[draw, i], np.arange(16))


@pytest.mark.parametrize("method", METHODS)
def test_seed_alone_decides(method: str) -> None:
    """IK8; blocks and threads are varied in test_voronoi and test_iforest."""
    X = DATA["sparse"]
    first = _cells(X, X, method, 16, 5).codes
    np.testing.assert_array_equal(_cells(X, X, method, 16, 5).codes, first)
    np.testing.assert_array_equal(_cells(as_csr(X), as_csr(X), method, 16, 5).codes, first)
    assert (_cells(X, X, method, 16, 6).codes != first).any()


def test_voronoi_cells_move_with_the_points() -> None:
    """IK9: translation, rotation, positive scale."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 5))
    rotation, _ = np.linalg.qr(rng.normal(size=(5, 5)))
    expected = _cells(X, X, "anne", 32, 0).codes
    for moved in (X + 10 * rng.normal(size=5), X @ rotation, 37.5 * X, 0.01 * X @ rotation - 3.0):
        np.testing.assert_array_equal(_cells(moved, moved, "anne", 32, 0).codes, expected)


@pytest.mark.parametrize("max_depth", [None, "log2"])
def test_trees_ignore_shift_and_scale_of_each_attribute(max_depth: str | None) -> None:
    """IK9: with the same uniforms the cells are the same, so their law is."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 5))
    moved = X * np.array([1e-3, 2.0, 1.0, 50.0, 7.0]) + rng.normal(size=5)
    draws = draw_subsamples(200, T, 32, 0)
    options: dict[str, Any] = {"method": "iforest", "seed": 0, "max_depth": max_depth}
    expected = fit_partitions(X, draws, **options).cells(X).codes
    np.testing.assert_array_equal(fit_partitions(moved, draws, **options).cells(moved).codes, expected)


def _agreement(codes: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Whether each pair shares a cell in each partitioning, shape (pairs, t)."""
    return codes[pairs[:, 0]] == codes[pairs[:, 1]]


@pytest.mark.parametrize("method", METHODS)
def test_similarity_depends_on_density(method: str) -> None:
    """IK10: at equal distance, points in the sparse region are more similar."""
    rng = np.random.default_rng(2)
    X = np.r_[rng.normal(0, 0.3, size=(900, 2)), rng.normal(10, 3.0, size=(100, 2))]
    pairs = np.array([[[-0.25, 0.0], [0.25, 0.0]], [[9.75, 10.0], [10.25, 10.0]]]).reshape(4, 2)
    t = 2000
    dense, sparse = _agreement(_cells(X, pairs, method, 32, 0, t).codes, np.array([[0, 1], [2, 3]])).astype(float)
    gap = sparse - dense
    assert gap.mean() > 5 * gap.std() / np.sqrt(t)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_kernel_sharpens_as_psi_grows(method: str) -> None:
    """IK11."""
    rng = np.random.default_rng(4)
    X = rng.random((500, 3))
    pairs, t = rng.integers(0, 500, size=(100, 2)), 1000
    means = [_agreement(_cells(X, X, method, 2**m, m, t).codes, pairs).mean(axis=0) for m in range(7)]
    for wide, sharp in pairwise(means):
        assert wide.mean() - sharp.mean() > 4 * np.sqrt((wide.var() + sharp.var()) / t)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_monte_carlo_error(method: str) -> None:
    """IK12: the squared difference of two fits, over 2 K (1 - K) / t, is 1 on average."""
    rng = np.random.default_rng(5)
    X = rng.random((300, 2))
    centre = rng.random((40, 2))
    Q = np.r_[centre, centre + 0.05]
    pairs, t, repeats = np.c_[:40, 40:80], 200, 50
    K = np.array(
        [_agreement(_cells(X, Q, method, 16, seed, t).codes, pairs).mean(axis=1) for seed in range(2 * repeats)]
    )
    truth = K.mean(axis=0)
    ratio = ((K[::2] - K[1::2]) ** 2 / (2 * truth * (1 - truth) / t)).mean(axis=1)
    assert abs(ratio.mean() - 1) < 4 * ratio.std(ddof=1) / np.sqrt(repeats)


def test_tree_kernel_falls_with_distance() -> None:
    """IK13: on uniform data, monotone in the L1 distance."""
    rng = np.random.default_rng(6)
    X = rng.random((5000, 2))
    start = 0.3 + 0.2 * rng.random((200, 2))
    t = 200
    shared = []
    for distance in (0.0, 0.02, 0.05, 0.1, 0.2, 0.4):
        share = rng.random((200, 1))
        ends = start + distance * np.c_[share, 1 - share]
        codes = _cells(X, np.r_[start, ends], "iforest", 64, 0, t).codes
        shared.append(_agreement(codes, np.c_[:200, 200:400]).mean(axis=0))
    assert (shared[0] == 1.0).all()
    for near, far in pairwise(shared):
        gap = near - far
        assert gap.mean() > 4 * gap.std() / np.sqrt(t)
