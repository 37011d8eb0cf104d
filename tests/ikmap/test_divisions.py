"""Divisions of rows by group and in time: folds, and the rows that are held out to end rounds early."""

from __future__ import annotations

import numpy as np
import pytest

from ikmap.divisions import Division

KEY = np.uint64(12345678901234567890)


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5, 0.99])
def test_groups_are_held_out_whole_and_as_many_as_come_near(share: float) -> None:
    groups = np.random.default_rng(0).integers(-20, 20, 1000).astype(float)
    division = Division(groups, in_time=False)
    places = division.places(KEY)
    held = places >= division.cut(places, share)
    assert 0 < held.sum() < 1000
    assert not set(groups[held]) & set(groups[~held])
    assert abs(held.mean() - share) <= np.unique(groups, return_counts=True)[1].max() / 1000
    other = division.places(KEY + np.uint64(1))
    assert set(groups[held]) != set(groups[other >= division.cut(other, share)])
    # Some of the rows have the same places as among all.
    np.testing.assert_array_equal(division.some(np.arange(0, 1000, 3)).places(KEY), places[::3])
    assert np.unique(Division(np.array([0.0, -0.0]), in_time=False).places(KEY)).size == 1


def test_rows_that_are_held_out_in_time_come_last() -> None:
    times = np.random.default_rng(0).integers(0, 30, 500).astype(float)
    division = Division(times, in_time=True)
    held = division.places(KEY) >= division.cut(division.places(KEY), 0.1)
    assert 0.05 < held.mean() < 0.15
    assert times[held].min() > times[~held].max()


def test_folds_keep_groups_together_and_times_in_order() -> None:
    keys = np.random.default_rng(0).integers(0, 40, 600).astype(float)
    for fit, held_out in Division(keys, in_time=False).folds(4):
        assert not set(keys[fit]) & set(keys[held_out])
        assert fit.size + held_out.size == 600
    for fit, held_out in Division(keys, in_time=True).folds(4):
        assert keys[fit].max() < keys[held_out].min()


def test_each_row_is_held_out_once_in_time_and_learned_from_are_all_rows_before() -> None:
    years = np.repeat(np.arange(2001.0, 2006.0), 20)
    assert [np.unique(years[held_out]).tolist() for _, held_out in Division(years, in_time=True).folds(5)] == [
        [2003], [2004], [2005],
    ]  # fmt: skip
    for seed in range(40):
        random = np.random.default_rng(seed)
        keys = random.integers(0, random.integers(2, 12), 30).astype(float)
        folds = Division(keys, in_time=True).folds(5)
        held = np.concatenate([held_out for _, held_out in folds])
        assert held.size == np.unique(held).size
        assert keys[held].max() == keys.max()
        for fit, held_out in folds:
            assert fit.tolist() == np.flatnonzero(keys < keys[held_out].min()).tolist()
            assert held_out.size


@pytest.mark.parametrize(("in_time", "thing"), [(True, "time"), (False, "group")])
def test_rows_of_one_key_cannot_be_divided(in_time: bool, thing: str) -> None:
    division = Division(np.full(9, 3.0), in_time)
    with pytest.raises(ValueError, match=f"found the same {thing} in all 9 rows, expected several"):
        division.cut(division.places(KEY), 0.1)
    with pytest.raises(ValueError, match=f"found 1 different {thing}s among 9 rows, expected enough for 2 folds"):
        division.folds(2)
