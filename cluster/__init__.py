"""Dask clients: one small module per kind of cluster behind `connect`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cluster.settings import ADDRESSES, KINDS, family, resolve
from pipeline.errors import InputError

if TYPE_CHECKING:
    from cluster.handle import ClusterHandle

__all__ = ["ClusterHandle", "connect", "prepare"]

#: What to install for a kind of cluster, by the packages that may be missing.
_EXTRAS = {
    "dask_jobqueue": "slurm",
    "dask_kubernetes": "k8s",
    "kr8s": "k8s",
    "dask_cuda": "gpu",
    "cupy": "gpu",
    "rmm": "gpu",
    "cuda": "gpu",
}


def prepare(kind: str) -> None:
    """Begin what :func:`connect` will need, in another process, while the caller does something else.

    Nothing has to be stopped: it ends with this process.
    """
    if kind == "local":
        from cluster import _forking

        _forking.prepare()


def connect(
    kind: str = "local",
    *,
    workers: int | None = None,
    memory_limit: str | None = None,
    options: Iterable[str] = (),
    say: Callable[[str], None] | None = None,
) -> ClusterHandle:
    """Start a cluster, or connect to a running one.

    Parameters
    ----------
    kind
        ``local``: worker processes on this machine, one thread each; ``cuda``: one for each GPU of this machine;
        ``slurm``: Slurm jobs; ``srun``: in the Slurm allocation that this process runs in; ``kubernetes``: pods;
        or a running Dask scheduler by its address, ``tcp://host:port`` or ``tls://host:port``, or its scheduler
        file, ``file:PATH``.
    workers
        Number of worker processes, at least 1; by default one per core (GPU) this process may use. It wins over a
        ``maximum`` of the environment.
    memory_limit
        Memory of each worker, such as ``4GB``; by default an equal share of what is available here, elsewhere 4 GB.
    options
        Words ``KEY=VALUE``, see `cluster.settings.SETTINGS`; they win over the environment (``IKMAP_CLUSTER_KEY``).
    say
        Called with a line for a person, where something takes long or a cluster is open to others.

    Returns
    -------
    ClusterHandle
        A context manager; leaving it stops what `connect` started, and nothing else.

    Raises
    ------
    InputError
        For an unknown kind, a number of workers, a memory limit or an option that is out of range, a package that
        is not installed, or a scheduler that does not answer.
    """
    if family(kind) not in (*KINDS, "address"):
        available = ", ".join((*KINDS, "tcp://HOST:PORT", "tls://HOST:PORT", "file:PATH"))
        raise InputError(f"--cluster: found {kind!r}, expected one of {available}")
    values = resolve(kind, options, workers=workers)
    try:
        # distributed takes a second to import: not before somebody wants a cluster.
        if kind.startswith(ADDRESSES):
            from cluster.address import attach

            return attach(kind, workers=workers, memory_limit=memory_limit, values=values, say=say or _say_nothing)
        start = import_module(f"cluster.{kind}").start
        handle: ClusterHandle = start(
            workers=workers, memory_limit=memory_limit, values=values, say=say or _say_nothing
        )
        return handle
    except ModuleNotFoundError as error:
        extra = _EXTRAS.get((error.name or "").partition(".")[0])
        if extra is None:
            raise
        other = ", or 'ikmap[gpu13]' with CUDA 13" if extra == "gpu" else ""
        raise InputError(
            f"--cluster {kind}: package {error.name} is missing; pip install 'ikmap[{extra}]'{other}"
        ) from None


def _say_nothing(line: str) -> None:
    pass


def __getattr__(name: str) -> Any:
    if name == "ClusterHandle":
        from cluster.handle import ClusterHandle

        return ClusterHandle
    raise AttributeError(name)
