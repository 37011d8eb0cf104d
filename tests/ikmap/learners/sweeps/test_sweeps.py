"""Learners that follow cells as they split: MO9, MO10 and MO11 of algorithms.md, section 12."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from ikmap.cells import Cells
from ikmap.learners.sweeps import normal_equations
from ikmap.learners.sweeps.gradient import LOSSES, GradientSettings, GradientSweep
from ikmap.learners.sweeps.ridge import RidgeSweep
from ikmap.partitioners.mondrian import MondrianPartitions, fit_mondrian
from ikmap.partitioners.mondrian_splits import mondrian_splits
from ikmap.seeds import generator

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
        offsets, order = sweep.columns.offsets_and_order()
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
            _, order = sweep.columns.offsets_and_order()
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
    for loss in LOSSES:
        targets = y[:, None] if loss == "squared" else np.sign(y)[:, None]
        sweep = GradientSweep([cells], targets, GradientSettings(loss, 0.3, eta=0.4, seed=5))
        sweep.learn(3)
        w, k = np.zeros(phi.shape[1]), 0
        for epoch in range(3):
            for i in generator(5, epoch).permutation(60):
                step = 0.4 / (1 + 0.4 * 0.3 * k)
                k += 1
                w *= 1 - step * 0.3
                f, target = phi[i] @ w, targets[i, 0]
                change = {
                    "squared": 2 * (target - f),
                    "hinge": target if target * f < 1 else 0.0,
                    "squared_hinge": 2 * target * max(1 - target * f, 0),
                    "logistic": target / (1 + math.exp(target * f)),
                }[loss]
                w += step * change * phi[i]
        np.testing.assert_allclose(sweep.weights[:, 0], w, rtol=1e-9, atol=1e-12)


def test_a_scale_that_vanishes_is_folded_into_the_weights() -> None:
    X, _, y, model = problem()
    cells = model.at(2.0).cells(X)
    sweep = GradientSweep([cells], y[:, None], GradientSettings("squared", 1.9, eta=0.5))
    sweep.learn(200)
    assert np.isfinite(sweep.weights).all()
