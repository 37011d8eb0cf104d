"""The memory that a task may take on its worker, and the error for more."""

from __future__ import annotations

import psutil

from pipeline.errors import DoesNotFit

PROCESS_BYTES = 400 << 20
"""Bytes of an idle worker with its libraries and compiled loops."""
USABLE = 0.9
"""Usable share of a worker's limit: at 0.95 Dask ends the worker, and earlier tasks' memory is not freed at once."""


def worker_limit() -> int | None:
    """Return the memory limit of the Dask worker that runs this task, in bytes, or None without limit or worker."""
    from distributed import get_worker

    try:
        limit = get_worker().memory_manager.memory_limit
    except ValueError:
        return None
    return int(limit) if limit else None


def room() -> float:
    """Return the bytes that this process may still take: those left of its worker's limit, or of the machine."""
    limit = worker_limit()
    if limit is None:
        return float(psutil.virtual_memory().available)
    return max(0.0, USABLE * limit - int(psutil.Process().memory_info().rss))


def refusal(who: str, needed: float, limit: int, less: str) -> DoesNotFit:
    """Return the error for work that needs more memory than a worker has.

    Parameters
    ----------
    who : str
        Name of the work.
    needed, limit : number
        Bytes.
    less : str
        Option or part of the run that could be given up.
    """
    return DoesNotFit(
        f"{who} would need about {size(needed)}, found a limit of {size(limit)}, "
        f"of which nine tenths can be used; give fewer --workers, a larger --memory-limit, or {less}"
    )


def size(n: float) -> str:
    """Return a number of bytes as text, for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if n < 1000:
            return f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} TB"
