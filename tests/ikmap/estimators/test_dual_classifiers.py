from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from ikmap.cells import Cells
from ikmap.estimators import CellLogisticRegression, CellOGDClassifier, CellSVC

T, PSI = 12, 5
EVERY = [
    CellSVC(tol=1e-12, max_iter=100_000),
    CellSVC(loss="hinge", tol=1e-11, max_iter=100_000),
    CellLogisticRegression(tol=1e-12),
    CellOGDClassifier(),
    CellOGDClassifier(n_epochs=3, shuffle=True),
]
each = pytest.mark.parametrize("estimator", EVERY, ids=repr)


def data(n: int = 200, n_classes: int = 2, seed: int = 0) -> tuple[Cells, np.ndarray]:
    """Cells and labels that are words, so that a class number can never pass for a label."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, PSI, (n, T)).astype(np.int32)
    score = codes[:, :4].sum(axis=1) + rng.integers(0, PSI, n)
    index = np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)
    return Cells(codes, np.arange(T + 1) * PSI), np.array(["no", "some", "yes"])[index * (2 if n_classes == 2 else 1)]


@each
@pytest.mark.parametrize("n_classes", [2, 3])
def test_cells_and_one_hot_csr_are_the_same(estimator: Any, n_classes: int) -> None:
    cells, y = data(n_classes=n_classes)
    X = cells.to_csr()
    a, b = clone(estimator).fit(cells, y), clone(estimator).fit(X, y)
    assert b.on_cells_
    np.testing.assert_array_equal(a.coef_, b.coef_)
    assert a.coef_.shape == (1 if n_classes == 2 else 3, cells.n_columns)
    for rows in (cells, X, sp.csr_matrix(X)):
        np.testing.assert_array_equal(a.decision_function(rows), b.decision_function(rows))
    np.testing.assert_array_equal(a.predict(cells), b.predict(X))
    assert (a.predict(cells) == y).mean() > 1.2 / n_classes
    # The weights are those on the features as given: so a plain product gives the decisions.
    product = X @ b.coef_.T + b.intercept_
    np.testing.assert_allclose(b.decision_function(X), product[:, 0] if n_classes == 2 else product, atol=1e-12)


@each
@pytest.mark.parametrize("value", [1.0, 0.3])
def test_integer_way_equals_the_csr_as_given(estimator: Any, value: float) -> None:
    cells, y = data(n_classes=3)
    X = cells.to_csr(normalize=False) * value
    fast = clone(estimator).fit(X, y)
    general = clone(estimator).set_params(fit_intercept=False).fit(X.toarray(), y)
    assert fast.on_cells_
    assert not general.on_cells_
    atol = 1e-12 if isinstance(estimator, CellOGDClassifier) else 2e-5
    np.testing.assert_allclose(fast.coef_, general.coef_, atol=atol)
    # Other rows of the same columns, with entries that are not the value seen in fit.
    other = sp.random_array((30, X.shape[1]), density=0.2, rng=np.random.default_rng(0), format="csr")
    np.testing.assert_allclose(fast.decision_function(other), other @ fast.coef_.T, atol=1e-10)
    np.testing.assert_allclose(fast.decision_function(X.toarray()), fast.decision_function(X), rtol=1e-10, atol=1e-10)


def test_raw_cells_are_features_of_one() -> None:
    cells, y = data()
    raw = cells.to_csr(normalize=False)
    for options in ({"normalize": False}, {"scale": "raw"}):
        kind = CellOGDClassifier if "scale" in options else CellSVC
        np.testing.assert_array_equal(kind(**options).fit(cells, y).coef_, kind().fit(raw, y).coef_)


@each
def test_general_rows_get_an_offset_and_cells_do_not(estimator: Any) -> None:
    X, y = make_classification(200, 6, shift=3.0, weights=[0.8], random_state=1)
    assert clone(estimator).fit(X, y).intercept_[0] != 0
    assert clone(estimator).fit(*data()).intercept_.tolist() == [0.0]
    assert clone(estimator).set_params(fit_intercept=False).fit(X, y).intercept_.tolist() == [0.0]


def test_gap_is_reported_and_certified() -> None:
    cells, y = data(n_classes=3)
    for tol in (1e-2, 1e-8):
        fitted = CellSVC(tol=tol).fit(cells, y)
        assert fitted.dual_gap_.shape == (3,)
        assert (fitted.dual_gap_ <= tol).all()
        assert fitted.n_iter_ >= 1


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities(n_classes: int) -> None:
    cells, y = data(n_classes=n_classes)
    fitted = CellLogisticRegression(C=100.0).fit(cells, y)
    p = fitted.predict_proba(cells)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(fitted.classes_[p.argmax(axis=1)], fitted.predict(cells))
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(cells)), p)
    decision = fitted.decision_function(cells)
    sigmoid = 1 / (1 + np.exp(-decision))
    expected = np.column_stack([1 - sigmoid, sigmoid]) if n_classes == 2 else sigmoid / sigmoid.sum(1, keepdims=True)
    np.testing.assert_allclose(p, expected, atol=1e-12)


def test_probabilities_far_from_every_class() -> None:
    X, y = make_classification(100, 4, n_informative=3, n_redundant=0, n_classes=3, random_state=0)
    fitted = CellLogisticRegression().fit(X, y)
    p = fitted.predict_proba(X * 1e5)
    assert np.isfinite(p).all()
    np.testing.assert_allclose(p.sum(axis=1), 1.0)


@pytest.mark.parametrize("kind", ["cells", "csr", "dense"])
def test_partial_fit_continues_fit(kind: str) -> None:
    cells, y = data(n_classes=3)
    X = {"cells": cells, "csr": cells.to_csr(), "dense": cells.to_csr().toarray()}[kind]
    whole = CellOGDClassifier().fit(X, y)
    parts = CellOGDClassifier()
    for start in range(0, 200, 60):
        parts.partial_fit(X[start : start + 60], y[start : start + 60], classes=["no", "some", "yes"])
    np.testing.assert_array_equal(parts.coef_, whole.coef_)
    assert parts.state_.n_seen == 200
    whole.fit(X, y)
    np.testing.assert_array_equal(parts.coef_, whole.coef_)


def test_partial_fit_of_other_values_goes_on_with_the_rows_as_given() -> None:
    cells, y = data()
    first, second = cells.to_csr(), cells.to_csr(normalize=False) * 0.7
    mixed = CellOGDClassifier().partial_fit(first, y, classes=["no", "yes"]).partial_fit(second, y)
    general = CellOGDClassifier(fit_intercept=False).partial_fit(first.toarray(), y, classes=["no", "yes"])
    general.partial_fit(second.toarray(), y)
    np.testing.assert_allclose(mixed.coef_, general.coef_, atol=1e-12)


def test_partial_fit_refuses_what_does_not_fit() -> None:
    cells, y = data()
    with pytest.raises(ValueError, match="classes must be passed"):
        CellOGDClassifier().partial_fit(cells, y)
    with pytest.raises(ValueError, match="balanced"):
        CellOGDClassifier(class_weight="balanced").partial_fit(cells, y, classes=["no", "yes"])
    with pytest.raises(ValueError, match="not one of the classes"):
        CellOGDClassifier().partial_fit(cells, y, classes=["no", "maybe"])
    fitted = CellOGDClassifier().partial_fit(cells, y, classes=["no", "yes"])
    with pytest.raises(ValueError, match="not those of the first call"):
        fitted.partial_fit(cells, y, classes=["no", "maybe"])
    with pytest.raises(ValueError, match="another kind"):
        CellOGDClassifier().partial_fit(cells.to_csr().toarray(), y, classes=["no", "yes"]).partial_fit(cells, y)


@each
def test_class_weight_is_a_sample_weight(estimator: Any) -> None:
    cells, y = data(n_classes=3)
    weight = {"no": 3.0, "some": 1.0, "yes": 0.5}
    a = clone(estimator).set_params(class_weight=weight).fit(cells, y)
    b = clone(estimator).fit(cells, y, sample_weight=np.array([weight[label] for label in y]))
    np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-12 if isinstance(estimator, CellOGDClassifier) else 2e-5)
    counts = {label: 200 / (3 * np.count_nonzero(y == label)) for label in weight}
    a = clone(estimator).set_params(class_weight="balanced").fit(cells, y)
    b = clone(estimator).set_params(class_weight=counts).fit(cells, y)
    np.testing.assert_array_equal(a.coef_, b.coef_)


@each
def test_class_weights_of_words_that_look_like_numbers(estimator: Any) -> None:
    cells, y = data(n_classes=3)
    digits = np.array(["007", "10", "7"])[np.unique(y, return_inverse=True)[1]]
    given = clone(estimator).set_params(class_weight={"007": 3.0, "7": 0.5}).fit(cells, digits)
    expected = clone(estimator).set_params(class_weight={"no": 3.0, "yes": 0.5}).fit(cells, y)
    np.testing.assert_array_equal(given.coef_, expected.coef_)
    with pytest.raises(ValueError, match=r"^class_weight: found a weight of 7, which is no class"):
        clone(estimator).set_params(class_weight={7: 0.5}).fit(cells, digits)


@each
def test_balanced_weights_where_all_rows_of_a_class_weigh_nothing(estimator: Any) -> None:
    """Bagging draws rows by such weights."""
    cells, y = data(n_classes=3)
    weight = (y != "some").astype(float)
    found = clone(estimator).set_params(class_weight="balanced").fit(cells, y, sample_weight=weight)
    assert np.isfinite(found.coef_).all()
    assert np.abs(found.coef_).max() > 0


@each
def test_last_step_of_a_pipeline(estimator: Any) -> None:
    cells, y = data()
    to_csr = FunctionTransformer(lambda codes: Cells(codes, cells.offsets).to_csr())
    pipeline = make_pipeline(to_csr, clone(estimator)).fit(cells.codes, y)
    expected = clone(estimator).fit(cells, y).predict(cells)
    np.testing.assert_array_equal(pipeline.predict(cells.codes), expected)


@each
def test_bad_input(estimator: Any) -> None:
    cells, y = data()
    wild = cells.codes.copy()
    wild[7, 3] = PSI
    for X, labels, message in (
        (Cells(wild, cells.offsets), y, "row 7, column 3"),
        (cells, np.full(200, "yes"), "only one class"),
        (cells, y[:-1], "inconsistent numbers of samples"),
        (cells[:0], y[:0], "minimum of 1"),
        (cells, np.linspace(0, 1, 200), "continuous"),
    ):
        with pytest.raises(ValueError, match=message):
            clone(estimator).fit(X, labels)
    with pytest.raises(ValueError, match="sample_weight"):
        clone(estimator).fit(cells, y, sample_weight=-np.ones(200))
    fitted = clone(estimator).fit(cells, y)
    with pytest.raises(ValueError, match="feature columns"):
        fitted.predict(Cells(cells.codes[:, :5].copy(), cells.offsets[:6]))


def test_bad_parameters() -> None:
    cells, y = data()
    for estimator, message in (
        (CellSVC(loss="logistic"), "loss"),  # type: ignore[arg-type]
        (CellSVC(C=-1), "^C: found"),
        (CellLogisticRegression(tol=0), "^tol: found"),
        (CellOGDClassifier(eta=0), "^eta: found"),
        (CellOGDClassifier(scale="other"), "^scale: found"),  # type: ignore[arg-type]
        (CellOGDClassifier(n_epochs=0), "^n_epochs: found"),
    ):
        with pytest.raises(ValueError, match=message):
            estimator.fit(cells, y)


def test_missing_cells() -> None:
    cells, y = data()
    codes = cells.codes.copy()
    codes[np.random.default_rng(0).random(codes.shape) < 0.2] = -1
    holes = Cells(codes, cells.offsets)
    X = np.zeros((200, cells.n_columns))
    rows, parts = np.nonzero(codes >= 0)
    X[rows, holes.columns()[rows, parts]] = 1 / np.sqrt(T)
    for kind in (CellSVC(tol=1e-12), CellOGDClassifier()):
        a = clone(kind).fit(holes, y)
        b = clone(kind).set_params(fit_intercept=False).fit(X, y)
        np.testing.assert_allclose(a.coef_, b.coef_, atol=1e-6)
        np.testing.assert_allclose(a.decision_function(holes), b.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge"])
def test_rows_whose_weights_have_faded_away_count_as_absent(loss: Literal["squared_hinge", "hinge"]) -> None:
    """Weights that are halved each day are as small after three years."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = (X[:, 0] > 0).astype(int)
    weight = np.r_[np.ones(30), np.full(10, 1e-310)]
    faded = CellSVC(loss=loss).fit(X, y, weight)
    without = CellSVC(loss=loss).fit(X, y, np.r_[np.ones(30), np.zeros(10)])
    assert np.array_equal(faded.coef_, without.coef_)
    assert np.isfinite(faded.coef_).all()
