"""How the search for Voronoi cells is laid out and planned: tiles, boxes, memberships, and what is worth while."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from ikmap.partitioners import draw_subsamples
from ikmap.partitioners.voronoi import _settle_loops, boxes, fit_voronoi, search
from ikmap.partitioners.voronoi._layout_loops import near_order
from ikmap.partitioners.voronoi.scores import DenseScores, SparseScores
from ikmap.partitioners.voronoi.search import choose_scores
from tests.naive.partitioners import squared_distances, voronoi_cells
from tests.support.sizes import SmallSizes


def test_what_a_place_is_a_member_of() -> None:
    """Read back from the words of a plan: every membership beyond the blocks, once, in the level of its member."""
    rng = np.random.default_rng(0)
    members = np.stack([rng.permutation(150)[:120] for _ in range(40)]).astype(np.int32)
    members[3, 50] = members[3, 40]  # a repeated member is left out
    found = search.CentreSearch(rng.normal(size=(150, 3)), members)
    plan = found.plan([4, 32, 34, 64, 120])
    assert plan.membership is not None
    words, runs, shift, most = plan.membership
    there, sizes = set(), []
    for level, place in product(range(words.shape[0]), range(words.shape[1])):
        word = words[level, place]
        if word == _settle_loops.NONE:
            continue
        entries = [word]
        if word >= _settle_loops.RUN:
            at = int(word - _settle_loops.RUN)
            entries = runs[at + 1 : at + 1 + runs[at]].tolist()
            assert len(entries) > 1
        sizes.append(len(entries))
        for entry in entries:
            i, k = int(entry) >> int(shift), int(entry) & ((1 << int(shift)) - 1)
            assert plan.tiles.center_of[place] == members[i, k]
            assert plan.levels[level].start <= k < plan.levels[level].stop
            there.add((i, k))
    assert there == {(i, k) for i in range(40) for k in range(32, 120)} - {(3, 50)}
    assert sum(sizes) == len(there)
    assert min(sizes) == 1
    assert max(sizes) > 16
    assert most == 40 * 56


@given(st.integers(1, 700), st.integers(1, 3), st.sampled_from([1, 2, 5, 10**6]), st.integers(0, 2**32))
@settings(deadline=None, max_examples=60)
def test_near_order_halves_what_it_cuts(n: int, d: int, values: int, seed: int) -> None:
    """Half the tiles on either side of every cut, and along some axis none of the first half beyond the second."""
    points = np.random.default_rng(seed).integers(0, values, (n, d)).astype(float)
    order = near_order(points)
    assert sorted(order) == list(range(n))
    parts = [points[order]]
    while parts:
        part = parts.pop()
        half = -(-len(part) // 64) // 2 * 64
        if half:
            parts += [part[:half], part[half:]]
            assert (part[:half].max(axis=0) <= part[half:].min(axis=0)).any()


def test_boxes_hold_their_points_and_bound_distances() -> None:
    X = np.random.default_rng(0).normal(size=(1000, 24)) * np.linspace(3, 0.1, 24)
    frame = boxes.principal_frame(X)
    points = frame.points(X)
    order = near_order(points)
    assert sorted(order) == list(range(1000))
    low, high = boxes.bounds(points[order])
    assert low.shape == (17, 16)
    tile = np.arange(1000) // 64
    ordered = points[order]
    assert (low.T[tile] <= ordered + 1e-6).all()
    assert (high.T[tile] >= ordered - 1e-6).all()
    gap = np.maximum(np.maximum(low[:, None] - points.T[:, :, None], points.T[:, :, None] - high[:, None]), 0)
    bound = (gap**2).sum(axis=0)[:, tile]
    squared = squared_distances(X, X[order])
    assert (bound <= squared + 1e-4).all()
    assert (bound[:, :] > 0).mean() > 0.5


def test_the_scores_that_are_chosen() -> None:
    rng = np.random.default_rng(0)
    thin = sp.random_array((100, 5000), density=0.002, format="csr", rng=rng)
    full = sp.csr_array(rng.random((100, 20)))
    assert isinstance(choose_scores(thin.toarray()), SparseScores)
    assert isinstance(choose_scores(thin), SparseScores)
    assert isinstance(choose_scores(full), DenseScores)
    assert isinstance(choose_scores(full.toarray()), DenseScores)


def test_only_wide_sparse_data_have_lists_by_column(small_sizes: SmallSizes) -> None:
    thin = sp.random_array((100, 5000), density=0.002, format="csr", rng=np.random.default_rng(0))
    assert not SparseScores(thin).has_lists
    small_sizes.dense_scores(4 * 100 * 1000)
    found = SparseScores(thin)
    assert found.has_lists
    assert found.n_lines <= 1000
    assert SparseScores(thin, places=400).n_lines <= 250  # where each of the centres stands in four tiles


def test_what_is_worth_while_is_found_out() -> None:
    """Boxes where data lie on few dimensions, none where they fill many; both are said."""
    rng = np.random.default_rng(0)
    flat = np.outer(np.linspace(0, 1, 20_000), np.ones(30)) + 1e-3 * rng.normal(size=(20_000, 30))
    round_ = rng.normal(size=(20_000, 30))
    lines = {}
    for name, X in (("flat", flat), ("round", round_)):
        model = fit_voronoi(X, draw_subsamples(20_000, 10, 1000, 0))
        lines[name] = " ".join(model.explain())
        some = X[:20]
        draws = draw_subsamples(20_000, 10, 1000, 0)
        np.testing.assert_array_equal(model.cells(some).codes, voronoi_cells(some, X, draws))
    assert "in reach of a row" in lines["flat"]
    assert "all scored" in lines["round"]
    assert "side by side" in " ".join(fit_voronoi(flat, draw_subsamples(20_000, 10, 8, 0)).explain())


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_rows_of_too_many_columns_for_boxes(form: Any) -> None:
    """Whose axes are not looked for: the same cells, for one psi and along a ladder of several."""
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(160, boxes.MOST_FEATURES + 1)), 1)
    X *= rng.random(X.shape) < (1.0 if form is np.asarray else 0.05)
    draws = draw_subsamples(120, 3, 100, 0)
    model = fit_voronoi(form(X[:120]), draws)
    assert "all scored" in " ".join(model.explain())
    for psi, cells in zip((40, 100), model.cells_of_prefixes(form(X), [40, 100]), strict=True):
        np.testing.assert_array_equal(cells.codes, voronoi_cells(X, X[:120], draws[:, :psi]))
    np.testing.assert_array_equal(model.cells(form(X)).codes, voronoi_cells(X, X[:120], draws))


def test_blocks_of_wide_rows_stay_small() -> None:
    X = np.random.default_rng(0).random((200, 50_000))
    model = fit_voronoi(X, draw_subsamples(200, 2, 4, 0))
    rows = model._search.rows_at_once(model._search.plan([4]))
    assert rows * 50_000 * 16 <= search.SCRATCH_BYTES
    np.testing.assert_array_equal(model.cells(X).codes[:20], model.cells(X[:20]).codes)
