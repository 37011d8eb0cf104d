"""Folds, the psi that fit, and what one fold says of each psi."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ikmap.cells import Cells
from ikmap.methods import MAPS, Map, Sample
from ikmap.methods.values import cells_of_values
from ikmap.model_selection import CS, FOLDS, MANY, PSIS, folds, psis_that_fit, score_fold, values_of_C
from ikmap.partitioners import METHODS, draw_subsamples, fit_partitions
from tests.support.point_sets import DATA, LAYOUTS, N


def path_of(one: Map, psis: list[int], seed: int, fit_rows: Any, map_rows: list[Any]) -> Any:
    """Return the cells of several sets of rows for every psi, of partitionings that were drawn from some rows."""
    sample = Sample(fit_rows.shape[0], fit_rows.shape[1], None, fit_rows.__getitem__, seed)
    return cells_of_values(one, frozenset({"psi"}), psis, sample, map_rows)


@pytest.mark.parametrize(("n", "n_folds"), [(10, 5), (11, 5), (14, 5), (103, 3), (5, 5)])
def test_folds_part_the_rows(n: int, n_folds: int) -> None:
    parts = folds(n, 0, n_folds)
    assert len(parts) == n_folds
    np.testing.assert_array_equal(np.sort(np.concatenate([held for _, held in parts])), np.arange(n))
    sizes = [held.size for _, held in parts]
    assert max(sizes) - min(sizes) <= 1
    for fit, held in parts:
        np.testing.assert_array_equal(np.sort(np.r_[fit, held]), np.arange(n))
        assert (np.diff(fit) > 0).all()
        assert (np.diff(held) > 0).all()


def test_folds_follow_the_seed() -> None:
    a, b, c = (np.concatenate([held for _, held in folds(50, seed)]) for seed in (1, 1, 2))
    np.testing.assert_array_equal(a, b)
    assert (a != c).any()


@pytest.mark.parametrize("n", [2, 5, 6, 10, 11, 17, 100, 1024, 1285, 5120, 5121, 100_000])
def test_psi_fits_every_fold(n: int) -> None:
    smallest = min(fit.size for fit, _ in folds(n, 0))
    psis = psis_that_fit(n)
    if smallest >= PSIS[0]:
        assert psis == [psi for psi in PSIS if psi <= smallest]
    else:
        assert psis == [max(1, smallest)]


def test_search_range_of_the_paper() -> None:
    assert PSIS == (4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
    assert FOLDS == 5


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("method", METHODS)
def test_cells_of_every_psi_equal_separate_fits(method: str, layout: str) -> None:
    X = LAYOUTS[layout](DATA["sparse"])
    fit_rows, psis = X[: N // 2], [16, 2, 4]
    found = list(path_of(MAPS[method].of_record({"t": 6})[0], psis, 3, fit_rows, [X, X[:5]]))
    assert [psi for psi, _ in found] == [2, 4, 16]
    for psi, (every, few) in found:
        model = fit_partitions(fit_rows, draw_subsamples(N // 2, 6, psi, 3), method=method, seed=3)
        np.testing.assert_array_equal(every.codes, model.cells(X).codes)
        np.testing.assert_array_equal(every.offsets, model.offsets)
        np.testing.assert_array_equal(few.codes, every.codes[:5])


def test_options_reach_the_method() -> None:
    X = DATA["continuous"]
    (_, (limited,)), (_, (full,)) = (
        next(path_of(MAPS["iforest"].of_record({"t": 6, "max_depth": depth})[0], [32], 0, X, [X]))
        for depth in ("log2", "none")
    )
    assert np.unique(limited.columns()).size < np.unique(full.columns()).size == 6 * 32
    draws = draw_subsamples(N, 6, 4, 0)
    with pytest.raises(ValueError, match='max_depth is for method "iforest"'):
        fit_partitions(X, draws, method="anne", seed=0, max_depth="log2")
    with pytest.raises(ValueError, match="method must be one of anne, iforest, got 'trees'"):
        fit_partitions(X, draws, method="trees", seed=0)
    with pytest.raises(ValueError, match="psi must be between 1 and the number of training rows, 60, got 61"):
        next(path_of(MAPS["anne"].of_record({"t": 6})[0], [4, 61], 0, X, [X]))


class _Majority:
    """Predicts, in the first partitioning, the class most frequent in a cell; remembers what it was given."""

    def __init__(self) -> None:
        self.fitted: list[tuple[Cells, np.ndarray]] = []

    def __call__(self, cells: Cells, y: np.ndarray) -> Callable[[Cells], np.ndarray]:
        self.fitted.append((cells, y))
        votes = np.zeros((cells.n_columns, 3))
        np.add.at(votes, (cells.columns()[:, 0], y), 1)
        return lambda rows: votes[rows.columns()[:, 0]].argmax(axis=1)


@pytest.mark.parametrize("method", METHODS)
def test_scores_of_one_fold(method: str) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, size=90)
    X = rng.normal(size=(90, 2)) + 4 * y[:, None]
    fit, held = folds(90, 1)[2]
    learner, constant = _Majority(), lambda cells, y: lambda rows: np.full(rows.n_rows, 1)  # noqa: ARG005
    both = {"majority": learner, "constant": constant}
    one, _ = MAPS[method].of_record({"t": 3})

    def score(learners: Any) -> Any:
        path = path_of(one, list(learners), 5, X[fit], [X[fit], X[held]])
        return score_fold(path, y[fit], y[held], learners, dict.fromkeys(both, np.equal))

    correct = score({8: both, 2: both})
    assert list(correct["constant"]) == [2, 8]
    for (right,) in correct["constant"].values():
        np.testing.assert_array_equal(right, y[held] == 1)
    assert len(learner.fitted) == 2
    for k, psi in enumerate((2, 8)):
        model = fit_partitions(X[fit], draw_subsamples(fit.size, 3, psi, 5), method=method, seed=5)
        cells, labels = learner.fitted[k]
        np.testing.assert_array_equal(cells.codes, model.cells(X[fit]).codes)
        np.testing.assert_array_equal(labels, y[fit])
        expected = _Majority()(model.cells(X[fit]), y[fit])(model.cells(X[held]))
        (right,) = correct["majority"][psi]
        np.testing.assert_array_equal(right, expected == y[held])
    assert correct["majority"][8][0].sum() > correct["majority"][2][0].sum() > held.size / 3
    alone = score({8: {"majority": learner}, 2: {"constant": constant}})
    assert (list(alone["majority"]), list(alone["constant"])) == ([8], [2])
    np.testing.assert_array_equal(alone["majority"][8], correct["majority"][8])


@pytest.mark.parametrize(
    ("right", "tried"),
    [
        ([5, 6, 7], 3),
        ([5, 7, 6, 6, 9], 4),
        ([7, 6, 7, 6, 8], 5),
        ([7, 7, 6, 7, 6, 6, 9], 6),
        ([3], 1),
        ([4, 3, 2, 9], 3),
    ],
)
def test_values_of_C_are_tried_until_two_in_a_row_are_below_the_best(right: list[int], tried: int) -> None:
    y = np.zeros(60, dtype=int)
    fit, held = folds(60, 0)[0]
    made = []

    def learner(cells: Cells, labels: np.ndarray) -> Any:  # noqa: ARG001
        for count in right:
            made.append(count)
            yield lambda rows, count=count: (np.arange(rows.n_rows) >= count).astype(int)

    X = np.random.default_rng(0).normal(size=(60, 2))
    path = path_of(MAPS["anne"].of_record({"t": 2})[0], [4], 0, X[fit], [X[fit], X[held]])
    correct = score_fold(path, y[fit], y[held], {4: {"many": learner}}, {"many": np.equal})
    assert [int(rows.sum()) for rows in correct["many"][4]] == made == right[:tried]


def test_many_classes_have_the_middle_of_the_range_of_C() -> None:
    assert values_of_C(2) == CS
    assert (CS[0], CS[-1]) == (2**-5, 2**11)
    assert values_of_C(MANY - 1) == CS
    assert values_of_C(MANY) == (2.0, 8.0, 32.0, 128.0)
