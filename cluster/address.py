"""A Dask scheduler that somebody else started."""

from __future__ import annotations

import time
from contextlib import ExitStack
from urllib.parse import urlsplit

from distributed import Client

from cluster._quiet import quiet_logs
from cluster.handle import ClusterHandle
from pipeline.errors import InputError

#: Seconds a scheduler has to answer, and then to have at least one worker.
ANSWER_SECONDS = 5.0
WORKER_SECONDS = 10.0


def attach(address: str, *, workers: int | None = None, memory_limit: str | None = None) -> ClusterHandle:
    """Connect to the scheduler at ``address``; closing the handle disconnects and leaves it running.

    TLS certificates come from Dask's configuration (``distributed.comm.tls``).

    Raises
    ------
    InputError
        When nothing answers there in a few seconds, when it has no workers, or when ``workers`` or
        ``memory_limit`` is given: a running cluster has its own.
    """
    for name, value in (("--workers", workers), ("--memory-limit", memory_limit)):
        if value is not None:
            raise InputError(f"{name}: found {value!r} with --cluster {address}, which has its own workers")
    parts = urlsplit(address)
    try:
        complete = bool(parts.hostname) and bool(parts.port)
    except ValueError:
        complete = False
    if not complete:
        raise InputError(f"--cluster: found {address!r}, expected an address such as tcp://host:8786")

    with ExitStack() as stack:
        stack.enter_context(quiet_logs())
        try:
            client = stack.enter_context(Client(address, timeout=ANSWER_SECONDS))
        except (OSError, TimeoutError):
            raise InputError(
                f"--cluster {address}: no Dask scheduler answered within {ANSWER_SECONDS:g} seconds"
            ) from None
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"--cluster {address}: {error}") from None
        _wait_for_a_worker(client, address)
        return ClusterHandle.of(client, parts.scheme, stack.pop_all())
    raise AssertionError("unreachable")


def _wait_for_a_worker(client: Client, address: str) -> None:
    deadline = time.monotonic() + WORKER_SECONDS
    while not client.scheduler_info(n_workers=-1)["workers"]:
        if time.monotonic() > deadline:
            raise InputError(f"--cluster {address}: the scheduler has no workers")
        time.sleep(0.1)
