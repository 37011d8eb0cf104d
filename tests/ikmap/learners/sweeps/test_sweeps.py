"""Learners that follow cells as they split: MO9, MO10 and MO11 of algorithms.md, section 12."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from ikmap.cells import Cells
from ikmap.learners.sweeps import normal_equations
from ikmap.learners.sweeps._gradient_loops import descend
from ikmap.learners.sweeps.gradient import LOSSES, GradientSettings, GradientSweep
from ikmap.learners.sweeps.ridge import RidgeSweep
from ikmap.partitioners.mondrian import MondrianPartitions, fit_mondrian, mondrian_splits
from ikmap.seeds import generator
from tests.naive import sweeps as naive
from tests.support.sweeps import offsets_and_order

ALPHA = 1e-2


def problem(n: int = 60, M: int = 5, lifetime: float = 6.0) -> tuple[np.ndarray, np.ndarray, np.ndarray, Any]:
    rng = np.random.default_rng(0)
    X, new = rng.random((n, 2)), rng.random((25, 2)) * 1.2 - 0.1
    y = np.sin(6 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)
    return X, new, y - y.mean(), fit_mondrian(X, M, lifetime, 3)


def directly(cells: Cells, y: np.ndarray, alpha: float) -> tuple[np.ndarray, float]:
    """Weights, and the log likelihood of the Gaussian process with the kernel of these cells."""
    phi = cells.to_csr().toarray()
    w = np.linalg.solve(phi.T @ phi + alpha * np.eye(phi.shape[1]), phi.T @ y)
    K = phi @ phi.T + alpha * np.eye(len(y))
    likelihood = -y @ np.linalg.solve(K, y) / 2 - np.linalg.slogdet(K)[1] / 2 - len(y) / 2 * math.log(2 * math.pi)
    return w, float(likelihood)


@pytest.mark.parametrize("growth", [0.0, 1 / 32, 0.5])
def test_the_exact_sweep_is_ridge_at_every_checkpoint(growth: float) -> None:  # MO9, MO10
    X, new, y, model = problem()
    start, splits = mondrian_splits(model, [X, new])
    sweep = RidgeSweep(start, y, ALPHA, growth)
    columns_seen = []
    for point in sweep.follow(splits):
        at: MondrianPartitions = model.at(point.value)
        w, likelihood = directly(at.cells(X), y, ALPHA)
        offsets, order = offsets_and_order(sweep.columns)
        np.testing.assert_array_equal(offsets, at.offsets)
        np.testing.assert_allclose(point.weights[order], w, rtol=1e-7, atol=1e-9)
        assert point.log_likelihood == pytest.approx(likelihood, rel=1e-7, abs=1e-7)
        expected = at.cells(new).to_csr() @ w
        np.testing.assert_allclose(sweep.decisions(point), expected, rtol=1e-7, atol=1e-9)
        columns_seen.append(sweep.columns.n)
    assert columns_seen[-1] == model.offsets[-1] > len(y) > columns_seen[0]  # both forms of the equations
    if growth == 0:
        assert len(columns_seen) == model.offsets[-1] - 5
    else:
        grown = [after / before for before, after in pairwise(columns_seen[:-1])]
        assert min(grown, default=2) >= 1 + growth - 0.05


@pytest.mark.slow
@pytest.mark.parametrize(("block", "growth", "alpha"), [(0.05, 0.0, ALPHA), (0.3, 0.01, ALPHA), (0.5, 0.0, 1e-6)])
def test_many_checkpoints_have_one_factor(
    monkeypatch: pytest.MonkeyPatch, block: float, growth: float, alpha: float
) -> None:  # MO9
    X, new, y, model = problem(300, 60, 1.5)
    monkeypatch.setattr(normal_equations, "BLOCK", block)
    start, splits = mondrian_splits(model, [X, new])
    sweep = RidgeSweep(start, y, alpha, growth)
    equations = sweep._primal
    assert equations is not None
    count = 0
    for point in sweep.follow(splits):
        count += 1
        if count % 7 == 0:
            cells = model.at(point.value).cells(X)
            w, likelihood = directly(cells, y, alpha)
            _, order = offsets_and_order(sweep.columns)
            rounding = 1e-7 if alpha == ALPHA else 1e-4  # of the direct solution
            np.testing.assert_allclose(point.weights[order], w, rtol=rounding, atol=rounding)
            assert point.log_likelihood == pytest.approx(likelihood, rel=1e-7)
    assert count > 6 * equations.factors > 0


def test_the_likelihood_ignores_features_that_no_row_has() -> None:  # MO10
    X, _, y, model = problem()
    cells = model.at(2.0).cells(X)
    more = Cells(cells.codes, cells.offsets + np.arange(6) * 3)
    sweep = RidgeSweep([cells], y, ALPHA)
    wider = RidgeSweep([more], y, ALPHA)
    assert wider.columns.n == sweep.columns.n + 15
    assert wider.solved().log_likelihood == pytest.approx(sweep.solved().log_likelihood, rel=1e-9)


def test_variances_are_those_of_the_gaussian_process() -> None:
    X, _, y, model = problem()
    rng = np.random.default_rng(1)
    new = X[rng.integers(60, size=15)]  # in cells, whatever the lifetime
    start, splits = mondrian_splits(model, [X, new])
    sweep = RidgeSweep(start, y, ALPHA)
    for point in sweep.follow(splits):
        cells = model.at(point.value).cells(np.r_[X, new])
        phi = cells.to_csr().toarray()
        K = phi @ phi.T
        inside = np.linalg.inv(K[:60, :60] + ALPHA * np.eye(60))
        expected = np.diag(K[60:, 60:] - K[60:, :60] @ inside @ K[:60, 60:])
        np.testing.assert_allclose(sweep.variances(), expected, atol=1e-9)


@pytest.mark.parametrize("loss", LOSSES)
def test_splits_alone_change_no_decision(loss: str) -> None:  # MO11
    X, _, y, model = problem()
    start, splits = mondrian_splits(model, [X, X])
    targets = np.c_[y, -y] if loss == "squared" else np.sign(np.c_[y, -y])
    sweep = GradientSweep(start, targets, GradientSettings(loss, 1e-3, epochs=0, growth=0.0))
    before = None
    for k, _ in enumerate(sweep.follow(splits)):
        if k == 10:
            sweep.learn(2)
            before = sweep.decisions()
            assert np.abs(before).max() > 0.1
        elif before is not None:
            np.testing.assert_array_equal(sweep.decisions(), before)
    assert before is not None


@pytest.mark.parametrize("absent", [0.0, 0.2])
def test_descent_takes_the_steps_of_the_definition(absent: float) -> None:
    X, _, y, model = problem()
    cells = model.at(2.0).cells(X)
    cells.codes[np.random.default_rng(1).random(cells.codes.shape) < absent] = -1
    phi = cells.to_csr().toarray()
    orders = np.concatenate([generator(5, epoch).permutation(60) for epoch in range(3)])
    for loss in LOSSES:
        targets = np.c_[y, -y] if loss == "squared" else np.sign(np.c_[y, -y])
        sweep = GradientSweep([cells], targets, GradientSettings(loss, 0.3, eta=0.4, seed=5))
        sweep.learn(3)
        for k in range(2):
            w = naive.descended(np.zeros(phi.shape[1]), phi, targets[:, k], orders, loss, 0.3, 0.4)
            np.testing.assert_allclose(sweep.weights[:, k], w, rtol=1e-9, atol=1e-12)


def step(w: np.ndarray, y: float, loss: str, alpha: float, eta: float, n_steps: float, scale: float) -> np.ndarray:
    """Return the weights after a compiled step from w, kept as ``w / scale``, for a row with columns 0, 2, 3 and 5."""
    v = np.r_[w / scale, 0.0][:, None]
    columns, order = np.array([[0, 2, 3, 5]], dtype=np.int32), np.zeros(1, dtype=np.int64)
    settings = (LOSSES[loss], alpha, eta, 0.5, n_steps)
    new_scale = descend(columns, np.array([[y]]), order, np.empty(0), v, scale, *settings)
    return np.asarray(new_scale * v[:-1, 0])


ROW = np.array([[0.5, 0.0, 0.5, 0.5, 0.0, 0.5]])


@pytest.mark.parametrize("loss", ["squared", "hinge", "squared_hinge"])
@pytest.mark.parametrize(("eta", "alpha", "n_steps"), [(0.5, 1, 0), (0.5, 2, 0), (0.5, 2, 1), (1, 3, 1), (1, 2, 0)])
@pytest.mark.parametrize("scale", [1.0, 2.0**-30])
def test_a_step_is_exactly_that_of_the_definition(
    loss: str, eta: float, alpha: float, n_steps: int, scale: float
) -> None:
    """Where nothing is rounded: weights shrink by 1/2, 1/4, to nothing, and past it."""
    w = np.random.default_rng(n_steps).integers(-64, 65, size=6) / 32
    for y in (1.0, -1.0):
        expected = naive.descended(w, ROW, [y], [0], loss, alpha, eta, n_steps)
        np.testing.assert_array_equal(step(w, y, loss, alpha, eta, n_steps, scale), expected)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_step_goes_down_the_gradient_of_the_objective(loss: str) -> None:
    w, alpha, eta, y, h = np.random.default_rng(3).normal(size=6) / 2, 3.0, 0.25, 1.0, 1e-6

    def objective(at: np.ndarray) -> float:
        return alpha / 2 * float(at @ at) + naive.LOSSES[loss](float(ROW[0] @ at), y)

    slopes = [(objective(w + h * unit) - objective(w - h * unit)) / (2 * h) for unit in np.eye(6)]
    np.testing.assert_allclose((w - step(w, y, loss, alpha, eta, 0, 0.5)) / eta, slopes, rtol=1e-7, atol=1e-8)


def test_a_step_stays_where_the_objective_is_least() -> None:
    least = 2 * 3.0 / (0.7 + 2 * ROW[0] @ ROW[0]) * ROW[0]  # of 0.35 |w|^2 + (3 - w . x)^2
    np.testing.assert_allclose(step(least, 3.0, "squared", 0.7, 0.5, 4, 0.5), least, rtol=1e-14, atol=0)


def test_a_scale_that_vanishes_is_folded_into_the_weights() -> None:
    X, _, y, model = problem()
    cells = model.at(2.0).cells(X)
    sweep = GradientSweep([cells], y[:, None], GradientSettings("squared", 1.9, eta=0.5))
    sweep.learn(200)
    assert np.isfinite(sweep.weights).all()
