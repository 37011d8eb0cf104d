"""Trees by histograms against trees that are grown from the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ikmap.learners.boosting import growth
from ikmap.learners.boosting.growth import Bins, Grower, Tree, TreeSettings, binned, whole_words
from tests.naive import boosting as naive

N = 250


def rows(seed: int = 0, n: int = N) -> np.ndarray:
    """Return columns of fractions, of few whole numbers, of mostly zeros, one that is constant, and one twice."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6))
    X[:, 1] = rng.integers(0, 4, n)
    X[:, 2] = np.where(rng.random(n) < 0.8, 0.0, X[:, 2])
    X[:, 3] = 1.5
    X[:, 5] = X[:, 0]
    return X


def derivatives(X: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    gradient = X[:, 0] * (X[:, 1] > 1) + X[:, 4] ** 2 + rng.normal(size=len(X)) / 3 - 1
    if kind == "even":
        return gradient, np.ones(len(X))
    if kind == "alike":
        return np.full(len(X), 0.3), np.full(len(X), 0.25)
    return gradient, rng.random(len(X)) / 4 if kind == "uneven" else np.where(X[:, 0] > 0, 1e-6, 0.2)


def grown(
    X: np.ndarray, kind: str, numbers: Any = None, columns: Any = None, threads: int = 1, **settings: Any
) -> Tree:
    gradient, hessian = derivatives(X, kind)
    numbers = np.arange(len(X)) if numbers is None else numbers
    columns = np.arange(X.shape[1]) if columns is None else np.asarray(columns)
    grower = Grower(binned(X, 0, threads), TreeSettings(**settings), threads)
    tree = grower.grow(numbers.astype(np.uint32), whole_words(gradient, hessian), columns.astype(np.int64))
    grower.close()
    return tree


@pytest.mark.parametrize("kind", ["even", "uneven", "small", "alike"])
@pytest.mark.parametrize(
    "settings",
    [
        {"max_leaves": 8, "min_leaf": 5},
        {"max_leaves": 31, "min_leaf": 1, "l2": 0.5},
        {"max_leaves": 5, "min_leaf": 20, "columns": [1, 4]},
        {"max_leaves": 2, "min_leaf": 126},
        {"max_leaves": 6, "min_leaf": 3, "numbers": np.arange(0, N, 3)},
    ],
    ids=str,
)
def test_trees_are_those_of_the_definition(kind: str, settings: dict[str, Any]) -> None:
    X = rows()
    tree = grown(X, kind, **settings)
    _, bins = naive.bins_of(X)
    own = settings | {"columns": settings.get("columns")}
    numbers = own.pop("numbers", np.arange(N)).tolist()
    expected = naive.preorder(naive.grow(bins, numbers, *derivatives(X, kind), **own))
    assert tree.feature.tolist() == [node.column if node.children else -1 for node in expected]
    assert tree.cut.tolist() == [node.cut if node.children else 0 for node in expected]
    assert [leaf.end - leaf.begin for leaf in tree.leaves] == [len(n.rows) for n in expected if not n.children]
    if kind == "alike" or settings["min_leaf"] > N // 2:
        assert len(tree.leaves) == 1
    else:
        assert len(tree.leaves) > 1


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_change_nothing(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    X = rows(n=3000)
    one = grown(X, "uneven", min_leaf=3)
    monkeypatch.setattr(growth, "PARALLEL_WORK", 1)
    many = grown(X, "uneven", threads=threads, min_leaf=3)
    assert (one.feature.tolist(), one.cut.tolist(), one.right.tolist()) == (
        many.feature.tolist(), many.cut.tolist(), many.right.tolist(),
    )  # fmt: skip
    assert len(one.leaves) == 31


def test_bins_of_dense_and_sparse_rows() -> None:
    X = rows(n=700)
    dense, sparse = binned(X, 0), binned(sp.csr_array(X), 0, 3)
    edges, bins = naive.bins_of(X)
    assert np.array_equal(dense.codes.T, bins)
    for bins_ in (dense, sparse):
        assert bins_.edges.tolist() == [edge for own in edges for edge in own]
        assert np.array_equal(bins_.codes, dense.codes)
    assert dense.first_bins.tolist() == np.r_[0, np.cumsum([len(own) + 1 for own in edges])].tolist()


def one_hot(n: int = N) -> np.ndarray:
    """Return two columns, one-hot words in nine, of which two are joined by others, and a column of two numbers."""
    rng = np.random.default_rng(3)
    words = np.eye(9)[rng.integers(0, 9, n)]
    words[:, 4] += words[:, 5]
    return np.column_stack([rng.normal(size=n), words, rng.integers(0, 2, n), np.round(rng.normal(size=n), 1)])


@pytest.mark.parametrize("kind", ["even", "uneven"])
@pytest.mark.parametrize("columns", [None, [2, 5, 6, 9, 10]])
def test_columns_of_two_bins_share_bytes_and_trees_are_the_same(kind: str, columns: list[int] | None) -> None:
    X = one_hot()
    bins = binned(X, 0)
    assert bins.codes.shape == (N, 5)  # six words with one of the two, the other with the column of two numbers alone
    tree = grown(X, kind, columns=columns, min_leaf=4, max_leaves=20)
    expected = naive.preorder(
        naive.grow(
            naive.bins_of(X)[1], list(range(N)), *derivatives(X, kind), columns=columns, min_leaf=4, max_leaves=20
        )
    )
    assert tree.feature.tolist() == [node.column if node.children else -1 for node in expected]
    assert [leaf.end - leaf.begin for leaf in tree.leaves] == [len(n.rows) for n in expected if not n.children]
    assert len({1, 2, 3, 5, 6, 7, 8, 9, 10} & set(tree.feature.tolist())) > 2


def test_edges_of_many_rows_are_those_of_some(monkeypatch: pytest.MonkeyPatch) -> None:
    X = rows(n=2000)
    monkeypatch.setattr(growth, "EDGE_ROWS", 300)
    first, again, other = (binned(X, seed) for seed in (1, 1, 2))
    assert np.array_equal(first.edges, again.edges)
    assert not np.array_equal(first.edges, other.edges)
    assert isinstance(first, Bins)
    assert first.codes.shape == X.shape


@pytest.mark.parametrize("n", [1, 3, 1000, 100_000])
def test_sums_of_words_are_sums_of_derivatives(n: int) -> None:
    rng = np.random.default_rng(n)
    gradient, hessian = rng.normal(size=n) * 1e5, rng.random(n) * 1e-5
    words = whole_words(gradient, hessian)
    sums = words.words.sum(axis=0)
    assert sums[1] & ((1 << words.shift) - 1) == n
    first, second = words.sums(sums)
    assert first == pytest.approx(gradient.sum(), abs=1e-9 * np.abs(gradient).max() * n)
    assert second == pytest.approx(hessian.sum(), rel=1e-7)
