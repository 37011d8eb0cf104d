"""Weights of a sum of models beside their definition; models that add nothing; what refitting in sample does."""

from __future__ import annotations

import numpy as np
import pytest

from ikmap.learners.linear_model import LinearModel
from ikmap.learners.ridge.conjugate_gradients import Problem
from ikmap.learners.ridge.ridge import fit_ridge_path
from ikmap.learners.rows import Block
from ikmap.learners.stacking.blend import BlendLoss, LogLoss, SquaredLoss, blend, weighted, weights_of
from ikmap.methods import Training
from ikmap.methods.boosting import Boosting
from tests.naive import stacking as naive

LOSSES = [(SquaredLoss(), False), (LogLoss(), True)]


def models(outputs: int, classes: bool, n: int = 120, seed: int = 0) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """Return the decisions of three models of which the last is noise, targets and folds."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(n, outputs))
    decisions = [truth + rng.normal(size=truth.shape), 2 * truth + rng.normal(size=truth.shape)]
    decisions = [own + (0 if classes else 3) for own in (*decisions, rng.normal(size=truth.shape))]
    target = (truth + rng.logistic(size=truth.shape) > 0).astype(float) if classes else 3 + truth
    return decisions, target, rng.integers(0, 4, n)


@pytest.mark.parametrize(("loss", "classes"), LOSSES, ids=["squared", "log"])
@pytest.mark.parametrize(
    ("outputs", "in_time", "weighted_rows"),
    [(1, False, False), (1, True, True), (3, False, True), (3, True, False)],  # every two of them together
)
def test_weights_are_those_of_the_definition(
    loss: BlendLoss, classes: bool, outputs: int, in_time: bool, weighted_rows: bool
) -> None:
    decisions, target, fold = models(outputs, classes)
    weight = np.random.default_rng(1).random(len(target)) if weighted_rows else None
    found = blend(decisions, target, fold, loss, in_time=in_time, sample_weight=weight)
    weights, out_of_fold, constant = naive.blend(decisions, target, fold, classes, weight, in_time)
    np.testing.assert_allclose(found.constant, constant, rtol=1e-12)
    np.testing.assert_allclose(found.weights, weights, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.decisions, out_of_fold, rtol=1e-3, atol=1e-4)
    assert found.weights.max() > 0.1


@pytest.mark.parametrize(("loss", "classes"), LOSSES, ids=["squared", "log"])
def test_no_weight_is_below_zero(loss: BlendLoss, classes: bool) -> None:
    decisions, target, _ = models(1, classes)
    turned = [decisions[0], 2 * loss.constant(target) - decisions[1]]
    constant = loss.constant(target)
    weights = weights_of(turned, target, constant, loss)
    assert weights[0] > 0.1
    assert weights[1] == 0
    np.testing.assert_allclose(weights, naive.weights(turned, target, constant.tolist(), classes), rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(weights_of([turned[1]], target, constant, loss), [0.0])


def test_a_model_that_adds_nothing_is_left_out() -> None:
    decisions, target, fold = models(1, False, 2000)
    found = blend([decisions[2], decisions[0], decisions[1]], target, fold, SquaredLoss())
    assert found.weights[0] == 0
    assert found.loss < min(found.alone)
    assert found.alone[0] == pytest.approx(float(np.var(target)) / 2, rel=0.01)
    # A model beside itself adds nothing either.
    twice = blend([decisions[0], decisions[0]], target, fold, SquaredLoss())
    assert np.count_nonzero(twice.weights) == 1


def test_decisions_out_of_fold_have_weights_of_other_rows() -> None:
    """The targets of a fold change no decision on its rows."""
    decisions, target, fold = models(1, False)
    before = blend(decisions[:1], target, fold, SquaredLoss())
    other = np.where((fold == 2)[:, None], 2 * target, target)
    after = blend(decisions[:1], other, fold, SquaredLoss())
    assert np.array_equal(after.decisions[fold == 2], before.decisions[fold == 2])
    assert not np.allclose(after.decisions[fold != 2], before.decisions[fold != 2])
    assert not np.allclose(before.decisions, weighted(decisions[:1], before.weights, before.constant))


def test_models_that_tell_all_rows_apart_have_finite_weights() -> None:
    target = (np.arange(60) % 2).astype(float)[:, None]
    found = blend([4 * target - 2], target, np.arange(60) % 3, LogLoss())
    assert float(2 * found.weights[0]) == pytest.approx(np.log(31), rel=1e-6)  # 31 of 32, as of Platt's targets
    # The loss that is told is that of the targets as they are.
    assert found.loss == found.alone[0] == pytest.approx(np.log(32 / 31), rel=1e-6)


def test_shares_of_a_whole_weigh_as_rows_do() -> None:
    decisions, target, fold = models(1, classes=True)
    weight = np.random.default_rng(1).random(len(target))
    weight /= weight.mean()
    whole, shares = (blend(decisions, target, fold, LogLoss(), sample_weight=w) for w in (weight, weight / 1e5))
    np.testing.assert_allclose(shares.weights, whole.weights, rtol=1e-4)
    assert whole.weights.max() > 0.1


@pytest.mark.parametrize(("loss", "classes"), LOSSES, ids=["squared", "log"])
@pytest.mark.parametrize("in_time", [False, True])
def test_a_fold_whose_rows_weigh_nothing_changes_nothing(loss: BlendLoss, classes: bool, in_time: bool) -> None:
    decisions, target, fold = models(1, classes)
    weight, counted = (fold != 0).astype(float), fold != 0
    found = blend(decisions, target, fold, loss, in_time=in_time, sample_weight=weight)
    some = [own[counted] for own in decisions]
    if not in_time:  # else the first fold that counts has none before it to weigh by
        without = blend(some, target[counted], fold[counted], loss, sample_weight=weight[counted])
        np.testing.assert_allclose(found.weights, without.weights, rtol=1e-6, atol=1e-9)
        assert found.loss == pytest.approx(without.loss)
    assert np.isfinite([found.loss, *found.alone, *found.weights.tolist()]).all()


@pytest.mark.slow
def test_weights_that_are_refitted_in_sample_are_worse_than_those_of_boosting() -> None:
    """Rows that grew the trees are more alike in their leaves than others are, and cross-validation does not see it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 6))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * (X[:, 2] > 0) + 2 * rng.normal(size=6000)
    grew, new = slice(0, 2000), slice(2000, 6000)

    def r2(predicted: np.ndarray, targets: np.ndarray) -> float:
        return 1 - float(np.mean((predicted[:, 0] - targets) ** 2) / np.var(targets))

    boosted, _ = Boosting().fit(Training(Block(X[grew], y[grew]), [], 0))
    inside, outside = (boosted.partitions.cells(X[rows]).packed() for rows in (grew, new))
    honest = r2(boosted.decision_function(X[new]), y[new])
    assert r2(boosted.decision_function(X[grew]), y[grew]) > honest + 0.15
    fold, alphas = np.arange(2000) % 5, [2.0**m for m in range(-6, 9, 2)]
    problem = Problem(1.0, value=1 / np.sqrt(inside.n_partitions))

    def refitted(rows: np.ndarray) -> list[LinearModel]:
        path = fit_ridge_path([Block(inside[rows], y[grew][rows])], problem, alphas)
        return [fit.model(np.sqrt(inside.n_partitions), {}) for fit in path]

    promised = np.zeros((len(alphas), 2000, 1))
    for k in range(5):
        for i, model in enumerate(refitted(fold != k)):
            promised[i, fold == k] = model.decision_function(inside[fold == k])
    scores = [r2(own, y[grew]) for own in promised]
    best = int(np.argmax(scores))
    kept = r2(refitted(np.ones(2000, dtype=bool))[best].decision_function(outside), y[new])
    assert scores[best] > honest + 0.2
    assert kept < honest - 0.1
