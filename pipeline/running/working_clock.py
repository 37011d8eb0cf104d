"""A clock that stands still while loops are compiled, so that a new installation measures the same seconds."""

from __future__ import annotations

import time

from numba.core.event import Event, Listener, register


class _Compiler(Listener):
    """The time that Numba's compiler, or its cache on disk, was at work; its lock lets one thread in."""

    def __init__(self) -> None:
        self._seconds = self._since = 0.0
        self._depth = 0
        self.compiled: list[str] = []

    def on_start(self, event: Event) -> None:
        if self._depth == 0:
            self._since = time.perf_counter()
            if event.data and "dispatcher" in event.data:
                function, args = event.data["dispatcher"].py_func, event.data["args"]
                self.compiled.append(f"{function.__module__}.{function.__qualname__}{args}")
        self._depth += 1

    def on_end(self, event: Event) -> None:  # noqa: ARG002
        self._depth -= 1
        if self._depth == 0:
            self._seconds += time.perf_counter() - self._since

    def seconds(self, now: float) -> float:
        return self._seconds + (now - self._since if self._depth else 0.0)


_compiler, _compilations = _Compiler(), _Compiler()
register("numba:compiler_lock", _compiler)
register("numba:compile", _compilations)


def working_clock() -> float:
    """Return the seconds without compiling in this process since some moment: only differences are meaningful."""
    now = time.perf_counter()
    return now - _compiler.seconds(now)


def compiling() -> tuple[float, int]:
    """Return the seconds that this process has compiled loops that no cache held, and the number of these loops."""
    return _compilations.seconds(time.perf_counter()), len(_compilations.compiled)


def compiled_since(n: int) -> list[str]:
    """Return names and types of the loops that this process has compiled, without the first n."""
    return _compilations.compiled[n:]
