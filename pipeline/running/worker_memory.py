"""How much memory a task may take on its worker, and the error for what would take more."""

from __future__ import annotations

import psutil

from pipeline.errors import DoesNotFit

PROCESS_BYTES = 400 << 20
"""A worker with its libraries and compiled loops loaded and nothing to do."""
USABLE = 0.9
"""Of a worker's limit: at 0.95 of it Dask ends the worker, and what earlier tasks had is not given back at once."""


def worker_limit() -> int | None:
    """Memory limit of the Dask worker that runs this task, in bytes; None: it has none, or this is no worker."""
    from distributed import get_worker

    try:
        limit = get_worker().memory_manager.memory_limit
    except ValueError:
        return None
    return int(limit) if limit else None


def room() -> float:
    """Bytes that this process may still take: what its worker's limit leaves, or else what the machine has free."""
    limit = worker_limit()
    if limit is None:
        return float(psutil.virtual_memory().available)
    return max(0.0, USABLE * limit - int(psutil.Process().memory_info().rss))


def refusal(who: str, needed: float, limit: int, less: str) -> DoesNotFit:
    """The error to raise for what needs more memory than a worker has.

    Parameters
    ----------
    who : str
        What needs it.
    needed, limit : number
        Bytes.
    less : str
        What could be given up.
    """
    return DoesNotFit(
        f"{who} would need about {size(needed)}, found a limit of {size(limit)}, "
        f"of which nine tenths can be used; give fewer --workers, a larger --memory-limit, or {less}"
    )


def size(n: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000:
            return f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} TB"
