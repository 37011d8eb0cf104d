"""A team of threads that go through a compiled loop together.

To hand work to a thread takes longer than many a step of such a loop. So each thread is handed the whole loop, does its
share of every step, and waits for the others at a barrier (:func:`ikmap._barrier_loops.wait_at_barrier`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import pairwise

import numpy as np

from ikmap._barrier_loops import BARRIER_SIZE, CANCELLED

DISPATCH_COST = 60_000
"""Rough nanoseconds that it takes to hand work to a thread, one after the other."""


class ThreadTeam:
    """Threads that share out work, of which the caller's is the first.

    Parameters
    ----------
    n_threads : int
        Number of threads, that of the caller included.

    Attributes
    ----------
    n_threads : int
    """

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        # Each has a queue of its own, so that it always gets the same share, which its cache may still hold.
        self._others = [ThreadPoolExecutor(1) for _ in range(n_threads - 1)]

    def n_threads_for(self, cost: int) -> int:
        """Return the number of threads that get work done soonest which takes a single one `cost` nanoseconds.

        With T threads it takes about ``T * DISPATCH_COST + cost / T``.
        """
        return max(1, min(self.n_threads, math.isqrt(cost // DISPATCH_COST)))

    def share(self, work: Callable[[int, int], object], n: int, cost: int) -> None:
        """Call ``work(start, stop)`` for parts of ``range(n)``, each number of which takes about `cost` nanoseconds."""
        n_threads = self.n_threads_for(n * cost)
        own, *others = pairwise(n * k // n_threads for k in range(n_threads + 1))
        waiting = list[Future[object]]()
        try:
            for thread, part in zip(self._others, others, strict=False):
                waiting.append(thread.submit(work, *part))
            work(*own)
        finally:
            wait(waiting)
        for done in waiting:
            done.result()

    def together[A](self, work: Callable[[int, int, np.ndarray], A], cost: int) -> A:
        """Call ``work(number, n_threads, barrier)`` on several threads at once; return the result of the first.

        Parameters
        ----------
        work : callable
            Function of the number of the thread, the number of threads, and the barrier, at which all threads must
            wait equally often. The first thread, whose number is 0, is that of the caller.
        cost : int
            Rough nanoseconds that a single thread would take.
        """
        n_threads, barrier = self.n_threads_for(cost), np.zeros(BARRIER_SIZE, dtype=np.int64)

        def guarded(number: int) -> A:
            try:
                return work(number, n_threads, barrier)
            except BaseException:
                barrier[CANCELLED] = 1
                raise

        waiting = list[Future[A]]()
        try:
            for number in range(1, n_threads):
                waiting.append(self._others[number - 1].submit(guarded, number))
            return guarded(0)
        except BaseException:
            barrier[CANCELLED] = 1  # also where a thread could not be started: the others do not wait for it
            raise
        finally:
            wait(waiting)
            for done in waiting:
                done.result()
