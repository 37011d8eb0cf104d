"""Rows without a cell in some partitionings (-1): what every learner makes of them, against the one-hot CSR form."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

from benchmarks.cocoa import fit_cocoa
from ikmap import CellLogisticRegression, CellOGDClassifier, CellSVC
from ikmap.arrays import Array
from ikmap.cells import Cells
from ikmap.kernels import IsolationKernel
from ikmap.kernels.isolation import isolation_kernel
from ikmap.learners.dual.linear_svm import SVMFit, SVMParams, fit_linear_svm
from ikmap.learners.dual.linear_svm_path import fit_linear_svm_path
from ikmap.learners.kernel.kernel_svm import KernelSVMParams, fit_kernel_svm
from ikmap.learners.linear_model import LinearModel
from ikmap.learners.online.kernel_ogd import KernelOGDState
from ikmap.learners.online.ogd import OGDState
from ikmap.learners.rows import Block, check_rows, row_arrays, squared_norms
from tests.support.svm_problems import EVERY_LOSS, Reread, same

T = 11
SOME_CLASSES = pytest.mark.parametrize("n_classes", [2, 3])
PACKED = pytest.mark.parametrize("packed", [False, True], ids=["int32", "packed"])


def problem(
    n: int = 200, n_classes: int = 2, seed: int = 0, share: float = 0.25, widest: int = 7, t: int = T
) -> tuple[Cells, np.ndarray]:
    """Ragged cells of which a share is absent, all of some rows and none of the first fifty."""
    rng = np.random.default_rng(seed)
    widths = np.r_[widest, rng.integers(2, 8, t - 1)]
    codes = np.column_stack([rng.integers(0, w, n) for w in widths]).astype(np.int32)
    score = codes[:, 1:5].sum(axis=1) + rng.integers(0, 7, n)
    y = np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score).astype(np.int32)
    codes[50:][rng.random((n - 50, t)) < share] = -1
    codes[60:63] = -1
    codes[:, 0][codes[:, 0] == widest - 2] = widest - 1
    return Cells(codes, np.r_[0, np.cumsum(widths)]), y


def given_as(cells: Cells, packed: bool) -> Cells:
    return cells.packed() if packed else cells


def agree(found: SVMFit, expected: SVMFit, X: sp.csr_array) -> None:
    """Two solutions of one problem, certified to 1e-12: weights and decisions."""
    np.testing.assert_allclose(found.primal, expected.primal, rtol=1e-9)
    np.testing.assert_allclose(found.coef, expected.coef, atol=2e-5)
    np.testing.assert_allclose(X @ found.coef + found.intercept, X @ expected.coef + expected.intercept, atol=2e-5)


def certified(loss: str, **more: Any) -> SVMParams:
    return SVMParams(loss=loss, C=2.0, tol=1e-12, max_iter=100_000, **more)  # type: ignore[arg-type]


@PACKED
@pytest.mark.parametrize("widest", [7, 255, 256, 300], ids=lambda w: f"{w} cells")
def test_rows_as_compiled_loops_see_them(widest: int, packed: bool) -> None:
    """The norm is the number of cells; no number of a cell is taken for "no cell", nor the other way about."""
    cells, _ = problem(widest=widest)
    rows = given_as(cells, packed)
    assert not check_rows(rows, cells.n_columns)
    arrays: Any = row_arrays(rows, 0.5)
    codes, base, _, absent = arrays
    np.testing.assert_array_equal(codes == absent, cells.codes == -1)
    np.testing.assert_array_equal((codes + base.astype(np.int64))[codes != absent], cells.columns()[cells.codes >= 0])
    np.testing.assert_array_equal(squared_norms(arrays), 0.25 * (cells.codes >= 0).sum(axis=1))
    assert check_rows(rows[:50])
    assert len(row_arrays(rows[:50])) == 3


@pytest.mark.parametrize("absent", [-1, 255])
def test_cells_out_of_range_are_still_named(absent: int) -> None:
    cells, _ = problem()
    codes: Array = cells.codes.astype(np.int32 if absent < 0 else np.uint8)
    codes[70, 3] = 200
    with pytest.raises(ValueError, match=r"^row 70, column 3: cell 200, expected 0\.\."):
        check_rows(Cells(codes, cells.offsets))


# ------------------------------------------------------------------------------------------ dual coordinate descent


@pytest.mark.slow
@EVERY_LOSS
@SOME_CLASSES
@pytest.mark.parametrize("fit_intercept", [False, True])
def test_in_memory(loss: str, n_classes: int, fit_intercept: bool) -> None:
    cells, y = problem(n_classes=n_classes)
    params = certified(loss, fit_intercept=fit_intercept)
    weight = np.random.default_rng(1).integers(0, 3, y.size).astype(float)
    X = cells.to_csr()
    for some in (None, weight):
        found = fit_linear_svm([Block(cells.packed(), y, some)], n_classes, params)
        same(found, fit_linear_svm([Block(cells, y, some)], n_classes, params))
        agree(found, fit_linear_svm([Block(X, y, some)], n_classes, params), X)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), share=st.sampled_from([0.01, 0.5, 0.95]), widest=st.sampled_from([3, 255, 256]))
def test_any_problem(seed: int, share: float, widest: int) -> None:
    cells, y = problem(80, 2, seed, share, widest)
    X, params = cells.to_csr(), certified("squared_hinge")
    agree(fit_linear_svm([Block(cells.packed(), y)], 2, params), fit_linear_svm([Block(X, y)], 2, params), X)


@EVERY_LOSS
@SOME_CLASSES
def test_block_by_block(loss: str, n_classes: int) -> None:
    """Of the three blocks, the first lacks no cell."""
    cells, y = problem(n_classes=n_classes)
    params, X = certified(loss), cells.to_csr()
    found = fit_linear_svm(Reread(cells.packed(), y, [50, 130]), n_classes, params)
    agree(found, fit_linear_svm([Block(X, y)], n_classes, params), X)


@pytest.mark.slow
@EVERY_LOSS
@SOME_CLASSES
def test_distributed(loss: str, n_classes: int) -> None:
    cells, y = problem(n_classes=n_classes)
    params, X = certified(loss), cells.to_csr()
    parts = [[Block(cells[:50].packed(), y[:50]), Block(cells[50:90].packed(), y[50:90])], [Block(cells[90:], y[90:])]]
    agree(fit_cocoa(parts, n_classes, params), fit_linear_svm([Block(X, y)], n_classes, params), X)


@SOME_CLASSES
def test_path_of_C(n_classes: int) -> None:
    cells, y = problem(n_classes=n_classes)
    params, X = certified("squared_hinge"), cells.to_csr()
    paths = [fit_linear_svm_path([Block(rows, y)], n_classes, params, [0.1, 1.0, 10.0]) for rows in (cells.packed(), X)]
    for found, expected in zip(*paths, strict=True):
        agree(found, expected, X)


@EVERY_LOSS
def test_problems_side_by_side_and_apart(loss: str) -> None:
    """The loops for eight problems sum up as those for one do, bit for bit."""
    cells, y = problem(n_classes=5)
    params = SVMParams(loss=loss, C=2.0)  # type: ignore[arg-type]
    together = fit_linear_svm([Block(cells.packed(), y)], 5, params)
    for k in range(5):
        alone = fit_linear_svm([Block(cells.packed(), y)], 5, params, classes_subset=[k])
        np.testing.assert_array_equal(alone.coef[:, 0], together.coef[:, k])
        np.testing.assert_array_equal(alone.alphas[0], together.alphas[k])


def test_threads_make_no_difference() -> None:
    """Rows enough for two threads to share a sweep, if all had their cells."""
    cells, y = problem(5000, t=40)
    params = SVMParams(tol=1e-6)
    fits = [fit_linear_svm([Block(cells.packed(), y)], 2, params, n_threads=n) for n in (1, 2)]
    same(fits[0], fits[1])


# ------------------------------------------------------------------------------------------ online gradient descent


@SOME_CLASSES
@PACKED
@pytest.mark.parametrize("widest", [7, 255, 256])
def test_online_gradient_descent_in_both_forms(n_classes: int, packed: bool, widest: int) -> None:
    """Index form and kernel values: the same predictions, as with CSR rows."""
    cells, y = problem(400, n_classes, widest=widest)
    rows, X = given_as(cells, packed), cells.to_csr(normalize=False)
    expected = OGDState.start(cells.n_columns, n_classes, 0.5, T)
    predicted = expected.partial_fit(X, y).predicted
    dual = KernelOGDState(IsolationKernel(T), n_classes, 0.5)
    np.testing.assert_array_equal(dual.partial_fit(rows, y).predicted, predicted)
    np.testing.assert_array_equal(dual.decision_function(rows), expected.decision_function(X))
    again = KernelOGDState(IsolationKernel(T), n_classes, 0.5).restore(dual.checkpoint())
    np.testing.assert_array_equal(again.decision_function(rows), expected.decision_function(X))
    model = dual.model(list(range(n_classes)))
    np.testing.assert_array_equal(model.decision_function(rows), expected.decision_function(X))
    state = OGDState.start(cells.n_columns, n_classes, 0.5, T)
    np.testing.assert_array_equal(state.partial_fit(rows, y).predicted, predicted)
    np.testing.assert_array_equal(state.weights, expected.weights)
    np.testing.assert_array_equal(state.n_updates, expected.n_updates)
    np.testing.assert_array_equal(state.decision_function(rows), expected.decision_function(X))
    linear = state.model(list(range(n_classes)))
    np.testing.assert_array_equal(linear.decision_function(rows), expected.decision_function(X))


def test_support_points_are_stored_alike_however_the_stream_is_cut() -> None:
    """Of 256 cells, one that is absent makes the others of its block take two bytes; the model is the same."""
    cells, y = problem(400, widest=256)
    cells.codes[:300] = np.maximum(cells.codes[:300], 0)
    models = []
    for bounds in ((0, 400), (0, 290, 400), (0, 100, 310, 400)):
        state = KernelOGDState(IsolationKernel(T), 2, 0.5)
        for start, stop in pairwise(bounds):
            state.partial_fit(cells[start:stop].packed(), y[start:stop])
        assert state.n_support > 50
        models.append(state.model([0, 1]))
    assert len({model.content_hash for model in models}) == 1


@SOME_CLASSES
def test_weighted_steps(n_classes: int) -> None:
    cells, y = problem(400, n_classes)
    X, weight = cells.to_csr(normalize=False), np.random.default_rng(0).integers(0, 3, 400) / 2
    states = [OGDState.start(cells.n_columns, n_classes, 0.5, T) for _ in range(2)]
    predicted = [
        state.partial_fit(rows, y, weight).predicted for state, rows in zip(states, (cells.packed(), X), strict=True)
    ]
    np.testing.assert_array_equal(predicted[0], predicted[1])
    np.testing.assert_array_equal(states[0].weights, states[1].weights)


# ------------------------------------------------------------------------------------------ kernel and predictions


@PACKED
@pytest.mark.parametrize("widest", [7, 256])
def test_isolation_kernel(packed: bool, widest: int) -> None:
    cells, _ = problem(600, widest=widest)
    a, b = given_as(cells, packed), given_as(cells[55:300], packed)
    X, Z = cells.to_csr(normalize=False), cells[55:300].to_csr(normalize=False)
    np.testing.assert_array_equal(isolation_kernel(a, b), (X @ Z.T).toarray() / T)
    K = isolation_kernel(a)
    np.testing.assert_array_equal(K, (X @ X.T).toarray() / T)
    np.testing.assert_array_equal(K.diagonal(), (cells.codes >= 0).sum(axis=1) / T)
    # Beside a set that lacks none, also where that takes one byte and this one two.
    np.testing.assert_array_equal(isolation_kernel(b, a[:50].packed()), (Z @ X[:50].T).toarray() / T)


@PACKED
def test_svm_with_the_isolation_kernel(packed: bool) -> None:
    cells, y = problem()
    rows, X = given_as(cells, packed), cells.to_csr()
    K = (X @ X.T).toarray()
    expected = SVC(C=2.0, kernel="precomputed", tol=1e-9).fit(K, y)
    model = fit_kernel_svm(rows, y, 2, IsolationKernel(T), KernelSVMParams(C=2.0, tol=1e-9))
    np.testing.assert_allclose(model.decision_function(rows)[:, 0], expected.decision_function(K), atol=1e-6)


@pytest.mark.parametrize("k", [1, 3])
@PACKED
def test_decisions(k: int, packed: bool) -> None:
    """A row that has all cells gives the same bits, whatever the rows beside it lack."""
    cells, _ = problem()
    rng = np.random.default_rng(0)
    model = LinearModel(
        coef=rng.normal(size=(cells.n_columns, k)),
        intercept=rng.normal(size=k),
        divisor=np.sqrt(T),
        learner="svm",
        classes=list(range(max(2, k))),
    )
    rows = given_as(cells, packed)
    decision = model.decision_function(rows)
    np.testing.assert_allclose(decision, model.decision_function(cells.to_csr()), rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(decision[:50], model.decision_function(rows[:50]))
    np.testing.assert_array_equal(decision[60], model.intercept[0 if k == 1 else slice(None)])
    for at in range(0, 200, 7):
        np.testing.assert_array_equal(decision[at : at + 7], model.decision_function(rows[at : at + 7]))


@PACKED
@pytest.mark.parametrize(
    "estimator",
    [CellSVC(tol=1e-12), CellLogisticRegression(tol=1e-12), CellOGDClassifier(eta=0.37, fit_intercept=False)],
    ids=lambda one: type(one).__name__,
)
def test_estimators(estimator: Any, packed: bool) -> None:
    """Fitted on cells of which some are absent or none, they predict both."""
    cells, y = problem(400)
    rows, X = given_as(cells, packed), cells.to_csr().toarray()
    for some in (slice(None), slice(0, 50)):
        estimator.fit(rows[some], y[some])
        decision = estimator.decision_function(rows)
        if hasattr(estimator, "predict_proba"):
            assert np.isfinite(estimator.predict_proba(rows)).all()
        np.testing.assert_allclose(decision[60:63], 0.0, atol=1e-12)
        without = {} if isinstance(estimator, CellOGDClassifier) else {"fit_intercept": False}
        expected = type(estimator)(**{**estimator.get_params(), **without}).fit(X[some], y[some])
        np.testing.assert_allclose(decision, expected.decision_function(X), atol=2e-5)
