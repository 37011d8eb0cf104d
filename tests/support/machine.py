"""The machine as a test wants it: its cores, its free memory, its ways to start processes, the packages it has."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from ikmap.learners.sweeps import memory


@contextmanager
def cores(number: int) -> Iterator[None]:
    """Let this process have so many cores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _: set(range(number)), raising=False)
        yield


@contextmanager
def free_memory(kib: int) -> Iterator[None]:
    """Let the system tell that so much memory is free."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "open", lambda *_, **__: io.StringIO(f"MemAvailable: {kib} kB\n"), raising=False)
        yield


@contextmanager
def no_process_to_fork_from() -> Iterator[None]:
    """Have workers spawned, as where the path of temporary files is too long for the address of a socket."""

    def too_long() -> None:
        raise OSError("AF_UNIX path too long")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("multiprocessing.forkserver.ensure_running", too_long)
        yield


@contextmanager
def papers_installed(installed: bool) -> Iterator[None]:
    """Let the package of papers be found, or not be found."""
    package = ModuleType("ikmap_papers")
    package.__spec__ = ModuleSpec("ikmap_papers", None, origin="ikmap_papers/__init__.py")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "ikmap_papers", package if installed else None)
        yield
