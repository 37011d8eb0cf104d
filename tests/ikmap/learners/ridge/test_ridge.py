"""Ridge regression on cells: the optimum, its certificate, and the same bits however rows are cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from ikmap.cells import Cells
from ikmap.learners.ridge import sums
from ikmap.learners.ridge.conjugate_gradients import ConjugateGradients, Problem
from ikmap.learners.ridge.ridge import RidgeFit, fit_ridge, fit_ridge_path
from ikmap.learners.ridge.sums import Tile, matrix_sums, pieces, sums_of
from ikmap.learners.rows import Block
from ikmap.methods import Shape
from ikmap.methods.ridge import Ridge
from pipeline.params import Params
from tests.naive.ridge import objective, ridge
from tests.support.sizes import SmallSizes

T, WIDTH = 6, 5


def problem_on_cells(n: int = 90, *, gaps: bool = False, seed: int = 0) -> tuple[Cells, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    codes = rng.integers(WIDTH, size=(n, T)).astype(np.int32)
    if gaps:
        codes[rng.random(codes.shape) < 0.3] = -1
        codes[3] = -1
    y = 1000 + 3 * rng.normal(size=n) + 5 * codes[:, 0] + codes[:, 1] ** 2
    return Cells(codes, np.arange(T + 1, dtype=np.int64) * WIDTH), y, rng.integers(4, size=n).astype(float)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alpha", [0.01, 2.0])
def test_the_optimum(gaps: bool, weighted: bool, alpha: float) -> None:
    cells, y, some = problem_on_cells(gaps=gaps)
    weight = some if weighted else None
    X = cells.to_csr().toarray()
    w, b = ridge(X, y, alpha, weight)
    best = objective(X, y, alpha, w, b, weight)
    for tol in (0.5, 1e-3, 1e-10):
        fit = fit_ridge([Block(cells, y, weight)], Problem(alpha, tol, T**-0.5))
        assert fit.converged
        assert fit.gap <= tol * fit.objective
        assert fit.objective == pytest.approx(objective(X, y, alpha, fit.coef, fit.intercept, weight), rel=1e-11)
        assert best * (1 - 1e-11) <= fit.objective <= (best + fit.gap) * (1 + 1e-11)
    model = fit.model(T**0.5, {})
    assert np.allclose(fit.coef, w, atol=1e-4 * np.abs(w).max())
    assert np.allclose(model.decision_function(cells.packed())[:, 0], X @ w + b, rtol=1e-7)


def test_the_gap_is_at_most_the_difference_of_both_objectives() -> None:
    """Which it is before the first step; afterwards it is smaller, and still no smaller than what it bounds."""
    cells, y, weight = problem_on_cells()
    X, alpha = cells.to_csr().toarray(), 0.7
    best = objective(X, y, alpha, *ridge(X, y, alpha, weight), weight)
    for steps in range(4):
        with pytest.warns(ConvergenceWarning, match="above tol"):
            fit = fit_ridge([Block(cells, y, weight)], Problem(alpha, 1e-12, T**-0.5, max_iter=steps))
        beta = weight * (y - X @ fit.coef - fit.intercept)
        safe = np.where(weight > 0, weight, 1.0)
        dual = beta @ y - 0.5 * (beta**2 / safe).sum() - ((X.T @ beta) ** 2).sum() / (2 * alpha)
        assert abs(beta.sum()) < 1e-9 * np.abs(beta).sum()  # the intercept is the best one
        if steps == 0:
            assert fit.gap == pytest.approx(fit.objective - dual, rel=1e-8)
        else:
            assert fit.objective - best <= fit.gap < fit.objective - dual
        assert (fit.n_iter, fit.converged) == (steps, False)


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(2, 40), st.integers(1, 12), st.floats(-6.0, 3.0), st.floats(0.0, 8.0))
def test_the_bound_is_one(seed: int, n: int, d: int, power: float, spread: float) -> None:
    """For any matrix, however its columns are scaled, and after any step until rounding is all that is left."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-spread / 2, spread / 2, size=d)
    y, alpha = rng.normal(size=n), 10.0**power
    best = objective(X, y, alpha, *ridge(X, y, alpha))
    state = ConjugateGradients(Problem(alpha, 1e-9), np.zeros(d))
    while (order := state.order) is not None:
        state.absorb(matrix_sums(order, X, y))
        excess = objective(X, y, alpha, state.w, state.intercept) - best
        assert excess <= state.gap * (1 + 1e-6) + 1e-11 * best


def test_without_an_intercept() -> None:
    cells, y, _ = problem_on_cells()
    X = cells.to_csr().toarray()
    fit = fit_ridge([Block(cells, y)], Problem(0.5, 1e-12, T**-0.5, fit_intercept=False))
    assert fit.intercept == 0
    assert np.allclose(fit.coef, np.linalg.solve(X.T @ X + 0.5 * np.eye(X.shape[1]), X.T @ y), rtol=1e-6)


def test_a_constant_target_and_rows_of_no_weight() -> None:
    cells, _, _ = problem_on_cells(8)
    fit = fit_ridge([Block(cells, np.full(8, 3.5))], Problem(1.0))
    assert (fit.intercept, fit.objective, fit.gap, fit.converged) == (3.5, 0.0, 0.0, True)
    assert not fit.coef.any()
    assert fit_ridge([Block(cells, np.arange(8.0), np.zeros(8))], Problem(1.0)).converged


@pytest.mark.parametrize("gaps", [False, True])
def test_the_same_bits_for_threads_blocks_and_codes(
    gaps: bool, monkeypatch: pytest.MonkeyPatch, small_sizes: SmallSizes
) -> None:
    small_sizes.ridge_pieces(20)
    cells, y, weight = problem_on_cells(200, gaps=gaps)
    assert len(pieces(200, cells.offsets)) == 10
    asked = Problem(0.3, 1e-8, T**-0.5)
    one = fit_ridge([Block(cells, y, weight)], asked)
    cuts = [slice(0, 7), slice(7, 150), slice(150, 200)]
    others = [
        fit_ridge([Block(cells, y, weight)], asked, n_threads=3),
        fit_ridge([Block(cells[cut], y[cut], weight[cut]) for cut in cuts], asked),
        fit_ridge([Block(cells.packed(np.uint16), y, weight)], asked),
    ]
    monkeypatch.setattr(sums, "TILE", 9)
    others.append(fit_ridge([Block(cells, y, weight)], asked))
    for other in others:
        assert np.array_equal(one.coef, other.coef)
        assert (one.intercept, one.objective, one.gap) == (other.intercept, other.objective, other.gap)


def test_going_on_from_any_checkpoint() -> None:
    cells, y, _ = problem_on_cells()
    tiles, asked = list(Tile.of(Block(cells, y))), Problem(0.1, 1e-9, T**-0.5)
    state, kept = ConjugateGradients(asked, np.zeros(cells.n_columns)), []
    while (order := state.order) is not None:
        kept.append({name: array.copy() for name, array in state.checkpoint().items()})
        state.absorb(sums_of(order, tiles))
    assert len(kept) > 5
    whole = RidgeFit.of(state)
    for arrays in kept[:: len(kept) // 4]:
        again = ConjugateGradients.restore(asked, arrays)
        while (order := again.order) is not None:
            again.absorb(sums_of(order, tiles))
        assert np.array_equal(RidgeFit.of(again).coef, whole.coef)
        assert RidgeFit.of(again).gap == whole.gap


def test_a_path_from_the_largest_alpha_on() -> None:
    cells, y, _ = problem_on_cells()
    alphas, asked = [0.1, 10.0, 1.0], Problem(1.0, 1e-9, T**-0.5)
    path = list(fit_ridge_path([Block(cells, y)], asked, alphas))
    for alpha, fit in zip([10.0, 1.0, 0.1], path, strict=True):
        alone = fit_ridge([Block(cells, y)], Problem(alpha, 1e-9, T**-0.5))
        assert np.allclose(fit.coef, alone.coef, atol=1e-3)
        assert fit.objective == pytest.approx(alone.objective, rel=1e-8)
        assert fit.converged


@pytest.mark.parametrize(
    ("y", "weight", "message"),
    [
        (np.array([1.0, np.nan, 2.0]), None, "^row 1: target is not finite$"),
        (np.ones(3), np.array([1.0, -1.0, 1.0]), r"^row 1: sample weight -1.0 is not >= 0 and finite$"),
    ],
)
def test_refused(y: np.ndarray, weight: Any, message: str) -> None:
    cells, _, _ = problem_on_cells(3)
    with pytest.raises(ValueError, match=message):
        fit_ridge([Block(cells, y, weight)], Problem(1.0))


def test_what_is_chosen_where_nothing_is_said() -> None:
    for psi, C in (("auto", "auto"), (8, 0.5)):
        asked = Params.given(learners=("ridge",), psi=psi)
        assert asked.methods["ridge"]["C"] == C
        assert asked.searches_C("ridge") == (C == "auto")
    assert Ridge().C == 0.5
    assert Ridge().memory(Shape(10, 5, None, 1)) == 0
