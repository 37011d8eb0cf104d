"""Estimators of stacking: one linear model on the cells of all parts, and as good as the better part or better."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.metrics import log_loss, r2_score
from sklearn.model_selection import train_test_split

from ikmap import CellBoostingRegressor, CellStackingClassifier, CellStackingRegressor
from ikmap.model import from_parts
from tests.ikmap.estimators.test_boosting import many_classes

FEW: dict[str, Any] = {"n_partitions": 30, "max_samples": 64, "random_state": 0}


def test_decisions_are_the_weights_of_the_cells() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    model = CellStackingClassifier(n_estimators=20, cv=3, **FEW).fit(X, y)
    assert model.weights_.keys() == {"boosting", "iforest"}
    cells = model.cells(X)
    assert cells.n_partitions <= 3 * (20 + 30)
    weights = model.model_.linear.coef[cells.columns(), 0].sum(axis=1) + model.model_.linear.intercept
    np.testing.assert_allclose(model.decision_function(X), weights, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-weights)), rtol=1e-9)
    np.testing.assert_array_equal(model.decision_function(sp.csr_matrix(X)), model.decision_function(X))
    again = from_parts(model.model_.metadata(), model.model_.arrays())
    assert again.content_hash == model.model_.content_hash


def test_three_classes() -> None:
    X, y = load_iris(return_X_y=True)
    model = CellStackingClassifier(n_estimators=40, min_samples_leaf=5, cv=3, **FEW).fit(X[::2], y[::2])
    probabilities = model.predict_proba(X[1::2])
    assert np.mean(model.predict(X[1::2]) == y[1::2]) > 0.9
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert model.out_of_fold_.shape == (75, 3)
    assert log_loss(y[1::2], probabilities) < 0.4


@pytest.mark.slow
def test_cells_of_points_add_to_boosting_where_distances_matter() -> None:
    """The predictions out of fold tell how good those of new rows are; the ones of learned rows do not."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 8))
    y = np.sin(X[:, 0] + X[:, 1]) + np.cos(X[:, 2] - X[:, 3]) + rng.normal(size=3000) / 4
    learned, new, y_learned, y_new = train_test_split(X, y, test_size=1000, random_state=0)
    boosting = CellBoostingRegressor(random_state=0).fit(learned, y_learned)
    stacking = CellStackingRegressor(base_models="boosting,anne", n_partitions=50, random_state=0)
    stacking.fit(learned, y_learned)
    score = stacking.score(new, y_new)
    assert min(stacking.weights_.values()) > 0.1
    assert score > boosting.score(new, y_new) + 0.005
    assert r2_score(y_learned, stacking.out_of_fold_[:, 0]) == pytest.approx(score, abs=0.04)
    assert stacking.score(learned, y_learned) > score + 0.05


def test_more_jobs_same_model() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    one, many = (CellStackingClassifier(n_estimators=5, cv=2, n_jobs=jobs, **FEW).fit(X, y) for jobs in (1, 3))
    assert one.model_.content_hash == many.model_.content_hash
    assert np.array_equal(one.out_of_fold_, many.out_of_fold_)


@pytest.mark.parametrize("names", ["", "boosting,gcws", "iforest,,anne"])
def test_a_base_model_that_is_none_is_named(names: str) -> None:
    with pytest.raises(ValueError, match=r"^base_models: found "):
        CellStackingClassifier(base_models=names).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("names", ["boosting,forest:16:1", "boosting@0.5,forest:16:1@0.5"])
def test_a_forest_that_is_too_large_is_refused_with_names_of_parameters(
    monkeypatch: pytest.MonkeyPatch, names: str
) -> None:
    monkeypatch.setattr("ikmap.methods.forest.MOST_BYTES", 1000)
    with pytest.raises(
        ValueError, match=r"^base_models forest: .* n_partitions or a smaller max_samples, or base_models"
    ):
        CellStackingClassifier(n_estimators=2, base_models=names, cv=2, **FEW).fit(*load_iris(return_X_y=True))


@pytest.mark.slow
@pytest.mark.parametrize("weighted", [False, True])
def test_stacking_learns_many_classes_of_which_some_are_in_one_fold_only(weighted: bool) -> None:
    X, y = many_classes()
    weight = np.random.default_rng(1).integers(1, 4, y.size) / 2 if weighted else None
    few: dict[str, Any] = {"n_estimators": 3, "cv": 3, "n_partitions": 10, "max_samples": 64, "min_samples_leaf": 2}
    model = CellStackingClassifier(**few, random_state=0).fit(X, y, weight)
    assert np.isfinite(model.out_of_fold_).all()
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    assert model.score(X, y) > 0.9
