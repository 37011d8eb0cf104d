"""Edges of the bins of columns, and the bins of values, against their definition."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ikmap.partitioners.bins import bin_edges, bins_of
from tests.naive.forest import edges_of


@pytest.mark.parametrize("n", [2, 255, 256, 257, 258, 1000, 5000])
def test_edges(n: int) -> None:
    rng = np.random.default_rng(n)
    column = np.r_[rng.normal(size=n), rng.integers(0, 3, n // 2)]
    (found,) = bin_edges(column[:, None])
    assert found.tolist() == edges_of(column)
    assert found.size <= 255


@pytest.mark.parametrize("usual", [0.0, 0.5, 1.0, -3.0])
@pytest.mark.parametrize("others", [257, 300, 1000, 4000])
def test_a_value_of_nearly_all_rows_has_a_bin_of_its_own(usual: float, others: int) -> None:
    """Amounts that are nearly always 0 are told from the small ones, whatever lies above and below."""
    column = np.r_[np.full(100_000, usual), np.random.default_rng(others).random(others)]
    (edges,) = bin_edges(column[:, None])
    assert edges.size <= 255
    bins = bins_of(column[:, None], edges, np.array([0, edges.size]), np.uint8)[:, 0]
    assert not (bins[100_000:] == bins[0]).any()


def test_edges_of_a_column_without_such_a_value_are_between_its_quantiles() -> None:
    column = np.random.default_rng(0).permutation(1000.0 * np.arange(1000))
    (edges,) = bin_edges(column[:, None])
    ends = [column.size * k // 256 + (column.size * k % 256 > 0) - 1 for k in range(1, 256)]
    values = 1000.0 * np.array([*ends, 999])
    np.testing.assert_array_equal(edges, (values[:-1] + values[1:]) / 2)


def test_values_that_are_next_to_each_other_are_divided() -> None:
    column = np.array([1.0, np.nextafter(1.0, 2.0)])
    (edges,) = bin_edges(column[:, None])
    assert column[0] < edges[0] <= column[1]


def test_edges_of_dense_and_sparse_rows_are_the_same_on_any_number_of_threads() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 7)) * (rng.random((600, 7)) < 0.3)
    expected = [edges_of(column) for column in X.T]
    for rows in (X, sp.csr_array(X)):
        for threads in (1, 3):
            assert [own.tolist() for own in bin_edges(rows, n_threads=threads)] == expected


@pytest.mark.parametrize("n", [0, 1, 511, 513, 1500])
def test_bins_are_found_as_by_a_search_of_the_edges(n: int) -> None:
    """Columns have no edge, one, or many; values are at edges, infinite or missing too."""
    random = np.random.default_rng(n)
    edges = [np.sort(random.normal(size=size)) for size in (0, 1, 2, 3, 31, 32, 33, 254, 255)]
    X = random.normal(size=(n, len(edges)))
    for special in (np.nan, np.inf, -np.inf):
        X[random.random(X.shape) < 0.05] = special
    for j, own in enumerate(edges):
        X[::7, j] = random.choice(own, X[::7, j].size) if own.size else 0.0
    codes = bins_of(X, np.concatenate(edges), np.cumsum([0, *(own.size for own in edges)]), np.uint8)
    for j, own in enumerate(edges):
        found = np.searchsorted(own, X[:, j], side="right")
        assert np.array_equal(codes[:, j], np.where(np.isnan(X[:, j]), 0, found))
