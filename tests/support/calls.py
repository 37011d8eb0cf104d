"""Calls of a function, counted as a debugger would, and what is to happen at one of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import pytest

TOOL = 4
"""Number of the tool of :mod:`sys.monitoring`; debuggers, coverage and profilers have others."""


@dataclass
class Calls:
    """The calls of a function, as a debugger counts them."""

    number: int = 0
    notes: list[Any] = field(default_factory=list)


@contextmanager
def counted(
    function: Callable[..., Any],
    at: Callable[[int], None] = lambda _: None,
    note: Callable[[Mapping[str, Any]], Any] = lambda _: None,
    *,
    end: bool = False,
) -> Iterator[Calls]:
    """Count the calls of a Python function, as a debugger would, and do something at each of them.

    Parameters
    ----------
    at : callable
        Called with the number of the call, from 1. What it raises, the function raises.
    note : callable
        Called with the arguments of the call by name; what it returns is noted, what it raises, the function raises.
    end : bool
        Whether it is done as the function returns; else before it begins.
    """
    code: CodeType = function.__code__
    calls, event = Calls(), sys.monitoring.events.PY_RETURN if end else sys.monitoring.events.PY_START

    def come(*_: Any) -> None:
        calls.number += 1
        calls.notes.append(note(sys._getframe(1).f_locals))
        at(calls.number)

    sys.monitoring.use_tool_id(TOOL, "tests")
    try:
        sys.monitoring.register_callback(TOOL, event, come)
        sys.monitoring.set_local_events(TOOL, code, event)
        yield calls
    finally:
        sys.monitoring.set_local_events(TOOL, code, 0)
        sys.monitoring.register_callback(TOOL, event, None)
        sys.monitoring.free_tool_id(TOOL)


@contextmanager
def killed_at(function: Callable[..., Any], call: int = 1, *, end: bool = False) -> Iterator[None]:
    """Expect what is done within to be killed as a function is called for the given time, or at that call's end."""

    with counted(function, kill_at(call), end=end), pytest.raises(KeyboardInterrupt):
        yield


def kill_at(call: int) -> Callable[[int], None]:
    """Return what is to be done at each call so that the given one is killed."""

    def kill(number: int) -> None:
        if number == call:
            raise KeyboardInterrupt

    return kill
