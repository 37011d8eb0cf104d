"""An executor without threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class AtOnce(Executor):
    """Does what is submitted before it returns: what is ready ahead does not depend on a thread's luck."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def submit[T](self, work: Callable[..., T], /, *given: Any, **named: Any) -> Future[T]:
        future: Future[T] = Future()
        future.set_result(work(*given, **named))
        return future
