"""A clock that stands still while loops are compiled, so that a new installation measures the same seconds."""

from __future__ import annotations

import time

from numba.core.event import Event, Listener, register


class _Compiler(Listener):
    """Adds up when Numba's compiler, or its cache on disk, was at work in this process; its lock lets one thread in."""

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


_compiler, _made = _Compiler(), _Compiler()
register("numba:compiler_lock", _compiler)
register("numba:compile", _made)


def working_clock() -> float:
    """Seconds that have gone by without compiling in this process, from some moment on: differences mean something."""
    now = time.perf_counter()
    return now - _compiler.seconds(now)


def compiling() -> tuple[float, int]:
    """Seconds that this process has compiled what no cache held, and how many loops that were."""
    return _made.seconds(time.perf_counter()), len(_made.compiled)


def compiled_since(n: int) -> list[str]:
    """Names and types of the loops that this process has compiled, without the first n."""
    return _made.compiled[n:]
