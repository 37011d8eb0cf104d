"""Memory that a process has freed and will ask for again: keep it."""

from __future__ import annotations

import ctypes
import sys

KEPT_BYTES = 32 << 20
"""What is kept at most; the largest value that the C library takes for the second setting."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def keep_freed_memory() -> bool:
    """Let this process keep up to 32 MiB of freed memory in each of its threads. Returns whether that is possible.

    Dask starts workers with a limit of 64 KiB, so that they return all they can. Then each array of a megabyte is
    new memory, whose pages the kernel must find and clear: mapping rows to cells took half as long again. With the
    GNU C library only; others decide for themselves.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return False
    return all([mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES), mallopt(_M_MMAP_THRESHOLD, KEPT_BYTES)])
