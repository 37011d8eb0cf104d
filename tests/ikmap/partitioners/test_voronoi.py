"""Voronoi cells against a float64 search from the definition: equal on every entry, whatever the data."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ikmap.partitioners import draw_subsamples, fit_partitions
from ikmap.partitioners.distinct import distinct_rows
from ikmap.partitioners.voronoi import VoronoiPartitions, _nearest_loops, fit_voronoi, search
from ikmap.partitioners.voronoi._scores_loops import LEAST_ERROR, score_all
from ikmap.partitioners.voronoi.scores import DenseScores, SparseScores
from ikmap.partitioners.voronoi.search import choose_scores
from ikmap.rows import as_csr, as_dense
from tests.naive.partitioners import squared_distances, voronoi_cells
from tests.support.narrow import present
from tests.support.point_sets import DATA, LAYOUTS, N, queries_of, unusual_forms
from tests.support.sizes import SmallSizes

T, PSI = 5, 8


def _draws(X: np.ndarray, seed: int = 0) -> np.ndarray:
    return draw_subsamples(X.shape[0], T, PSI, seed)


@pytest.mark.parametrize(("fit", "layout"), list(product(LAYOUTS, LAYOUTS)))
@pytest.mark.parametrize("name", DATA)
def test_cells_are_those_of_the_definition(name: str, fit: str, layout: str) -> None:
    X, queries, draws = DATA[name], queries_of(DATA[name]), _draws(DATA[name])
    model = fit_voronoi(LAYOUTS[fit](X), draws)
    cells = model.cells(LAYOUTS[layout](queries))
    assert cells.codes.dtype == np.int32
    np.testing.assert_array_equal(cells.codes, voronoi_cells(queries, X, draws))


WAYS: dict[str, dict[str, Any]] = {
    "blocks": {},
    "lists": {"BLOCK_PSI": 0},
    "blocks, then lists": {"BLOCK_PSI": 2},
    "lists without room": {"BLOCK_PSI": 0, "LIST_ROOM": 0},
    "guesses too low": {"BLOCK_PSI": 0, "GUESS_SETTLES": (0.0,)},
    "two rows at a time": {"BLOCK_PSI": 0, "ROWS": 2, "SCRATCH_BYTES": 1},
}


def go(way: str, patch: pytest.MonkeyPatch) -> None:
    """Search in one of the ways."""
    for name, value in WAYS[way].items():
        patch.setattr(search, name, value)


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """A way to search: constants that are a matter of speed, set so that small data go that way."""
    go(request.param, monkeypatch)
    return str(request.param)


def _some(queries: np.ndarray, way: str) -> np.ndarray:
    """Numbers of the rows to map: all of them, or some of each kind where each two take as long as hundreds."""
    if way != "two rows at a time":
        return np.arange(len(queries))
    return np.unique(np.r_[np.arange(0, len(queries), 9), np.arange(3 * N, len(queries))])


@cache
def _defined(name: str, seed: int, psi: int) -> np.ndarray:
    """Cells by the definition, of the first psi centres of each partitioning."""
    X = DATA[name]
    return voronoi_cells(queries_of(X), X, _draws(X, seed)[:, :psi])


def _dense(centers: Any) -> DenseScores:
    return DenseScores(as_dense(centers))


def _sparse(centers: Any) -> SparseScores:
    return SparseScores(as_csr(centers))


SCORINGS: dict[str, tuple[Any, bool, bool]] = {
    "dense": (_dense, False, False),
    "dense in boxes": (_dense, False, True),
    "sparse in boxes": (_sparse, False, True),
    "sparse with lists": (_sparse, True, False),
}
"""How centres are scored: by what, with lists of few entries, in boxes."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "way", "scoring"),
    # Any two of the three meet; all three together would be thrice as many.
    [
        (name, way, scoring)
        for i, name in enumerate(DATA)
        for j, way in enumerate(WAYS)
        for k, scoring in enumerate(SCORINGS)
        if (i + j + k) % 3 == 0
    ],
)
def test_every_way_gives_them(
    name: str, way: str, scoring: str, monkeypatch: pytest.MonkeyPatch, small_sizes: SmallSizes
) -> None:
    go(way, monkeypatch)
    choice, lists, boxed = SCORINGS[scoring]
    X, queries, draws = DATA[name], queries_of(DATA[name]), _draws(DATA[name], 1)
    some = _some(queries, way)
    monkeypatch.setattr(search, "choose_scores", lambda centers, places: choice(centers))  # noqa: ARG005
    if lists:
        small_sizes.dense_scores(4 * X.shape[0])  # room for one line
    keep = {False: lambda plan, level, visits: setattr(level, "boxes", None), True: lambda plan, level, visits: None}  # noqa: ARG005
    monkeypatch.setattr(search.CentreSearch, "_keep_boxes_if_worth_while", staticmethod(keep[boxed]))
    model = fit_voronoi(X, draws)
    np.testing.assert_array_equal(model.cells(queries[some]).codes, _defined(name, 1, PSI)[some])
    psis = [1, 3, 4, PSI]
    for psi, cells in zip(psis, model.cells_of_prefixes(queries[some], psis), strict=True):
        np.testing.assert_array_equal(cells.codes, _defined(name, 1, psi)[some])


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["continuous", "integer grid", "near ties", "sparse", "far outlier"])
def test_many_partitionings_of_few_points(name: str, layout: str, way: str) -> None:
    """A centre is a member of more partitionings than a vector holds, and there are more of those, too."""
    X, t = DATA[name], 37
    queries, draws = queries_of(X), draw_subsamples(N, t, N, 2)
    queries = queries[_some(queries, way)]
    model = fit_voronoi(LAYOUTS[layout](X), draws)
    assert np.bincount(model.members.ravel()).max() >= t > 2 * 16
    psis = [1, 5, 33, N]
    for psi, cells in zip(psis, model.cells_of_prefixes(LAYOUTS[layout](queries), psis), strict=True):
        np.testing.assert_array_equal(cells.codes, voronoi_cells(queries, X, draws[:, :psi]))
    np.testing.assert_array_equal(model.cells(LAYOUTS[layout](queries)).codes, voronoi_cells(queries, X, draws))


@st.composite
def _near_ties(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Centres that lie within 1e-8 to 1e-16 of mirror images of each other through a query."""
    d = draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    offset = draw(st.sampled_from([0.0, 1.0, -1e3, 1e9]))
    scale = 10.0 ** draw(st.integers(-40, 30))
    x = rng.normal(size=(4, d)) + offset
    step = rng.normal(size=(6, d))
    nudge = 10.0 ** -draw(st.integers(8, 16))
    centers = [x[0] + step, x[0] - step * (1 + nudge * rng.integers(-2, 3, size=(6, 1)))]
    return x * scale, np.concatenate([*centers, x[:2], x[:2]]) * scale


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(case=_near_ties(), seed=st.integers(0, 1000))
def test_near_ties(case: tuple[np.ndarray, np.ndarray], seed: int) -> None:
    queries, centers = case
    draws = draw_subsamples(centers.shape[0], 4, centers.shape[0], seed)
    expected = voronoi_cells(queries, centers, draws)
    for fit, layout in product(LAYOUTS.values(), LAYOUTS.values()):
        np.testing.assert_array_equal(fit_voronoi(fit(centers), draws).cells(layout(queries)).codes, expected)


_ANY_FLOAT = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    centers=hnp.arrays(np.float64, (6, 3), elements=_ANY_FLOAT),
    queries=hnp.arrays(np.float64, (5, 3), elements=_ANY_FLOAT),
)
def test_any_finite_numbers(centers: np.ndarray, queries: np.ndarray) -> None:
    draws = draw_subsamples(6, 3, 4, 0)
    expected = voronoi_cells(queries, centers, draws)
    for fit, layout in product(LAYOUTS.values(), LAYOUTS.values()):
        np.testing.assert_array_equal(fit_voronoi(fit(centers), draws).cells(layout(queries)).codes, expected)


_SIZES = st.sampled_from([1e-30, 1e-5, 1.0, 1e5, 1e12, 1e30])


@pytest.mark.slow
@pytest.mark.parametrize("scoring", [_dense, _sparse])
@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    size=_SIZES,
    offset=st.sampled_from([0.0, 1.0, 1e6]),
    ratio=st.sampled_from([1e-8, 1.0, 1e3, 1e14]),
    outlier=st.sampled_from([1.0, 1e5, 1e20, 1e25]),
)
def test_the_margin_bounds_the_error(
    scoring: Any, seed: int, size: float, offset: float, ratio: float, outlier: float
) -> None:
    """In exact rational numbers: a nearest centre never scores worse than the best by more than the margin."""
    rng = np.random.default_rng(seed)
    centers = (rng.normal(size=(6, 7)) + offset) * size
    centers[0] *= outlier
    rows = np.r_[rng.normal(size=(4, 7)) * size * ratio, centers[:2]]
    found = scoring(centers)
    block, tiles = found.block(rows), found.tiles(np.arange(6))
    table = np.empty((6, 64), dtype=np.float32)
    score_all(found.begun(block, tiles), 0, 6, tiles.lines, table)
    assert np.isinf(table[:, 6:]).all()
    scale = Fraction(found.scale)
    for r, x in enumerate(rows):
        if block.lengths[r] < 0:
            continue
        unit, length = Fraction(block.units[r]), Fraction(block.lengths[r])
        exact = [scale**2 * sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(x, z, strict=True)) for z in centers]
        for u, v in product(range(6), range(6)):
            error = abs(Fraction(float(table[r, u])) - Fraction(float(table[r, v])) - (exact[u] - exact[v]))
            spread = sum((length + Fraction(float(np.sqrt(found.squared[w])))) ** 2 for w in (u, v))
            assert error <= unit * spread + (Fraction(LEAST_ERROR) if unit else 0)
        order = np.argsort(table[r, :6], kind="stable")
        best = float(table[r, order[0]])
        nearest = int(np.argmin(exact))
        for farther in order:  # a margin among the centres near any of them is one near the best, too
            worst = float(table[r, farther])
            margin = _nearest_loops.margin_of(worst, block.lengths[r], found.reach, block.units[r])
            assert float(table[r, nearest]) <= best + margin


def test_the_margin_need_not_fall_with_the_distance() -> None:
    """Where rounding hides how near a cell is, all centres count: then what was found for farther cells is better."""
    reach, length, unit = 1e3, 1.0, 1e-6
    farther, near = (_nearest_loops.margin_of(d * d - length**2, length, reach, unit) for d in (0.1, 1e-4))
    assert near > 1e4 * farther


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_near_cells_found_after_farther_ones(layout: str) -> None:
    """An outlier gives a long reach; members of growing prefixes lie nearer and nearer, then within rounding."""
    rng = np.random.default_rng(0)
    steps = np.repeat([1e-1, 1e-3, 1e-5, 1e-7, 1e-8], 40)[:, None] * rng.normal(size=(200, 3))
    X = np.r_[[[1e4, 0.0, 0.0]], 1.0 + steps]
    draws = 1 + np.argsort(rng.random((7, 200)) + np.arange(200) // 40, axis=1)
    draws[0, 0] = 0
    rows = 1.0 + rng.normal(size=(60, 3)) * np.repeat([0.0, 1e-8, 1e-6], 20)[:, None]
    psis = [5, 40, 60, 80, 120, 130, 160, 200]
    model = fit_voronoi(LAYOUTS[layout](X), draws)
    for psi, cells in zip(psis, model.cells_of_prefixes(LAYOUTS[layout](rows), psis), strict=True):
        np.testing.assert_array_equal(cells.codes, voronoi_cells(rows, X, draws[:, :psi]))


def test_small_integers_are_exact_in_float32() -> None:
    found = choose_scores(DATA["integer grid"])
    assert (found.block(queries_of(DATA["integer grid"])[:N]).units == 0).all()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_large_integers_against_small_ones(layout: str) -> None:
    """Integers beyond 2^24 are rounded in float32; centres on a plane, seen from far above it, differ by less."""
    rng = np.random.default_rng(0)
    centers = rng.integers(-40, 40, size=(200, 3)).astype(float)
    centers[:, 2] = 5 - centers[:, 0] - centers[:, 1]
    queries = rng.integers(-(10**7), 10**7, size=(200, 1)) + rng.integers(-9, 9, size=(200, 3)).astype(float)
    draws = draw_subsamples(200, T, 100, 0)
    codes = fit_voronoi(centers, draws).cells(LAYOUTS[layout](queries)).codes
    np.testing.assert_array_equal(codes, voronoi_cells(queries, centers, draws))


@pytest.mark.parametrize("name", DATA)
def test_prefixes_equal_separate_fits(name: str) -> None:
    X, psis = DATA[name], [1, 2, 3, 8, 20, N]
    largest = fit_voronoi(X, draw_subsamples(N, T, N, 4))
    for psi, cells in zip(psis, largest.cells_of_prefixes(queries_of(X), psis), strict=True):
        alone = fit_voronoi(X, draw_subsamples(N, T, psi, 4)).cells(queries_of(X))
        np.testing.assert_array_equal(cells.codes, alone.codes)
        np.testing.assert_array_equal(cells.offsets, alone.offsets)


@pytest.mark.slow
def test_boxes_leave_out_no_nearest_centre_of_a_row_all_but_in_their_frame() -> None:
    """Tight clusters, and rows between two of them: what the frame leaves out of a row is lost in its rounding."""
    wrong = rows_between = 0
    for seed in (0, 1):
        rng = np.random.default_rng(seed)
        middles = rng.normal(size=(64, 17)) * np.r_[np.full(16, 4.0), 1.0]
        middles[:32] -= middles[:32].mean(axis=0)
        middles[32:] -= middles[32:].mean(axis=0)
        jitter = 1e-7 * rng.normal(size=(64 * 64, 17))
        near, far = 0, 63  # in the first and the second level
        aside = rng.normal(size=16)
        for _ in range(6):  # the frame depends on the middles
            X = np.repeat(middles, 64, axis=0) + jitter
            model = fit_voronoi(X, np.arange(64 * 64)[None])
            model._search.plan([2048, 4096])
            assert isinstance(model._search.scores, DenseScores)
            frame, shift = present(model._search.frame), model._search.scores.shift
            left_out = np.linalg.svd(frame.axes.T)[2][-1]
            center = X[64 * far : 64 * far + 64].mean(axis=0) - shift
            left_out *= np.sign(center @ left_out)
            height = center @ left_out
            base = center - height * left_out
            low = 2.0**-12.3 * float(np.linalg.norm(base))
            middle = base + low * left_out
            direction = frame.axes @ aside
            direction /= np.linalg.norm(direction)
            middles[near] = middle + direction * (height - low) * (1 + 2.0**-13.5) + shift
        rows = middle + shift + 1e-5 * (rng.normal(size=(200, 16)) @ frame.axes.T)
        expected = voronoi_cells(rows, X, np.arange(64 * 64)[None])
        rows_between += int((expected // 64 == far).sum())
        for psi, cells in zip([2048, 4096], model.cells_of_prefixes(rows, [2048, 4096]), strict=True):
            wrong += int((cells.codes != voronoi_cells(rows, X, np.arange(psi)[None])).sum())
    assert wrong == 0
    assert rows_between > 0


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    t=st.sampled_from([1, 2, 5]),
    outlier=st.sampled_from([1.0, 1e3, 1e6, 1e9, 1e20]),
    size=st.sampled_from([1e-12, 1e-6, 1e-3, 1.0]),
)
def test_prefixes_where_the_rounding_error_is_about_the_distances(
    seed: int, t: int, outlier: float, size: float
) -> None:
    """Few partitionings and an outlier: the farthest cell may be at distance 0, or closer than float32 can tell."""
    rng = np.random.default_rng(seed)
    X = rng.integers(-3, 4, size=(150, 2)) + size * rng.normal(size=(150, 2)).round(1)
    X[0] = outlier
    psis = [3, 32, 40, 64, 100, 150]
    draws = draw_subsamples(150, t, 150, 0)
    rows = np.r_[X[:40], [[outlier, 0.0]]]
    for layout in LAYOUTS.values():
        for psi, cells in zip(psis, fit_voronoi(layout(X), draws).cells_of_prefixes(layout(rows), psis), strict=True):
            np.testing.assert_array_equal(cells.codes, voronoi_cells(rows, X, draws[:, :psi]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["continuous", "integer grid", "near ties", "sparse", "far outlier"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_grouping_of_rows_and_threads_do_not_matter(name: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = queries_of(DATA[name])
    queries = LAYOUTS[layout](queries[np.r_[np.arange(0, 3 * N, 4), np.arange(3 * N, len(queries))]])
    model = fit_voronoi(LAYOUTS[layout](DATA[name]), _draws(DATA[name]))
    expected = model.cells(queries, n_threads=1).codes
    monkeypatch.setattr(search, "ROWS", 3)
    model = copy.copy(model)
    psis = [2, 5, PSI]
    prefixes = model.cells_of_prefixes(queries, psis, n_threads=1)
    for n_threads in (1, 2, 4, queries.shape[0] + 3, None):  # more threads than blocks, too
        np.testing.assert_array_equal(model.cells(queries, n_threads=n_threads).codes, expected)
        for was, cells in zip(prefixes, model.cells_of_prefixes(queries, psis, n_threads), strict=True):
            np.testing.assert_array_equal(cells.codes, was.codes)
    parts = [model.cells(queries[a : a + 7]).codes for a in range(0, queries.shape[0], 7)]
    np.testing.assert_array_equal(np.concatenate(parts), expected)
    one = [model.cells(queries[[r]]).codes for r in range(queries.shape[0])]
    np.testing.assert_array_equal(np.concatenate(one), expected)


@pytest.mark.parametrize("method", ["anne", "iforest"])
@pytest.mark.parametrize("name", ["continuous", "sparse", "integer grid"])
def test_every_form_of_the_rows(name: str, method: str, tmp_path: Path) -> None:
    X, draws = DATA[name], _draws(DATA[name])
    expected = fit_partitions(X, draws, method=method, seed=0)
    codes = expected.cells(X).codes
    for form, rows in unusual_forms(X, tmp_path).items():
        model = fit_partitions(rows, draws, method=method, seed=0)
        np.testing.assert_array_equal(model.cells(rows).codes, codes, err_msg=form)
        np.testing.assert_array_equal(expected.cells(rows).codes, codes, err_msg=form)
        np.testing.assert_array_equal(model.cells(X).codes, codes, err_msg=form)


def test_rows_are_not_changed() -> None:
    X = DATA["negative zeros"].copy()
    csr = sp.csr_array((np.array([1.0, 0.0, 2.0]), np.array([2, 0, 1]), np.array([0, 3, 3])), shape=(2, 3))
    before = csr.data.copy(), csr.indices.copy(), csr.indptr.copy()
    fit_voronoi(X, _draws(X)).cells(X)
    fit_voronoi(csr, np.array([[0, 1]])).cells(csr)
    np.testing.assert_array_equal(X, DATA["negative zeros"])
    assert (np.signbit(X) == np.signbit(DATA["negative zeros"])).all()
    for part, was in zip((csr.data, csr.indices, csr.indptr), before, strict=True):
        np.testing.assert_array_equal(part, was)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_rows_and_one_cell(layout: str) -> None:
    X = LAYOUTS[layout](DATA["continuous"])
    model = fit_voronoi(X, draw_subsamples(N, 1, 1, 0))
    assert (model.cells(X).codes == 0).all()
    assert model.cells(X[:0]).codes.shape == (0, 1)
    assert [c.codes.shape for c in model.cells_of_prefixes(X[:0], [1])] == [(0, 1)]


def test_all_points_as_centres() -> None:
    X = DATA["continuous"]
    draws = draw_subsamples(N, 3, N, 0)
    codes = fit_voronoi(X, draws).cells(X).codes
    np.testing.assert_array_equal(draws[np.arange(3), codes], np.tile(np.arange(N)[:, None], 3))


def test_a_duplicate_centre_has_an_empty_cell() -> None:
    X = np.array([[0.0], [1.0], [1.0], [5.0]])
    model = fit_voronoi(X, np.array([[2, 1, 0, 3], [3, 0, 1, 2]]))
    assert model.centers.shape == (3, 1)
    np.testing.assert_array_equal(model.cells(X).codes, [[2, 1], [0, 2], [0, 2], [3, 0]])


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", DATA)
def test_distinct_rows(name: str, layout: str) -> None:
    X = LAYOUTS[layout](DATA[name])
    first, inverse = distinct_rows(X)
    _, expected_first = np.unique(DATA[name] + 0.0, axis=0, return_index=True)
    np.testing.assert_array_equal(first, np.sort(expected_first))
    np.testing.assert_array_equal(as_dense(X[first])[inverse], as_dense(X))


def test_rows_of_equal_hash_are_not_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ikmap.partitioners.distinct.hash_dense_rows", lambda X, out: out.fill(1))  # noqa: ARG005
    X = np.array([[1.0], [2.0], [1.0], [2.0], [3.0]])
    first, inverse = distinct_rows(X)
    np.testing.assert_array_equal(X[first][inverse], X)


def test_a_copy_carries_no_caches() -> None:
    X = np.random.default_rng(0).random((300, 20))
    model = fit_voronoi(X, draw_subsamples(300, 10, 16, 0))
    fresh = len(pickle.dumps(model))
    expected = model.cells(X).codes
    assert len(model.content_hash) == 64
    assert len(pickle.dumps(model)) == fresh
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model), copy.copy(model)):
        assert isinstance(twin, VoronoiPartitions)
        assert twin.content_hash == model.content_hash
        np.testing.assert_array_equal(twin.cells(X).codes, expected)


def test_wrong_number_of_columns() -> None:
    model = fit_voronoi(DATA["continuous"], _draws(DATA["continuous"]))
    with pytest.raises(ValueError, match="X has 3 columns, the model was fitted on 4"):
        model.cells(DATA["continuous"][:, :3])


@pytest.mark.parametrize("psis", [[4, 2], [2, 2], [0, 2], [2, 9], []])
def test_prefixes_must_ascend_within_psi(psis: list[int]) -> None:
    X = DATA["continuous"]
    with pytest.raises(ValueError, match=r"psis must ascend within 1\.\.8"):
        fit_voronoi(X, _draws(X)).cells_of_prefixes(X, psis)


def test_distances_of_both_layouts_are_equal_bit_for_bit() -> None:
    X, Z = DATA["sparse"], DATA["sparse"][::-1].copy()
    a, b = sp.csr_array(X), sp.csr_array(Z)
    expected = squared_distances(X, Z)
    for r, u in product(range(N), range(N)):
        assert _nearest_loops.dense_distance(r, u, X, Z) == expected[r, u]
        rows, centers = (a.data, a.indices, a.indptr), (b.data, b.indices, b.indptr)
        assert _nearest_loops.csr_distance(r, u, rows, centers) == expected[r, u]
