"""When a solver makes sure how far it is: after which sweeps it asks for a certificate, and when it ends."""

from __future__ import annotations

import pytest

from ikmap.learners.dual.progress import STILL, Progress


def started(tol: float = 0.1, max_iter: int = 100) -> Progress:
    return Progress(tol, max_iter, 2.0)


def test_the_gap_to_come_is_the_one_seen_times_how_fast_it_falls() -> None:
    progress = started()
    assert not progress.swept(True, 9.0, 8.0, 1.0, 0.0)
    assert (progress.primal, progress.expected, progress.before) == (10.0, 0.8, 0.8)
    assert not progress.swept(True, 9.0, 4.0, 1.0, 0.0)  # half of it: 0.4, and half of that is to come
    assert progress.expected == pytest.approx(0.2)
    assert not progress.swept(True, 9.0, 6.0, 1.0, 0.0)  # a gap that grows is not expected to grow on
    assert progress.expected == pytest.approx(0.6)
    assert progress.swept(True, 9.0, 2.0, 1.0, 0.0)  # a third of 0.2, below the goal
    assert progress.n_iter == 4


def test_a_sweep_over_some_rows_leaves_the_objective_alone() -> None:
    progress = started()
    progress.swept(True, 9.0, 8.0, 1.0, 0.0)
    progress.swept(False, 1.0, 8.0, 1.0, 4.0)
    assert (progress.length, progress.primal, progress.whole) == (6.0, 10.0, False)


def test_a_certificate_is_asked_for_at_the_last_sweep_and_where_nothing_moves() -> None:
    assert started(max_iter=1).swept(True, 9.0, 8.0, 1.0, 0.0)
    assert started().swept(True, 9.0, 8.0, 0.0, 0.0)
    assert started().swept(True, 9.0, 8.0, STILL, 0.0)
    assert not started().swept(True, 9.0, 8.0, 1.01 * STILL, 0.0)


def test_a_certificate_ends_it_or_makes_the_next_one_come_later() -> None:
    progress = started()
    progress.swept(True, 9.0, 0.5, 1.0, 0.0)  # 0.05 is seen
    assert not progress.certified(9.0, 2.0, 2.0)  # and it is 0.2
    assert progress.goal == pytest.approx(0.1 * 0.05 / 0.2)
    assert progress.before == 0.0
    assert progress.history == [(1, 10.0, 8.0, 0.2)]
    progress.swept(False, 9.0, 0.1, 1.0, 0.0)
    assert not progress.certified(9.0, 1.5, 2.0)
    assert progress.goal == pytest.approx(0.025)  # some rows only: no forecast to learn from
    assert progress.certified(9.0, 1.0, 2.0)  # a gap of exactly tol
    still = started()
    still.swept(True, 9.0, 8.0, 0.0, 0.0)
    assert still.certified(9.0, 8.0, 2.0)
    last = started(max_iter=1)
    last.swept(True, 9.0, 8.0, 1.0, 0.0)
    assert last.certified(9.0, 8.0, 2.0)
