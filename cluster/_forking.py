"""One process that has imported what workers need, once, and from which the workers of this machine are forked.

A worker that is spawned imports Dask, Numba and our stages by itself: two to three seconds of a core for each of them.
A forked one starts in a tenth of a second and shares the memory of what was imported. The process (Python calls it
the fork server) runs nothing but imports, so it has no threads that a fork would lose; it ends with the process that
started it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver, resource_tracker

PRELOADED = ["cluster._uncollected", "distributed.nanny", "cluster.closed", "pipeline.running.preload"]
"""Modules that the process imports. A worker imports as it starts what cannot be imported there."""

#: Every worker runs one task at a time on one core, so libraries must not start threads of their own.
WORKER_ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "ZARR_THREADING__MAX_WORKERS": "1",
    "DASK_LOGGING__DISTRIBUTED": "critical",
}


def prepare() -> bool:
    """Start the process, unless it runs, and do not wait for it: it imports while the caller does something else.

    Returns
    -------
    bool
        Whether there is one. Where the path of temporary files is too long for the address of a socket there is none,
        and workers are spawned.
    """
    resource_tracker.ensure_running()  # which unblocks the signal again, see _quiet.interrupts_held
    # Inherited by every worker: Ctrl-C reaches all processes of a terminal, and the client stops them in order.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with _environment():
            forkserver.set_forkserver_preload(PRELOADED)
            forkserver.ensure_running()
    except OSError:
        return False
    else:
        return True
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextmanager
def _environment() -> Iterator[None]:
    """The variables that libraries read as they are imported, in this process for a moment."""
    # Sets of strings have the same order in all workers, as Dask has it for those that it spawns.
    names = {"PYTHONHASHSEED": "0", **WORKER_ENVIRONMENT}
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(names)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
