"""Searches over C that go on while the best is at an end of what was tried."""

from __future__ import annotations

import numpy as np
import pytest

from ikmap.kernels import MinMaxKernel
from ikmap.learners.kernel.kernel_svm_path import fit_kernel_svm_path
from ikmap_papers.gmm.best_on_test import MOST, best_on_test
from ikmap_papers.gmm.search import GridSearch, Score, in_folds

N, HALF = 120, 60
FOLD = (np.arange(HALF), np.arange(HALF, N))


def problem(noise: float) -> tuple[np.ndarray, np.ndarray]:
    """A matrix of the first half of the rows with all, and their classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, N)
    X = rng.random((N, 6)) + 0.4 * np.eye(6)[y]
    y = np.where(rng.random(N) < noise, 1 - y, y)
    return MinMaxKernel().matrix(X[:HALF], X), y


def directly(K: np.ndarray, y: np.ndarray, Cs: tuple[float, ...]) -> np.ndarray:
    paths = [fit_kernel_svm_path(factor * K[:, :HALF], y[:HALF], 2, Cs) for factor in (1.0, 4.0)]
    return np.array([
        (path.predict(factor * K[:, HALF:].T) == y[HALF:]).sum(axis=1)
        for factor, path in zip((1.0, 4.0), paths, strict=True)
    ])  # fmt: skip


def test_every_C_has_the_rows_that_are_predicted_rightly_with_it() -> None:
    K, y = problem(0.1)
    search = GridSearch(y, 2, [FOLD], [1.0, 2.0])
    for asked in ((1.0, 2.0), (4.0, 8.0, 16.0), (0.125, 0.25, 0.5), (32.0,)):
        search.tried_now = asked
        for factor in (1.0, 4.0):
            search.add((factor,), factor * K)
        search.widen(0.0, 0.0)
    assert search.Cs == tuple(2.0**m for m in range(-3, 6))
    found = directly(K, y, search.Cs)
    assert np.abs(search.table() - found).max() <= 1  # SVMs are the same to their tolerance
    assert (search.table() == found).mean() > 0.8
    assert search.best() == ((1.0 if search.table()[0].max() >= search.table()[1].max() else 4.0,), search.best()[1])
    assert found[:, search.Cs.index(search.best()[1])].max() >= found.max() - 1


@pytest.mark.parametrize(
    ("right", "moved", "asked"),
    [
        ([3, 5, 9], [1, 1, 1], (8.0, 16.0, 32.0)),
        ([9, 5, 9], [1, 1, 1], (8.0, 16.0, 32.0)),  # as good as another: it may still get better
        ([3, 9, 9], [1, 1, 0], ()),  # a larger C changes nothing
        ([3, 5, 60], [1, 1, 1], ()),  # no row is left
        ([3, 9, 5], [1, 1, 1], ()),
        ([9, 5, 3], [1, 1, 1], (0.125, 0.25, 0.5)),
        ([9, 9, 3], [1, 1, 1], ()),  # SVMs are constant
    ],
)
def test_more_C_are_asked_for_at_the_end_where_the_best_is(
    right: list[int], moved: list[int], asked: tuple[float, ...]
) -> None:
    search = GridSearch(np.zeros(N), 2, [FOLD], [1.0, 2.0, 4.0])
    search.scores[(0.0,)] = Score(np.array([1, 2, 2]), np.ones(3), np.ones(3))
    search.scores[(1.0,)] = Score(np.array(right), np.ones(3), np.array(moved))
    search.widen(0.0, np.inf)
    assert search.tried_now == asked


def test_nothing_is_tried_beyond_the_limits() -> None:
    search = GridSearch(np.zeros(N), 2, [FOLD], [1.0, 2.0, 4.0])
    search.scores[(0.0,)] = Score(np.array([1, 2, 3]), np.ones(3), np.ones(3))
    search.widen(1.0, 16.0)
    assert search.tried_now == (8.0, 16.0)


def test_folds_hold_out_every_row_once() -> None:
    folds = np.array([0, 2, 1, 1, 0])
    held_out = np.concatenate([tested for _, tested in in_folds(folds)])
    assert sorted(held_out) == [0, 1, 2, 3, 4]
    assert all(
        set(fit) | set(tested) == set(range(5)) and not set(fit) & set(tested) for fit, tested in in_folds(folds)
    )


@pytest.mark.parametrize("most", [None, 256.0])
def test_a_grid_is_not_widened_beyond_the_largest_C_that_is_asked_for(most: float | None) -> None:
    rng = np.random.default_rng(2)
    y = rng.integers(0, 2, 300)
    X = rng.random((300, 4)) + np.array([500.0, 0, 0, 0])  # nearly parallel: rows of unit length need a large C
    X[:, 1] += 0.7 * y
    options = {"kernel": "cosine", "grid": {}, "parts": 1} | ({} if most is None else {"most_C": most})
    found = best_on_test(X, y, None, options, 0, 0)
    assert (found["Cs"][-1] > 2.0**15) == (most is None)
    assert found["Cs"][-1] <= (most or MOST)
    assert found["cv"]["C"] <= found["Cs"][-1]
    assert (found["cv"]["C"] > 2.0**10) == (most is None)
    assert len(found["converged"]) == len(found["Cs"]) == len(found["grid"]["accuracy"][0])
