"""The transformer of weighted minwise hashes: scikit-learn's contract, kernel, neighbours, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ikmap import GCWSMap
from ikmap.partitioners import GCWSPartitions
from tests.naive.gcws import pgmm
from tests.support.narrow import csr


def rows(n: int = 60, d: int = 8) -> np.ndarray:
    rng = np.random.default_rng(0)
    centers = np.exp(rng.normal(size=(10, d)))
    return centers[rng.integers(10, size=n)] * np.exp(0.3 * rng.normal(size=(n, d)))


def test_inner_products_are_about_the_kernel() -> None:
    X = rows()
    hashed = GCWSMap(3000, 0.5, 12, random_state=0).fit(X)
    Z = csr(hashed.transform(X))
    K = hashed.kernel(X)
    np.testing.assert_allclose((Z @ Z.T).toarray(), K)
    assert np.abs(K - pgmm(X, X, 0.5)).max() < 4.5 * 0.5 / np.sqrt(3000)
    np.testing.assert_array_equal(hashed.cells(sp.csr_array(X)), hashed.cells(X))
    expected = GCWSPartitions(0, 3000, 0.5, 12, 1, True, 8).cells(X, 1).codes
    np.testing.assert_array_equal(hashed.cells(X), expected)


def test_neighbours_by_matching_codes() -> None:
    X = rows(400)
    queries = X[:50] * 1.01
    hashed = GCWSMap(1000, 1.0, 8, random_state=0).fit(X)
    similar, found = hashed.kneighbors(queries, 10)
    K = hashed.kernel(queries, X)
    for k in range(50):
        order = sorted(range(400), key=lambda i: (-K[k, i], i))[:10]
        assert found[k].tolist() == order
        np.testing.assert_array_equal(similar[k], K[k, order])
    exact = np.argsort(-pgmm(queries, X, 1.0), axis=1, kind="stable")[:, :10]
    recall = np.mean([np.isin(a, b).mean() for a, b in zip(found, exact, strict=True)])
    assert recall > 0.75


def test_rows_of_zeros_are_counted() -> None:
    X = rows(5)
    X[2] = 0.0
    with pytest.warns(UserWarning, match="1 of 5 rows are all zeros: they have no cells"):
        hashed = GCWSMap(20, random_state=0).fit(X)
    assert (hashed.cells(X)[2] == -1).all()
    assert hashed.kernel(X)[2].tolist() == [0.0] * 5
    assert csr(hashed.transform(X))[[2]].nnz == 0


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"p": 0}, "p: found 0, expected a number > 0"),
        ({"p": np.inf}, "p: found inf, expected a finite number > 0"),
        ({"p": 1e9}, "p 1e[+]09: found a p whose codes would leave int64, expected at most 1e[+]06"),
        ({"b": 17}, "b: found 17, expected an integer >= 1 and <= 16"),
        ({"gamma": 1.5}, "gamma: found 1.5, expected an integer >= 1"),
        ({"n_estimators": 0}, "n_estimators: found 0, expected an integer >= 1"),
        ({"code": "half"}, "code: found 'half', expected one of 0-bit, full"),
    ],
)
def test_what_cannot_be_is_refused(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        GCWSMap(**asked).fit(rows())
    with pytest.raises(ValueError, match="n_neighbors: found 61, expected an integer >= 1 and <= 60"):
        GCWSMap(5).fit(rows()).kneighbors(rows(), 61)
