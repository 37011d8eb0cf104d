"""How to get a Dask client: one small module per kind of cluster behind `connect`."""

from __future__ import annotations

from cluster.handle import ClusterHandle
from pipeline.errors import InputError

__all__ = ["ClusterHandle", "connect"]

_AVAILABLE = "local, tcp://HOST:PORT, tls://HOST:PORT"
_LATER = ("cuda", "slurm", "kubernetes")


def connect(kind: str = "local", *, workers: int | None = None, memory_limit: str | None = None) -> ClusterHandle:
    """Start a cluster, or connect to a running one.

    Parameters
    ----------
    kind
        ``local``: worker processes on this machine, one thread each; or the address of a running Dask
        scheduler, ``tcp://host:port`` or ``tls://host:port``.
    workers
        Number of worker processes, at least 1; by default one per core this process may use.
    memory_limit
        Memory of each worker, such as ``4GB``; by default an equal share of what is available.

    Returns
    -------
    ClusterHandle
        A context manager; leaving it stops what `connect` started, and nothing else.

    Raises
    ------
    InputError
        For an unknown kind, a number of workers or a memory limit out of range, or a scheduler that does
        not answer.
    """
    # distributed takes a second to import: not before somebody wants a cluster.
    if kind == "local":
        from cluster.local import start

        return start(workers=workers, memory_limit=memory_limit)
    if kind.startswith(("tcp://", "tls://")):
        from cluster.address import attach

        return attach(kind, workers=workers, memory_limit=memory_limit)
    if kind in _LATER:
        raise InputError(f"--cluster: {kind!r} is not available yet; available: {_AVAILABLE}")
    raise InputError(f"--cluster: found {kind!r}, expected one of {_AVAILABLE}")
