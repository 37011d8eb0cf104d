"""A started or found cluster, as the rest of the program sees it."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
from dask.utils import format_bytes
from distributed import Client

from cluster._quiet import interrupts_held
from cluster.closed import link_to_pages
from pipeline.running.workers import workers_of
from pipeline.urls import apart

LOOPBACK = "127.0.0.1"
LOCAL_PORT = 8787
"""Port of the dashboard, at the near end of a tunnel."""


def nearest(host: str, port: int) -> str:
    """The name by which a host's port is reached from here: loopback for what listens there only, on this machine.

    Dask knows the host of a process but not where its dashboard listens.
    """
    own = {address.address for addresses in psutil.net_if_addrs().values() for address in addresses}
    if host in own:
        for known in (host, LOOPBACK):
            with suppress(OSError), socket.create_connection((known, port), timeout=1):
                return known
    return host


def _nearest_link(link: str | None) -> str | None:
    parts = apart(link or "")
    if not link or not parts.host or not parts.port:
        return link or None
    return str(parts._replace(host=nearest(parts.host, parts.port)))


def _tunnel(link: str | None) -> str | None:
    """The ssh command for a dashboard: on this host when it listens on loopback, else on its own."""
    parts = apart(link or "")
    if not parts.host or not parts.port:
        return None
    here = parts.host in ("localhost", LOOPBACK, "::1")
    return f"ssh -L {LOCAL_PORT}:{LOOPBACK}:{parts.port} {socket.gethostname() if here else parts.host}"


@dataclass
class ClusterHandle:
    """A connected client and what is known of its cluster; a context manager.

    Attributes
    ----------
    client
        The Dask client.
    kind
        That of `cluster.settings.KINDS`, or the scheme of the address (``tcp``, ``tls``).
    workers, threads
        Number of workers, and of their threads together, when the cluster was connected.
    memory_limit
        Bytes per worker (the smallest of them), or None when there is no limit.
    dashboard_link
        URL of the dashboard, or None when there is none. Whoever knows it may look.
    tunnel
        Command that brings a dashboard to another machine, as ``http://localhost:8787``; None where it is no use.
    note
        File of this user's alone, in which ``dashboard_link`` stands as long as the cluster lives.
    """

    client: Client
    kind: str
    workers: int
    threads: int
    memory_limit: int | None
    dashboard_link: str | None
    tunnel: str | None = None
    note: Path | None = None
    _stack: ExitStack = field(default_factory=ExitStack, repr=False)

    @classmethod
    def of(cls, client: Client, kind: str, stack: ExitStack, folder: Path | None = None) -> Self:
        """The handle of a connected client; it takes over what ``stack`` has to close, ``folder`` perhaps.

        Where ``folder`` is given, the address of the dashboard is written down in it.
        """
        workers = workers_of(client).values()
        limits = [worker["memory_limit"] for worker in workers if worker["memory_limit"]]
        link = link_to_pages(_nearest_link(client.dashboard_link), client.scheduler_info())
        note = None
        if link is not None and folder is not None:
            note = folder / "dashboard"
            with open(os.open(note, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(f"{link}\n")
        return cls(
            client=client,
            kind=kind,
            workers=len(workers),
            threads=sum(worker["nthreads"] for worker in workers),
            memory_limit=min(limits, default=None),
            dashboard_link=link,
            tunnel=None if kind in ("local", "cuda") else _tunnel(link),
            note=note,
            _stack=stack.pop_all(),
        )

    @property
    def dashboard_server(self) -> str | None:
        """`dashboard_link` without its path, which others may know."""
        parts = apart(self.dashboard_link or "")
        return parts.server if parts.host else None

    def describe(self) -> str:
        """One line for a person: how much of what, and where the dashboard is.

        A terminal shows its address; in a log, which others may read, stands where the address is written down.
        """
        workers = f"{self.workers} worker{'s' if self.workers != 1 else ''}"
        threads = f"{self.threads} thread{'s' if self.threads != 1 else ''}"
        memory = f", {format_bytes(self.memory_limit)} each" if self.memory_limit else ""
        dashboard = f", dashboard {self.dashboard_link}" if self.dashboard_link else ""
        if self.note is not None and not sys.stderr.isatty():
            dashboard = f", dashboard {self.dashboard_server}, full address in {self.note}"
        tunnel = f" (from elsewhere: {self.tunnel})" if self.tunnel else ""
        return f"{self.kind} cluster: {workers}, {threads}{memory}{dashboard}{tunnel}"

    def record(self) -> dict[str, Any]:
        """The ``run.cluster`` entry of metrics.json."""
        return {"kind": self.kind, "workers": self.workers, "threads": self.threads}

    def close(self) -> None:
        """Disconnect, and stop what was started for this handle. Safe to call twice."""
        with interrupts_held():
            self._stack.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
