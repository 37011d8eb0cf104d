"""Isolation trees against trees grown from the definition with the same uniforms."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ikmap.partitioners import draw_subsamples, trees
from ikmap.partitioners._tree_walk_loops import LANES
from ikmap.partitioners.iforest import IForestPartitions, fit_iforest
from tests.naive.partitioners import Split, isolation_trees, preorder, tree_cells
from tests.support.point_sets import DATA, LAYOUTS, N, queries_of

T, PSI, SEED = 5, 16, 3
LEAF = -1


def _fit(X: np.ndarray, psi: int = PSI, layout: str = "dense", max_depth: str | None = None) -> IForestPartitions:
    draws = draw_subsamples(X.shape[0], T, psi, SEED)
    return fit_iforest(LAYOUTS[layout](X), draws, SEED, max_depth=max_depth)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("psi", "max_depth"),
    [(1, None), (2, None), (PSI, None), (N, None), (PSI, "log2"), (N, "log2")],  # trees of 1 or 2 points are whole
)
@pytest.mark.parametrize("name", DATA)
def test_trees_and_cells_are_those_of_the_definition(name: str, psi: int, max_depth: str | None) -> None:
    X, queries = DATA[name], queries_of(DATA[name])
    model = _fit(X, psi, "dense", max_depth)
    trees = isolation_trees(X, draw_subsamples(N, T, psi, SEED), SEED, max_depth)
    for i, tree in enumerate(trees):
        nodes = preorder(tree)
        own = slice(model.roots[i], model.roots[i + 1])
        feature, threshold, right = model.feature[own], model.threshold[own], model.right[own]
        assert feature.size == len(nodes)
        for k, node in enumerate(nodes):
            if isinstance(node, Split):
                assert (feature[k], threshold[k]) == (node.feature, node.threshold)
                assert nodes[k + 1] is node.left
                assert nodes[right[k]] is node.right
            else:
                assert (feature[k], threshold[k], right[k]) == (LEAF, 0.0, node.cell)
    expected = tree_cells(queries, trees)
    for convert in LAYOUTS.values():
        cells = model.cells(convert(queries))
        assert cells.codes.dtype == np.int32
        np.testing.assert_array_equal(cells.codes, expected)
        np.testing.assert_array_equal(cells.offsets, np.arange(T + 1) * psi)


@pytest.mark.parametrize("max_depth", [None, "log2"])
@pytest.mark.parametrize("name", DATA)
def test_sparse_rows_give_the_same_tree(name: str, max_depth: str | None) -> None:
    X = DATA[name] + 0.0  # a sparse row cannot tell -0.0 from 0.0
    dense, csr = _fit(X, layout="dense", max_depth=max_depth), _fit(X, layout="csr", max_depth=max_depth)
    assert dense.content_hash == csr.content_hash


@settings(max_examples=60)
def _sparse_points(kind: str, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    X = np.where(rng.random((n, d)) < 0.03, rng.normal(size=(n, d)), 0.0)
    if kind == "binary":
        X = (X != 0.0).astype(float)
    elif kind == "with dense columns":
        X[:, 0], X[:, 5], X[:, 9] = 1.0, rng.normal(size=n), np.where(np.arange(n) == 7, 2.0, 3.0)
        X[:, 12] = rng.integers(1, 3, n)
    elif kind == "duplicates":
        X[n // 3 :] = X[rng.integers(0, n // 3, n - n // 3)]
    elif kind == "text":
        X = rng.poisson(0.4 / np.arange(1, d + 1) ** 0.8, (n, d)).astype(float)
    return X


@pytest.mark.parametrize("max_depth", [None, "log2"])
@pytest.mark.parametrize("kind", ["plain", "binary", "with dense columns", "duplicates", "text"])
def test_large_sparse_nodes_give_the_same_tree(kind: str, max_depth: str | None) -> None:
    """Large enough that nodes keep books of their columns and hand them down several times."""
    rng = np.random.default_rng(len(kind))
    X = _sparse_points(kind, 700, 150, rng)
    dense, sparse = (_fit(X, 600, layout, max_depth) for layout in ("dense", "csr"))
    assert dense.content_hash == sparse.content_hash
    assert np.array_equal(dense.cells(X).codes, sparse.cells(LAYOUTS["csr"](X)).codes)


@pytest.mark.slow
@given(
    X=hnp.arrays(
        np.float64, (12, 4), elements=st.one_of(st.just(0.0), st.floats(allow_nan=False, allow_infinity=False))
    )
)
def test_any_finite_numbers(X: np.ndarray) -> None:
    draws = draw_subsamples(12, 3, 8, 0)
    with np.errstate(over="ignore"):
        expected = tree_cells(X, isolation_trees(X + 0.0, draws, 0))
    for fit in LAYOUTS.values():
        for layout in LAYOUTS.values():
            np.testing.assert_array_equal(fit_iforest(fit(X + 0.0), draws, 0).cells(layout(X)).codes, expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_distinct_point_has_a_cell_of_its_own(layout: str) -> None:
    """IK6."""
    X = LAYOUTS[layout](DATA["continuous"])
    for psi in (1, 2, 7, 32, N):
        draws = draw_subsamples(N, T, psi, 0)
        model = fit_iforest(X, draws, 0)
        np.testing.assert_array_equal(model.n_leaves, np.full(T, psi))
        codes = model.cells(X).codes
        for i in range(T):
            np.testing.assert_array_equal(np.sort(codes[draws[i], i]), np.arange(psi))


def test_identical_points_share_a_leaf() -> None:
    X = DATA["duplicated rows"]
    draws = draw_subsamples(N, 20, PSI, 0)
    expected = [np.unique(X[draw], axis=0).shape[0] for draw in draws]
    np.testing.assert_array_equal(fit_iforest(X, draws, 0).n_leaves, expected)
    np.testing.assert_array_equal(_fit(DATA["one point many times"]).n_leaves, np.ones(T))


@pytest.mark.parametrize("max_depth", [None, "log2"])
@pytest.mark.parametrize("name", ["continuous", "integer grid", "sparse"])
def test_layout_of_the_nodes(name: str, max_depth: str | None) -> None:
    model = _fit(DATA[name], max_depth=max_depth)
    assert model.roots[0] == 0
    assert model.roots[-1] == model.feature.size == model.threshold.size == model.right.size
    for i in range(T):
        own = slice(model.roots[i], model.roots[i + 1])
        feature, right = model.feature[own], model.right[own]
        leaves = feature == LEAF
        assert leaves.sum() == model.n_leaves[i] == (~leaves).sum() + 1
        np.testing.assert_array_equal(right[leaves], np.arange(leaves.sum()))  # numbered from the left
        children = np.r_[np.flatnonzero(~leaves) + 1, right[~leaves]]
        np.testing.assert_array_equal(np.sort(children), np.arange(1, feature.size))  # each has one parent
        assert (right[~leaves] > np.flatnonzero(~leaves) + 1).all()


def _expected_leaves(psi: int, depth: int) -> float:
    """Mean number of leaves on psi uniform points: a split leaves 1..psi-1 points on its left, all equally likely."""
    leaves = np.ones(psi + 1)
    for _ in range(depth):
        up_to = np.cumsum(leaves[1:])
        leaves[2:] = 2.0 * up_to[:-1] / np.arange(1, psi)
    return float(leaves[psi])


@pytest.mark.parametrize("psi", [2, 16, 64, 256, 1024])
def test_leaves_under_the_depth_limit(psi: int) -> None:
    t = 20_000 // psi
    X = np.random.default_rng(11).random((t * psi, 10))
    leaves = fit_iforest(X, np.arange(t * psi).reshape(t, psi), 0, max_depth="log2").n_leaves
    error = leaves.std() / np.sqrt(t)
    assert abs(leaves.mean() - _expected_leaves(psi, psi.bit_length() - 1)) <= 4 * error


def test_leaves_printed_in_the_specification() -> None:
    """Section 3.1; its 30 of 64 is 31.9 (its numbers are means over a few trees)."""
    printed = {16: 10.1, 256: 103, 1024: 342}
    for psi, leaves in printed.items():
        assert _expected_leaves(psi, psi.bit_length() - 1) == pytest.approx(leaves, rel=0.01)


@pytest.mark.slow
def test_cuts_and_attributes_are_uniform() -> None:
    t = 4000
    X = np.array([[0.0, 1.0, 5.0, -2.0], [1.0, 1.0, 9.0, 2.0]])
    model = fit_iforest(X, np.tile([0, 1], (t, 1)), 1)
    feature, threshold = model.feature[::3], model.threshold[::3]
    for j, (low, high) in {0: (0, 1), 2: (5, 9), 3: (-2, 2)}.items():
        cuts = (threshold[feature == j] - low) / (high - low)
        assert abs(cuts.size - t / 3) < 5 * np.sqrt(t * 2 / 9)
        assert abs(cuts.mean() - 0.5) < 5 * np.sqrt(1 / 12 / cuts.size)
        assert abs((cuts**2).mean() - 1 / 3) < 5 * np.sqrt(4 / 45 / cuts.size)
    assert not (feature == 1).any()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_grouping_of_rows_and_threads_do_not_matter(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    X, queries = LAYOUTS[layout](DATA["sparse"]), LAYOUTS[layout](queries_of(DATA["sparse"]))
    draws = draw_subsamples(N, 20, PSI, SEED)
    models = [fit_iforest(X, draws, SEED, n_threads=n) for n in (1, 2, 4, None)]
    assert len({model.content_hash for model in models}) == 1
    expected = models[0].cells(queries, n_threads=1).codes
    monkeypatch.setattr(trees, "ROUTE_BLOCK", 7)
    for n_threads in (1, 2, 4, None):
        np.testing.assert_array_equal(models[0].cells(queries, n_threads).codes, expected)
    one = [models[0].cells(queries[[r]]).codes for r in range(queries.shape[0])]
    np.testing.assert_array_equal(np.concatenate(one), expected)


def test_more_trees_do_not_change_the_first() -> None:
    X, draws = DATA["continuous"], draw_subsamples(N, 8, PSI, SEED)
    np.testing.assert_array_equal(
        fit_iforest(X, draws, SEED).cells(X).codes[:, :3], fit_iforest(X, draws[:3], SEED).cells(X).codes
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_rows_and_one_cell(layout: str) -> None:
    X = LAYOUTS[layout](DATA["continuous"])
    model = _fit(DATA["continuous"], psi=1)
    assert model.cells(X[:0]).codes.shape == (0, T)
    assert (model.cells(X).codes == 0).all()


@pytest.mark.parametrize(("n_slots", "rows"), [(0, 2048), (1, 2048), (54, 1208), (256, 256), (8191, 8), (10**6, 8)])
def test_rows_that_share_the_cache(n_slots: int, rows: int) -> None:
    assert trees.rows_at_once(n_slots) == rows
    assert rows == LANES or rows * n_slots * 8 <= trees.CACHE_BYTES


@pytest.mark.parametrize("n", [1, 7, 8, 9, 1207, 1209, 2049])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_number_of_rows(n: int, layout: str) -> None:
    """Rows walk in groups, and groups share a buffer: what an earlier group left there must not show."""
    X = np.random.default_rng(n).normal(size=(n, 54)) * (np.arange(n) % 3 > 0)[:, None]
    model = _fit(X[np.arange(N) % n])
    trees = isolation_trees(X[np.arange(N) % n], draw_subsamples(N, T, PSI, SEED), SEED)
    np.testing.assert_array_equal(model.cells(LAYOUTS[layout](X)).codes, tree_cells(X, trees))


def test_a_copy_carries_no_caches() -> None:
    X = LAYOUTS["csr"](DATA["sparse"])
    model = _fit(DATA["sparse"])
    fresh = len(pickle.dumps(model))
    expected = model.cells(X).codes
    assert len(pickle.dumps(model)) == fresh
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).cells(X).codes, expected)


def test_bad_arguments() -> None:
    X = DATA["continuous"]
    with pytest.raises(ValueError, match=r"max_depth must be None, .* or a whole number >= 1, got 'deep'"):
        _fit(X, max_depth="deep")
    with pytest.raises(ValueError, match="X has 3 columns, the model was fitted on 4"):
        _fit(X).cells(X[:, :3])
