"""Weights counted in whole numbers: there and back, and no sum that int64 does not hold."""

from __future__ import annotations

import numpy as np
import pytest

from ikmap.learners.dual.momentum import LONGER
from ikmap.learners.dual.whole_numbers import complete_cells, dual_bound, whole_numbers


@pytest.mark.parametrize("bias", [0.0, 1.0, 2.5])
def test_weights_come_back(bias: float) -> None:
    numbers = whole_numbers(100, 0.1, bias, 3.0, 5.0)
    assert numbers is not None
    assert np.frexp(numbers.unit)[0] == 0.5
    assert (numbers.cell, numbers.constant) == (0.1 / numbers.unit, bias / numbers.unit)
    counted = np.array([7, -(2**40), 0, 2**50 + 1, 12345])
    w = numbers.weights(counted)
    assert w[:-1] == pytest.approx(counted[:-1] * 0.1 / numbers.unit)
    assert w[-1] == pytest.approx(12345 * bias / numbers.unit)
    assert numbers.counted(w).tolist() == [*counted[:-1].tolist(), 12345 if bias else 0]
    codes, base = np.zeros((1, 2), dtype=np.uint8), np.zeros(2, dtype=np.uint64)
    _, _, norm, unit = numbers.rows((codes, base, 0.1))
    assert norm == pytest.approx(0.01 / numbers.unit)
    assert unit == numbers.unit


@pytest.mark.parametrize(("t", "value", "bias", "length", "dual"), [
    (100, 0.1, 0.0, 3.0, 5.0), (1, 1.0, 1.0, 1e-3, 1e6), (1000, 0.03, 0.01, 40.0, 0.1),
])  # fmt: skip
def test_the_largest_sums_fit(t: int, value: float, bias: float, length: float, dual: float) -> None:
    """Of a row's cells, of the constant, and of a dual variable: below 2^61, and the finest unit for which they are."""
    numbers = whole_numbers(t, value, bias, length, dual)
    assert numbers is not None
    root = 4.0 * np.sqrt(length)
    largest = max(root * np.sqrt(t) / value, dual, root / bias if bias else 0.0) * numbers.unit
    assert 2**59 <= largest < 2**60


@pytest.mark.parametrize("cost", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("dual", [1e-2, 1.0, 1e4])
def test_a_warm_start_is_within_the_bound_on_dual_variables(cost: float, dual: float) -> None:
    """One dual variable may have all of the bound on ``|w|^2``, a^2 / (2 C), to itself, and go on by momentum."""
    assert dual_bound(dual**2 / (2 * cost), cost) >= LONGER * dual
    assert dual_bound(0.0, cost) >= LONGER * 2 * cost  # a margin of 0 under the squared hinge


def test_numbers_that_are_too_coarse_are_none() -> None:
    assert whole_numbers(10, 0.3, 0.0, 1.0, 1e18) is None
    assert whole_numbers(10, 0.3, 0.0, np.inf, 1.0) is None
    assert whole_numbers(10, 0.3, 0.0, 1.0, 1e300) is None
    # The unit is 2^57 for both; 2^30 times a row's squared length, of the constant feature too, is below it or not.
    assert whole_numbers(1, 1.0, 2.0**13, 1.0, 1.0) is not None
    assert whole_numbers(1, 1.0, 1.5 * 2.0**13, 1.0, 1.0) is None


def test_only_cells_of_which_none_is_absent_are_counted() -> None:
    codes, base = np.zeros((1, 2), dtype=np.uint8), np.zeros(2, dtype=np.uint64)
    assert complete_cells((codes, base, 0.1))
    assert not complete_cells((codes, base, 0.1, 255))
    assert not complete_cells((np.zeros(3), np.zeros(3, dtype=np.int32), np.zeros(2, dtype=np.int64)))
