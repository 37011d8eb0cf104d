"""GMM kernels: values and properties of section 10.2, the same bits for any layout, tiles and threads."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import ikmap.kernels.min_max as min_max
from ikmap.kernels import CosineKernel, CosineRBFKernel, LinearKernel, MinMaxKernel, kernel_as_dict
from ikmap.kernels.min_max import MOST_P
from ikmap.kernels.tabled import KernelTable, TabledKernel
from ikmap.maps import NystroemMap
from tests.naive import kernels as naive

COMBINED = [
    MinMaxKernel(p, gamma, le) for p, gamma, le in product((1.0, 0.25, 7.5), (1.0, 2.0, 0.4), (None, 0.7, 30.0))
]
PS = (0.05, 1.0, 2.0, 3.3, 100.0)


def rows_of(n: int, d: int, seed: int = 0, signed: bool = True, share: float = 0.4) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.lognormal(0, 2, (n, d)) * (rng.random((n, d)) < share)
    return X * rng.choice([-1.0, 1.0], X.shape) if signed else X


@pytest.mark.parametrize(
    ("p", "signed", "n", "m", "d"),
    # Any two of the three meet: exponents, signs and sizes.
    [
        (p, (i + k) % 2 == 0, *sizes)
        for i, p in enumerate(PS)
        for k, sizes in enumerate([(9, 7, 3), (1, 5, 1), (0, 4, 2), (33, 17, 300), (3, 2, 0), (20, 35, 40)])
    ],
)
def test_values_are_those_of_the_definition(p: float, signed: bool, n: int, m: int, d: int) -> None:
    X, Y = rows_of(n, d, 0, signed), rows_of(m, d, 1, signed)
    X[:1], Y[-1:] = 0.0, 0.0
    found, expected = MinMaxKernel(p).matrix(X, Y), naive.min_max_kernel(X, Y, p)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-80)
    for left, right in ((sp.csr_array(X), sp.csr_array(Y)), (sp.csr_array(X), Y), (X, sp.csr_array(Y))):
        np.testing.assert_array_equal(MinMaxKernel(p).matrix(left, right), found)


def test_whole_numbers_have_exactly_the_values_of_the_definition() -> None:
    X = np.rint(rows_of(40, 60, signed=True))
    np.testing.assert_array_equal(MinMaxKernel().matrix(X), naive.min_max_kernel(X, X))


def test_the_example_of_the_transform() -> None:
    assert naive.halves([-4.0, 6.0]) == [0.0, 4.0, 6.0, 0.0]


@pytest.mark.parametrize("kernel", COMBINED, ids=str)
def test_every_combination(kernel: MinMaxKernel) -> None:
    X, Y = rows_of(12, 8), rows_of(9, 8, 1)
    expected = naive.min_max_kernel(X, Y, kernel.p, kernel.gamma, kernel.le)
    np.testing.assert_allclose(kernel.matrix(X, Y), expected, rtol=1e-12)


# Numbers so small that a multiple of them is rounded to another ratio are left out: they have a scale.
VALUES = arrays(
    np.float64,
    (5, 6),
    elements=st.one_of(st.just(0.0), st.floats(-1e150, -1e-290), st.floats(1e-290, 1e150)),
)


@settings(max_examples=60, deadline=None)
@given(VALUES, st.sampled_from(COMBINED), st.sampled_from([2.0**-9, 3.7, 1e6]))
def test_kernels_are_bounded_symmetric_and_have_no_scale(X: np.ndarray, kernel: MinMaxKernel, c: float) -> None:
    """GM1 and GM4."""
    K = kernel.matrix(X)
    assert (np.diag(K) == 1.0).all()
    assert (K >= 0.0).all()
    assert (K <= 1.0).all()
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_array_equal(kernel.matrix(-X), K)
    np.testing.assert_allclose(kernel.matrix(c * X), K, rtol=1e-9, atol=1e-60)


@settings(max_examples=40, deadline=None)
@given(VALUES)
def test_parameters_of_one_change_nothing(X: np.ndarray) -> None:
    """GM1."""
    np.testing.assert_array_equal(MinMaxKernel(1.0, 1.0).matrix(X), MinMaxKernel().matrix(X))
    R = MinMaxKernel().matrix(X)
    np.testing.assert_array_equal(MinMaxKernel(1.0, 1.0, 0.8).matrix(X), np.exp((R - 1.0) * 0.8))


@settings(max_examples=30, deadline=None)
@given(
    arrays(np.float64, (6, 70), elements=st.sampled_from([0.0, 1.0])),
    st.sampled_from([*COMBINED, *map(MinMaxKernel, PS)]),
    st.booleans(),
)
def test_zeros_and_ones_have_the_jaccard_similarity(X: np.ndarray, kernel: MinMaxKernel, packed: bool) -> None:
    """GM2, exactly."""
    B = X.astype(bool)
    common, together = (B[:, None] & B).sum(axis=2), (B[:, None] | B).sum(axis=2)
    expected = np.where(together == 0, 1.0, common / np.maximum(together, 1))
    kernel.finish(expected)
    with pytest.MonkeyPatch.context() as patch:
        if not packed:
            patch.setattr("ikmap.kernels.points.PACKED_COLUMNS", 0)
        for form in (X, sp.csr_array(X)):
            np.testing.assert_array_equal(kernel.matrix(form), expected)


@pytest.mark.parametrize("combined", [(1.0, None), (2.0, None), (0.4, 3.0)])
def test_a_power_near_zero_compares_what_is_there(combined: tuple[float, float | None]) -> None:
    """GM3."""
    gamma, le = combined
    X = rows_of(20, 12, signed=False)
    expected = MinMaxKernel(1.0, gamma, le).matrix((X != 0).astype(float))
    np.testing.assert_allclose(MinMaxKernel(1e-9, gamma, le).matrix(X), expected, rtol=1e-6)


@pytest.mark.parametrize("p", [1.0, 0.3, 40.0])
@pytest.mark.parametrize("signed", [False, True])
def test_tiles_threads_and_layouts_change_nothing(p: float, signed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    X = rows_of(301, 21, signed=signed)
    X[120:140] *= 1e6  # tiles of another size
    X[200] = 0.0
    K = MinMaxKernel(p).matrix(X, n_threads=1)
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_array_equal(MinMaxKernel(p).matrix(X, X, n_threads=2), K)
    for i, j in ((0, 1), (3, 300), (130, 133), (255, 301), (200, 201)):
        np.testing.assert_array_equal(MinMaxKernel(p).matrix(X[i:j], X), K[i:j])
        np.testing.assert_array_equal(MinMaxKernel(p).matrix(X, X[i:j]), K[:, i:j])
    for slower in (0, 10**9):
        monkeypatch.setattr(min_max, "SLOWER", slower)
        np.testing.assert_array_equal(MinMaxKernel(p).matrix(X), K)
        np.testing.assert_array_equal(MinMaxKernel(p).matrix(sp.csr_array(X)), K)
    monkeypatch.setattr(min_max, "SPREAD", -1)  # each pair on a scale of its own
    np.testing.assert_array_equal(MinMaxKernel(p).matrix(X), K)


def test_rows_of_any_size_are_compared() -> None:
    """1000^100 is beyond float64."""
    X = np.array([[1e3, 2e3], [2e3, 2e3], [1e-300, 0.0], [1e300, 1e300], [1e-3, 2e-3]])
    K = MinMaxKernel(100.0).matrix(X)
    assert np.isfinite(K).all()
    assert K[0, 1] == pytest.approx(0.5, rel=1e-12)
    assert (K[3, :3] == 0).all()
    assert (np.diag(K) == 1).all()


def test_the_largest_power_is_that_of_the_definition_and_larger_ones_are_refused() -> None:
    """Above 1024 powers of values are infinite, and unlike rows would have the value 1."""
    X = rows_of(20, 6)
    np.testing.assert_allclose(
        MinMaxKernel(MOST_P).matrix(X), naive.min_max_kernel(X, X, MOST_P), rtol=1e-9, atol=1e-15
    )
    with pytest.raises(ValueError, match=r"^p must be at most 1000, .* got 1024.0; give p 80"):
        MinMaxKernel(1024.0)


def test_kernels_of_whole_powers_have_no_negative_eigenvalue_and_others_may() -> None:
    """All subsets but the empty one of four things (algorithms.md 10.2)."""
    X = np.array([[(number >> bit) & 1 for bit in range(4)] for number in range(1, 16)], dtype=float)
    least = {g: np.linalg.eigvalsh(MinMaxKernel(1.0, g).matrix(X))[0] for g in (0.05, 0.5, 1.0, 2.0, 3.0)}
    assert least[0.5] == pytest.approx(-0.15, abs=0.01)
    assert least[0.05] == pytest.approx(-1.2, abs=0.05)
    assert min(least[1.0], least[2.0], least[3.0]) > -1e-12


@pytest.mark.parametrize("kernel", [MinMaxKernel(), MinMaxKernel(0.5, 1.0, 2.0), MinMaxKernel(3.0, 2.0)], ids=str)
def test_nystroem_on_all_points_gives_the_kernel(kernel: MinMaxKernel) -> None:
    X = rows_of(40, 30)
    features = NystroemMap.fit(X, kernel, 40).transform(X)
    np.testing.assert_allclose(features @ features.T, kernel.matrix(X), atol=1e-9)
    few = NystroemMap.fit(X[:10], kernel, 10)
    np.testing.assert_allclose(few.transform(X[:10]) @ few.transform(X).T, kernel.matrix(X[:10], X), atol=1e-9)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_radial_kernel_of_directions(layout: Callable[[np.ndarray], Any]) -> None:
    X = rows_of(15, 7) * 1e3
    X[[2, 9]] = 0.0
    found = CosineRBFKernel(2.5).matrix(layout(X))
    np.testing.assert_allclose(found, naive.cosine_kernel(X, X, 2.5), rtol=1e-12)
    assert (np.diag(found) == 1.0).all()
    np.testing.assert_allclose(CosineRBFKernel(2.5).matrix(layout(X * 1e-170)), found, rtol=1e-12)


@pytest.mark.parametrize("layout", [np.asarray, sp.csr_array])
def test_linear_kernel(layout: Callable[[np.ndarray], Any]) -> None:
    X, Y = rows_of(9, 5), rows_of(6, 5, 1)
    np.testing.assert_allclose(LinearKernel().matrix(layout(X), layout(Y)), X @ Y.T, rtol=1e-13)
    assert (np.diag(CosineKernel().matrix(layout(X))).round(12) <= 1).all()
    length = np.linalg.norm(X, axis=1)
    expected = X @ X.T / np.where(length, length, 1) / np.where(length, length, 1)[:, None]
    np.testing.assert_allclose(CosineKernel().matrix(layout(X)), expected, atol=1e-14)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.inf, np.nan])
def test_bad_parameters(bad: float) -> None:
    for name in ("p", "gamma", "le"):
        with pytest.raises(ValueError, match=f"^{name} must be a finite number > 0, got {bad!r}$"):
            MinMaxKernel(**{name: bad})
    with pytest.raises(ValueError, match="le must be"):
        CosineRBFKernel(bad)
    with pytest.raises(ValueError, match=r"^rows have 3 columns, those that they are compared with 4$"):
        MinMaxKernel().matrix(np.ones((2, 3)), np.ones((2, 4)))


def test_values_of_a_table_are_rounded_as_those_of_the_kernel() -> None:
    kernel, X = MinMaxKernel(2.0, 1.0), np.random.default_rng(0).random((5, 3))
    table = KernelTable.of(kernel, X[:3], X[3:])
    assert table.kernel(kernel).unit == kernel.unit > 1
    assert TabledKernel(kernel_as_dict(LinearKernel()), table).unit == LinearKernel().unit == 1
