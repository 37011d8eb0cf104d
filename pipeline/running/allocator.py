"""Have a process keep the memory that it has freed, as it will soon need it again."""

from __future__ import annotations

import ctypes
import sys

KEPT_BYTES = 32 << 20
"""Most bytes that the heap keeps. Larger arrays are new memory each time."""
ARENAS = 1
"""Number of heaps that threads share. Each keeps the memory that it has freed; workers compute on one thread."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8


def keep_freed_memory() -> bool:
    """Let this process keep up to 32 MiB of freed memory in its heap. Returns whether that is possible.

    Dask starts workers with a limit of 64 KiB, so that they return all memory they can. Then each array of a megabyte
    is new memory, whose pages the kernel must find and clear: mapping rows to cells took half as long again, and ingest
    a quarter with a limit of 2 MiB. It works with the GNU C library only.
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
