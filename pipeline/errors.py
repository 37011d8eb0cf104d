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
