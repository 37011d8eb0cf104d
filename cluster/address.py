"""A Dask scheduler that somebody else started."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from urllib.parse import urlsplit

from distributed import Client, Security, rpc

from cluster._quiet import interrupts_held, quiet_logs
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

    with quiet_logs():
        try:
            asyncio.run(_answer(address))
        except (OSError, TimeoutError):
            raise InputError(
                f"--cluster {address}: no Dask scheduler answered within {ANSWER_SECONDS:g} seconds"
            ) from None
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"--cluster {address}: {error}") from None

    with ExitStack() as stack:
        with interrupts_held():
            stack.enter_context(quiet_logs())
            client = stack.enter_context(Client(address))
        _wait_for_a_worker(client, address)
        return ClusterHandle.of(client, parts.scheme, stack)


async def _answer(address: str) -> None:
    """Ask who is there. A client itself waits without end for a listener that is not Dask's."""
    async with asyncio.timeout(ANSWER_SECONDS):
        async with rpc(address, connection_args=Security().get_connection_args("client")) as scheduler:
            await scheduler.identity()


def _wait_for_a_worker(client: Client, address: str) -> None:
    deadline = time.monotonic() + WORKER_SECONDS
    while not client.scheduler_info(n_workers=-1)["workers"]:
        if time.monotonic() > deadline:
            raise InputError(f"--cluster {address}: the scheduler has no workers")
        time.sleep(0.1)
