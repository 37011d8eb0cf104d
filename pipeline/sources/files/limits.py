"""Limit the memory of a single row: a file is read in blocks of bounded size, but each row has to be held whole."""

from __future__ import annotations

import sys

from pipeline.errors import InputError

MEBIBYTE = 1 << 20
LONGEST_ROW = 64 * MEBIBYTE
"""Bytes of a row, as a line of text or as numbers, where nobody limits the memory."""
SHARE = 32
"""Bytes of memory of a worker for each byte of its longest row: parsing holds its text, pieces of it, and numbers."""
MOST_COLUMNS = 2_000_000
"""Most columns of a table in text. Every process holds the names of columns, and they stand in the store of the run."""


def longest_row() -> int:
    """Bytes that a row may take in this process."""
    # Where distributed was never loaded, this is no worker.
    if "distributed" not in sys.modules:
        return LONGEST_ROW
    from pipeline.running.worker_memory import worker_limit

    limit = worker_limit()
    return LONGEST_ROW if limit is None else max(MEBIBYTE, min(LONGEST_ROW, limit // SHARE))


def check_row(url: str, n_bytes: int, what: str = "a row") -> None:
    """Refuse rows that take too many bytes.

    Raises
    ------
    InputError
    """
    if n_bytes > longest_row():
        raise InputError(f"{url}: found {what} of {n_bytes:,} bytes, expected at most {longest_row():,}{reason()}")


def reason() -> str:
    """Return the reason for the limit, for the end of a message."""
    return "" if longest_row() == LONGEST_ROW else f", a {SHARE}nd part of --memory-limit"
