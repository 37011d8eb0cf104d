"""Read ahead of whoever uses what is read: one thread decompresses while another one parses."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from threading import get_ident

AHEAD = 2
"""Items that are ready, or being made, while one is in use."""
_END = object()


def read_ahead[T](items: Iterator[T], ahead: int = AHEAD) -> Iterator[T]:
    """Yield the items in their order, while a thread makes the next ones.

    An error of `items` is raised where its item would have been yielded. The thread has ended when the generator is
    exhausted or raises. When the generator is closed, no item is being made any more, and the thread ends soon after.
    """
    # What a task knows of its worker, such as the limit of its memory, stands in the context of its thread.
    context = copy_context()
    pool = ThreadPoolExecutor(1, thread_name_prefix="read-ahead")
    waiting: deque[Future[T | object]] = deque()
    maker = 0

    def following() -> T | object:
        nonlocal maker
        maker = get_ident()
        return next(items, _END)

    def begin() -> Future[T | object]:
        return pool.submit(context.run, following)

    try:
        waiting.extend(begin() for _ in range(ahead))
        while (item := waiting.popleft().result()) is not _END:
            waiting.append(begin())
            yield item  # type: ignore[misc]  # mypy does not see that it is not _END
            del item  # it is not kept while the next one is waited for
    except GeneratorExit:
        # It may be the garbage collector that closes an abandoned generator: in any thread, also in one that is just
        # being started and holds the locks that the end of another thread needs. So only the item that is being made
        # is waited for; the thread ends when the pool is gone.
        making = [future for future in waiting if not future.cancel()]
        if get_ident() != maker:
            wait(making)
        raise
    except BaseException:
        pool.shutdown(cancel_futures=True)
        raise
    pool.shutdown(cancel_futures=True)
