"""NOGD: properties NO1 and NO4 of algorithms.md 6, and the state's contract."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from ikmap.json_values import Label
from ikmap.kernels import AdditiveChi2Kernel, GaussianKernel, IsolationKernel, LaplacianKernel
from ikmap.kernels.base import AnyKernel
from ikmap.kernels.points import PointKernel
from ikmap.learners.kernel.kernel_model import KernelModel
from ikmap.learners.mapped_model import MappedModel
from ikmap.learners.online.kernel_ogd import KernelOGDState
from ikmap.learners.online.ogd import OGDState
from ikmap.maps.nystroem import NystroemMap, draw_points
from ikmap_papers.isolation_kernel.nogd_state import LinearState, NOGDState, nogd_bytes, rank_of
from tests.naive import kernels as naive_kernels
from tests.naive import learners as naive
from tests.support.narrow import present, read_back
from tests.support.streams import LAYOUTS, cell_stream, equal_checkpoints, peak_bytes, signs, stream

KERNELS = [LaplacianKernel(0.7), GaussianKernel(1.3), AdditiveChi2Kernel()]
NAMES = [kernel.name for kernel in KERNELS]


def started(
    points: Any, X: Any, kernel: Any = KERNELS[0], n_classes: int = 2, rank: int = 9, **options: Any
) -> NOGDState:
    """State that has not seen a row, with a map ("uniform") or without ("violators")."""
    if points == "uniform":
        options["map"] = NystroemMap.fit(X[draw_points(X.shape[0], 30, 0)], kernel, rank)
    return NOGDState(kernel, n_classes, b=30, rank=rank, eta=0.3, **options)


def rows_until(dual: KernelOGDState, X: Any, y: Any, b: int) -> int:
    """Number of rows that the learner takes until it has so many support points."""
    for i in range(y.size):
        dual.partial_fit(X[i : i + 1], y[i : i + 1])
        if dual.n_support == b:
            return i + 1
    raise AssertionError(f"found {dual.n_support} support points, expected {b}")


@pytest.mark.parametrize("kernel", KERNELS[:2], ids=NAMES[:2])
def test_no1_all_points_give_the_kernel_and_its_online_learner(kernel: PointKernel) -> None:
    X, y = stream("any", 60)
    map = NystroemMap.fit(X, kernel, 60)
    Z = map.transform(X)
    np.testing.assert_allclose(Z @ Z.T, kernel.matrix(X), atol=1e-10)
    state, dual = NOGDState(kernel, 2, map=map), KernelOGDState(kernel, 2)
    for i in range(60):
        row = X[i : i + 1]
        np.testing.assert_allclose(state.decision_function(row), dual.decision_function(row), atol=1e-6)
        assert state.partial_fit(row, y[i : i + 1])[1] == dual.partial_fit(row, y[i : i + 1])[1]
    assert 0 < state.n_support < 60


def test_no4_signs_of_eigenvectors_do_not_matter() -> None:
    X, y = stream("any", 300)
    map = NystroemMap.fit(X[:40], KERNELS[0], 8)
    flipped = NystroemMap(map.points, map.matrix * np.array([1, -1] * 4)[:, None], map.kernel)
    a, b = (NOGDState(KERNELS[0], 2, map=each) for each in (map, flipped))
    np.testing.assert_array_equal(a.partial_fit(X, y).predicted, b.partial_fit(X, y).predicted)
    np.testing.assert_array_equal(a.decision_function(X), b.decision_function(X))


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
@pytest.mark.parametrize("average", [False, True])
def test_decisions_are_those_of_the_definition(kernel: PointKernel, average: bool) -> None:
    X, y = stream("any", 150)
    state = started("uniform", X, kernel, average=average)
    points = X[draw_points(150, 30, 0)]
    gamma = getattr(kernel, "gamma", None)
    M = naive_kernels.nystroem_matrix(naive_kernels.kernel(points, points, kernel.name, gamma), 9)
    Z = naive_kernels.kernel(X, points, kernel.name, gamma) @ M.T
    f, support, history = naive.ogd_dense(Z, signs(y), 0.3)
    progress = state.partial_fit(X, y)
    clear = np.abs(f) > 1e-6
    np.testing.assert_array_equal(progress.predicted[clear], f[clear] >= 0)
    assert state.n_support == progress.n_support == len(support)
    w = np.mean(history, axis=0) if average else history[-1]
    np.testing.assert_allclose(state.decision_function(X)[:, 0], Z @ w, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_violators_start_the_linear_phase_from_their_sum(n_classes: int) -> None:
    X, y = stream("any", 400, n_classes=n_classes)
    state, dual = started("violators", X, n_classes=n_classes), KernelOGDState(KERNELS[0], n_classes, 0.3)
    first = rows_until(dual, X, y, 30)
    points, coef = present(dual.support.arrays())
    K = KERNELS[0].matrix(points)
    M = naive_kernels.nystroem_matrix(K, 9)
    state.partial_fit(X[:first], y[:first])
    np.testing.assert_array_equal(present(state.map).points, points)
    expected = KERNELS[0].matrix(X, points) @ M.T @ (0.3 * coef.T @ np.linalg.pinv(M)).T
    found = state.decision_function(X)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
    Z = KERNELS[0].matrix(X[first:], points) @ M.T
    for k in range(expected.shape[1]):
        start = (0.3 * coef.T @ np.linalg.pinv(M))[k]
        f, support, _ = naive.ogd_dense(Z, signs(y[first:], k if n_classes == 3 else 1), 0.3, start)
        assert 0 < len(support) < f.size
        if n_classes == 2:
            before = state.n_support
            assert state.partial_fit(X[first:], y[first:]).n_support == len(support)
            assert state.n_support == before + len(support) == 30 + len(support)


@pytest.mark.parametrize("b", [1, 7, 100, 256, 300])
def test_the_turn_comes_with_the_last_point(b: int) -> None:
    X, y = stream("any", 900)
    dual = KernelOGDState(KERNELS[0], 2)
    n = rows_until(dual, X, y, b)
    for stop in (n - 1, n):
        state = NOGDState(KERNELS[0], 2, b=b)
        state.partial_fit(X[:stop], y[:stop])
        assert (state.map is not None, state.n_support) == (stop == n, b - (stop < n))
    whole = NOGDState(KERNELS[0], 2, b=b)
    whole.partial_fit(X, y)
    np.testing.assert_array_equal(present(whole.map).points, present(dual.support.arrays())[0])


@pytest.mark.parametrize("n_classes", [2, 3])
def test_weights_are_those_of_ogd_on_the_features(n_classes: int) -> None:
    rng = np.random.default_rng(3)
    Z, y = rng.normal(size=(400, 7)), rng.integers(0, n_classes, 400)
    state, plain = LinearState.start(7, n_classes, 0.3, average=True), OGDState.start(7, n_classes, 0.3)
    names, seen = list[Label](range(n_classes)), []
    np.testing.assert_array_equal(state.model(names, {}).coef, plain.weights)
    for i in range(400):
        rows = Z[i : i + 1], y[i : i + 1]
        progress = plain.partial_fit(*rows)
        np.testing.assert_array_equal(state.partial_fit(*rows), progress.predicted)
        if progress.n_support:
            seen.append(plain.weights)
        if i == 200:
            state = LinearState.restore(state.checkpoint())
    np.testing.assert_array_equal(state.weights, plain.weights)
    np.testing.assert_array_equal(state.n_updates, plain.n_updates)
    assert len(seen) == state.n_support == plain.n_support > 100
    np.testing.assert_allclose(state.model(names, {}).coef, np.mean(seen, axis=0), atol=1e-12)


def test_with_full_rank_the_turn_changes_no_decision() -> None:
    X, y = stream("any", 200)
    state = NOGDState(KERNELS[0], 2, b=30, rank=30)
    dual = KernelOGDState(KERNELS[0], 2)
    n = rows_until(dual, X, y, 30)
    state.partial_fit(X[:n], y[:n])
    assert state.map is not None
    points, _ = present(dual.support.arrays())
    np.testing.assert_allclose(state.decision_function(points), dual.decision_function(points), atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("points", ["uniform", "violators"])
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("average", [False, True])
def test_blocks_threads_and_checkpoints_change_nothing(points: str, n_classes: int, layout: str, average: bool) -> None:
    X, y = stream("gaps", 1500, n_classes=n_classes)
    rows = LAYOUTS[layout](X)
    options = {"n_classes": n_classes, "average": average}
    whole = started(points, rows, n_threads=1, **options)
    predicted = whole.partial_fit(rows, y).predicted
    state, parts = started(points, rows, n_threads=3, **options), []
    turned = []
    for start, stop in ((0, 1), (1, 1), (1, 12), (12, 50), (50, 51), (51, 1300), (1300, 1500)):
        parts.append(state.partial_fit(rows[start:stop], y[start:stop]).predicted)
        turned.append(state.map is not None)
        saved = state.checkpoint()
        state.partial_fit(rows[:300], y[:300])  # Past the turn: going back has to undo that, too.
        state = (started(points, rows, n_threads=2, **options) if start % 2 else state).restore(saved)
    np.testing.assert_array_equal(np.concatenate(parts), predicted)
    assert equal_checkpoints(state, whole)
    assert state.n_seen == whole.n_seen == 1500
    assert state.n_support == whole.n_support
    assert points == "uniform" or turned[0] < turned[-1]
    decisions = whole.decision_function(rows)
    np.testing.assert_array_equal(state.decision_function(rows), decisions)
    for i, j in ((0, 3), (1020, 1030), (1499, 1500), (5, 5)):
        np.testing.assert_array_equal(state.decision_function(rows[i:j]), decisions[i:j])


@pytest.mark.parametrize("kernel", KERNELS, ids=NAMES)
def test_dense_and_csr_agree_on_bits(kernel: PointKernel) -> None:
    X, y = stream("bits", 500, 30, 3)
    for points in ("uniform", "violators"):
        dense, csr = (started(points, layout(X), kernel, 3) for layout in LAYOUTS.values())
        np.testing.assert_array_equal(
            dense.partial_fit(X, y).predicted, csr.partial_fit(LAYOUTS["csr"](X), y).predicted
        )
        np.testing.assert_array_equal(dense.decision_function(X), csr.decision_function(LAYOUTS["csr"](X)))
        np.testing.assert_array_equal(dense.decision_function(X), dense.decision_function(LAYOUTS["csr"](X)))


@pytest.mark.parametrize("rows", ["dense", "csr", "cells"])
@pytest.mark.parametrize("points", ["uniform", "violators"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_model_round_trip(rows: str, points: str, n_classes: int) -> None:
    X: Any
    kernel: AnyKernel
    if rows == "cells":
        X, y = cell_stream(300, 13, 6, n_classes)
        kernel = IsolationKernel(13)
    else:
        X, y = stream("gaps", 300, n_classes=n_classes)
        X, kernel = LAYOUTS[rows](X), KERNELS[0]
    map = NystroemMap.fit(X[draw_points(300, 20, 0)], kernel, 5) if points == "uniform" else None
    state = NOGDState(kernel, n_classes, b=20, average=True, map=map)
    for stop in (2, 300):
        state.partial_fit(X[:stop], y[:stop])
        model = state.model(list(range(n_classes)), {"psi": 8})
        assert isinstance(model, KernelModel if state.map is None else MappedModel)
        again = read_back(model)
        assert again.content_hash == model.content_hash
        np.testing.assert_array_equal(again.decision_function(X), state.decision_function(X))
        assert again.classes == list(range(n_classes))
        assert again.predict(X[:0]).shape == (0,)
    assert again.learner == "nogd"
    assert isinstance(again, MappedModel)
    assert again.linear.params["psi"] == 8
    if rows != "cells":
        for bad, message in (
            (np.full((2, 6), np.nan), "^row 0, column 0: value is not finite$"),
            (np.ones((2, 5)), "^rows have 5 columns, those that they are compared with 6$"),
        ):
            with pytest.raises(ValueError, match=message):
                again.decision_function(bad)


@pytest.mark.parametrize("points", ["uniform", "violators"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_bad_input_is_named_and_nothing_is_learned(points: str, layout: str) -> None:
    X, y = stream("any", 1500)
    state = started(points, LAYOUTS[layout](X), AdditiveChi2Kernel())
    nan, negative = X.copy(), X.copy()
    nan[1300, 2], negative[1301, 1] = np.nan, -1
    for rows, labels, message in (
        (nan, y, "row 1300, column 2: value is not finite"),
        (negative, y, "row 1301, column 1: found -1.0, expected a value >= 0: chi-square is not defined for negative"),
        (X, np.where(np.arange(1500) == 1404, 2, y), "row 1404: class 2 is outside 0..1"),
        (X, y[:-1], "class numbers must be 1500 integers, got int32 (1499,)"),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
            state.partial_fit(LAYOUTS[layout](rows), labels)
    assert (state.n_seen, state.n_support) == (0, 0)
    state.partial_fit(LAYOUTS[layout](X[:200]), y[:200])
    with pytest.raises(ValueError, match=r"^rows have 4 feature columns, expected 6$"):
        state.partial_fit(LAYOUTS[layout](X[:, :4]), y)
    assert state.n_seen == 200


def test_bad_parameters() -> None:
    with pytest.raises(ValueError, match=r"^b must be at least 1, got 0$"):
        NOGDState(KERNELS[0], 2, b=0)
    with pytest.raises(ValueError, match="eta must be a positive number"):
        NOGDState(KERNELS[0], 2, eta=0)


def test_rank() -> None:
    assert [rank_of(b) for b in (1, 2, 7, 8, 100, 10_000)] == [1, 1, 1, 2, 20, 2000]


@pytest.mark.slow
@pytest.mark.parametrize(("layout", "d", "b"), [("dense", 2000, 100), ("dense", 10, 600), ("csr", 5000, 100)])
def test_memory_is_foreseen(layout: str, d: int, b: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((2200, d)) * (rng.random((2200, d)) < (0.05 if layout == "csr" else 1))
    rows, y = LAYOUTS[layout](X), rng.integers(0, 2, 2200)

    def run() -> None:
        map = NystroemMap.fit(rows[draw_points(2200, b, 0)], LaplacianKernel(1.0), rank_of(b))
        NOGDState(LaplacianKernel(1.0), 2, b, map=map).partial_fit(rows, y)

    run()
    foreseen = nogd_bytes(d, rows.nnz / 2200 if layout == "csr" else None, b)
    assert 0.2 * foreseen < peak_bytes(run) < foreseen


def test_memory_of_outputs() -> None:
    """Two numbers of eight bytes for each point and feature: of one output for two classes, else of one a class."""
    of = [nogd_bytes(20, None, 50, 30, n_classes) for n_classes in (2, 3, 4)]
    assert [more - of[0] for more in of[1:]] == [2 * 16 * 80, 3 * 16 * 80]
