"""Races: the rule against its definition, and what it promises."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ikmap.racing import ODDS, Behind, Candidate, Scored, Scores, best, standings, survivors
from tests.naive import racing as naive


def test_scores_are_compared_on_the_folds_that_all_have_tried() -> None:
    scores = Scores()
    rows = {fold: np.array([True, False, fold == 1]) for fold in range(3)}
    scores.add(8, 1, [rows[1], ~rows[1]])
    scores.add(8, 0, [rows[0], ~rows[0], rows[0]])
    scores.add(4, 0, [rows[0]])
    assert scores.values == [4, 8]
    assert scores.folds(8) == {0, 1}
    assert list(scores.on([0])) == [(4, 0), (8, 0), (8, 1), (8, 2)]
    both = scores.on([1, 0])
    assert list(both) == [(8, 0), (8, 1)]
    assert both[8, 0].tolist() == [*rows[0], *rows[1]]
    assert scores.on([0], [4]).keys() == {(4, 0)}
    assert scores.on([2]) == scores.on([]) == {}


def test_of_equals_the_smaller_value_then_the_smaller_C_is_best() -> None:
    a, b = np.array([True, False]), np.array([False, True])
    assert best({(8, 0): a, (4, 1): b, (4, 0): a}) == (4, 0)
    assert best({(8, 0): a | b, (4, 0): b}) == (8, 0)


@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.integers(2, 9))
def test_survivors_follow_the_definition(seed: int, done: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    right: dict[Candidate, Scored] = {(value, 0): rng.random(60 * done) < rng.uniform(0.4, 1) for value in range(n)}
    leader = naive.best({c: rows.tolist() for c, rows in right.items()})
    kept = [c for c in right if naive.chance(right[c].tolist(), right[leader].tolist(), done, 5) > ODDS]
    assert best(right) == leader
    assert survivors(right, done, 5) == kept
    assert leader in kept
    assert standings(right)[leader] == Behind(0, 0)


@pytest.mark.parametrize("done", [1, 3])
def test_the_chance_is_that_of_ending_ahead(done: int) -> None:
    """Of pairs that differ by luck alone, those so many rows behind after some folds end ahead as often as it says."""
    rng = np.random.default_rng(0)
    # +1 where only the first is right, -1 where only the second: any mean is as likely, within reach.
    means = rng.uniform(-0.5, 0.5, 60_000)
    steps = 2.0 * (rng.random((means.size, 200)) < (0.5 + means / 2)[:, None]) - 1
    after, final = steps[:, : 40 * done].sum(axis=1), steps.sum(axis=1)
    for behind in (2, 4, 8):
        pairs = np.isclose(after, -behind)
        assert pairs.sum() > 500
        ahead = np.mean(np.r_[final[pairs] > 0, final[pairs] >= 0])
        assert ahead == pytest.approx(Behind(behind, 40 * done).chance(done, 5), abs=0.06)


def test_few_rows_say_little() -> None:
    assert Behind(2, 2).chance(1, 5) > 0.05
    assert Behind(20, 20).chance(1, 5) < ODDS
    assert Behind(1, 5).chance(5, 5) == 0
    assert Behind(0, 5).chance(5, 5) == 1
