"""Worker processes on this machine, one thread each."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import dask
import distributed.utils
import psutil
from dask.system import CPU_COUNT
from dask.utils import format_bytes, parse_bytes
from distributed import Client, LocalCluster
from distributed.system import MEMORY_LIMIT

from cluster import certificates
from cluster._forking import WORKER_ENVIRONMENT, prepare
from cluster._scratch import scratch_folder
from cluster._starting import starting
from cluster.closed import ClosedNanny, WithClosedScheduler
from cluster.handle import LOOPBACK, ClusterHandle
from cluster.memory import room
from pipeline.errors import InputError

#: A worker process holds about 150 MB before it does anything; below this Dask only kills and restarts it.
MIN_WORKER_BYTES = 256 * 10**6
#: Share of the available memory given to workers; the rest is for the client, the scheduler and the system.
WORKERS_SHARE = 0.8
#: Seconds to wait, on closing, for workers that are being restarted.
RESTART_SECONDS = 5.0
#: Dask looks after itself up to a hundred times a second in every process: a twentieth of the time of two cores.
CALM = {
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "2s",
    "distributed.worker.memory.monitor-interval": "250ms",
    "distributed.worker.profile.interval": "100ms",
}


def usable_cores() -> int:
    """Cores this process may use: those of the machine, its CPU affinity and its control group."""
    return int(CPU_COUNT)


def worker_memory(text: str | None, workers: int, left_by_groups: Callable[[], float] = room) -> int:
    """Bytes per worker: ``text`` such as ``4GB``, else a share of what is available now, and left by control groups.

    Raises
    ------
    InputError
        When ``text`` is no size, or one too small for a worker to live in.
    """
    if text is None:
        available = min(psutil.virtual_memory().available, MEMORY_LIMIT, left_by_groups())
        return max(MIN_WORKER_BYTES, int(available * WORKERS_SHARE / workers))
    return bytes_of(text)


def bytes_of(text: str) -> int:
    """Bytes that ``--memory-limit`` says.

    Raises
    ------
    InputError
        When it is no size, or one too small for a worker to live in.
    """
    try:
        size = int(parse_bytes(text))
    except (ValueError, TypeError, OverflowError):
        raise InputError(f"--memory-limit: found {text!r}, expected a size such as 4GB") from None
    if size < MIN_WORKER_BYTES:
        raise InputError(
            f"--memory-limit: found {text!r}, expected at least {format_bytes(MIN_WORKER_BYTES)} per worker"
        )
    return size


class _Cluster(WithClosedScheduler, LocalCluster):
    pass


def start(
    *, workers: int | None, memory_limit: str | None, values: Mapping[str, Any], say: Callable[[str], None]
) -> ClusterHandle:
    """Start a cluster of processes and connect to it.

    Everything listens on the loopback interface only, the dashboard on a free port unless ``dashboard`` is given. Other
    users of this machine reach the ports, but neither the scheduler nor the workers nor the dashboard speak to them.

    Raises
    ------
    InputError
        For a number of workers below 1 or an unusable memory limit.
    """
    count = usable_cores() if workers is None else workers
    if count < 1:
        raise InputError(f"--workers: found {count}, expected an integer >= 1")
    limit = worker_memory(memory_limit, count)
    security = certificates.of(values, "local", say)

    with ExitStack() as stack:
        with starting("local", stack):
            scratch = stack.enter_context(on_this_machine())
            method = "forkserver" if prepare() else "spawn"
            _leave_preloading_to_us()
            stack.enter_context(dask.config.set({"distributed.worker.multiprocessing-method": method}))
            cluster = stack.enter_context(
                _Cluster(
                    n_workers=count,
                    threads_per_worker=1,
                    processes=True,
                    worker_class=ClosedNanny,
                    security=security,
                    memory_limit=limit,
                    host=LOOPBACK,
                    dashboard_address=values.get("dashboard", f"{LOOPBACK}:0"),
                    worker_dashboard_address=f"{LOOPBACK}:0",
                    local_directory=scratch,
                    silence_logs=logging.CRITICAL,
                    # A forked worker has the variables that were set as the fork server started.
                    env={**os.environ, **WORKER_ENVIRONMENT},
                )
            )
            client = stack.enter_context(Client(cluster))
            client.wait_for_workers(count)
            stack.callback(_await_restarts, client, count)
        return ClusterHandle.of(client, "local", stack, Path(scratch))


def _leave_preloading_to_us() -> None:
    """Keep Dask from importing pandas and Arrow into this process, and from replacing the list of preloaded modules."""
    distributed.utils._forkserver_preload_set = True


def _await_restarts(client: Client, count: int) -> None:
    """Wait before closing until workers that died are up again: Dask stops half-started ones with a traceback."""
    with suppress(TimeoutError):
        client.wait_for_workers(count, timeout=RESTART_SECONDS)


@contextmanager
def on_this_machine() -> Iterator[str]:
    """Set up the surroundings of worker processes here: a folder of their own, which is yielded, and a calm Dask."""
    with (
        scratch_folder() as scratch,
        dask.config.set({"temporary-directory": scratch, **CALM}),
        worker_environment(),
    ):
        yield scratch


@contextmanager
def worker_environment() -> Iterator[None]:
    """One thread per library and no log lines in every worker, restarted ones included.

    Dask lets variables of this process win over its configuration and copies what it sets for workers into
    this process; both are undone here.
    """
    names = dask.config.get("distributed.nanny.pre-spawn-environ") | WORKER_ENVIRONMENT
    before = {name: os.environ.get(name) for name in names}
    for name in WORKER_ENVIRONMENT:
        os.environ.pop(name, None)
    try:
        with dask.config.set({"distributed.nanny.pre-spawn-environ": names}):
            yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
