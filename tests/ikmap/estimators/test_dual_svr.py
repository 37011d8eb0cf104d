"""CellSVR: the same solution for every kind of rows."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.svm import LinearSVR

from ikmap import CellSVR
from ikmap.cells import Cells


def rows_of(n: int = 80) -> tuple[Cells, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    codes = rng.integers(5, size=(n, 9)).astype(np.int32)
    return Cells(codes, 5 * np.arange(10, dtype=np.int64)), 50 + codes.sum(axis=1) + rng.normal(size=n), rng.random(n)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_every_kind_of_rows(fit_intercept: bool) -> None:
    cells, y, weight = rows_of()
    X = cells.to_csr()
    asked: dict[str, Any] = {"tol": 1e-12, "max_iter": 20_000, "fit_intercept": fit_intercept}
    found = [CellSVR(**asked).fit(rows, y, weight).predict(rows) for rows in (cells, X, X.toarray())]
    raw = CellSVR(C=1 / 9, normalize=False, **asked | {"fit_intercept": False})
    found.append(raw.fit(cells, y, weight).predict(cells))
    for other in found[1:-1]:
        assert np.allclose(other, found[0], atol=1e-4)
    assert np.allclose(found[-1], found[0], atol=1e-4) != fit_intercept
    fitted = CellSVR().fit(cells, y)
    assert fitted.score(cells, y) > 0.9
    assert np.allclose(X @ fitted.coef_ + fitted.intercept_, fitted.predict(cells))
    assert 0 < fitted.dual_gap_ <= 1e-3


@pytest.mark.parametrize("wrong", [{"C": 0.0}, {"epsilon": -1.0}, {"tol": -1.0}, {"loss": "hinge"}])
def test_bad_parameters(wrong: dict[str, Any]) -> None:
    cells, y, _ = rows_of()
    with pytest.raises(ValueError, match=f"^{next(iter(wrong))}: found .*, expected "):
        CellSVR(**wrong).fit(cells, y)


@pytest.mark.parametrize("loss", ["squared_epsilon_insensitive", "epsilon_insensitive"])
def test_with_epsilon_0_all_errors_cost(
    loss: Literal["squared_epsilon_insensitive", "epsilon_insensitive"],
) -> None:
    """Squares of errors without a margin are the loss of ridge regression."""
    cells, y, _ = rows_of()
    X, z = cells.to_csr(), (y - y.mean()) / y.std()
    exact: Any = Ridge(alpha=1 / (2 * 0.7), fit_intercept=False)
    if loss == "epsilon_insensitive":
        exact = LinearSVR(epsilon=0.0, C=0.7, loss=loss, fit_intercept=False, tol=1e-10, max_iter=10**6, random_state=0)
    expected = exact.fit(X, z).predict(X)
    found = CellSVR(epsilon=0.0, C=0.7, loss=loss, tol=1e-10, max_iter=20_000).fit(cells, y)
    np.testing.assert_allclose(found.predict(cells), y.mean() + y.std() * expected, atol=1e-3)
