"""Estimators of boosting: their models are weights of cells, and as good as those of scikit-learn's own boosting."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import cross_val_score

from ikmap import CellBoostingClassifier, CellBoostingRegressor
from ikmap._threads import usable_cores
from ikmap.model import from_parts
from tests.support.calls import counted


def test_decisions_are_the_weights_of_the_cells() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    model = CellBoostingClassifier(n_estimators=20, random_state=0).fit(X, y)
    cells = model.cells(X)
    assert cells.n_partitions == model.n_iter_ <= 20
    weights = model.model_.linear.coef[cells.columns(), 0].sum(axis=1) + model.model_.linear.intercept
    np.testing.assert_allclose(model.decision_function(X), weights, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(X), model.classes_[(weights >= 0).astype(int)])
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-weights)), rtol=1e-12)
    np.testing.assert_array_equal(model.decision_function(sp.csr_matrix(X)), model.decision_function(X))


def test_a_stored_model_decides_the_same() -> None:
    X, y = load_iris(return_X_y=True)
    model = CellBoostingClassifier(n_estimators=5, min_samples_leaf=5, random_state=0).fit(X, y).model_
    again = from_parts(model.metadata(), model.arrays())
    assert again.content_hash == model.content_hash
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))  # type: ignore[attr-defined]


def test_three_classes() -> None:
    X, y = load_iris(return_X_y=True)
    model = CellBoostingClassifier(min_samples_leaf=5, random_state=0)
    assert cross_val_score(model, X, y).mean() > 0.9
    probabilities = model.fit(X, y).predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    np.testing.assert_array_equal(probabilities.argmax(axis=1), model.predict(X))


def test_probabilities_are_as_good_as_those_of_scikit_learn() -> None:
    X, y = make_classification(6000, 12, n_informative=6, flip_y=0.05, random_state=0)
    ours = CellBoostingClassifier(n_estimators=60, validation_fraction=0.0, random_state=0).fit(X[:3000], y[:3000])
    theirs = HistGradientBoostingClassifier(max_iter=60, early_stopping=False).fit(X[:3000], y[:3000])
    loss, their_loss = (log_loss(y[3000:], model.predict_proba(X[3000:])) for model in (ours, theirs))
    assert loss < their_loss + 0.005


def test_numbers_and_their_quantiles() -> None:
    X, y = load_diabetes(return_X_y=True)
    assert cross_val_score(CellBoostingRegressor(0.05, random_state=0), X, y).mean() > 0.35
    low, high = (
        CellBoostingRegressor(0.05, quantile=level, min_samples_leaf=40, random_state=0).fit(X, y).predict(X)
        for level in (0.1, 0.9)
    )
    assert np.mean(low < high) > 0.95
    assert 0.6 < np.mean((low < y) & (y < high)) < 0.95


@pytest.mark.parametrize("jobs", [2, 3])
def test_more_jobs_same_model(jobs: int) -> None:
    X, y = make_classification(70_000, 8, random_state=0)
    one, many = (
        CellBoostingClassifier(n_estimators=3, n_jobs=n, subsample=0.8, random_state=0).fit(X, y).model_
        for n in (1, jobs)
    )
    assert one.content_hash == many.content_hash


def many_classes() -> tuple[np.ndarray, np.ndarray]:
    """Return rows of 45 classes, of which the last five have one row each, and the others eight."""
    rng = np.random.default_rng(0)
    y = np.r_[np.repeat(np.arange(40), 8), np.arange(40, 45)]
    return np.c_[y + rng.normal(size=y.size) / 4, rng.normal(size=(y.size, 3))], y


@pytest.mark.parametrize("held_out", [0.0, 0.1, 0.5])
def test_boosting_learns_many_classes_of_which_some_have_one_row(held_out: float) -> None:
    """The row of a class may be held out, so that no tree sees the class."""
    X, y = many_classes()
    model = CellBoostingClassifier(n_estimators=3, min_samples_leaf=2, validation_fraction=held_out, random_state=0)
    probabilities = model.fit(X, y).predict_proba(X)
    assert probabilities.shape == (325, 45)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert held_out == 0.5 or model.score(X, y) > 0.9


def test_n_jobs_is_the_number_of_threads_of_predictions_too() -> None:
    X, y = load_breast_cancer(return_X_y=True)
    model = CellBoostingClassifier(n_estimators=3, n_jobs=1, random_state=0).fit(X, y)
    with counted(usable_cores) as asked:
        model.predict_proba(X)
        assert asked.number == 0
        model.model_.decision_function(X)
        assert asked.number > 0
