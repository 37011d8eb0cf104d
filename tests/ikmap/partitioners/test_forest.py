"""Trees grown by labels against trees that are grown from the definition."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from ikmap.partitioners import draw_subsamples
from ikmap.partitioners.forest import ForestPartitions, Growth, fit_forest, whole_numbers
from tests.naive.forest import edges_of, forest_tree

SEED, T = 5, 4


def rows(n: int = 300, d: int = 5, *, seed: int = 0) -> np.ndarray:
    """Return columns of fractions, of few whole numbers, of mostly zeros, and one that is constant."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[:, 1] = rng.integers(0, 4, n)
    X[:, 2] = np.where(rng.random(n) < 0.8, 0.0, X[:, 2])
    X[:, 3] = 1.5
    return X


def targets(X: np.ndarray, criterion: str, n_classes: int = 2) -> np.ndarray:
    value = X[:, 0] + 0.5 * X[:, 1] * (X[:, 4] > 0) + np.random.default_rng(1).normal(size=len(X)) / 3
    if criterion == "squared":
        return value
    return np.searchsorted(np.quantile(value, np.arange(1, n_classes) / n_classes), value)


def nodes(model: ForestPartitions, i: int) -> list[tuple[int, float]]:
    own = slice(model.roots[i], model.roots[i + 1])
    return list(zip(model.feature[own].tolist(), model.threshold[own].tolist(), strict=True))


@pytest.mark.parametrize("splits", ["random", "best"])
@pytest.mark.parametrize(
    ("criterion", "n_classes"), [("gini", 2), ("gini", 3), ("entropy", 2), ("entropy", 4), ("squared", 0)]
)
@pytest.mark.parametrize(("n_tried", "max_depth", "min_leaf"), [(1, None, 1), (2, 3, 5), (5, None, 4)])
def test_trees_are_those_of_the_definition(
    criterion: str, n_classes: int, splits: str, n_tried: int, max_depth: int | None, min_leaf: int
) -> None:
    X = rows()
    y = targets(X, criterion, n_classes)
    draws = draw_subsamples(len(X), T, 80, SEED)
    growth = Growth(splits, n_tried, max_depth, min_leaf)  # type: ignore[arg-type]
    model = fit_forest(X, draws, y, SEED, criterion=criterion, growth=growth)
    whole = whole_numbers(y) if criterion == "squared" else y
    edges = [edges_of(column) for column in X.T]
    for i, draw in enumerate(draws):
        expected = forest_tree(
            X[draw], whole[draw], edges, SEED, i,
            criterion=criterion, splits=splits, n_tried=n_tried, max_depth=max_depth, min_leaf=min_leaf,
        )  # fmt: skip
        assert nodes(model, i) == expected


@pytest.mark.parametrize("criterion", ["gini", "squared"])
def test_rows_fall_where_the_trees_have_put_them(criterion: str) -> None:
    """Every leaf has rows of its subsample, at least as many as it must have, and cells are numbered in preorder."""
    X = rows()
    draws = draw_subsamples(len(X), T, 120, SEED)
    model = fit_forest(X, draws, targets(X, criterion), SEED, criterion=criterion, growth=Growth(min_leaf=6, n_tried=3))
    codes = model.cells(X).codes
    for i, draw in enumerate(draws):
        counts = np.bincount(codes[draw, i], minlength=int(model.n_leaves[i]))
        assert counts.size == model.n_leaves[i]
        assert counts.min() >= 6
    assert np.array_equal(np.diff(model.offsets), model.n_leaves)


def test_sparse_rows_and_threads_change_nothing() -> None:
    X = rows()
    X[np.abs(X) < 0.3] = 0.0
    y, draws = targets(X, "gini"), draw_subsamples(len(X), T, 100, SEED)
    models = [
        fit_forest(points, draws, y, SEED, criterion="gini", growth=Growth(n_tried=2), n_threads=threads)
        for points, threads in ((X, 1), (X, 3), (sp.csr_array(X), 2))
    ]
    assert len({model.content_hash for model in models}) == 1
    assert np.array_equal(models[0].cells(X).codes, models[0].cells(sp.csr_array(X)).codes)


def test_leaves_are_purer_than_those_of_blind_trees() -> None:
    X = rows(2000)
    y, draws = targets(X, "gini"), draw_subsamples(2000, 20, 500, SEED)
    model = fit_forest(X, draws, y, SEED, criterion="gini", growth=Growth(n_tried=5))
    blind = fit_forest(X, draws, np.random.default_rng(2).permutation(y), SEED, criterion="gini", growth=Growth())

    def accuracy(partitions: ForestPartitions) -> float:
        """Share of rows outside of the subsamples that have the more frequent class of their leaf there."""
        codes, hits = partitions.cells(X).codes, []
        for i, draw in enumerate(draws):
            ones = np.bincount(codes[draw, i], weights=y[draw]) / np.bincount(codes[draw, i])
            others = np.setdiff1d(np.arange(2000), draw)
            hits.append(np.mean((ones[codes[others, i]] > 0.5) == y[others]))
        return float(np.mean(hits))

    assert accuracy(model) > accuracy(blind) + 0.1
