"""Preloaded by Dask into every local worker process."""

from __future__ import annotations

import signal

from distributed import Worker


def dask_setup(worker: Worker) -> None:  # noqa: ARG001 - the name Dask calls
    """Leave Ctrl-C to the client: a terminal sends it to workers too, and each would print a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
