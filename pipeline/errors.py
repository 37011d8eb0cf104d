"""What can go wrong that is not our defect."""

from __future__ import annotations


class InputError(Exception):
    """The user's input or environment is at fault: one line, exit status 2.

    The message names the file, the line or row, the column, what was found and what was expected.
    """


class DoesNotFit(InputError):
    """What was asked for needs more memory than a worker has."""


class NegativeValues(InputError):
    """A learner was given values that its kernel is not defined for."""


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
    """

    def __init__(self, path: str, why: str, *withdrawn: str) -> None:
        super().__init__(path, why, *withdrawn)  # the arguments, so that it can be pickled
        self.path, self.why = path, why
        self.withdrawn = withdrawn or (path,)

    def __str__(self) -> str:
        return f"{self.path} is damaged ({self.why})"
