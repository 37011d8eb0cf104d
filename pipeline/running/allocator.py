"""Have a process keep the memory that it has freed, as it will soon need it again."""

from __future__ import annotations

import ctypes
import sys

KEPT_BYTES = 2 << 20
"""Most bytes that a heap keeps. Larger arrays are new memory each time: kept, they would add up, stage after stage."""
ARENAS = 2
"""Number of heaps that threads share. Each keeps the memory that it has freed, and Zarr has many threads."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8


def keep_freed_memory() -> bool:
    """Let this process keep up to 2 MiB of freed memory in each of its heaps. Returns whether that is possible.

    Dask starts workers with a limit of 64 KiB, so that they return all memory they can. Then each array of a megabyte
    is new memory, whose pages the kernel must find and clear: mapping rows to cells took half as long again. It works
    with the GNU C library only.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return False
    settings = (_M_TRIM_THRESHOLD, KEPT_BYTES), (_M_MMAP_THRESHOLD, KEPT_BYTES), (_M_ARENA_MAX, ARENAS)
    done = [mallopt(name, value) for name, value in settings]
    return all(done)
