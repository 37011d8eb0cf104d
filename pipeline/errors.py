"""What can go wrong that is not our defect."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager


class InputError(Exception):
    """The user's input or environment is at fault: one line, exit status 2.

    The message names the file, the line or row, the column, what was found and what was expected.
    """


class DoesNotFit(InputError):
    """What was asked for needs more memory than a worker has."""


class NegativeValues(InputError):
    """A learner was given values that its kernel is not defined for."""


_NO_ROOM = {getattr(errno, name) for name in ("EDQUOT", "EFBIG", "EIO", "ENOSPC", "EROFS") if hasattr(errno, name)}


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Have a system error of a write that does not go through name what was being written.

    Of a file that is open, the system says "no space left on device" without its name.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in _NO_ROOM:
            error.filename = os.fspath(path)
        raise
