"""Blocks of rows on threads: the compiled loops release the GIL, so plain threads are enough."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from threadpoolctl import threadpool_limits


def usable_cores() -> int:
    """Number of cores this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def for_each_block(work: Callable[[int, int], None], n: int, block: int, n_threads: int | None = None) -> None:
    """Call ``work(start, stop)`` for consecutive blocks that cover ``range(n)``, on up to n_threads threads.

    Blocks must be independent. While they run, BLAS is held to one thread: the blocks are the parallelism.
    """
    starts = range(0, n, block)
    n_threads = min(n_threads or usable_cores(), len(starts))
    with threadpool_limits(limits=1, user_api="blas"):
        if n_threads <= 1:
            for start in starts:
                work(start, min(start + block, n))
            return
        with ThreadPoolExecutor(n_threads) as pool:
            for done in [pool.submit(work, start, min(start + block, n)) for start in starts]:
                done.result()
