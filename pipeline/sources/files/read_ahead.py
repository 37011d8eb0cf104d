"""Read ahead of whoever uses what is read: one thread decompresses while another one parses."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context

AHEAD = 2
"""Items that are ready, or being made, while one is in use."""
_END = object()


def read_ahead[T](items: Iterator[T], ahead: int = AHEAD) -> Iterator[T]:
    """Yield the items in their order, while a thread makes the next ones.

    An error of `items` is raised where its item would have been yielded. The thread has ended when the generator is
    exhausted, closed or raises; it is waited for where it is in the middle of an item.
    """
    # What a task knows of its worker, such as the limit of its memory, stands in the context of its thread.
    context = copy_context()
    pool = ThreadPoolExecutor(1, thread_name_prefix="read-ahead")

    def following() -> T | object:
        return next(items, _END)

    def begin() -> Future[T | object]:
        return pool.submit(context.run, following)

    try:
        waiting = deque(begin() for _ in range(ahead))
        while (item := waiting.popleft().result()) is not _END:
            waiting.append(begin())
            yield item  # type: ignore[misc]  # mypy does not see that it is not _END
            del item  # it is not kept while the next one is waited for
    finally:
        pool.shutdown(cancel_futures=True)
