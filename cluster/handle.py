"""What a started or found cluster looks like to the rest of the program."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from dask.utils import format_bytes
from distributed import Client

from cluster._quiet import interrupts_held


@dataclass
class ClusterHandle:
    """A connected client and what is known of its cluster; a context manager.

    Attributes
    ----------
    client
        The Dask client.
    kind
        ``local`` or the scheme of the address (``tcp``, ``tls``).
    workers, threads
        Number of workers, and of their threads together, when the cluster was connected.
    memory_limit
        Bytes per worker (the smallest of them), or None when there is no limit.
    dashboard_link
        URL of the dashboard, or None when there is none.
    """

    client: Client
    kind: str
    workers: int
    threads: int
    memory_limit: int | None
    dashboard_link: str | None
    _stack: ExitStack = field(default_factory=ExitStack, repr=False)

    @classmethod
    def of(cls, client: Client, kind: str, stack: ExitStack) -> Self:
        """The handle of a connected client; it takes over what ``stack`` has to close."""
        found = client.scheduler_info(n_workers=-1)["workers"].values()
        limits = [worker["memory_limit"] for worker in found if worker["memory_limit"]]
        return cls(
            client=client,
            kind=kind,
            workers=len(found),
            threads=sum(worker["nthreads"] for worker in found),
            memory_limit=min(limits, default=None),
            dashboard_link=client.dashboard_link or None,
            _stack=stack.pop_all(),
        )

    def describe(self) -> str:
        """One line for a person: how much of what, and where the dashboard is."""
        workers = f"{self.workers} worker{'s' if self.workers != 1 else ''}"
        threads = f"{self.threads} thread{'s' if self.threads != 1 else ''}"
        memory = f", {format_bytes(self.memory_limit)} each" if self.memory_limit else ""
        dashboard = f", dashboard {self.dashboard_link}" if self.dashboard_link else ""
        return f"{self.kind} cluster: {workers}, {threads}{memory}{dashboard}"

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
