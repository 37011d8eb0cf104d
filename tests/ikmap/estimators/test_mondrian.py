"""Mondrian trees with the interface of scikit-learn."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from ikmap import MondrianForestRegressor, MondrianMap, MondrianRegressor, OnlineMondrianRegressor
from ikmap.partitioners.mondrian import fit_mondrian
from tests.support.machine import free_memory


def rows(n: int = 200, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.random((n, 2))
    return X, np.sin(7 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n)


def test_the_map_is_the_trees_and_grows() -> None:
    X, _ = rows()
    mondrian = MondrianMap(7, 3.0, random_state=2).partial_fit(X[:100])
    np.testing.assert_array_equal(mondrian.cells(X), fit_mondrian(X[:100], 7, 3.0, 2).cells(X).codes)
    assert mondrian.transform(X[:100]).shape[1] == len(mondrian.get_feature_names_out())
    grown = mondrian.partial_fit(X[100:150]).partial_fit(X[150:])
    assert (grown.cells(X) >= 0).all()
    assert (np.diag(grown.kernel(X)) == 1).all()


@pytest.mark.slow
@pytest.mark.parametrize("select", ["validation", "likelihood"])
def test_the_lifetime_is_found_by_one_sweep(select: Literal["validation", "likelihood"]) -> None:
    X, y = rows(400)
    model = MondrianRegressor(30, alpha=0.02, select=select, terminal=40.0, random_state=1).fit(X[:300], y[:300])
    assert 0.3 < model.lifetime_ < 39
    chosen = model.validation_errors_.argmin() if select == "validation" else model.log_likelihoods_.argmax()
    assert model.lifetime_ == model.lifetimes_[chosen]
    spans = [*np.diff(model.lifetimes_), 40.0 - model.lifetimes_[-1]]
    mass = np.array([span * np.exp(log) for span, log in zip(spans, model.log_likelihoods_ -
                     model.log_likelihoods_.max(), strict=True)])  # fmt: skip
    np.testing.assert_allclose(model.posterior_, mass / mass.sum(), rtol=1e-10)
    assert model.score(X[300:], y[300:]) > 0.85
    fixed = MondrianRegressor(30, lifetime=model.lifetime_, alpha=0.02, random_state=1).fit(X[:300], y[:300])
    np.testing.assert_array_equal(fixed.predict(X), model.predict(X))
    mean, std = model.predict(X[300:], return_std=True)
    np.testing.assert_array_equal(mean, model.predict(X[300:]))
    off = np.abs(mean - y[300:]) / std
    assert 0.5 < np.mean(off < 1) < 0.98  # about 0.68, were the model true


def test_what_is_odd_is_said() -> None:
    _, y = rows(60)
    with pytest.warns(UserWarning, match="is the last of the sweep: give a larger terminal"):
        MondrianRegressor(50, terminal=0.3, select="likelihood", random_state=0).fit(*rows(400))
    with pytest.warns(UserWarning, match="all columns are constant: .* give columns that differ"):
        same = MondrianRegressor(5, random_state=0).fit(np.ones((10, 2)), y[:10])
    np.testing.assert_allclose(same.predict(np.ones((1, 2))), y[:10].mean())


def test_too_little_memory_is_foreseen() -> None:
    X, y = rows(300)
    too_large: tuple[dict[str, Any], ...] = ({"terminal": 50.0}, {"lifetime": 20.0})
    for asked in too_large:
        (option,) = asked
        refusal = f"{option} .* rows would need .* found .* give {option}="
        with free_memory(313), pytest.raises(ValueError, match=refusal) as found:
            MondrianRegressor(20, random_state=0, **asked).fit(X, y)
        longest = float(str(found.value).partition(f"give {option}=")[2].partition(",")[0])
        trees = fit_mondrian(X, 20, longest * (1 - 1e-5), 0)
        assert trees.offsets[-1] <= 101
    with free_memory(313), pytest.raises(ValueError, match="give a smaller n_estimators, or fewer rows"):
        MondrianRegressor(200, random_state=0, lifetime=20.0).fit(X, y)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"lifetime": 0.0}, "^lifetime: found 0.0, expected a number > 0"),
        ({"n_estimators": 0}, "^n_estimators: found 0, expected an integer >= 1"),
    ],
)
def test_bad_parameters(asked: dict[str, Any], said: str) -> None:
    X, y = rows(20)
    for one in (MondrianMap(), MondrianRegressor()):
        with pytest.raises(ValueError, match=said):
            one.set_params(**asked).fit(X, y)
    more: dict[str, Any]
    for more in ({"alpha": 0.0}, {"select": "x"}, {"terminal": -1}, {"sweep_by": "newton"}):
        with pytest.raises(ValueError, match=f"^{next(iter(more))}: found"):
            MondrianRegressor(**more).fit(X, y)


def test_a_sweep_by_gradient_descent_needs_no_square_of_the_rows() -> None:
    X, y = rows(400)
    chosen: dict[str, Any] = {"n_estimators": 30, "alpha": 0.02, "terminal": 40.0, "random_state": 1}
    exact = MondrianRegressor(**chosen).fit(X[:300], y[:300])
    model = MondrianRegressor(sweep_by="sgd", **chosen).fit(X[:300], y[:300])
    assert model.lifetimes_[model.validation_errors_.argmin()] == model.lifetime_
    assert model.score(X[300:], y[300:]) > exact.score(X[300:], y[300:]) - 0.05
    assert not hasattr(model, "log_likelihoods_")
    with pytest.raises(ValueError, match=r"^return_std: found True with sweep_by sgd"):
        model.predict(X, return_std=True)
    with pytest.raises(ValueError, match=r"^select: found 'likelihood' with sweep_by sgd"):
        MondrianRegressor(sweep_by="sgd", select="likelihood").fit(X, y)
    same: dict[str, Any] = {"lifetime": model.lifetime_, **chosen}
    fixed = MondrianRegressor(sweep_by="sgd", **same).fit(X[:300], y[:300])
    expected = MondrianRegressor(**same).fit(X[:300], y[:300]).predict(X[300:])
    assert np.abs(fixed.predict(X[300:]) - expected).max() < 0.1  # conjugate gradients, to a gap of 1e-3


def test_online_ridge_is_that_of_all_rows_on_the_trees_as_they_are() -> None:
    X, y = rows(120)
    model, trees = OnlineMondrianRegressor(4, 3.0, 0.1, random_state=2), MondrianMap(4, 3.0, random_state=2)
    for part in (slice(0, 40), slice(40, 50), slice(50, 120)):
        model.partial_fit(X[part], y[part])
        trees.partial_fit(X[part])
    Z = trees.transform(X)
    ridge = Ridge(0.1, fit_intercept=False, solver="cholesky").fit(Z, y - y.mean())
    np.testing.assert_allclose(model.predict(X), Z @ ridge.coef_ + y.mean(), atol=1e-8)
    assert model.state_.n_seen == 120


def test_a_forest_predicts_the_mean_of_the_means_of_cells() -> None:
    X, y = rows(80)
    weight = np.random.default_rng(0).random(80)
    for weights in (None, weight):
        model = MondrianForestRegressor(5, 4.0, 0.5, random_state=3).fit(X, y, weights)
        cells, each = model.partitions_.cells(X).codes, np.ones(80) if weights is None else weights
        mean = np.average(y, weights=weights)
        expected = np.zeros(80)
        for tree in range(5):
            for i in range(80):
                inside = cells[:, tree] == cells[i, tree]
                shrunk = (each * (y - mean))[inside].sum() / (each[inside].sum() + 0.5)
                expected[i] += (mean + shrunk) / 5
        np.testing.assert_allclose(model.predict(X), expected, atol=1e-10)
    with pytest.raises(ValueError, match=r"^alpha: found -1.0, expected a number > 0$"):
        MondrianForestRegressor(alpha=-1.0).fit(X, y)


def test_a_fit_leaves_nothing_of_the_fit_before() -> None:
    X = np.random.default_rng(0).random((60, 2))
    y = X.sum(axis=1)
    model = MondrianRegressor(5, random_state=0).fit(X, y)
    assert model.lifetimes_.size
    _, before = model.predict(X[:3], return_std=True)
    model.set_params(alpha=3.0)
    np.testing.assert_array_equal(model.predict(X[:3], return_std=True)[1], before)
    model.set_params(lifetime=1.0).fit(X, y)
    assert not {"lifetimes_", "validation_errors_", "log_likelihoods_", "posterior_"} & vars(model).keys()
    assert model.alpha_ == 3.0
