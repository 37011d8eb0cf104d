"""The mean of the weights on the way: as added up row by row, however rows are grouped, and with steadier decisions."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from ikmap.cells import Cells
from ikmap.learners.online.averaged_ogd import DECAY, AveragedOGDState
from ikmap.learners.online.ogd import OGDState
from ikmap.learners.online.squared_ogd import SquaredOGDState

T, PSI, EVERY = 5, 7, 16


def rows(n: int, kind: int, seed: int = 0) -> tuple[Cells, np.ndarray]:
    """Cells that say something of the targets: numbers, or so many classes."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(PSI, size=(n, T)).astype(np.int32)
    score = (codes[:, 0] + codes[:, 1]) / (2 * PSI - 2) + 0.3 * rng.normal(size=n)
    y = np.clip((score * kind).astype(np.int32), 0, kind - 1) if kind else score
    offsets = PSI * np.arange(T + 1)
    return Cells(codes, offsets), y


def state(kind: int, constant: bool = False) -> Any:
    """Before the first row."""
    if not kind:
        return SquaredOGDState.start(PSI * np.arange(T + 1), 0.5, float(T))
    return OGDState.start(T * PSI, kind, 0.3, float(T), constant=constant)


@pytest.mark.parametrize(("kind", "constant"), [(0, False), (2, False), (2, True), (4, False)])
def test_the_mean_is_that_of_the_weights_however_rows_are_grouped(kind: int, constant: bool) -> None:
    cells, y = rows(100, kind)
    alone, had = state(kind, constant), []
    predicted = []
    for k in range(100):
        predicted.append(alone.partial_fit(cells[k : k + 1], y[k : k + 1]).predicted)
        if (k + 1) % EVERY == 0:
            had.append(alone.model([]).decision_function(cells))
    weight = np.array([math.prod(range(k + 1, k + 1 + DECAY)) for k in range(len(had))], dtype=np.float64)
    expected = np.average(had, axis=0, weights=weight)
    for cuts in ([0, 100], [0, 1, 15, 16, 17, 64, 99, 100], list(range(101))):
        averaged = AveragedOGDState(state(kind, constant), EVERY)
        found = []
        for a, b in pairwise(cuts):
            found.append(averaged.partial_fit(cells[a:b], y[a:b]).predicted)
            averaged = averaged.restore({name: array.copy() for name, array in averaged.checkpoint().items()})
        np.testing.assert_array_equal(np.concatenate(found), np.concatenate(predicted))
        assert (averaged.n_seen, averaged.n_support) == (alone.n_seen, alone.n_support)
        np.testing.assert_array_equal(averaged.decision_function(cells), alone.decision_function(cells))
        mean = averaged.model([]).decision_function(cells)
        if kind:
            np.testing.assert_allclose(mean, expected, atol=1e-12)
        else:  # whose intercept is the mean of all targets, at the end
            assert np.ptp(mean - expected) < 1e-12


def test_how_many_rows_lie_between_two_of_the_weights() -> None:
    """256, or as many as a partitioning has columns if these are more."""
    for columns, every in ((T * PSI, 256), (256 * T, 256), (257 * T, 257), (10_000 * T, 10_000)):
        assert AveragedOGDState.start(state(2), columns, T).every == every
    averaged = AveragedOGDState.start(state(2), T * PSI, T)
    cells, y = rows(600, 2)
    averaged.partial_fit(cells[:255], y[:255])
    assert averaged.n_added == 0
    averaged.partial_fit(cells[255:], y[255:])
    assert averaged.n_added == 2


def test_before_the_first_that_is_added_up_it_is_the_last() -> None:
    cells, y = rows(EVERY - 1, 2)
    averaged = AveragedOGDState(state(2), EVERY)
    assert averaged.partial_fit(cells[:0], y[:0]).predicted.size == 0
    averaged.partial_fit(cells, y)
    np.testing.assert_array_equal(averaged.model([0, 1]).coef, averaged.state.model([0, 1]).coef)


@pytest.mark.parametrize("kind", [0, 2])
def test_cells_that_come_later_have_weights_of_0_before(kind: int) -> None:
    cells, y = rows(4 * EVERY, kind)
    old, new = PSI * np.arange(T + 1), (PSI + 2) * np.arange(T + 1)
    averaged = AveragedOGDState(state(kind, constant=bool(kind)), EVERY)
    averaged.partial_fit(cells, y)
    before = averaged.model([]).decision_function(cells)
    averaged.grow(old, new)
    np.testing.assert_allclose(averaged.model([]).decision_function(Cells(cells.codes, new)), before, atol=1e-12)


@pytest.mark.slow
def test_decisions_are_steadier_than_those_of_the_last_weights() -> None:
    last, mean = [], []
    tested, _ = rows(500, 2, seed=99)
    for seed in range(8):
        cells, y = rows(20_000, 2, seed)
        averaged = AveragedOGDState(state(2), EVERY)
        averaged.partial_fit(cells, y)
        last.append(averaged.decision_function(tested)[:, 0])
        mean.append(averaged.model([0, 1]).decision_function(tested)[:, 0])
    assert np.std(mean, axis=0).mean() < 0.5 * np.std(last, axis=0).mean()


@pytest.mark.parametrize("constant", [False, True])
def test_partitionings_drawn_anew_take_the_mean_along_and_its_constant(constant: bool) -> None:
    cells, y = rows(100, 2)
    averaged = AveragedOGDState(state(2, constant), EVERY)
    averaged.partial_fit(cells, y)
    before, n = averaged.mean.copy(), T * PSI
    moved = np.roll(np.arange(n), PSI)
    averaged.carry(sp.csr_array((np.full(n, 0.5), (np.arange(n), moved)), shape=(n, n)), PSI * np.arange(T + 1))
    np.testing.assert_allclose(averaged.mean[:n], 0.5 * before[moved])
    np.testing.assert_array_equal(averaged.mean[n:], before[n:])
    assert len(averaged.mean) == n + constant
    assert not constant or before[n].all()
