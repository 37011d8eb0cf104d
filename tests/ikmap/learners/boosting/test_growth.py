"""Trees from histograms against trees that are grown from the definition, however many leaves are looked at at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ikmap.learners.boosting._loss_loops import fill_words
from ikmap.learners.boosting.bins import Layout
from ikmap.learners.boosting.growth import Growing, Growth, Node, Scales, Tree, TreeSettings
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


class Holder:
    """Rows in the leaves of a tree, by the splits so far; counts the rounds in which it is asked for histograms."""

    def __init__(self, X: np.ndarray, numbers: np.ndarray, words: np.ndarray) -> None:
        self.layout = Layout.of(X)
        self.codes = np.zeros((len(X), self.layout.n_bytes), dtype=np.uint8)
        self.layout.fill(X, self.codes)
        self.bins, self.words = naive.bins_of(X)[1], words
        self.rows, self.rounds = [numbers], 0

    def histograms(self, nodes: list[int]) -> np.ndarray:
        self.rounds += 1
        sums = np.zeros((len(nodes), int(self.layout.first_bins[-1]), 2), dtype=np.int64)
        for node, own in zip(nodes, sums, strict=True):
            for byte, first in enumerate(self.layout.first_bins[:-1]):
                np.add.at(own, first + self.codes[self.rows[node], byte], self.words[self.rows[node]])
        return sums

    def divide(self, splits: list[tuple[int, int, int]]) -> None:
        for node, column, cut in splits[len(self.rows) // 2 :]:
            own = self.rows[node]
            goes_right = np.array(self.bins[column])[own] >= cut
            self.rows += [own[~goes_right], own[goes_right]]


def grown(
    X: np.ndarray, kind: str, numbers: Any = None, columns: Any = None, at_once: int | None = 1, **settings: Any
) -> tuple[Tree, Holder]:
    gradient, hessian = derivatives(X, kind)
    numbers = np.arange(len(X)) if numbers is None else numbers
    columns = np.arange(X.shape[1]) if columns is None else np.asarray(columns)
    scales, words = Scales.of(len(X), *bounds(gradient, hessian)), np.empty((len(X), 2), dtype=np.int64)
    fill_words(gradient, hessian, scales.gradient, scales.hessian, scales.shift, words)
    holder = Holder(X, numbers, words)
    growing = Growing(TreeSettings(**settings), scales, columns=columns.astype(np.int64))
    growth = Growth(holder.layout, growing, holder.histograms([0])[0])
    while wanted := growth.wanted(at_once):
        holder.divide(growth.splits)
        growth.absorb(holder.histograms(wanted))
    holder.divide(growth.splits)
    return growth.tree(), holder


def bounds(gradient: np.ndarray, hessian: np.ndarray) -> tuple[float, float]:
    return float(np.abs(gradient).max()), float(hessian.max())


def check(X: np.ndarray, kind: str, tree: Tree, holder: Holder, numbers: Any = None, **settings: Any) -> None:
    """Check that a tree is that of the definition."""
    rows_of_tree = np.arange(len(X)) if numbers is None else numbers
    both = derivatives(X, kind)
    root = naive.grow(naive.bins_of(X)[1], rows_of_tree.tolist(), *both, bounds(*both), **settings)
    expected = naive.preorder(root)
    assert tree.feature.tolist() == [node.column if node.children else -1 for node in expected]
    assert tree.cut.tolist() == [node.cut if node.children else 0 for node in expected]
    leaves = [node.rows for node in expected if not node.children]
    assert [holder.rows[number].tolist() for number in tree.leaves.tolist()] == leaves


KINDS = ("even", "uneven", "small", "alike")
SETTINGS: list[dict[str, Any]] = [
    {"max_leaves": 8, "min_leaf": 5},
    {"max_leaves": 31, "min_leaf": 1, "l2": 0.5},
    {"max_leaves": 5, "min_leaf": 20, "columns": [1, 4]},
    {"max_leaves": 2, "min_leaf": 126},
    {"max_leaves": 6, "min_leaf": 3, "numbers": np.arange(0, N, 3)},
]


@pytest.mark.parametrize(
    ("kind", "at_once", "settings"),
    # Any two of the three meet.
    [
        (kind, at_once, settings)
        for i, kind in enumerate(KINDS)
        for j, at_once in enumerate((1, 3, None))
        for k, settings in enumerate(SETTINGS)
        if (i + j + k) % 3 == 0
    ],
    ids=str,
)
def test_trees_are_those_of_the_definition(kind: str, at_once: int | None, settings: dict[str, Any]) -> None:
    X = rows()
    tree, holder = grown(X, kind, at_once=at_once, **settings)
    check(X, kind, tree, holder, **settings)
    if kind == "alike" or settings["min_leaf"] > N // 2:
        assert tree.leaves.size == 1
    else:
        assert tree.leaves.size > 1


def test_many_leaves_at_once_take_few_rounds() -> None:
    X = rows(n=3000)
    (one, alone), (other, together) = (grown(X, "uneven", at_once=most, min_leaf=3) for most in (1, None))
    assert one.feature.tolist() == other.feature.tolist()
    assert one.leaves.size == 31
    # All rows, each split but the last and those whose children are too small to be split; and at most about as many
    # again of leaves that are not split after all.
    assert 25 < alone.rounds <= 30
    assert together.rounds <= 12
    assert len(together.rows) < 2 * len(alone.rows)


def test_only_leaves_that_may_be_split_next_are_looked_at() -> None:
    """Of leaves with gains 5, 4, 3 and room for two more splits, only the first can matter: the last needs no look."""
    X = rows()
    growing = Growing(TreeSettings(max_leaves=5), Scales.of(N, 1.0, 1.0))
    growth = Growth(Layout.of(X), growing, np.zeros((999, 2), int))
    nodes = [Node(k, 100, np.zeros((999, 2), int), gain, 0, 1) for k, gain in ((1, 5.0), (2, 4.0), (3, 3.0))]
    growth._heap = [(-node.gain, node.number, node) for node in nodes]
    growth._taken = [0, 0]  # two splits, and so three leaves
    assert growth.wanted() == [1]
    assert growth.splits == [(1, 0, 1)]


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
    tree, holder = grown(X, kind, columns=columns, min_leaf=4, max_leaves=20, l2=0.0)
    assert holder.layout.n_bytes == 5  # six words with one of the two, the other with the column of two numbers alone
    check(X, kind, tree, holder, columns=columns, min_leaf=4, max_leaves=20, l2=0.0)
    assert len({1, 2, 3, 5, 6, 7, 8, 9, 10} & set(tree.feature.tolist())) > 2


@pytest.mark.parametrize("n", [1, 3, 1000, 100_000])
def test_sums_of_words_are_sums_of_derivatives(n: int) -> None:
    rng = np.random.default_rng(n)
    gradient, hessian = rng.normal(size=n) * 1e5, rng.random(n) * 1e-5
    scales, words = Scales.of(n, *bounds(gradient, hessian)), np.empty((n, 2), dtype=np.int64)
    fill_words(gradient, hessian, scales.gradient, scales.hessian, scales.shift, words)
    sums = words.sum(axis=0)
    assert sums[1] & ((1 << scales.shift) - 1) == n
    assert sums[0] / scales.gradient == pytest.approx(gradient.sum(), abs=1e-9 * np.abs(gradient).max() * n)
    assert (sums[1] >> scales.shift) / scales.hessian == pytest.approx(hessian.sum(), rel=1e-7)
