"""Check what Arrow has read: a batch from outside is validated in full before anything looks into it.

Arrow takes lengths, offsets and codes of a file on trust, and reads memory that is not there where they are wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pyarrow as pa

from pipeline.errors import InputError, in_one_line

ARROW_FAILURES = (
    pa.ArrowException, OSError, MemoryError, UnicodeDecodeError, NotImplementedError, LookupError, ValueError,
    OverflowError,
)  # fmt: skip
"""Exceptions that Arrow raises about damaged files, beside its own ones."""


@contextmanager
def arrow_failures(where: str, what: str = "damaged", hint: str = "; copy or download it again") -> Iterator[None]:
    """Turn what Arrow raises about a file into one line: where, what it is, Arrow's words, and what to do.

    Raises
    ------
    InputError
    """
    try:
        yield
    except MemoryError as error:
        raise InputError(
            f"{where}: {what}: it asks for more memory than there is ({in_one_line(error)}){hint}"
        ) from error
    except ARROW_FAILURES as error:
        raise InputError(f"{where}: {what}: {in_one_line(error)}{hint}") from error


def checked_batch[Batch: pa.RecordBatch | pa.Table](where: str, read: Callable[[], Batch | None]) -> Batch | None:
    """Read a record batch or a table, and validate all of its lengths, offsets, codes and text.

    Parameters
    ----------
    where : str
        The file and the batch or row group, for messages.
    read : callable
        Returns the batch, or None after the last one.

    Raises
    ------
    InputError
        The batch cannot be read, or does not hold what it says.
    """
    with arrow_failures(where):
        batch = read()
        if batch is not None:
            batch.validate(full=True)
        return batch
