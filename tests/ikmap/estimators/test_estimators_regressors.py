"""Regressors: the checks of scikit-learn, and the same solution for every kind of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge

from ikmap import CellBoostingRegressor, CellOGDRegressor, CellRidge, CellSVR, ForestMap
from ikmap.cells import Cells


def rows_of(n: int = 80) -> tuple[Cells, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    codes = rng.integers(5, size=(n, 9)).astype(np.int32)
    return Cells(codes, 5 * np.arange(10, dtype=np.int64)), 50 + codes.sum(axis=1) + rng.normal(size=n), rng.random(n)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_every_kind_of_rows(fit_intercept: bool) -> None:
    cells, y, weight = rows_of()
    X = cells.to_csr()
    theirs = Ridge(alpha=0.3, fit_intercept=fit_intercept).fit(X.toarray(), y, weight)
    for rows in (cells, X, X.toarray(), sp.csr_array(X * np.linspace(1, 1, X.shape[1]))):
        ours = CellRidge(alpha=0.3, tol=1e-12, fit_intercept=fit_intercept).fit(rows, y, weight)
        assert np.allclose(ours.coef_, theirs.coef_, rtol=1e-4, atol=1e-5)
        assert ours.intercept_ == pytest.approx(theirs.intercept_, rel=1e-6)
        assert np.allclose(ours.predict(rows), theirs.predict(X.toarray()), rtol=1e-6)
        assert 0 <= ours.dual_gap_ <= 1e-12
    raw = CellRidge(alpha=2.7, tol=1e-12, fit_intercept=fit_intercept, normalize=False).fit(cells, y, weight)
    assert np.allclose(raw.predict(cells), theirs.predict(X.toarray()), rtol=1e-6)


@pytest.mark.parametrize("wrong", [{"alpha": 0.0}, {"alpha": float("inf")}, {"tol": -1.0}])
def test_bad_parameters(wrong: dict[str, Any]) -> None:
    cells, y, _ = rows_of()
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))}: found .*, expected "):
        CellRidge(**wrong).fit(cells, y)


@pytest.mark.parametrize(
    "model",
    [CellBoostingRegressor(), CellOGDRegressor(), CellRidge(), CellSVR(), ForestMap(task="regression")],
    ids=repr,
)
def test_targets_whose_squares_are_no_numbers(model: Any) -> None:
    X, y = np.random.default_rng(0).random((20, 2)), np.arange(20.0)
    y[3] = -1e200
    with pytest.raises(ValueError, match=r"^row 3: found target -1e\+200, expected a number of at most 1e\+150$"):
        model.fit(X, y)
    y[3] = -1e150
    model.fit(X, y)
