"""Support vector regression in parts: rounds as in the listing, and the objective of the solver in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from benchmarks.cocoa import fit_cocoa
from ikmap import seed_paths
from ikmap.cells import Cells
from ikmap.learners.dual.linear_svm import SVMParams, fit_linear_svm, svm_model
from ikmap.learners.rows import Block
from ikmap.seeds import generator
from tests.naive.learners import shuffled
from tests.naive.svr import svr_cocoa, svr_dual, svr_primal

T, WIDTH = 4, 6
LOSSES = ("epsilon_insensitive", "squared_epsilon_insensitive")


def problem(n: int = 150) -> tuple[Cells, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    codes = rng.integers(WIDTH, size=(n, T)).astype(np.int32)
    y = 700 + 20 * codes[:, 0] - 3 * codes[:, 1] ** 2 + 8 * rng.normal(size=n)
    return Cells(codes, np.arange(T + 1, dtype=np.int64) * WIDTH), y, rng.integers(3, size=n).astype(float)


def divided(cells: Cells, y: np.ndarray, weight: np.ndarray | None, k: int, blocks: int = 1) -> list[list[Block]]:
    return [
        [Block(cells[rows], y[rows], None if weight is None else weight[rows]) for rows in np.array_split(part, blocks)]
        for part in np.array_split(np.arange(y.size), k)
    ]


def standardised(y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    mean = np.average(y, weights=weight)
    return (y - mean) / np.sqrt(np.average((y - mean) ** 2, weights=weight))


@pytest.mark.parametrize("loss", LOSSES)
def test_rounds_follow_the_listing(loss: Any) -> None:
    cells, y, weight = problem(90)
    asked = SVMParams(loss=loss, C=0.5, epsilon=0.2, tol=1e-15, max_iter=25, seed=4)
    with pytest.warns(ConvergenceWarning, match="after 25 rounds"):
        found = fit_cocoa(divided(cells, y, weight, 3), 0, asked)
    parts = np.array_split(np.arange(90), 3)
    z, X, cost = standardised(y, weight), cells.to_csr().toarray(), 0.5 * weight

    def visits(part: int, number: int) -> list[int]:
        counted = np.flatnonzero(weight[parts[part]]).tolist()
        return list(shuffled(counted, int(generator(4, seed_paths.COCOA, part, number, 0, 0).integers(2**63)))[0])

    orders = [[visits(part, number) for part in range(3)] for number in range(1, 26)]
    X_parts, z_parts, costs = ([values[rows] for rows in parts] for values in (X, z, cost))
    expected = np.concatenate(svr_cocoa(X_parts, z_parts, costs, 0.2, loss == LOSSES[1], orders, T))
    np.testing.assert_allclose(found.alphas[0], expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.coef[:, 0], X.T @ expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("k", "blocks"), [(1, 1), (3, 2), (8, 1)])
def test_the_objective_is_that_of_the_solver_in_memory(loss: Any, k: int, blocks: int, weighted: bool) -> None:
    cells, y, some = problem()
    weight = some if weighted else None
    asked = SVMParams(loss=loss, C=0.1, epsilon=0.2, tol=1e-5, fit_intercept=True)
    found = fit_cocoa(divided(cells, y, weight, k, blocks), 0, asked)
    whole = fit_linear_svm([Block(cells, y, weight)], 0, asked)
    assert found.converged.all()
    assert found.primal == pytest.approx(whole.primal, rel=2e-5)
    assert (found.center, found.scale) == pytest.approx((whole.center, whole.scale), rel=1e-12)
    every = some if weighted else np.ones(y.size)
    X, w = np.column_stack([cells.to_csr().toarray(), np.ones(y.size)]), np.append(found.coef[:, 0], found.intercept)
    of = (X, standardised(y, every), 0.1 * every, 0.2, loss == LOSSES[1])
    assert found.primal[0] == pytest.approx(svr_primal(*of, w), rel=1e-9)
    assert found.dual[0] == pytest.approx(svr_dual(*of, found.alphas[0]), rel=1e-9)
    assert found.n_support[0] == np.count_nonzero(found.alphas)
    predicted, expected = (svm_model(fit, [], asked, divisor=2.0).decision_function(cells) for fit in (found, whole))
    assert np.abs(predicted - expected).max() < 0.02 * found.scale
