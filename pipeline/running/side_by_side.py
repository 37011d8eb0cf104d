"""Run chains of stages side by side, each in a thread of the client; stop them at an error or a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from threading import Event

LOOK_SECONDS = 0.5

_stop: ContextVar[Event | None] = ContextVar("stop", default=None)
_until: ContextVar[float] = ContextVar("until", default=float("inf"))


class TimeLimitReached(Exception):
    """Error: the stages inside a :func:`time_limit` have reached it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Stop the stages inside the ``with`` block after some seconds; they notice it while they wait for tasks.

    Raises
    ------
    TimeLimitReached
        The seconds are over.
    """
    token = _until.set(min(_until.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _until.reset(token)


def side_by_side[T](chains: Mapping[str, Callable[[], T]]) -> dict[str, T]:
    """Call every chain in a thread of its own, with a copy of the caller's context, and return what each returns.

    If one fails, or the caller is interrupted, the others are told to stop (:func:`stop_on_request`). The error is
    raised only when all of them have stopped.
    """
    if len(chains) == 1:
        return {name: chain() for name, chain in chains.items()}
    stopping, all_started = Event(), Event()

    def begin(chain: Callable[[], T]) -> T:
        _stop.set(stopping)
        # No chain begins before every thread has been started: if Ctrl-C arrived while they are being started, nobody
        # would wait for a chain that was already at work.
        all_started.wait()
        stop_on_request()
        return chain()

    with ThreadPoolExecutor(len(chains), thread_name_prefix="stages") as pool:
        try:
            running = {name: pool.submit(copy_context().run, begin, chain) for name, chain in chains.items()}
            all_started.set()
            left = set(running.values())
            while left:
                # Not for ever: an interrupt that another thread received is seen by this one only as it wakes.
                done, left = wait(left, timeout=LOOK_SECONDS, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()  # raises the first error, not those of the chains that were stopped
        finally:
            stopping.set()
            all_started.set()
    return {name: future.result() for name, future in running.items()}


def stop_on_request() -> None:
    """Raise if this chain is to stop; a stage calls this now and then while it waits for tasks.

    Raises
    ------
    KeyboardInterrupt
        Another chain has failed, or the caller was interrupted.
    TimeLimitReached
        The :func:`time_limit` around this chain is over.
    """
    stopping = _stop.get()
    if stopping is not None and stopping.is_set():
        raise KeyboardInterrupt
    if time.monotonic() > _until.get():
        raise TimeLimitReached
