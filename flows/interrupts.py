"""Ctrl-C and SIGTERM: they end a command with status 130 from its first line on, also while modules are imported."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

STATUS = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM)
LINE = "interrupted; run the same command again to resume"
AGAIN_SECONDS = 0.05
_IMPORTS = "<frozen importlib._bootstrap>"
"""Name of the file of Python's import system, as frames have it."""


def end_at_once() -> None:
    """Let a signal end this process at once, with one line: nothing has begun yet, or all is done.

    A `KeyboardInterrupt` would not do: raised while an extension module is imported it becomes an `ImportError`.
    """

    def end(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001
        os.write(2, f"{LINE}\n".encode())
        os._exit(STATUS)

    for number in SIGNALS:
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):  # and is not ignored
            signal.signal(number, end)


class Interrupts:
    """The signals that a command has received.

    Attributes
    ----------
    received : bool
        Whether there was one. Whatever the command raises after that comes of it.
    """

    def __init__(self) -> None:
        self.received = False
        self._number: int = signal.SIGTERM
        self._imports = _imports(sys._getframe())

    def raise_it(self, number: int, frame: FrameType | None) -> None:
        """Raise `KeyboardInterrupt`, in the main thread; while a module is imported, a little later."""
        self.received, self._number = True, number
        if _imports(frame) > self._imports:
            self.send_again()
        else:
            raise KeyboardInterrupt

    def send_again(self) -> None:
        """Have the signal sent again in a moment, to whatever handles it then."""
        signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)

    def send(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """Send the signal again, now."""
        signal.raise_signal(self._number)


def _imports(frame: FrameType | None) -> int:
    """Number of frames that import a module."""
    count = 0
    while frame is not None:
        count += frame.f_code.co_filename == _IMPORTS
        frame = frame.f_back
    return count


_active: Interrupts | None = None


@contextmanager
def raised() -> Iterator[Interrupts]:
    """Raise `KeyboardInterrupt` for both signals, so that workers are stopped and the run stays resumable.

    A signal that is ignored remains so, as Ctrl-C is for a command in the background.
    """
    global _active
    if threading.current_thread() is not threading.main_thread():
        yield Interrupts()
        return
    outer, hook = _active, sys.unraisablehook
    _active = interrupts = outer or Interrupts()  # Prefect handles SIGTERM between the two

    def ignored(what: "sys.UnraisableHookArgs") -> None:
        if what.exc_type is KeyboardInterrupt:  # raised where Python ignores errors, such as in a destructor
            interrupts.send_again()
        else:
            hook(what)

    heeded = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before: dict[int, Any] = {number: signal.signal(number, interrupts.raise_it) for number in heeded}
    before[signal.SIGALRM] = signal.signal(signal.SIGALRM, interrupts.send)
    sys.unraisablehook = ignored
    try:
        yield interrupts
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, handler)
        _active = outer
