"""Bins of rows against their definition, and the bytes that columns of two bins share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ikmap.learners.boosting import bins
from ikmap.learners.boosting.bins import Layout, edge_rows
from tests.ikmap.learners.boosting.test_growth import one_hot, rows
from tests.naive import boosting as naive


def codes_of(layout: Layout, X: Any, n_threads: int = 1) -> np.ndarray:
    stored = np.zeros((X.shape[0], layout.n_bytes), dtype=layout.dtype)
    layout.fill(X, stored, n_threads)
    return stored


@pytest.mark.parametrize(("max_bins", "dtype"), [(3, "u1"), (256, "u1"), (257, "u2"), (1024, "u2")])
def test_bins_of_dense_and_sparse_rows(max_bins: int, dtype: str) -> None:
    X = rows(n=700)
    dense, sparse = Layout.of(X, max_bins), Layout.of(sp.csr_array(X), max_bins)
    edges, expected = naive.bins_of(X, max_bins)
    codes = codes_of(dense, X)
    assert codes.dtype == dtype
    assert np.array_equal(codes.T, expected)
    for layout in (dense, sparse):
        assert layout.edges.tolist() == [edge for own in edges for edge in own]
        assert np.array_equal(codes_of(layout, sp.csr_array(X), 3), codes)
    assert dense.first_bins.tolist() == np.r_[0, np.cumsum([len(own) + 1 for own in edges])].tolist()


def test_edges_of_many_rows_are_those_of_some(monkeypatch: pytest.MonkeyPatch) -> None:
    assert edge_rows(2000, 6, 1).tolist() == list(range(2000))
    monkeypatch.setattr(bins, "EDGE_ROWS", 300)
    first, again, other = (edge_rows(2000, 6, seed).tolist() for seed in (1, 1, 2))
    assert first == again == sorted(set(first))
    assert first != other
    assert len(first) == 300
    monkeypatch.setattr(bins, "LEAST_EDGE_ROWS", 50)
    monkeypatch.setattr(bins, "EDGE_VALUES", 600)
    assert edge_rows(2000, 6, 1).size == 100  # of very many columns, fewer rows
    assert edge_rows(2000, 600, 1).size == 50


@pytest.mark.parametrize("part", [7, 250])
def test_columns_that_overlap_in_other_rows_get_bytes_of_their_own(part: int) -> None:
    X = one_hot()
    apart = X.copy()
    apart[:, 5] -= apart[:, 6]  # rows in which no word is joined by another
    layout = Layout.of(apart)
    marked = np.zeros(X.shape[1], dtype=np.bool_)
    for start in range(0, len(X), part):
        marked |= layout.clashes(X[start : start + part])
    bins_of_columns = np.array([X[:, j] >= layout.edges[layout.begins[j]] for j in range(1, 11)])
    expected = {
        j + 1
        for i in range(10)
        for j in range(i + 1, 10)
        if layout.members[i + 1] and layout.places[i + 1] == layout.places[j + 1]
        if (bins_of_columns[i] & bins_of_columns[j]).any()
    }
    assert set(np.flatnonzero(marked).tolist()) == expected
    assert expected
    mended = layout.without(marked)
    assert not mended.clashes(X).any()
    assert not (mended.members[sorted(expected)]).any()
    assert mended.n_bytes <= layout.n_bytes + len(expected)
    stored = codes_of(mended, X)
    for j in range(1, 11):
        own = stored[:, mended.places[j]]
        assert np.array_equal(own == mended.members[j] if mended.members[j] else own > 0, bins_of_columns[j - 1])
