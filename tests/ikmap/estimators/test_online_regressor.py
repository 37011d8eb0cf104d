"""CellOGDRegressor: the checks of scikit-learn, the learner of the pipeline, and more rows later."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LinearRegression

from ikmap import CellNormaClassifier, CellNormaDetector, CellNormaRegressor, CellOGDRegressor, seed_paths
from ikmap.cells import Cells
from ikmap.learners.online.squared_ogd import SquaredOGDState
from ikmap.seeds import generator


def rows_of(n: int = 200) -> tuple[Cells, np.ndarray]:
    rng = np.random.default_rng(0)
    codes = rng.integers(5, size=(n, 9)).astype(np.int32)
    return Cells(codes, 5 * np.arange(10, dtype=np.int64)), 50 + codes.sum(axis=1) + rng.normal(size=n)


@pytest.mark.parametrize("scale", ["kernel", "raw"])
def test_it_is_the_learner_of_the_pipeline_in_any_pieces(scale: Any) -> None:
    cells, y = rows_of()
    eta, divisor = (0.5, 9.0) if scale == "kernel" else (0.05, 1.0)
    state = SquaredOGDState.start(cells.offsets, eta, divisor)
    state.partial_fit(cells.packed(), y)
    whole = CellOGDRegressor(eta=eta, scale=scale).fit(cells, y)
    pieces = CellOGDRegressor(eta=eta, scale=scale)
    for start in range(0, y.size, 70):
        pieces.partial_fit(cells[start : start + 70], y[start : start + 70])
    assert np.array_equal(whole.state_.weights, state.weights)
    assert np.array_equal(whole.predict(cells), state.decision_function(cells.packed())[:, 0])
    assert np.array_equal(whole.predict(cells), pieces.predict(cells))
    X = cells.to_csr(normalize=scale == "kernel")
    assert np.allclose(X @ whole.coef_ + whole.intercept_, whole.predict(cells))
    assert np.array_equal(CellOGDRegressor(eta=eta, scale=scale).fit(X, y).predict(X), whole.predict(cells))


def test_rows_of_any_length() -> None:
    """Steps never lead beyond a row's target, so nothing grows without bound."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4)) * [1000.0, 1.0, 1.0, 1.0]
    y = 3 + X @ [0.01, 2.0, -1.0, 0.5]
    found = CellOGDRegressor(n_epochs=5).fit(X, y)
    assert np.isfinite(found.coef_).all()
    X = rng.normal(size=(500, 4)) / 3
    y = 3 + X @ [1.0, 2.0, -1.0, 0.5]
    found = CellOGDRegressor(n_epochs=20).fit(X, y)
    assert np.allclose(found.coef_, LinearRegression().fit(X, y).coef_, atol=0.05)


def test_each_pass_has_an_order_that_no_partitioning_is_drawn_by() -> None:
    cells, y = rows_of()
    state = SquaredOGDState.start(cells.offsets, 0.5, 9.0)
    for epoch in range(3):
        order = generator(7, seed_paths.EPOCHS, epoch).permutation(y.size)
        assert not np.array_equal(order, generator(7, epoch).permutation(y.size))
        state.partial_fit(cells.packed()[order], y[order])
    found = CellOGDRegressor(n_epochs=3, shuffle=True, random_state=7).fit(cells, y)
    assert np.array_equal(found.state_.weights, state.weights)


@pytest.mark.parametrize("wrong", [{"eta": 0.0}, {"eta": 2.0}, {"n_epochs": 0}, {"scale": "big"}])
def test_bad_parameters(wrong: dict[str, Any]) -> None:
    cells, y = rows_of()
    with pytest.raises(ValueError, match=next(iter(wrong))):
        CellOGDRegressor(**wrong).fit(cells, y)


def test_rows_of_another_kind_later() -> None:
    cells, y = rows_of()
    found = CellOGDRegressor().fit(cells, y)
    with pytest.raises(ValueError, match="kind of the first call"):
        found.partial_fit(np.ones((2, cells.n_columns)), np.ones(2))
    with pytest.raises(ValueError, match="NaN"):
        found.partial_fit(cells[:1], np.array([np.nan]))


@pytest.mark.parametrize("value", [1.0, 0.3])
@pytest.mark.parametrize("kind", [CellOGDRegressor, CellNormaRegressor, CellNormaClassifier, CellNormaDetector])
def test_rows_of_any_kind_may_follow_one_hot_rows_of_a_sparse_stream(kind: Any, value: float) -> None:
    """A first row of equal entries looks like a one-hot one; the result is that of any pieces."""
    rng = np.random.default_rng(3)
    X = (rng.random((80, 12)) < 0.15) * value
    X[0] = np.where(np.arange(12) < 3, value, 0.0)  # three equal entries
    X[40:] *= rng.random((40, 12))
    y = X @ rng.normal(size=12) + 3
    more: dict[str, Any] = {}
    if kind is CellNormaClassifier:
        y, more = (y > 3).astype(int), {"classes": [0, 1]}
    alone, together = kind(eta=0.2), kind(eta=0.2)
    for model, ends in ((alone, range(1, 81)), (together, (1, 3, 40, 80))):
        begin = 0
        for end in ends:
            model.partial_fit(sp.csr_array(X[begin:end]), y[begin:end], **(more if begin == 0 else {}))
            begin = end
        assert model.on_cells_
    decisions = [model.score_samples if kind is CellNormaDetector else model.predict for model in (alone, together)]
    rows = sp.csr_array(X)
    np.testing.assert_allclose(decisions[0](rows), decisions[1](rows), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        decisions[0](rows), np.concatenate([decisions[0](rows[[i]]) for i in range(80)]), atol=1e-12
    )
    if kind is not CellOGDRegressor:  # which divides steps on rows that are not one-hot
        dense = kind(eta=0.2)
        for i in range(80):
            dense.partial_fit(X[i : i + 1], y[i : i + 1], **(more if i == 0 else {}))
        found = dense.score_samples(X) if kind is CellNormaDetector else dense.predict(X)
        np.testing.assert_allclose(decisions[0](rows), found, rtol=1e-10, atol=1e-12)
