"""Threads that go through a compiled loop together: each does its share of a step, and waits until all have.

A step may be so short that to hand it to a thread takes longer than the step itself. So threads are handed the whole
loop, and wait for each other in it, by :func:`ikmap._lockstep_loops.meet`, without Python.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import pairwise

import numpy as np

from ikmap._lockstep_loops import GIVEN_UP, MEETING_SIZE

HANDING_COST = 60_000
"""Rough nanoseconds until a thread works that is handed work, during which others that follow are not."""


class Team:
    """Threads that share out work; that of the caller is one of them.

    Parameters
    ----------
    n_threads : int

    Attributes
    ----------
    n_threads : int
    """

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        # Each has a queue of its own, so that it always gets the same share, which its processor may still hold.
        self._others = [ThreadPoolExecutor(1) for _ in range(n_threads - 1)]

    def wanted(self, cost: int) -> int:
        """Return the number of threads by which work that takes one of them so many nanoseconds is done soonest."""
        return max(1, min(self.n_threads, math.isqrt(cost // HANDING_COST)))

    def share(self, work: Callable[[int, int], object], n: int, cost: int) -> None:
        """Call ``work(start, stop)`` for parts of ``range(n)`` on some threads; a number takes `cost` nanoseconds."""
        n_threads = self.wanted(n * cost)
        own, *others = pairwise(n * k // n_threads for k in range(n_threads + 1))
        waiting = [thread.submit(work, *part) for thread, part in zip(self._others, others, strict=False)]
        try:
            work(*own)
        finally:
            wait(waiting)
        for done in waiting:
            done.result()

    def together[A](self, work: Callable[[int, int, np.ndarray], A], cost: int) -> A:
        """Call ``work(number, n_threads, meeting)`` on some threads at once; return what the caller's returns.

        Parameters
        ----------
        work : callable
            It is given the number of the thread, 0 for the caller's, the number of threads, and what
            :func:`~ikmap._lockstep_loops.meet` needs. All threads must meet equally often.
        cost : int
            Rough nanoseconds that one thread takes for all of it.
        """
        n_threads, meeting = self.wanted(cost), np.zeros(MEETING_SIZE, dtype=np.int64)

        def guarded(number: int) -> A:
            try:
                return work(number, n_threads, meeting)
            except BaseException:
                meeting[GIVEN_UP] = 1
                raise

        waiting = list[Future[A]]()
        try:
            for number in range(1, n_threads):
                waiting.append(self._others[number - 1].submit(guarded, number))
            return guarded(0)
        except BaseException:
            meeting[GIVEN_UP] = 1  # also where a thread could not be started: the others do not wait for it
            raise
        finally:
            wait(waiting)
            for done in waiting:
                done.result()
