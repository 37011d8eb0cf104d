"""Dask's own log lines stay off the user's terminal; what matters reaches the user as an exception."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

_LOGGERS = ("distributed", "bokeh", "tornado", "asyncio")


@contextmanager
def quiet_logs(level: int = logging.CRITICAL) -> Iterator[None]:
    """Raise the level of the loggers of Dask and of what it runs on."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(level)
    try:
        yield
    finally:
        for logger, old in zip(loggers, before, strict=True):
            logger.setLevel(old)
