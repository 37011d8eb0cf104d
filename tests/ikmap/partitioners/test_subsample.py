"""Subsamples against a whole shuffle, and the law they follow."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from ikmap.partitioners.subsample import draw_subsamples, rows_drawn
from ikmap.seeds import generator
from tests.naive.partitioners import subsamples


@given(n=st.integers(1, 200), t=st.integers(1, 5), seed=st.integers(0, 2**40), data=st.data())
def test_draws_are_the_beginning_of_a_whole_shuffle(n: int, t: int, seed: int, data: st.DataObject) -> None:
    psi = data.draw(st.integers(1, n))
    np.testing.assert_array_equal(draw_subsamples(n, t, psi, seed), subsamples(n, t, psi, seed))


def test_subsamples_nest() -> None:
    largest = draw_subsamples(100_000, 7, 4096, 3)
    for psi in (1, 2, 64, 1024):
        np.testing.assert_array_equal(draw_subsamples(100_000, 7, psi, 3), largest[:, :psi])


def test_a_subsample_depends_on_its_number_only() -> None:
    np.testing.assert_array_equal(draw_subsamples(50, 3, 8, 1), draw_subsamples(50, 9, 8, 1)[:3])


def test_whole_data_is_a_permutation() -> None:
    np.testing.assert_array_equal(np.sort(draw_subsamples(30, 4, 30, 0)), np.tile(np.arange(30), (4, 1)))


@pytest.mark.slow
def test_every_ordered_pair_is_equally_likely() -> None:
    draws = draw_subsamples(5, 20_000, 2, 0)
    counts = np.bincount(draws[:, 0] * 5 + draws[:, 1], minlength=25).reshape(5, 5)
    assert (np.diag(counts) == 0).all()
    assert stats.chisquare(counts[~np.eye(5, dtype=bool)]).pvalue > 1e-6


@pytest.mark.parametrize(("n", "t", "psi"), [(100, 10, 10), (100, 3, 16), (20, 1, 20), (7, 3, 2)])
def test_disjoint_while_the_rows_last(n: int, t: int, psi: int) -> None:
    draws = draw_subsamples(n, t, psi, 5, disjoint=True)
    assert draws.shape == (t, psi)
    assert np.unique(draws).size == t * psi
    assert draws.min() >= 0
    assert draws.max() < n


def test_disjoint_starts_again_when_rows_run_out() -> None:
    draws = draw_subsamples(10, 8, 4, 5, disjoint=True)
    for start in range(0, 8, 2):
        assert np.unique(draws[start : start + 2]).size == 8
    assert len({tuple(sorted(draw)) for draw in draws.tolist()}) > 2


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize(
    ("n", "t", "psi", "message"),
    [
        (5, 2, 6, "psi must be between 1 and the number of training rows, 5, got 6"),
        (5, 2, 0, "psi must be between 1 and the number of training rows, 5, got 0"),
        (0, 2, 1, "psi must be between 1 and the number of training rows, 0, got 1"),
        (5, 0, 2, "the number of partitionings must be at least 1, got 0"),
    ],
)
def test_out_of_range(n: int, t: int, psi: int, message: str, disjoint: bool) -> None:
    with pytest.raises(ValueError, match=message):
        draw_subsamples(n, t, psi, 0, disjoint=disjoint)


def test_parts_of_a_seed_have_generators_of_their_own() -> None:
    paths = [(), (0,), (0, 0), (1,), (1, 0), (0, 1), (1, 1), (2**20,)]
    seeds = [0, 1, 2, 2**32, 2**32 + 1]
    first = {(seed, path): generator(seed, *path).integers(2**63) for seed in seeds for path in paths}
    for a, b in combinations(first, 2):
        assert first[a] != first[b], (a, b)


@pytest.mark.parametrize("n", [1, 40, 10_000])
@pytest.mark.parametrize("shape", [(0,), (1,), (3, 20)])
def test_rows_that_are_drawn_are_those_of_a_sort(n: int, shape: tuple[int, ...]) -> None:
    draws = np.random.default_rng(n).integers(0, n, shape)
    used, position = rows_drawn(draws)
    expected, places = np.unique(draws, return_inverse=True)
    np.testing.assert_array_equal(used, expected)
    np.testing.assert_array_equal(position, places.reshape(shape))
