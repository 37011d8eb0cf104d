"""Mondrian trees with the interface of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from ikmap import MondrianMap, MondrianRegressor
from ikmap.estimators import mondrian
from ikmap.partitioners.mondrian import fit_mondrian


@parametrize_with_checks([
    MondrianMap(5, n_jobs=1, random_state=0), MondrianRegressor(5, n_jobs=1, random_state=0, terminal=3.0),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:(the best lifetime|all columns|no cell):UserWarning")
def test_it_is_an_estimator(estimator: Any, check: Any) -> None:
    check(estimator)


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


@pytest.mark.parametrize("select", ["validation", "likelihood"])
def test_the_lifetime_is_found_by_one_sweep(select: str) -> None:
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


def test_too_little_memory_is_foreseen(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = rows(300)
    monkeypatch.setattr(mondrian, "free_memory", lambda: 32 * 100**2)
    too_large: tuple[dict[str, Any], ...] = ({"terminal": 50.0}, {"lifetime": 20.0})
    for asked in too_large:
        (option,) = asked
        with pytest.raises(ValueError, match=f"{option} .* rows would need .* found .* give {option}=") as found:
            MondrianRegressor(20, random_state=0, **asked).fit(X, y)
        longest = float(str(found.value).partition(f"give {option}=")[2].partition(",")[0])
        trees = fit_mondrian(X, 20, longest * (1 - 1e-5), 0)
        assert trees.offsets[-1] <= 101
    with pytest.raises(ValueError, match="give a smaller n_estimators, or fewer rows"):
        MondrianRegressor(200, random_state=0, lifetime=20.0).fit(X, y)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"lifetime": 0.0}, "lifetime must be a number above 0, got 0.0"),
        ({"n_estimators": 0}, "n_estimators must be a whole number of at least 1, got 0"),
    ],
)
def test_bad_parameters(asked: dict[str, Any], said: str) -> None:
    X, y = rows(20)
    for one in (MondrianMap(), MondrianRegressor()):
        with pytest.raises(ValueError, match=said):
            one.set_params(**asked).fit(X, y)
    for more, message in (({"alpha": 0.0}, "alpha must be"), ({"select": "x"}, "select"), ({"terminal": -1}, "term")):
        with pytest.raises(ValueError, match=message):
            MondrianRegressor(**more).fit(X, y)
