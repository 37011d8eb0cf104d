"""Dual coordinate descent: properties SV1-SV4 of algorithms.md 8.6, oracles, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from ikmap.cells import Cells
from ikmap.learners.dual import _cocoa_loops as cocoa_loops
from ikmap.learners.dual import _linear_svm_loops as loops
from ikmap.learners.dual._linear_svm_loops import LOSSES
from ikmap.learners.dual.linear_svm import SVMParams, fit_linear_svm, svm_model
from ikmap.learners.rows import Block, row_arrays, squared_norms
from tests.naive import learners as naive
from tests.support.svm_problems import EVERY_LOSS, OFFSETS, VALUE, Loss, T, problem, same, signs

# --- the loop against the listing


@EVERY_LOSS
@pytest.mark.parametrize("shrinking", [True, False])
@pytest.mark.parametrize("layout", ["cells", "dense", "csr"])
@pytest.mark.parametrize("sigma", [1.0, 2.5])
def test_sweeps_follow_the_listing(loss: Loss, shrinking: bool, layout: str, sigma: float) -> None:
    cells, y = problem(60)
    X = cells.to_csr()
    rows = row_arrays({"cells": cells, "csr": X, "dense": X.toarray()}[layout], VALUE)
    rng = np.random.default_rng(5)
    weight = rng.integers(0, 3, 60).astype(float)
    class_cost = np.array([0.5, 1.5])
    w, alpha = np.zeros(X.shape[1] + 1), np.zeros(60)
    objective = loops.Objective(y, 1, class_cost, weight, 0.0, LOSSES[loss])
    made, _ = cocoa_loops.sweeps(
        rows, squared_norms(rows), objective, w, alpha, 1e-3, 40, shrinking, np.uint64(2**63 + 12345), sigma
    )
    cost = class_cost[y] * weight
    expected = naive.svm_sweeps(X.toarray(), signs(y), cost, loss, 1e-3, 40, shrinking, 2**63 + 12345, sigma)
    np.testing.assert_allclose(alpha, expected[0], rtol=0, atol=1e-11)
    np.testing.assert_allclose(w[:-1], expected[1], rtol=0, atol=1e-11)
    assert made == expected[2]
    assert made > 3
    assert (alpha[weight == 0] == 0).all()


def test_shuffle_permutes_and_repeats() -> None:
    order = np.arange(1000, dtype=np.int32)
    state = loops.shuffle(order, 900, np.uint64(7))
    expected, expected_state = naive.shuffled(range(900), 7)
    assert order[:900].tolist() == expected
    assert order[900:].tolist() == list(range(900, 1000))
    assert int(state) == expected_state


@EVERY_LOSS
def test_certificate_is_the_duality_gap(loss: Loss) -> None:
    cells, y = problem(80)
    rng = np.random.default_rng(2)
    weight = rng.uniform(0.2, 2, 80)
    alpha = rng.uniform(0.01, 0.99, 80) * weight
    X, c = cells.to_csr().toarray(), signs(y)
    w = np.append(X.T @ (alpha * c), 0.0)
    objective = loops.Objective(y, 1, np.ones(2), weight, 0.0, LOSSES[loss])
    losses, gap, length = loops.certificate(row_arrays(cells, VALUE), objective, w, alpha, 0, -1)
    assert length == pytest.approx(w @ w, rel=1e-12)
    primal = naive.svm_primal(X, c, weight, loss, w[:-1])
    assert losses + 0.5 * w @ w == pytest.approx(primal, rel=1e-12)
    assert gap == pytest.approx(primal - naive.svm_dual(X, c, weight, loss, alpha), rel=1e-9)


def test_logistic_step_solves_its_equation_even_far_out() -> None:
    for margin in (-1e4, -30.0, -1.0, 0.0, 2.0, 50.0, 1e4):
        for a in (0.0, 1e-300, 0.3, 0.7 - 1e-16, 0.7):
            for norm in (0.0, 1e-6, 1.0, 1e6):
                z = loops.logistic_step(margin, a, norm, 0.7)
                assert 0.0 <= z <= 0.7
                assert z == pytest.approx(naive.logistic_root(margin, a, norm, 0.7), rel=1e-9, abs=1e-12)


# --- solutions against other software


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("C", [0.1, 1.0, 10.0])
def test_solution_is_that_of_liblinear(loss: Loss, C: float) -> None:
    cells, y = problem()
    fit = fit_linear_svm([Block(cells, y)], 2, SVMParams(loss=loss, C=C, tol=1e-12, max_iter=100_000))
    reference = LinearSVC(loss=loss, C=C, fit_intercept=False, dual=True, tol=1e-8, max_iter=1_000_000)
    reference.fit(cells.to_csr(), y)
    np.testing.assert_allclose(fit.coef[:, 0], reference.coef_[0], atol=1e-5)


@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
def test_logistic_solution_is_that_of_newtons_method(C: float) -> None:
    cells, y = problem()
    fit = fit_linear_svm([Block(cells, y)], 2, SVMParams(loss="logistic", C=C, tol=1e-14))
    reference = LogisticRegression(C=C, fit_intercept=False, tol=1e-12, max_iter=1000, solver="newton-cholesky")
    reference.fit(cells.to_csr().toarray(), y)
    np.testing.assert_allclose(fit.coef[:, 0], reference.coef_[0], atol=1e-5)


@EVERY_LOSS
def test_intercept_is_a_constant_feature(loss: Loss) -> None:
    cells, y = problem()
    params = SVMParams(loss=loss, tol=1e-12, max_iter=100_000, fit_intercept=True)
    fit = fit_linear_svm([Block(cells, y)], 2, params)
    X = np.hstack([cells.to_csr().toarray(), np.ones((200, 1))])
    wide = fit_linear_svm([Block(X, y)], 2, SVMParams(loss=loss, tol=1e-12, max_iter=100_000))
    np.testing.assert_allclose(np.append(fit.coef[:, 0], fit.intercept), wide.coef[:, 0], atol=2e-5)
    assert fit.intercept[0] != 0


# --- properties


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_sv1_gram_matrix_alone_gives_the_same_decisions(loss: Loss) -> None:
    cells, y = problem(100)
    K = (cells.codes[:, None, :] == cells.codes[None, :, :]).mean(axis=2)
    expected = K @ naive.svm_gram(K, signs(y), 1.0, loss, 3000)
    params = SVMParams(loss=loss, tol=1e-12, max_iter=100_000)
    fit = fit_linear_svm([Block(cells, y)], 2, params)
    model = svm_model(fit, [0, 1], params, divisor=np.sqrt(T))
    np.testing.assert_allclose(model.decision_function(cells)[:, 0], expected, atol=1e-6)


@EVERY_LOSS
def test_sv2_raw_features_with_c_over_t(loss: Loss) -> None:
    cells, y = problem()
    decisions = []
    for normalize, C, divisor in ((True, 2.0, np.sqrt(T)), (False, 2.0 / T, 1.0)):
        params = SVMParams(loss=loss, C=C, normalize=normalize, tol=1e-12, max_iter=100_000)
        fit = fit_linear_svm([Block(cells, y)], 2, params)
        decisions.append(svm_model(fit, [0, 1], params, divisor=divisor).decision_function(cells))
    np.testing.assert_allclose(decisions[0], decisions[1], atol=1e-6)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_sv3_kkt_conditions_and_objectives(loss: Loss) -> None:
    cells, y = problem()
    fit = fit_linear_svm(
        [Block(cells, y)], 2, SVMParams(loss=loss, tol=3e-13 if loss == "hinge" else 1e-13, max_iter=100_000)
    )
    X, c, alpha, w = cells.to_csr().toarray(), signs(y), fit.alphas[0], fit.coef[:, 0]
    np.testing.assert_allclose(w, X.T @ (alpha * c), atol=1e-12)
    upper, diag = (1.0, 0.0) if loss == "hinge" else (np.inf, 0.5)
    gradient = c * (X @ w) - 1 + diag * alpha
    assert (alpha >= 0).all()
    assert (alpha <= upper).all()
    inside = (alpha > 1e-7) & (alpha < upper - 1e-7)
    assert (gradient[alpha <= 1e-7] > -1e-6).all()
    assert (gradient[alpha >= upper - 1e-7] < 1e-6).all()
    assert np.abs(gradient[inside]).max() < 1e-6
    assert inside.any()
    ones = np.ones(200)
    assert fit.primal[0] == pytest.approx(naive.svm_primal(X, c, ones, loss, w), rel=1e-13)
    assert fit.dual[0] == pytest.approx(naive.svm_dual(X, c, ones, loss, alpha), rel=1e-13)
    assert fit.n_support[0] == np.count_nonzero(alpha)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_sv4_shrinking_does_not_change_the_solution(loss: Loss) -> None:
    cells, y = problem()
    fits = [
        fit_linear_svm([Block(cells, y)], 2, SVMParams(loss=loss, tol=1e-12, max_iter=100_000, shrinking=shrinking))
        for shrinking in (True, False)
    ]
    np.testing.assert_allclose(fits[0].coef, fits[1].coef, atol=1e-5)
    assert not np.array_equal(fits[0].coef, fits[1].coef)


@EVERY_LOSS
def test_the_dual_never_falls_from_sweep_to_sweep(loss: Loss) -> None:
    cells, y = problem()
    duals = []
    for sweeps in range(1, 12):
        with pytest.warns(ConvergenceWarning, match="duality gap"):
            fit = fit_linear_svm([Block(cells, y)], 2, SVMParams(loss=loss, tol=1e-20, max_iter=sweeps))
        assert fit.n_iter[0] == sweeps
        assert not fit.converged[0]
        assert fit.gap[0] == pytest.approx((fit.primal[0] - fit.dual[0]) / fit.primal[0], rel=1e-12, abs=1e-14)
        duals.append(fit.dual[0])
    assert (np.diff(duals) >= -1e-12 * duals[-1]).all()
    assert duals[-1] > duals[0]


@EVERY_LOSS
def test_gap_is_reached_and_its_history_kept(loss: Loss) -> None:
    cells, y = problem()
    for tol in (1e-2, 1e-6):
        fit = fit_linear_svm([Block(cells, y)], 2, SVMParams(loss=loss, tol=tol))
        history = fit.history[0]
        assert fit.converged.all()
        assert 0 <= fit.gap[0] <= tol
        assert history[-1].tolist() == [fit.n_iter[0], fit.primal[0], fit.dual[0], fit.gap[0]]
        assert (np.diff(history[:, 0]) >= 0).all()
        assert (history[:-1, 3] > tol).all()


def test_different_orders_agree_to_tolerance() -> None:
    cells, y = problem()
    fits = [fit_linear_svm([Block(cells, y)], 2, SVMParams(tol=1e-12, max_iter=100_000, seed=seed)) for seed in (0, 1)]
    assert not np.array_equal(fits[0].coef, fits[1].coef)
    np.testing.assert_allclose(fits[0].coef, fits[1].coef, atol=1e-5)


@EVERY_LOSS
def test_same_seed_same_bits_for_every_integer_type(loss: Loss) -> None:
    cells, y = problem(n_classes=3)
    fits = [
        fit_linear_svm([Block(Cells(cells.codes.astype(dtype), OFFSETS), y)], 3, SVMParams(loss=loss))
        for dtype in (np.int32, np.int32, np.uint8, np.uint16, np.uint32, np.int64)
    ]
    for fit in fits[1:]:
        same(fit, fits[0])


# --- refusals


def test_bad_parameters_are_refused() -> None:
    for options, message in (
        ({"loss": "huber"}, "loss must be one of"),
        ({"C": 0.0}, "C must be a positive number"),
        ({"tol": np.nan}, "tol must be a positive number"),
        ({"max_iter": 0}, "max_iter must be at least 1"),
        ({"class_weight": "even"}, "class_weight must be"),
        ({"class_weight": {0: -1.0}}, "class weights must be >= 0"),
    ):
        with pytest.raises(ValueError, match=message):
            SVMParams(**options)
