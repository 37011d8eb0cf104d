"""Stages that do not need each other, at the same time, each chain of them in a thread of the client; time limits."""

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
    """What runs under a time limit has reached it."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Stop what is done within, where it waits (:func:`stop_when_told`), after so many seconds.

    Raises
    ------
    TimeLimitReached
        They are over.
    """
    token = _until.set(min(_until.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _until.reset(token)


def side_by_side[T](chains: Mapping[str, Callable[[], T]]) -> dict[str, T]:
    """Call all, each in a copy of the caller's context; return what each gives.

    Where one fails, or the caller is interrupted, the others are told to stop (:func:`stop_when_told`), and only when
    they have does the error get out.
    """
    if len(chains) == 1:
        return {name: chain() for name, chain in chains.items()}
    told, all_there = Event(), Event()

    def begin(chain: Callable[[], T]) -> T:
        _stop.set(told)
        # No chain begins before every thread has been started. Ctrl-C may arrive while they are being started; a chain
        # that was already at work then would be one that nobody waits for.
        all_there.wait()
        stop_when_told()
        return chain()

    with ThreadPoolExecutor(len(chains), thread_name_prefix="stages") as pool:
        try:
            running = {name: pool.submit(copy_context().run, begin, chain) for name, chain in chains.items()}
            all_there.set()
            left = set(running.values())
            while left:
                # Not for ever: an interrupt that another thread received is seen by this one only as it wakes.
                done, left = wait(left, timeout=LOOK_SECONDS, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()  # raises what went wrong, not what came of telling the others
        finally:
            told.set()
            all_there.set()
    return {name: future.result() for name, future in running.items()}


def stop_when_told() -> None:
    """Called now and then where a stage waits.

    Raises
    ------
    KeyboardInterrupt
        In a chain that is to stop.
    TimeLimitReached
        In one whose time is over.
    """
    told = _stop.get()
    if told is not None and told.is_set():
        raise KeyboardInterrupt
    if time.monotonic() > _until.get():
        raise TimeLimitReached
