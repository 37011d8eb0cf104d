"""Threads in step: all see what the others wrote before they waited, and one that fails keeps nobody waiting."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from ikmap import _thread_team
from ikmap._barrier_loops import wait_at_barrier
from ikmap._thread_team import ThreadTeam
from ikmap.compiled import compiled

LONG = 10**12
"""Nanoseconds of work for which all threads are wanted."""


@compiled
def _pass_round(numbers: Any, thread: Any, n_threads: Any, times: Any, barrier: Any) -> Any:
    """Let each thread add to its number that of the next, so many times, in step."""
    for _ in range(times):
        following = numbers[(thread + 1) % n_threads]
        if not wait_at_barrier(barrier, n_threads):
            return False
        numbers[thread] += following
        if not wait_at_barrier(barrier, n_threads):
            return False
    return True


@pytest.mark.parametrize("n_threads", [1, 2, 5])
def test_threads_see_what_others_wrote_before_they_waited(n_threads: int) -> None:
    numbers, expected = np.arange(n_threads), np.arange(n_threads)
    for _ in range(300):
        expected = expected + np.roll(expected, -1)
    team = ThreadTeam(n_threads)
    for _ in range(3):
        numbers[:] = np.arange(n_threads)
        assert team.together(lambda k, n, barrier: _pass_round(numbers, k, n, 300, barrier), LONG) is True
        assert numbers.tolist() == expected.tolist()


@pytest.mark.parametrize("who", [0, 1, 2])
def test_who_fails_keeps_nobody_waiting(who: int) -> None:
    numbers, team, left = np.zeros(3, dtype=np.int64), ThreadTeam(3), list[bool]()

    def work(thread: int, n_threads: int, barrier: np.ndarray) -> None:
        if thread == who:
            raise MemoryError("no room")
        left.append(_pass_round(numbers, thread, n_threads, 300, barrier))

    with pytest.raises(MemoryError, match="no room"):
        team.together(work, LONG)
    assert left == [False, False]
    assert team.together(lambda k, n, barrier: _pass_round(numbers, k, n, 2, barrier), LONG) is True


def test_a_thread_that_cannot_be_started_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    started = list[object]()

    class Pool(ThreadPoolExecutor):
        def submit(self, *args: Any, **kwargs: Any) -> Any:
            if started:
                raise RuntimeError("can't start new thread")
            started.append(args)
            return super().submit(*args, **kwargs)

    monkeypatch.setattr(_thread_team, "ThreadPoolExecutor", Pool)
    with pytest.raises(RuntimeError, match="start new thread"):
        ThreadTeam(3).together(lambda k, n, barrier: _pass_round(np.zeros(3, dtype=np.int64), k, n, 9, barrier), LONG)
    assert len(started) == 1


def test_work_is_shared_out_by_what_it_takes() -> None:
    team, parts = ThreadTeam(4), list[tuple[int, int]]()
    team.share(lambda *part: parts.append(part), 10, 1)
    assert parts == [(0, 10)]
    parts.clear()
    team.share(lambda *part: parts.append(part), 10, LONG)
    assert sorted(parts) == [(0, 2), (2, 5), (5, 7), (7, 10)]
    cost = _thread_team.DISPATCH_COST
    assert [team.n_threads_for(cost * k) for k in (0, 1, 3, 4, 9, 15, 16, 1000)] == [1, 1, 1, 2, 3, 3, 4, 4]
