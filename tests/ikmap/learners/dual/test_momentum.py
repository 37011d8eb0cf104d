"""How much momentum there is between the sweeps of dual coordinate descent."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np
import pytest

from ikmap.learners.dual import momentum
from ikmap.learners.dual.linear_svm import SVMParams, fit_linear_svm
from ikmap.learners.dual.momentum import Momentum, ahead, right_size
from ikmap.learners.dual.progress import Progress
from ikmap.learners.rows import Block
from tests.support.calls import counted
from tests.support.svm_problems import EVERY_LOSS, Loss, problem


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("beta", [0.0, 0.2, 0.45])
def test_the_rate_without_momentum_is_found_from_that_with_it(q: float, beta: float) -> None:
    roots = np.roots([1.0, -q * (1.0 + beta), q * beta])
    z = np.abs(roots).max()
    found = right_size(1.0, z ** (2 * 8), 8, beta)
    best = (1.0 - np.sqrt(1.0 - q)) / (1.0 + np.sqrt(1.0 - q))
    if np.isreal(roots).all() and z * z > beta:
        assert found == pytest.approx(min(best, momentum.MOST) if best >= momentum.LEAST else 0.0, rel=1e-9)
    else:
        assert found <= best  # as much momentum as this rate can use, or more


@pytest.mark.parametrize(("before", "gap"), [(1.0, 1.0), (1.0, 2.0), (0.0, 0.0), (np.inf, 1.0), (1.0, np.nan)])
def test_a_gap_that_did_not_fall_asks_for_none(before: float, gap: float) -> None:
    assert right_size(before, gap, 2, 0.0) == 0.0


def test_it_begins_after_four_sweeps_and_rests_where_the_dual_falls_or_the_gap_jumps() -> None:
    it = Momentum()
    for k, gap in enumerate((0.9, 0.8, 0.7, 0.6)):
        assert it.beta == 0.0
        it.swept(gap, float(k))
    size = it.beta
    assert size == right_size(0.8, 0.6, 2, 0.0)
    it.swept(0.5, 2.5)
    assert it.beta == 0.0
    it.swept(0.4, 4.0)
    assert it.beta == size
    it.swept(0.41, 5.0)
    assert it.beta == size
    it.swept(0.5, 6.0)
    assert it.beta == 0.0


def test_it_is_chosen_again_by_the_last_eight_sweeps() -> None:
    """Of a gap that fell in each of them, and the more of two choices is taken."""
    it, gaps = Momentum(), [0.9, 0.8, 0.7, 0.6]
    for k in range(7):
        gaps.append(gaps[-1] * (1 - 0.004 * (k + 1)))
    for k, gap in enumerate(gaps):
        it.swept(gap, float(k))
        first = it.beta
    assert first == right_size(0.8, 0.6, 2, 0.0)
    gaps.append(0.97 * gaps[-1])
    it.swept(gaps[-1], 12.0)
    assert it.beta == right_size(gaps[-9], gaps[-1], 8, first) > first
    assert gaps[-9] == 0.6


def test_a_problem_that_is_nearly_solved_gets_none_and_keeps_nothing() -> None:
    it = Momentum()
    for k in range(4):
        it.swept(10.0**-k, float(k))
    assert not it.possible


def test_whole_numbers_stay_whole() -> None:
    w, before = np.array([10, 2**60, -7]), np.array([7, 2**60 - 2**20, 0])
    np.testing.assert_array_equal(ahead(w, before, 0.5), [12, 2**60 + 2**19, -11])


@EVERY_LOSS
@pytest.mark.parametrize(("bounds", "fit_intercept"), [([], True), ([70, 140], False)])
def test_fewer_sweeps_to_the_same_solution(
    loss: Loss, bounds: list[int], fit_intercept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells, y = problem()
    cuts = [0, *bounds, y.size]
    blocks = [Block(cells[a:b], y[a:b]) for a, b in pairwise(cuts)]
    params = SVMParams(loss=loss, C=30.0, tol=1e-6, max_iter=100_000, fit_intercept=fit_intercept)
    with_it = fit_linear_svm(blocks, 2, params)
    monkeypatch.setattr(momentum, "FIRST", 10**9)
    without = fit_linear_svm(blocks, 2, params)
    assert with_it.converged.all()
    assert with_it.primal[0] == pytest.approx(without.primal[0], rel=2e-6)
    assert with_it.n_iter[0] < without.n_iter[0]


@pytest.mark.slow
@EVERY_LOSS
def test_each_of_many_classes_has_its_own(loss: Loss, monkeypatch: pytest.MonkeyPatch) -> None:
    cells, y = problem(n_classes=10)
    params = SVMParams(loss=loss, C=30.0, tol=1e-6, max_iter=100_000)
    with_it = fit_linear_svm([Block(cells, y)], 10, params)
    alone = fit_linear_svm([Block(cells, y)], 10, params, classes_subset=[7])
    np.testing.assert_array_equal(with_it.alphas[7], alone.alphas[0])
    monkeypatch.setattr(momentum, "FIRST", 10**9)
    without = fit_linear_svm([Block(cells, y)], 10, params)
    assert with_it.converged.all()
    np.testing.assert_allclose(with_it.primal, without.primal, rtol=2e-6)
    assert with_it.n_iter.sum() < without.n_iter.sum()


def test_weights_that_turn_round_stay_within_the_bound() -> None:
    """From one end of what they can be to the other, and on from there."""
    w = np.array([1.0, -1.0])
    assert np.abs(ahead(w, -w, momentum.MOST)).max() <= momentum.LONGER


@pytest.mark.parametrize("loss", ["logistic", "squared_epsilon_insensitive"])
@pytest.mark.parametrize("cuts", [[0, 200], [0, 70, 140, 200]])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_the_length_of_the_weights_is_known_on_the_way(
    loss: Literal["logistic", "squared_epsilon_insensitive"],
    cuts: list[int],
    n_classes: int,
) -> None:
    """What sweeps add to |w|^2, momentum included, is what a certificate finds."""
    cells, y = problem(n_classes=n_classes)
    numbers = loss == "squared_epsilon_insensitive"
    blocks = [Block(cells[a:b], y[a:b].astype(float) if numbers else y[a:b]) for a, b in pairwise(cuts)]
    params = SVMParams(loss=loss, C=30.0, tol=1e-6, max_iter=100_000)
    with counted(Progress.certified, note=lambda of: (of["self"].length, of["length"])) as certificates:
        fit = fit_linear_svm(blocks, 0 if numbers else n_classes, params)
    assert fit.converged.all()
    known, found = np.array(certificates.notes).T
    np.testing.assert_allclose(known, found, rtol=1e-9)
