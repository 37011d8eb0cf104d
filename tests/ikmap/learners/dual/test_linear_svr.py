"""Support vector regression: its iterates, its certificate, its optimum, and the same by blocks and along a path."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVR

from ikmap.cells import Cells
from ikmap.learners.dual import _linear_svr_loops as loops
from ikmap.learners.dual.linear_svm import SVMParams, fit_linear_svm, svm_model
from ikmap.learners.dual.linear_svm_path import fit_linear_svm_path
from ikmap.learners.dual.momentum import LONGER
from ikmap.learners.dual.progress import Progress
from ikmap.learners.dual.regression_problem import RegressionProblem, together
from ikmap.learners.rows import Block, row_arrays, squared_norms
from tests.naive.svr import svr_dual, svr_pass, svr_primal
from tests.support.sizes import SmallSizes

T, WIDTH = 4, 6
LOSSES = ("epsilon_insensitive", "squared_epsilon_insensitive")


def problem(n: int = 120, *, gaps: bool = False) -> tuple[Cells, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    codes = rng.integers(WIDTH, size=(n, T)).astype(np.int32)
    y = 700 + 20 * codes[:, 0] - 3 * codes[:, 1] ** 2 + 8 * rng.normal(size=n)
    if gaps:
        codes[rng.random(codes.shape) < 0.3] = -1
        codes[3] = -1
    return Cells(codes, np.arange(T + 1, dtype=np.int64) * WIDTH), y, rng.integers(3, size=n).astype(float)


def standardised(y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    mean = np.average(y, weights=weight)
    return (y - mean) / np.sqrt(np.average((y - mean) ** 2, weights=weight))


def params(loss: Any, **more: Any) -> SVMParams:
    return SVMParams(loss=loss, **{"C": 0.1, "tol": 1e-9, "max_iter": 20_000, **more})


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
def test_sweeps_are_those_of_the_slow_oracle(loss: str, gaps: bool) -> None:
    # Features are 1/2, by which products are exact: both round in the same places.
    cells, y, weight = problem(60, gaps=gaps)
    z, X, squared = np.rint(y - 700) / 8, cells.to_csr().toarray(), loss == LOSSES[1]
    rows = row_arrays(cells, 0.5)
    targets = loops.Targets(z, np.array([2.0]), weight, 0.0, 0.25, loops.LOSSES[loss])
    beta, w = np.zeros(60), np.zeros(T * WIDTH + 1)
    slow_beta, slow_w = np.zeros(60), np.zeros(T * WIDTH)
    order = np.flatnonzero(weight).astype(np.int32)
    slow_order, size, threshold = order.tolist(), order.size, np.inf
    left_out = 0
    for sweep in range(12):
        told = loops.one_pass(rows, squared_norms(rows), targets, w, beta, order, size, threshold)
        asked = (X, z, 2.0 * weight, 0.25, squared, slow_beta, slow_w, slow_order, threshold, T)
        slow_order, losses, most, rms, growth = svr_pass(*asked)
        size = told[0]
        assert order[:size].tolist() == slow_order
        assert np.array_equal(beta, slow_beta)
        assert np.array_equal(w[:-1], slow_w)
        assert (told[1], told[3], told[4], told[5]) == pytest.approx((losses, most, rms, growth), rel=1e-9, abs=1e-9)
        threshold = rms if sweep > 2 and rms > 0 else np.inf
        left_out = max(left_out, int((weight > 0).sum()) - size)
    assert left_out > 0


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("tol", [0.1, 1e-10])
def test_the_certificate_is_the_difference_of_both_objectives(
    loss: str, weighted: bool, gaps: bool, tol: float
) -> None:
    cells, y, some = problem(gaps=gaps)
    weight = some if weighted else np.ones(y.size)
    asked = params(loss, tol=tol, epsilon=0.2, fit_intercept=True)
    fit = fit_linear_svm([Block(cells, y, some if weighted else None)], 0, asked)
    X = np.column_stack([cells.to_csr().toarray(), np.ones(y.size)])
    w, squared = np.append(fit.coef[:, 0], fit.intercept), loss == LOSSES[1]
    of = (X, standardised(y, weight), asked.C * weight, 0.2, squared)
    assert fit.converged.all()
    assert fit.gap[0] <= tol
    assert fit.primal[0] == pytest.approx(svr_primal(*of, w), rel=1e-10)
    assert fit.dual[0] == pytest.approx(svr_dual(*of, fit.alphas[0]), rel=1e-10)
    assert np.allclose(X.T @ fit.alphas[0], w, atol=1e-10)
    assert fit.n_support[0] == np.count_nonzero(fit.alphas)
    assert np.abs(fit.alphas[0][weight == 0]).max(initial=0.0) == 0.0
    if not squared:
        assert (np.abs(fit.alphas[0]) <= asked.C * weight).all()


@pytest.mark.parametrize("loss", LOSSES)
def test_liblinear_finds_no_better_objective(loss: str) -> None:
    cells, y, weight = problem()
    fit = fit_linear_svm([Block(cells, y, weight)], 0, params(loss))
    z, X = standardised(y, weight), cells.to_csr()
    theirs = LinearSVR(loss=loss, epsilon=0.1, C=0.1, fit_intercept=False, tol=1e-10, max_iter=10**6, random_state=0)
    w = theirs.fit(X, z, sample_weight=weight).coef_
    best = svr_primal(X.toarray(), z, 0.1 * weight, 0.1, loss == LOSSES[1], w)
    assert fit.primal[0] == pytest.approx(best, rel=1e-8)
    model = svm_model(fit, [], params(loss), divisor=T**0.5)
    expected = np.average(y, weights=weight) + fit.scale * (X @ w)
    assert np.allclose(model.decision_function(cells.packed())[:, 0], expected, atol=1e-3)


@pytest.mark.parametrize("loss", LOSSES)
def test_blocks_find_the_same_optimum(loss: str, small_sizes: SmallSizes) -> None:
    small_sizes.blocks_together(1)
    cells, y, weight = problem()
    whole = fit_linear_svm([Block(cells, y, weight)], 0, params(loss))
    cut = [Block(cells[k : k + 25], y[k : k + 25], weight[k : k + 25]) for k in range(0, y.size, 25)]
    fit = fit_linear_svm(cut, 0, params(loss))
    assert (fit.center, fit.scale) == pytest.approx((whole.center, whole.scale), rel=1e-12)
    assert fit.primal == pytest.approx(whole.primal, rel=1e-8)
    assert np.isfinite(fit.alphas).all()  # no mark of a row that was left out is left
    unshrunk = fit_linear_svm(cut, 0, params(loss, shrinking=False))
    assert fit.primal == pytest.approx(unshrunk.primal, rel=1e-8)


def test_marks_of_rows_left_out_come_off_again() -> None:
    beta = np.array([0.0, 2.0, -2.0, 0.5, 0.0, -2.0])
    given, C, weight, order = beta.copy(), np.array([2.0]), np.array([1.0, 1, 1, 1, 0, 1]), np.empty(6, np.int32)
    loops.lay_down(beta, C, weight, beta, np.array([3, 5], np.int32), 2)
    assert np.isfinite(beta).tolist() == [False, False, False, True, True, True]
    assert loops.take_up(beta, C, weight, beta, order) == (2, 3)
    assert order[:2].tolist() == [3, 5]
    assert np.array_equal(beta, given)
    assert loops.take_up(beta, C, weight, beta, order) == (5, 0)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_path_over_C_takes_fewer_sweeps(loss: str) -> None:
    cells, y, _ = problem()
    Cs, asked = [0.02, 0.04, 0.08, 0.16], params(loss, tol=1e-4)
    fits = list(fit_linear_svm_path([Block(cells, y)], 0, asked, Cs))
    alone = [fit_linear_svm([Block(cells, y)], 0, params(loss, tol=1e-4, C=C)) for C in Cs]
    assert [f.primal[0] for f in fits] == pytest.approx([f.primal[0] for f in alone], rel=2e-4)
    assert sum(f.n_iter[0] for f in fits) < sum(f.n_iter[0] for f in alone)


def test_targets_of_any_scale_give_the_same_model() -> None:
    cells, y, _ = problem()
    one, other = (fit_linear_svm([Block(cells, a)], 0, params(LOSSES[1], tol=1e-4)) for a in (y, 1024.0 * y))
    assert other.scale == 1024.0 * one.scale
    assert np.array_equal(one.coef, other.coef)


def test_a_constant_target_is_predicted() -> None:
    cells, _, _ = problem(20)
    fit = fit_linear_svm([Block(cells, np.full(20, 0.1))], 0, params(LOSSES[0]))
    model = svm_model(fit, [], params(LOSSES[0]), divisor=2.0)
    assert np.allclose(model.decision_function(cells)[:, 0], 0.1)


def test_moments_of_two_groups_of_rows_are_those_of_all() -> None:
    """Also where one of them, or both, weigh nothing."""
    rng = np.random.default_rng(0)

    def moments(y: np.ndarray, weight: np.ndarray) -> tuple[float, float, float]:
        mean = float(np.average(y, weights=weight)) if weight.sum() else 0.0
        return float(weight.sum()), mean, float((weight * (y - mean) ** 2).sum())

    y, weight = 1e4 + rng.normal(size=90), rng.integers(0, 3, 90).astype(float)
    for cut in (1, 40, 89):
        parts = [moments(y[rows], weight[rows]) for rows in (slice(0, cut), slice(cut, None))]
        assert together(*parts) == pytest.approx(moments(y, weight), rel=1e-9)
    nothing, some = (0.0, 0.0, 0.0), moments(y, weight)
    assert together(nothing, nothing) == nothing
    assert together(some, nothing) == some
    assert together(nothing, some) == pytest.approx(some)


def test_blocks_that_weigh_nothing_change_nothing() -> None:
    cells, y, _ = problem(60)
    whole = fit_linear_svm([Block(cells, y)], 0, params(LOSSES[0]))
    blocks = [Block(cells[a:b], y[a:b], np.full(b - a, float(a >= 20))) for a, b in ((0, 10), (10, 20), (20, 60))]
    some = fit_linear_svm(blocks, 0, params(LOSSES[0]))
    alone = fit_linear_svm([Block(cells[20:], y[20:])], 0, params(LOSSES[0]))
    assert some.primal == pytest.approx(alone.primal, rel=1e-8)
    assert some.primal[0] != pytest.approx(whole.primal[0], rel=1e-3)


def test_what_is_refused() -> None:
    cells, y, _ = problem(20)
    y[7] = np.nan
    with pytest.raises(ValueError, match="row 7: target nan is not finite"):
        fit_linear_svm([Block(cells, y)], 0, params(LOSSES[0]))
    with pytest.raises(ValueError, match="does not suit"):
        fit_linear_svm([Block(cells, y)], 0, SVMParams())
    with pytest.raises(ValueError, match="epsilon"):
        params(LOSSES[0], epsilon=-1.0)
    y[7] = 0.0
    with pytest.warns(ConvergenceWarning, match="after 1 sweeps"):
        fit_linear_svm([Block(cells, y)], 0, params(LOSSES[0], max_iter=1))


@pytest.mark.parametrize("heaviest", [0.25, 1.0, 8.0])
@pytest.mark.parametrize("total_cost", [1.0, 1e6])
def test_dual_variables_of_heavy_rows_are_within_their_bound(heaviest: float, total_cost: float) -> None:
    """That is C times the weight; with squared errors a^2 / (2 C weight) is at most what bounds ``|w|^2``."""
    for loss in (loops.EPSILON_INSENSITIVE, loops.SQUARED_EPSILON_INSENSITIVE):
        it = RegressionProblem(0, 0, 0, np.array([2.0]), 0.0, loss, np.zeros(4), Progress(1e-3, 10, 0.0))
        length, bound = it.bounds(total_cost, 0.0, heaviest)
        cost = 2.0 * heaviest
        assert length >= 2 * total_cost
        largest = cost if loss == loops.EPSILON_INSENSITIVE else np.sqrt(2 * cost * length)
        assert LONGER * largest <= bound <= 10 * LONGER * largest


@pytest.mark.parametrize("loss", [loops.EPSILON_INSENSITIVE, loops.SQUARED_EPSILON_INSENSITIVE])
def test_weights_of_a_warm_start_are_within_their_bound(loss: int) -> None:
    """They may be as long as they are, and what the dual objective may yet gain comes on top."""
    for long in (0.0, 1e-3, 7.0, 1e9):
        w = np.array([0.0, np.sqrt(long), 0.0, 0.0])
        it = RegressionProblem(0, 0, 0, np.array([2.0]), 0.0, loss, w, Progress(1e-3, 10, 0.0), epsilon=0.1)
        for start in (0.0, 5.0):
            length, _ = it.bounds(1.0, start, 1.0)
            least = long + 2 * (1.0 + (1.1 * (1.0 + start) + start if long or start else 0.0))
            assert least * (1 - 1e-12) <= length <= 2 * least
