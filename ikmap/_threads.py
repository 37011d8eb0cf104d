"""Blocks of rows on threads: the compiled loops release the GIL, so plain threads are enough."""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from threading import Lock, Thread
from types import TracebackType
from typing import TYPE_CHECKING

from threadpoolctl import ThreadpoolController

if TYPE_CHECKING:
    from threadpoolctl import _ThreadpoolLimiter as ThreadpoolLimiter


def usable_cores() -> int:
    """Return the number of cores that this process can use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def _blas() -> ThreadpoolController:
    """Return a controller of the BLAS libraries: NumPy's, and SciPy's own once it is loaded."""
    return _controller("scipy.linalg" in sys.modules)


@cache
def _controller(with_scipy: bool) -> ThreadpoolController:  # noqa: ARG001 - to look for libraries takes long
    return ThreadpoolController().select(user_api="blas")


class _SingleThreadedBLAS:
    """A context manager that limits BLAS to one thread while any thread is inside.

    The number of threads is a setting of the whole process. So the first to enter changes it and the last to leave
    restores it: with a limit for each caller, one that enters while another is inside would take that one's limit for
    the setting to go back to. Where BLAS has one thread anyhow, as in a Dask worker, nothing is done.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._limit: ThreadpoolLimiter | None = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0 and any(library["num_threads"] != 1 for library in _blas().info()):
                _on_a_thread_of_its_own(self._set)
            self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._limit is not None:
                _on_a_thread_of_its_own(self._limit.restore_original_limits)
                self._limit = None

    def _set(self) -> None:
        self._limit = _blas().limit(limits=1)


def _on_a_thread_of_its_own(change: Callable[[], object]) -> None:
    """Change the setting on a thread that ends at once.

    threadpoolctl lets a thread that has set OpenBLAS's number keep that right for life: others, who might be the
    last to leave, would be ignored.
    """
    thread = Thread(target=change)
    thread.start()
    thread.join()


single_threaded_blas = _SingleThreadedBLAS()


def for_each_block(work: Callable[[int, int], None], n: int, block: int, n_threads: int | None = None) -> None:
    """Call ``work(start, stop)`` for consecutive blocks that cover ``range(n)``, on up to n_threads threads.

    Blocks must be independent. While they run, BLAS is held to one thread: the blocks are the parallelism. After an
    exception, blocks that have not begun are left out. Safe to call from several threads at once.
    """
    starts = range(0, n, block)
    n_threads = min(n_threads or usable_cores(), len(starts))
    with single_threaded_blas:
        if n_threads <= 1:
            for start in starts:
                work(start, min(start + block, n))
            return
        with ThreadPoolExecutor(n_threads) as pool:
            try:
                for done in [pool.submit(work, start, min(start + block, n)) for start in starts]:
                    done.result()
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise


def ahead[A, B](work: Callable[[A], B], items: Iterable[A], depth: int = 1) -> Iterator[B]:
    """Yield ``work(item)`` for each item in order; the next ones, ``depth`` of them, are worked on meanwhile.

    Each has a thread of its own. Memory holds depth + 1 results: the one in use and the next.
    """
    with ThreadPoolExecutor(depth) as pool:
        following: deque[Future[B]] = deque()
        for item in items:
            following.append(pool.submit(work, item))
            if len(following) > depth:
                yield following.popleft().result()
        while following:
            yield following.popleft().result()
