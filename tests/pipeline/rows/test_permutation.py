"""The shuffle that needs no memory: a bijection, even enough, the same however rows are asked for."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from pipeline.rows.permutation import position_in_shuffle, row_in_shuffle
from tests.naive.permutation import position


def shuffle(n: int, seed: int) -> np.ndarray:
    return position_in_shuffle(np.arange(n), n, seed)


@given(n=st.integers(1, 2**62), seed=st.integers(0, 2**32), data=st.data())
def test_positions_are_those_of_the_definition(n: int, seed: int, data: st.DataObject) -> None:
    """Up to 2^36 rows what a round mixes in is looked up in tables; beyond, it is computed for each row."""
    rows = np.array(data.draw(st.lists(st.integers(0, n - 1), max_size=5)), dtype=np.int64)
    positions = position_in_shuffle(rows, n, seed)
    assert positions.tolist() == [position(int(row), n, seed) for row in rows]
    assert np.array_equal(row_in_shuffle(positions, n, seed), rows)


@given(n=st.integers(1, 3000), seed=st.integers(0, 2**32))
def test_bijection(n: int, seed: int) -> None:
    assert np.array_equal(np.sort(shuffle(n, seed)), np.arange(n))
    assert np.array_equal(row_in_shuffle(shuffle(n, seed), n, seed), np.arange(n))


@pytest.mark.parametrize("n", [*range(1, 70), 255, 256, 257, 65535, 65536, 65537])
def test_bijection_around_powers_of_two(n: int) -> None:
    assert np.array_equal(np.sort(shuffle(n, 1)), np.arange(n))


@pytest.mark.parametrize("n", [2**31 + 1, 2**40, 2**62])
def test_many_more_rows_than_memory_holds(n: int) -> None:
    rows = np.r_[0, 1, n // 2, n - 2, n - 1]
    found = position_in_shuffle(rows, n, 3)
    assert found.dtype == np.int64
    assert np.unique(found).size == rows.size
    assert ((found >= 0) & (found < n)).all()


@given(n=st.integers(1, 500), seed=st.integers(0, 100), data=st.data())
def test_the_same_whatever_rows_are_asked_for(n: int, seed: int, data: st.DataObject) -> None:
    rows = np.array(data.draw(st.lists(st.integers(0, n - 1))), dtype=np.int64)
    assert np.array_equal(position_in_shuffle(rows, n, seed), shuffle(n, seed)[rows])


def test_rows_are_not_changed() -> None:
    rows = np.arange(10)
    position_in_shuffle(rows, 10, 0)
    assert np.array_equal(rows, np.arange(10))


def test_seeds_differ() -> None:
    assert len({shuffle(50, seed).tobytes() for seed in range(200)}) == 200


@pytest.mark.slow
@pytest.mark.parametrize(("n", "n_train"), [(10, 8), (100, 80), (130, 64), (1000, 10)])
def test_every_row_is_as_likely_to_be_a_training_row(n: int, n_train: int) -> None:
    """Chi-square of how often each row is one over the seeds; sampled without replacement, so with n - 1 degrees."""
    seeds = 600
    counts = np.sum([shuffle(n, seed) < n_train for seed in range(seeds)], axis=0)
    share = n_train / n
    statistic = float(((counts - seeds * share) ** 2).sum() / (seeds * share * (1 - share))) * (n - 1) / n
    low, high = chi2.ppf([1e-4, 1 - 1e-4], n - 1)
    assert low < statistic < high


def test_positions_of_neighbours_are_unrelated() -> None:
    """Of two rows next to each other, both are training rows as often as chance has it."""
    n, n_train, seeds = 64, 32, 1000
    both = sum(int(((p := shuffle(n, seed) < n_train)[:-1] & p[1:]).sum()) for seed in range(seeds))
    expected = seeds * (n - 1) * (n_train / n) * ((n_train - 1) / (n - 1))
    # A pair is hit with a variance of at most 1/4; pairs that share a row raise the sum's by a factor of 3 at most.
    assert abs(both - expected) < 4.5 * np.sqrt(seeds * (n - 1) * 3 / 4)


def test_every_order_of_three_rows_occurs_equally_often() -> None:
    orders = dict.fromkeys(permutations(range(3)), 0)
    for seed in range(1200):
        orders[tuple(shuffle(3, seed))] += 1
    statistic = sum((count - 200) ** 2 / 200 for count in orders.values())
    assert statistic < chi2.ppf(1 - 1e-4, 5)
