"""A Dask scheduler that somebody else started, by its address or its scheduler file."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import dask
from distributed import Client, Security, rpc

from cluster._quiet import quiet_logs
from cluster._starting import starting
from cluster.certificates import OFF, from_folder, warning
from cluster.handle import ClusterHandle
from pipeline.errors import InputError
from pipeline.running.workers import workers_of
from pipeline.urls import apart

#: Seconds a scheduler has to answer, and then to have at least one worker.
ANSWER_SECONDS = 5.0
WORKER_SECONDS = 10.0


def attach(
    name: str,
    *,
    workers: int | None = None,
    memory_limit: str | None = None,
    values: Mapping[str, Any],
    say: Callable[[str], None] = lambda line: None,  # noqa: ARG005
) -> ClusterHandle:
    """Connect to the scheduler that ``name`` names; closing the handle disconnects and leaves it running.

    TLS certificates come from the folder ``tls``, else from Dask's configuration (``distributed.comm.tls``). Where
    there is none, a line says what that means.

    Raises
    ------
    InputError
        When nothing answers there in a few seconds, when it has no workers, or when ``workers`` or
        ``memory_limit`` is given: a running cluster has its own.
    """
    for option, value in (("--workers", workers), ("--memory-limit", memory_limit)):
        if value is not None:
            raise InputError(f"{option}: found {value!r} with --cluster {name}, which has its own workers")
    wait = float(values.get("wait", WORKER_SECONDS))
    security = None if values.get("tls", OFF) == OFF else from_folder(Path(values["tls"]).expanduser())
    address = _address_in(Path(name.removeprefix("file:")).expanduser(), wait) if name.startswith("file:") else name
    parts = apart(address)
    if not parts.host or not parts.port or parts.user:
        raise InputError(f"--cluster: found {address!r}, expected an address such as tcp://host:8786")
    if parts.scheme == "tls" and not (security or Security()).get_tls_config_for_role("client")["cert"]:
        raise InputError(
            f"--cluster {name}: TLS needs a certificate, expected --cluster-option tls=DIR, or distributed.comm.tls "
            "in Dask's configuration"
        )

    # In a thread of its own, as a notebook has an event loop that runs in this one.
    with quiet_logs(), ThreadPoolExecutor(1) as other_thread:
        try:
            other_thread.submit(asyncio.run, _answer(address, security)).result()
        except (OSError, TimeoutError):
            other = (
                "has another certificate; give the folder that it was started with (--cluster-option tls=DIR)"
                if parts.scheme == "tls"
                else "speaks TLS; then give tls:// and --cluster-option tls=DIR"
            )
            raise InputError(
                f"--cluster {address}: no Dask scheduler answered within {ANSWER_SECONDS:g} seconds, or it {other}"
            ) from None
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"--cluster {address}: {error}") from None

    if parts.scheme == "tcp":
        say(warning(f"--cluster {name}", "start it with --protocol tls and give tls://HOST:PORT (docs/clusters.md)"))
    with ExitStack() as stack:
        patience = {"ikmap.lost-seconds": wait} if "wait" in values else {}
        with starting(name, stack):
            stack.enter_context(dask.config.set({"ikmap.most-workers": values.get("maximum", 0), **patience}))
            client = stack.enter_context(Client(address, security=security))
        wait_for_a_worker(client, name, wait)
        return ClusterHandle.of(client, parts.scheme, stack)


async def _answer(address: str, security: Security | None) -> None:
    """Ask who is there. A client itself waits without end for a listener that is not Dask's."""
    arguments = (security or Security()).get_connection_args("client")
    async with asyncio.timeout(ANSWER_SECONDS):
        async with rpc(address, connection_args=arguments) as scheduler:
            await scheduler.identity()


def _address_in(path: Path, seconds: float) -> str:
    """Return the address that a scheduler wrote into its file; for so many seconds the file need not be there yet."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return str(json.loads(path.read_text())["address"])
        except (ValueError, KeyError, TypeError):
            reason = "not a file that dask scheduler --scheduler-file writes"
        except OSError as error:
            reason = error.strerror or "cannot be read"
        if time.monotonic() > deadline:
            raise InputError(f"--cluster file:{path}: {reason}")
        time.sleep(0.2)


def wait_for_a_worker(client: Client, name: str, seconds: float) -> None:
    """Wait until there is a worker.

    Raises
    ------
    InputError
        If there is none after so many seconds.
    """
    deadline = time.monotonic() + seconds
    while not workers_of(client):
        if time.monotonic() > deadline:
            raise InputError(
                f"--cluster {name}: the scheduler has no workers after {seconds:g} seconds; start some "
                f"(docs/clusters.md), or wait longer with --cluster-option wait={10 * seconds:g}"
            )
        time.sleep(0.1)
