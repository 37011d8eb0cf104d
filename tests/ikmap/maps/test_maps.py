"""Approximate dense maps: property RF1 of algorithms.md 13, SV6 of 8.6, rows that stand for themselves, models."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse as sp

from ikmap.kernels import AdditiveChi2Kernel
from ikmap.learners.dual.linear_svm import SVMParams, fit_linear_svm, svm_model
from ikmap.learners.mapped_model import MappedModel
from ikmap.learners.rows import Block
from ikmap.maps import Chi2Map, FourierMap
from ikmap.maps.projection import project
from tests.naive import kernels as naive
from tests.support.narrow import read_back
from tests.support.streams import LAYOUTS, stream

pytestmark = pytest.mark.slow

KINDS = ["gaussian", "orthogonal", "laplacian"]


def fourier(kind: str, R: int, d: int, gamma: float, seed: int) -> FourierMap:
    if kind == "laplacian":
        return FourierMap.laplacian(R, d, gamma, seed)
    return FourierMap.gaussian(R, d, gamma, seed, orthogonal=kind == "orthogonal")


def kernel_of(kind: str, X: np.ndarray, gamma: float) -> np.ndarray:
    return naive.kernel(X, X, "laplacian" if kind == "laplacian" else "gaussian", gamma)


def products(kind: str, X: np.ndarray, R: int, gamma: float, repeats: int) -> np.ndarray:
    """Inner products of features for all pairs i < j, one line for each seed."""
    above, lines = np.triu_indices(X.shape[0], 1), []
    for seed in range(repeats):
        Z = fourier(kind, R, X.shape[1], gamma, seed).transform(X)
        np.testing.assert_allclose((Z**2).sum(axis=1), 1.0, rtol=1e-12)
        lines.append((Z @ Z.T)[above])
    return np.array(lines)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("gamma", [0.2, 2.0])
def test_rf1_features_are_unbiased_with_the_known_variance(kind: str, gamma: float) -> None:
    X, _ = stream("any", 6, 3)
    k = kernel_of(kind, X, gamma)[np.triu_indices(6, 1)]
    repeats, R = 1500, 6
    errors = products(kind, X, R, gamma, repeats) - k
    assert np.abs(errors.mean(axis=0) / (errors.std(axis=0) / np.sqrt(repeats))).max() < 5
    if kind == "laplacian":
        np.testing.assert_allclose(errors.var(axis=0), (1 - k**2) / (2 * R), rtol=0.25)


@pytest.mark.parametrize("kind", KINDS)
def test_rf1_error_falls_with_the_root_of_the_number_of_frequencies(kind: str) -> None:
    X, _ = stream("any", 8, 3)
    k = kernel_of(kind, X, 1.0)[np.triu_indices(8, 1)]
    sizes = np.array([16, 64, 256, 1024])
    errors = [np.sqrt(((products(kind, X, R, 1.0, 60) - k) ** 2).mean()) for R in sizes]
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert -0.6 < slope < -0.4


@pytest.mark.parametrize("layout", LAYOUTS)
def test_fourier_features_of_the_definition(layout: str) -> None:
    X, _ = stream("gaps", 9, 7)
    map = FourierMap.gaussian(5, 7, 0.4, 0)
    np.testing.assert_allclose(
        map.transform(LAYOUTS[layout](X)), naive.fourier_features(X, map.frequencies), atol=1e-14
    )
    assert map.n_features == 10
    assert map.transform(LAYOUTS[layout](X[:0])).shape == (0, 10)


@pytest.mark.parametrize("order", [0, 1, 2])
@pytest.mark.parametrize("period", [None, 0.3])
def test_chi2_features_of_the_definition(order: int, period: float | None) -> None:
    X, _ = stream("gaps", 9, 7)
    X[0, :2] = 1.0, 30.0
    map = Chi2Map(order, period)
    expected = naive.chi2_features(X, order, period or [0.8, 0.5, 0.4][order])
    dense, csr = map.transform(X), map.transform(sp.csr_array(X))
    np.testing.assert_allclose(dense, expected, rtol=1e-12, atol=1e-15)
    assert isinstance(csr, sp.csr_array)
    np.testing.assert_array_equal(csr.toarray(), dense)
    assert csr.nnz == (2 * order + 1) * np.count_nonzero(X)
    assert csr.has_sorted_indices
    for empty in (X[:0], sp.csr_array(X[:0])):
        assert map.transform(empty).shape == (0, 7 * (2 * order + 1))
    doubled = sp.csr_array((np.repeat(X.ravel() / 2, 2), np.repeat(np.tile(np.arange(7), 9), 2),
                            np.arange(0, 127, 14)), shape=X.shape)  # fmt: skip
    of_doubled = map.transform(doubled)
    assert isinstance(of_doubled, sp.csr_array)
    np.testing.assert_array_equal(of_doubled.toarray(), dense)


def test_sv6_inner_products_approach_the_kernel() -> None:
    X, _ = stream("any", 40, 1)
    K = AdditiveChi2Kernel().matrix(X)
    errors = []
    for order in (0, 1, 2, 4, 8):
        Z = Chi2Map(order, 0.3).transform(X)
        errors.append(np.abs(Z @ Z.T - K).max())
    assert (np.diff(errors) < 0).all()
    assert errors[-1] < 5e-4
    wide, _ = stream("gaps", 30, 9)
    Z = Chi2Map(8, 0.3).transform(wide)
    np.testing.assert_allclose(Z @ Z.T, AdditiveChi2Kernel().matrix(wide), atol=9 * 5e-4)


@pytest.mark.parametrize("order", [0, 2])
def test_sv6_norms_scale_with_the_root(order: int) -> None:
    X, _ = stream("any", 20, 5)
    for c in (1e-3, 7.0):
        a, b = (Chi2Map(order).transform(each) for each in (c * X, X))
        np.testing.assert_allclose(np.linalg.norm(a, axis=1), np.sqrt(c) * np.linalg.norm(b, axis=1), rtol=1e-12)
    if order == 0:
        np.testing.assert_allclose(Chi2Map().transform(X), np.sqrt(0.8 * X), rtol=1e-15)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_stand_for_themselves(layout: str) -> None:
    """Bit for bit, also angles of any size, beside which a vector of them might be computed otherwise."""
    X, _ = stream("gaps", 700, 11)
    X[::7] *= 1e6
    rows = LAYOUTS[layout](X)
    for map in (FourierMap.gaussian(13, 11, 0.4, 0), FourierMap.laplacian(13, 11, 0.4, 0)):
        whole = map.transform(rows, 1)
        for n_threads in (2, 4):
            np.testing.assert_array_equal(map.transform(rows, n_threads), whole)
        for i, j in ((0, 1), (1, 4), (255, 258), (699, 700)):
            np.testing.assert_array_equal(map.transform(rows[i:j]), whole[i:j])
    M = np.random.default_rng(0).normal(size=(11, 3))
    np.testing.assert_allclose(project(rows, M), X @ M, rtol=1e-9, atol=1e-9)
    for k in range(3):
        np.testing.assert_array_equal(project(rows, M[:, k : k + 1])[:, 0], project(rows, M)[:, k])


def test_seeds() -> None:
    for kind in KINDS:
        maps = [fourier(kind, 4, 3, 1.0, seed).frequencies for seed in (0, 0, 1)]
        np.testing.assert_array_equal(maps[0], maps[1])
        assert (maps[0] != maps[2]).all()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "map", [Chi2Map(), Chi2Map(1), FourierMap.gaussian(9, 6, 0.4, 0)], ids=["chi2", "chi2-1", "rff"]
)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_linear_svm_on_features_is_one_model(map: Chi2Map | FourierMap, layout: str, n_classes: int) -> None:
    X, y = stream("gaps", 1100, n_classes=n_classes)
    rows, params = LAYOUTS[layout](X), SVMParams(C=1.0, fit_intercept=True)
    Z = map.transform(rows)
    linear = svm_model(fit_linear_svm([Block(Z, y)], n_classes, params), list(range(n_classes)), params, divisor=1.0)
    model = MappedModel(map, linear)
    again = read_back(model)
    assert again.content_hash == model.content_hash
    assert (again.learner, again.classes) == ("svm", list(range(n_classes)))
    np.testing.assert_array_equal(again.decision_function(rows), linear.decision_function(Z))
    for i, j in ((0, 3), (1020, 1030), (5, 5)):
        np.testing.assert_array_equal(again.decision_function(rows[i:j]), model.decision_function(rows)[i:j])
    assert (again.predict(rows) == y).mean() > 0.6
    nan = X.copy()
    nan[1050, 2] = np.nan
    with pytest.raises(ValueError, match=r"^row 1050, column 2: value is not finite$"):
        again.decision_function(LAYOUTS[layout](nan))
    with pytest.raises(ValueError, match=r"^rows have \d+ feature columns, expected \d+$"):
        again.decision_function(LAYOUTS[layout](X[:, :5]))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_bad_input_is_named(layout: str) -> None:
    X, _ = stream("any", 400)
    nan, negative = X.copy(), X.copy()
    nan[300, 2], negative[301, 1] = np.nan, -1
    with pytest.raises(ValueError, match=r"^row 300, column 2: value is not finite$"):
        FourierMap.gaussian(5, 6, 0.4, 0).transform(LAYOUTS[layout](nan))
    with pytest.raises(ValueError, match=r"^rows have 5 feature columns, expected 6$"):
        FourierMap.gaussian(5, 6, 0.4, 0).transform(LAYOUTS[layout](X[:, :5]))
    message = "row 300, column 2: found nan, expected a finite number, not NaN or inf"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Chi2Map().transform(LAYOUTS[layout](nan))
    message = (
        "row 301, column 1: found -1.0, expected a value >= 0: chi-square is not defined for negative ones "
        "(scale the columns to [0, 1])"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        Chi2Map().transform(LAYOUTS[layout](negative))


def test_bad_parameters() -> None:
    for order in (-1, 3):
        with pytest.raises(ValueError, match=f"^order must be 0, 1 or 2, or come with a period; got {order}$"):
            Chi2Map(order)
    for period in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match=r"^period must be a positive number, got"):
            Chi2Map(1, period)
    assert Chi2Map(3, 0.3).order == 3
