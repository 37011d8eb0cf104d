"""Weighted minwise hashes: the very codes of the naive version, and what they are to say of the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

from ikmap.methods import Sample
from ikmap.methods.gcws import GCWS
from ikmap.methods.search import search_of
from ikmap.methods.values import at_value, cells_of_values
from ikmap.partitioners import GCWSPartitions
from ikmap.partitioners._gcws_draws_loops import logarithms
from ikmap.partitioners.gcws import COORDINATE_BYTES
from tests.naive.gcws import gcws_codes, logarithm, pgmm
from tests.support.calls import counted

PS = (0.05, 0.25, 1.0, 5.0, 50.0)


def rows(n: int = 12, d: int = 6, seed: int = 0) -> np.ndarray:
    """Rows with ones, zeros, numbers of both signs and all sizes; the last but one is zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.exp(rng.normal(size=(n, d)))
    X[rng.random((n, d)) < 0.2] = 1.0
    X[rng.random((n, d)) < 0.3] = 0.0
    X[-2] = 0.0
    return X


def fitted(d: int, **asked: Any) -> GCWSPartitions:
    return GCWSPartitions(**{"seed": 3, "t": 40, "p": 1.0, "b": 8, "gamma": 1, "full": True, "n_features": d, **asked})


@pytest.mark.parametrize("p", PS)
@pytest.mark.parametrize(("full", "gamma", "b"), [(True, 1, 8), (False, 1, 16), (True, 2, 5)])
def test_codes_are_those_of_the_naive_version(p: float, full: bool, gamma: int, b: int) -> None:
    X = rows()
    model = fitted(6, p=p, b=b, gamma=gamma, full=full)
    expected = gcws_codes(X, 3, 40, p, b, gamma, full)
    np.testing.assert_array_equal(model.cells(X, 1).codes, expected)
    np.testing.assert_array_equal(model.cells(sp.csr_array(X), 2).codes, expected)


def test_the_logarithm() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([np.exp(rng.uniform(-700, 700, 2000)), 1 + rng.normal(size=2000) * 1e-3, [5e-324, 1e-310, 1.0]])
    found = np.empty_like(x)
    logarithms(x, found)
    np.testing.assert_allclose(found, np.log(x), rtol=1e-15)
    assert found.tolist() == [logarithm(float(one)) for one in x]


def test_bits_that_were_found_before() -> None:
    """They may change on no machine, with no version of anything."""
    assert fitted(6, t=6).cells(rows(), 1).codes[:3].tolist() == PINNED


PINNED = [[69, 147, 125, 109, 154, 131], [175, 251, 82, 47, 74, 143], [175, 116, 145, 164, 0, 38]]


@pytest.mark.parametrize("full", [True, False])
def test_nothing_depends_on_how_rows_are_cut(full: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    X = rows(300, 9)
    model = fitted(9, full=full)
    whole = model.cells(X, 1).codes
    monkeypatch.setattr("ikmap.partitioners.gcws.LEAST_VALUES", 50)
    monkeypatch.setattr("ikmap.partitioners.gcws.VALUES_OF_A_COLUMN", 1)
    np.testing.assert_array_equal(model.cells(X, 3).codes, whole)
    np.testing.assert_array_equal(model.cells(X[200:210], 1).codes, whole[200:210])
    np.testing.assert_array_equal(fitted(9, full=full, t=7).cells(X, 1).codes, whole[:, :7])
    np.testing.assert_array_equal(fitted(9, full=full, b=3).cells(X, 1).codes, whole >> 5)


@pytest.mark.parametrize("threads", [1, 3])
def test_tables_of_all_threads_together_are_bounded(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread has a table for every coordinate of its block of rows."""
    rng = np.random.default_rng(0)
    columns = rng.integers(0, 10_000, 1200)
    X = sp.csr_array((rng.random(1200) + 0.5, columns, np.arange(0, 1201, 4)), shape=(300, 10_000))
    model = fitted(10_000)
    whole = model.cells(X, 1).codes
    monkeypatch.setattr("ikmap.partitioners.gcws.TABLE_BYTES", 240 * COORDINATE_BYTES)
    with counted(GCWSPartitions._hash, note=lambda of: of["X"].nnz) as blocks:
        codes = model.cells(X, threads).codes
    np.testing.assert_array_equal(codes, whole)
    assert threads * max(blocks.notes) <= 240
    assert len(blocks.notes) == 5 * threads


# --- the properties of algorithms.md, section 10


T = 20_000


@pytest.mark.parametrize("gamma", [1, 2, 3])
@pytest.mark.parametrize("p", PS)
def test_full_codes_match_as_often_as_the_kernel_says(p: float, gamma: int) -> None:  # GM5, GM7
    rng = np.random.default_rng(1)
    X = np.abs(rows(3, 6, 1)[:1]) * np.exp(rng.normal(size=(8, 6)) / (1 + p))
    codes = fitted(6, t=T, p=p, b=16, gamma=gamma).cells(X, 1).codes
    share = (codes[:, None] == codes[None]).mean(axis=2)
    R = pgmm(X, X, p) ** gamma
    expected = R + (1 - R) / 2**16
    assert (np.abs(share - expected) <= 4 * np.sqrt(expected * (1 - expected) / T) + 2 / T).all()
    assert R[~np.eye(len(X), dtype=bool)].max() > 0.02


@pytest.mark.parametrize("p", PS)
def test_codes_without_tau_match_at_least_as_often(p: float) -> None:  # GM6
    X = rows(8, 6, 1)
    full, less = (fitted(6, t=2000, p=p, b=16, full=full).cells(X, 1).codes for full in (True, False))
    same_full, same_less = full[:, None] == full[None], less[:, None] == less[None]
    # Codes that differ may be cut to the same bits, once in 2^16.
    assert np.count_nonzero(same_full & ~same_less) <= 12


@pytest.mark.parametrize("p", PS)
def test_of_zeros_and_ones_the_kernel_is_that_of_jaccard(p: float) -> None:  # GM2
    X = (np.random.default_rng(0).random((6, 12)) < 0.5).astype(float)
    np.testing.assert_allclose(pgmm(X, X, p), X @ X.T / (12 - (1 - X) @ (1 - X.T)))
    np.testing.assert_array_equal(fitted(12, p=p).cells(X, 1).codes, fitted(12).cells(X, 1).codes)


values = st.one_of(st.just(0.0), st.sampled_from([1.0, -1.0, 0.5]), st.floats(-1e9, 1e9, allow_subnormal=False))


@settings(max_examples=25, deadline=None)
@given(st.lists(values, min_size=1, max_size=8), st.sampled_from(PS), st.booleans(), st.integers(0, 2**63))
def test_equal_rows_have_equal_codes_whatever_stands_beside_them(
    row: list[float], p: float, full: bool, seed: int
) -> None:  # GM8, GM9
    u, d = np.array([row]), len(row)
    model = fitted(d, p=p, full=full, seed=seed)
    cells = model.cells(u, 1)
    np.testing.assert_array_equal(
        fitted(d + 3, p=p, full=full, seed=seed).cells(np.pad(u, ((0, 0), (0, 3)))).codes, cells.codes
    )
    turned = sp.csr_array(u)
    turned.indices, turned.data = turned.indices[::-1].copy(), turned.data[::-1].copy()
    turned.has_sorted_indices = False
    np.testing.assert_array_equal(model.cells(turned, 1).codes, cells.codes)
    ones = cells.to_csr(normalize=False)
    assert ones.sum() == (40 if u.any() else 0)
    assert ones.reshape(40, -1).sum(axis=1).max() == ones.sum() / 40
    assert (cells.codes < 0).all() == (not u.any())


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("b", [1, 2, 4, 8])
def test_no_bit_is_lost_where_no_value_is_negative(b: int, full: bool) -> None:  # GM10, and the trap of 10.3
    X = np.random.default_rng(0).random((100, 600))
    codes = fitted(600, b=b, full=full, t=400).cells(X, 1).codes
    assert np.unique(codes).size == 2**b
    assert abs((codes & 1).mean() - 0.5) < 0.05


@pytest.mark.slow
def test_a_linear_svm_on_codes_becomes_that_of_the_kernel() -> None:  # GM11
    rng = np.random.default_rng(4)
    y = rng.integers(0, 2, 300)
    X = rng.lognormal(0, 1, (300, 8)) * (1 + 0.8 * np.eye(8)[y])
    K = pgmm(X, X, 0.5)
    train, test = slice(0, 150), slice(150, 300)
    exact = SVC(C=4.0, kernel="precomputed").fit(K[train, train], y[train]).decision_function(K[test, train])
    off = []
    for t in (32, 256, 2048):
        features = fitted(8, t=t, p=0.5, b=12).cells(X, 1).to_csr()
        near = SVC(C=4.0, kernel="linear").fit(features[train], y[train]).decision_function(features[test])
        off.append(np.sqrt(np.mean((near - exact) ** 2) / np.mean(exact**2)))
    assert off == sorted(off, reverse=True)
    assert off[-1] < 0.2
    assert off[0] > 3 * off[-1]


def test_rows_of_sparse_data_with_millions_of_columns() -> None:
    d = 3_000_000
    rng = np.random.default_rng(0)
    X = sp.csr_array((rng.random(60) + 0.5, rng.integers(0, d, 60), np.arange(0, 61, 6)), shape=(10, d))
    X.sum_duplicates()
    codes = fitted(d).cells(X, 1).codes
    used = np.unique(X.indices)
    assert fitted(d).nbytes == 0
    for i in range(10):
        np.testing.assert_array_equal(fitted(d).cells(X[[i]], 1).codes[0], codes[i])
    assert used.size > 50
    assert (codes >= 0).all()


def test_the_path_hashes_once_for_all_bits() -> None:
    X = rows(30, 5)
    one, searched = GCWS(t=9), frozenset({"p", "b"})
    search = search_of(one, searched, 30)
    assert search is not None
    sample = Sample(30, 5, None, X.__getitem__, 5)
    found = dict(cells_of_values(one, searched, search.values, sample, [X, X[:4]]))
    assert list(found) == sorted(search.values)
    for value in search.values[::5]:
        model = at_value(one, searched, value).fit(sample)
        np.testing.assert_array_equal(found[value][0].codes, model.cells(X, 1).codes)
        np.testing.assert_array_equal(found[value][0].offsets, model.offsets)
