"""Guards that keep the talk of Dask, and torn starts or stops, from the terminal of the user."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType

_LOGGERS = ("distributed", "distributed.client", "bokeh", "tornado", "asyncio")


@contextmanager
def quiet_logs(level: int = logging.CRITICAL) -> Iterator[None]:
    """Raise the level of the loggers of Dask and of what it runs on: what matters arrives as an exception."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(level)
    try:
        yield
    finally:
        for logger, old in zip(loggers, before, strict=True):
            logger.setLevel(old)


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM wait until the block is done; processes started inside never see Ctrl-C.

    A terminal sends Ctrl-C to every process of the group. Worker processes leave it to the client, which
    stops them in order; they inherit the blocked signal through the thread that starts them. A start or
    stop that is cut in half would leave processes behind and print tracebacks.
    """
    # Starting the tracker unblocks the signal again in the thread that does it: not in a thread of Dask's.
    resource_tracker.ensure_running()
    held: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        held.append(number)

    # Other threads of this process may still receive the signal, so it also needs a handler that waits;
    # only the main thread may set one.
    owner = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGINT, hold) if owner else None
    # SIGTERM only where somebody turns it into an interrupt; it is not blocked, or workers could not be ended by it.
    terminated = signal.getsignal(signal.SIGTERM)
    holds_term = owner and callable(terminated)
    if holds_term:
        signal.signal(signal.SIGTERM, hold)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if owner:
            signal.signal(signal.SIGINT, handler)
        if holds_term:
            signal.signal(signal.SIGTERM, terminated)
    if signal.SIGTERM in held or (held and handler is not signal.SIG_IGN):
        raise KeyboardInterrupt
