"""Errors that are no defect of the program."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager

from pipeline.monitoring.plain_text import printable


class InputError(Exception):
    """The user's input or environment is at fault: one line, exit status 2.

    The message names the file, the line or row, the column, what was found and what was expected. It holds names and
    values of others, and is safe to show whoever shows it: a terminal, a log, a page.
    """

    def __str__(self) -> str:
        return printable(super().__str__())


class UnknownOption(InputError):
    """An option is not known here."""


class UnknownValue(InputError):
    """A value of an option is none of the words that are known here.

    Parameters
    ----------
    message : str
    option : str
        Name of the option.
    """

    def __init__(self, message: str, option: str) -> None:
        super().__init__(message)
        self.option = option


def in_one_line(error: BaseException, most: int | None = 200) -> str:
    """Return what an exception says, in one line of at most so many characters; of one that says nothing, its name."""
    return " ".join(str(error).split())[:most] or type(error).__name__


class ClusterLost(InputError):
    """An error for workers or a scheduler that are gone: the same command goes on where the run stopped."""


class DoesNotFit(InputError):
    """An error for a request that needs more memory than a worker has."""


class NoRows(InputError):
    """A file that can be read, but has no row: one of several may."""


class InvalidValues(InputError):
    """A learner was given values that it cannot take."""


class NegativeValues(InvalidValues):
    """A learner was given negative values, which it cannot take; ``--scale minmax`` makes them non-negative."""


class OnlyPlanned(Exception):
    """A run stopped after its plan, as ``--dry-run`` asks; the message says how it goes on."""


class Damaged(InputError):
    """A stored object is not what was written: a checksum or digest is wrong, or something of it is missing.

    Parameters
    ----------
    path : str
        The object.
    why : str
        What was found, in a few words.
    *withdrawn : str
        Files and directories that are worth nothing without it; default: the object alone.

    Attributes
    ----------
    remedy : str
        What the user can do about it; empty where that is not known yet.
    """

    def __init__(self, path: str, why: str, *withdrawn: str) -> None:
        super().__init__(path, why, *withdrawn)  # the arguments, so that it can be pickled
        self.path, self.why, self.remedy = path, why, ""
        self.withdrawn = withdrawn or (path,)

    def __str__(self) -> str:
        return printable(f"{self.path} is damaged ({self.why}){'; ' * bool(self.remedy)}{self.remedy}")

    def with_remedy(self, remedy: str) -> Damaged:
        """Return the same error, which also tells the user what to do."""
        error = Damaged(self.path, self.why, *self.withdrawn)
        error.remedy = remedy
        return error


_NO_ROOM = {getattr(errno, name) for name in ("EDQUOT", "EFBIG", "EIO", "ENOSPC", "EROFS") if hasattr(errno, name)}


@contextmanager
def writing(path: str | os.PathLike[str]) -> Iterator[None]:
    """Have the error of a write that does not go through name what was being written.

    Of a file that is open the system says "no space left on device" without its name; NumPy says neither.

    Raises
    ------
    OSError
        With the name of the file.
    """
    try:
        yield
    except OSError as error:
        if error.errno is None and " requested and " in str(error):  # "100 requested and 0 written"
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), os.fspath(path)) from error
        if error.filename is None and error.errno in _NO_ROOM:
            # What was written in spite of it, such as a report, does not hide what went wrong first.
            error.filename = _first_named(error) or os.fspath(path)
        raise


def _first_named(error: OSError) -> str | None:
    name, earlier = None, error.__context__
    while earlier is not None:
        if isinstance(earlier, OSError) and earlier.errno == error.errno and earlier.filename:
            name = str(earlier.filename)
        earlier = earlier.__context__
    return name
