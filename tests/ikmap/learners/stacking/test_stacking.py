"""The sum of models: equal to the weighted sum of its parts, and to its definition, model by model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ikmap.learners.cells_model import CellsModel
from ikmap.learners.rows import Block
from ikmap.learners.stacking.blend import LogLoss, SquaredLoss
from ikmap.learners.stacking.stacking import Fit, added_up, folds_of, out_of_fold, stack
from ikmap.methods import Training
from ikmap.methods.boosting import Boosting
from ikmap.methods.iforest import IForest
from ikmap.methods.stacking import BoostingPart, CellsPart
from ikmap.model import from_parts
from ikmap.rows import Rows
from tests.naive import stacking as naive

N = 90


def training(n_classes: int) -> Training:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, 3))
    signal = X[:, 0] + X[:, 1] * X[:, 2]
    y = np.digitize(signal, np.quantile(signal, np.linspace(0, 1, n_classes + 1)[1:-1])).astype(np.int32)
    return Training(Block(X, y if n_classes else signal + rng.normal(size=N) / 4), list(range(n_classes)), 0)


def parts(of: Training) -> list[Fit]:
    return [
        BoostingPart(Boosting(rounds=6, min_leaf=5, held_out=0.0), of).fit,
        CellsPart(IForest(t=12, psi=16), of, 2.0).fit,
    ]


def targets(of: Training) -> np.ndarray:
    n_classes = len(of.classes)
    return np.equal.outer(of.y, np.arange(n_classes)).astype(float) if n_classes > 2 else of.y[:, None].astype(float)


def predictors(fit: Fit, X: Rows) -> naive.Fit:
    """Return a function from rows to learn from to a function from rows to decisions."""

    def learned(numbers: np.ndarray) -> naive.Predict:
        model = fit(numbers)
        return lambda rows: model.decision_function(X[rows])

    return learned


@pytest.mark.slow
@pytest.mark.parametrize("n_classes", [0, 2, 3])
def test_the_sum_is_that_of_the_definition(n_classes: int) -> None:
    of = training(n_classes)
    X, fits, target = of.rows, parts(of), targets(of)
    fold = folds_of(of.y, 3, 0)
    loss = LogLoss() if n_classes else SquaredLoss()
    stacked = stack(fits, X, target, fold, loss, learner="stacking")
    slow = [predictors(fit, X) for fit in fits]
    decisions = [naive.out_of_fold(fit, fold) for fit in slow]
    for fit, own in zip(fits, decisions, strict=True):
        np.testing.assert_array_equal(out_of_fold(fit, X, fold)[0], own)
    weights, crossed, constant = naive.blend(decisions, target, fold, bool(n_classes))
    np.testing.assert_allclose(stacked.blend.weights, weights, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(stacked.blend.decisions, crossed, rtol=1e-3, atol=1e-4)
    summed = naive.decide(slow, stacked.blend.weights, constant, fold, np.arange(N))
    np.testing.assert_allclose(stacked.model.decision_function(X), summed, rtol=1e-9, atol=1e-12)
    assert stacked.model.learner == "stacking"
    assert stacked.model.classes == of.classes


@pytest.mark.parametrize("n_classes", [0, 3])
def test_weights_of_cells_are_those_of_the_parts_scaled(n_classes: int) -> None:
    of = training(n_classes)
    boosting, cells = (fit(np.arange(N)) for fit in parts(of))
    constant = np.linspace(0.5, 1.0, max(1, n_classes))
    total = added_up([(0.7, boosting), (0.4, cells)], constant, "stacking")
    own = [model.decision_function(of.rows) - constant for model in (boosting, cells)]
    np.testing.assert_allclose(
        total.decision_function(of.rows), constant + 0.7 * own[0] + 0.4 * own[1], rtol=1e-12, atol=1e-12
    )
    # It is one linear model on the cells of both, and a store gives it back.
    codes = total.partitions.cells(of.rows)
    assert codes.n_partitions == boosting.partitions.n_partitions + 12
    weights = total.linear.coef[codes.columns()].sum(axis=1) + total.linear.intercept
    np.testing.assert_allclose(weights, total.decision_function(of.rows), rtol=1e-12, atol=1e-12)
    again = from_parts(total.metadata(), total.arrays())
    assert again.content_hash == total.content_hash


def test_a_part_that_is_left_out_leaves_no_cells() -> None:
    of = training(0)
    boosting, cells = parts(of)

    def useless(numbers: np.ndarray) -> CellsModel:
        rng = np.random.default_rng(numbers.sum())
        model = cells(numbers)
        noise = rng.normal(size=model.linear.coef.shape)
        return added_up([(1.0, CellsModel(model.partitions, replace(model.linear, coef=noise)))], np.zeros(1), "noise")

    fold = folds_of(of.y, 3, 0)
    stacked = stack([useless, boosting], of.rows, targets(of), fold, SquaredLoss(), learner="stacking")
    assert stacked.blend.weights[0] == 0
    alone = stack([boosting], of.rows, targets(of), fold, SquaredLoss(), learner="stacking")
    assert stacked.model.content_hash == alone.model.content_hash


@pytest.mark.parametrize("n_folds", [2, 5])
def test_each_fold_has_its_share_of_each_class(n_folds: int) -> None:
    y = np.repeat([0, 1, 2], [50, 23, 4])
    fold = folds_of(y, n_folds, 3)
    for k in range(3):
        counts = np.bincount(fold[y == k], minlength=n_folds)
        assert counts.max() - counts.min() <= 1
    assert not np.array_equal(fold, folds_of(y, n_folds, 4))
