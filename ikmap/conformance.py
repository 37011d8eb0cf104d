"""Checks of methods, tasks and metrics: one thing that an object has to do, and one line for each fault."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import getattr_static
from pathlib import Path
from types import TracebackType

import numpy as np


class CheckFailed(AssertionError):
    """A fault: one line with class and member, what was found and what was expected.

    Parameters
    ----------
    text : str
    named : bool
        True if the text names class and member.
    """

    def __init__(self, text: str, named: bool = False) -> None:
        super().__init__(text)
        self.named = named


@dataclass(frozen=True)
class Check:
    """One thing that a method, a task or a metric has to do.

    Attributes
    ----------
    name : str
        Name of the checked method, task or metric.
    title : str
    run : callable
        Raises :class:`CheckFailed` if there is a fault.
    """

    name: str
    title: str
    run: Callable[[], None]

    def __str__(self) -> str:
        return f"{self.name}-{self.title.replace(' ', '_')}"


def faults_of(checks: Iterable[Check]) -> list[str]:
    """Run checks, and return a line for each fault. A fault that several checks meet has one line."""
    faults: dict[str, str] = {}
    for check in checks:
        try:
            check.run()
        except CheckFailed as error:
            faults.setdefault(str(error), f"{check.name}, {check.title}: {error}")
        except Exception as error:  # whatever a stranger's code does wrong
            text = f"{_raised_in(error.__traceback__)}raises {described(error)}"
            faults.setdefault(text, f"{check.name}, {check.title}: {text}")
    return list(faults.values())


@contextmanager
def member(owner: object, name: str) -> Iterator[None]:
    """Name class and member in every fault within the block, also if the member is missing or raises."""
    cls = owner if isinstance(owner, type) else type(owner)
    try:
        getattr_static(owner, name)
    except AttributeError:
        raise CheckFailed(f"{cls.__name__} lacks the member {name}", named=True) from None
    try:
        yield
    except CheckFailed as error:
        raise error if error.named else CheckFailed(f"{cls.__name__}.{name}: {error}", named=True) from None
    except Exception as error:
        raise CheckFailed(f"{cls.__name__}.{name} raises {described(error)}", named=True) from error


def same(values: object, expected: object, subject: str) -> None:
    """Refuse values that differ from those expected in any bit."""
    left, right = np.asarray(values), np.asarray(expected)
    if left.shape != right.shape:
        raise CheckFailed(f"{subject}: found the shape {left.shape}, expected {right.shape}")
    if not np.array_equal(left, right, equal_nan=left.dtype.kind == "f"):
        differs = left != right
        if left.dtype.kind == right.dtype.kind == "f":
            differs &= ~(np.isnan(left) & np.isnan(right))
        place = tuple(map(int, np.argwhere(differs)[0]))
        raise CheckFailed(f"{subject}: found {left[place]} at {place}, expected {right[place]}")


def true(holds: object, text: str) -> None:
    """Raise a fault with this text if a condition does not hold."""
    if not holds:
        raise CheckFailed(text)


def json_values(values: object, subject: str) -> None:
    """Refuse values that JSON does not have, such as arrays and NaN."""
    try:
        json.dumps(values, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CheckFailed(f"{subject}: found {error}, expected JSON values") from None


def described(error: Exception) -> str:
    """Return the type of an error and the first line of its message."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def _raised_in(traceback: TracebackType | None) -> str:
    """Return the class and member that checks called when an error was raised, or "" if the checks raised it."""
    while traceback is not None:
        code = traceback.tb_frame.f_code
        path = Path(code.co_filename)
        if path != Path(__file__) and "checks" not in path.parts:
            return f"{code.co_qualname} "
        traceback = traceback.tb_next
    return ""
