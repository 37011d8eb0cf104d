"""Ridge regression row by row is that of all rows at once, also as cells come to be (MO12); exact kernel ridge (MO14);
and what forests and kernels minimise on the same trees (MO13): algorithms.md, section 12.
"""

from __future__ import annotations

import numpy as np
import pytest

from ikmap.kernels import LaplacianKernel
from ikmap.learners.ridge.kernel_ridge import fit_kernel_ridge
from ikmap.learners.ridge.online_ridge import OnlineRidge
from ikmap.learners.sweeps.forest import forest_weights
from ikmap.learners.sweeps.ridge import RidgeSweep
from ikmap.partitioners.mondrian import fit_mondrian

ALPHA = 0.05


def problem() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.random((80, 2))
    return X, np.cos(5 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=80)


def test_row_by_row_is_all_at_once_while_cells_come_to_be() -> None:  # MO12
    X, y = problem()
    model = fit_mondrian(X[:20], 6, 3.0, 1)
    y += 3.0
    online = OnlineRidge.start(model.offsets, ALPHA)
    online.partial_fit(model.cells(X[:20]), y[:20])
    for start, stop in ((20, 21), (21, 50), (50, 80)):
        old = model.offsets
        model, cells = model.extended(X[start:stop])
        online.grow(old, model.offsets)
        before = online.decision_function(cells[:1])
        predicted = online.partial_fit(cells, y[start:stop]).predicted
        np.testing.assert_allclose(predicted[:1], before[0], rtol=1e-10)
        phi = model.cells(X[:stop]).to_csr().toarray()
        mean = y[:stop].mean()
        w = np.linalg.solve(phi.T @ phi + ALPHA * np.eye(phi.shape[1]), phi.T @ (y[:stop] - mean))
        np.testing.assert_allclose(online.coef, w, rtol=1e-8, atol=1e-10)
        assert online.intercept == pytest.approx(mean, rel=1e-12)
    new = model.cells(np.random.default_rng(1).random((9, 2)) * 1.5)
    np.testing.assert_allclose(online.decision_function(new)[:, 0], new.to_csr() @ w + mean, atol=1e-9)
    np.testing.assert_array_equal(online.model([]).decision_function(new), online.decision_function(new))
    assert online.n_seen == 80
    with pytest.raises(ValueError, match=r"alpha: found 0\.0, expected a number above 0"):
        OnlineRidge.start(model.offsets, 0.0)


@pytest.mark.slow
def test_many_trees_predict_as_the_exact_kernel() -> None:  # MO14
    X, y = problem()
    new = np.random.default_rng(2).random((40, 2))
    exact = fit_kernel_ridge(X, y, LaplacianKernel(2.0), ALPHA).predict(new)
    K = np.exp(-2.0 * np.abs(X[:, None] - X[None]).sum(axis=2))
    of_new = np.exp(-2.0 * np.abs(new[:, None] - X[None]).sum(axis=2))
    np.testing.assert_allclose(exact, of_new @ np.linalg.solve(K + ALPHA * np.eye(80), y), atol=1e-10)
    off = []
    for M in (100, 1000, 10_000):
        model = fit_mondrian(X, M, 2.0, 3)
        sweep = RidgeSweep([model.cells(X), model.cells(new)], y, ALPHA)
        off.append(float(np.sqrt(np.mean((sweep.decisions(sweep.solved()) - exact) ** 2))))
    assert off[2] < 0.02 * np.std(y)
    assert np.polyfit(np.log([100, 1000, 10_000]), np.log(off), 1)[0] == pytest.approx(-0.5, abs=0.2)


def test_forests_and_kernels_on_the_same_trees() -> None:  # MO13
    X, y = problem()
    model = fit_mondrian(X, 10, 4.0, 5)
    cells = model.cells(X)
    sweep = RidgeSweep([cells, cells], y, ALPHA)
    kernel = sweep.solved().weights
    columns = sweep.columns.of[0]
    forest = forest_weights(columns, y, ALPHA, sweep.columns.n)
    for c in range(sweep.columns.n):
        inside = (columns == c).any(axis=1)
        assert forest[c] == pytest.approx(y[inside].sum() / (inside.sum() + ALPHA) / np.sqrt(10))
    each = forest[columns] * np.sqrt(10)  # what each tree predicts of each row

    def error(w: np.ndarray) -> float:
        return float(((y - w[columns].sum(axis=1) / np.sqrt(10)) ** 2).sum())

    def objective(w: np.ndarray) -> float:
        return error(w) + ALPHA * float(w @ w)

    assert objective(kernel) < objective(forest)
    assert error(forest) < float(((y[:, None] - each) ** 2).mean(axis=1).sum())  # the loss of a mean, by convexity
