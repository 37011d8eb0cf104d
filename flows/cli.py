"""The exit status of a command, and the one line that says why."""

from __future__ import annotations

import errno
import gc
import os
import re
import select
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from flows.interrupts import LINE, STATUS, Interrupts, raised
from pipeline.errors import InputError, OnlyPlanned
from pipeline.monitoring.plain_text import printable

DONE, DEFECT, INPUT, INTERRUPTED = 0, 1, 2, STATUS

#: System errors that come from the machine and its settings; any other one is a defect of ours.
_ENVIRONMENT = {
    getattr(errno, name)
    for name in (
        "EACCES", "EDQUOT", "EFBIG", "EHOSTUNREACH", "EIO", "EMFILE", "ENAMETOOLONG", "ENETDOWN",
        "ENETUNREACH", "ENFILE", "ENOMEM", "ENOSPC", "EPERM", "EROFS", "ESTALE", "ETIMEDOUT",
    )
    if hasattr(errno, name)
}  # fmt: skip
_OURS = ("ikmap", "pipeline", "flows", "cluster", "ikmap_papers")


def run_command(main: Callable[[Sequence[str]], int | None], argv: Sequence[str] | None = None) -> int:
    """Run ``main(argv)`` and return the exit status.

    0 done, 2 the user's input or environment is at fault, 1 a defect of ours, 130 interrupted (Ctrl-C or
    SIGTERM). A failure ends in one line on stderr; ``--debug`` in ``argv`` adds the traceback. A reader that
    closes stdout early (``| head``) is no failure.

    A `KeyboardInterrupt` with a text carries the command that resumes the run.
    """
    words = sys.argv[1:] if argv is None else argv
    _open_closed_streams()
    interrupts = Interrupts()
    try:
        with raised() as interrupts:
            status = main(words)
            sys.stdout.flush()
    except SystemExit as stop:  # --help
        if isinstance(stop.__context__, BrokenPipeError):  # in this way Rich says so
            return DONE
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or DONE
        return _fail(str(stop.code), DEFECT)
    except OnlyPlanned as planned:
        print(printable(str(planned)), file=sys.stderr, flush=True)
        return DONE
    except BaseException as error:
        if isinstance(error, BrokenPipeError) and _stdout_is_broken():
            return DONE
        if "--debug" in words:
            with suppress(OSError):
                print(printable(traceback.format_exc(), keep="\n"), file=sys.stderr, flush=True)
        if interrupts.received and not isinstance(error, KeyboardInterrupt):
            error = KeyboardInterrupt()
        return _fail(*_explain(error))
    return status or DONE


def leave(status: int) -> NoReturn:
    """End this process."""
    # Python would look once more for cycles among all that was ever imported: half a second.
    gc.disable()
    gc.freeze()
    sys.exit(status)


def process_began() -> float:
    """Return the time at which this process was started, in seconds since the epoch."""
    try:
        # psutil counts from the start of the machine in whole seconds, so its answer can be one second wrong.
        started = float(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return time.time() - (time.clock_gettime(time.CLOCK_BOOTTIME) - started / os.sysconf("SC_CLK_TCK"))
    except (OSError, AttributeError):  # not Linux
        import psutil

        return float(psutil.Process().create_time())


def _explain(error: BaseException) -> tuple[str, int]:
    """The line and the exit status for ``error``."""
    if isinstance(error, InputError):
        return f"error: {error}", INPUT
    if isinstance(error, KeyboardInterrupt):
        return f"interrupted; {error} to resume" if str(error) else LINE, INTERRUPTED
    if isinstance(error, MemoryError):
        detail = f" ({error})" if str(error) else ""
        return (
            f"error: out of memory{detail}; give fewer --workers; flows.batch and flows.online also take a smaller "
            "--shard-rows",
            INPUT,
        )
    if isinstance(error, OSError) and error.errno in _ENVIRONMENT:
        where = f"{error.filename}: " if error.filename else ""
        return f"error: {where}{error.strerror}", INPUT
    if isinstance(error, ModuleNotFoundError) and (error.name or "").split(".")[0] not in _OURS:
        return f"error: package {error.name} is missing; pip install 'ikmap[pipeline]'", INPUT
    from pipeline.package_faults import fault_of_package

    if fault := fault_of_package(error):
        return f"error: {fault}", INPUT
    if _is_killed_worker(error):
        stage = str(error).partition("task '")[2].partition("-")[0].replace("_", ":") or "a stage"
        return (
            f"error: workers died again and again in {stage}: killed, for memory perhaps, or crashed; try fewer "
            "--workers or a larger --memory-limit, then the same command again",
            INPUT,
        )
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"internal error: {text}; rerun with --debug for the traceback", DEFECT


def _is_killed_worker(error: BaseException) -> bool:
    # Not imported here: where distributed was never loaded, nothing can have raised it.
    distributed = sys.modules.get("distributed")
    return distributed is not None and isinstance(error, distributed.KilledWorker)


def _fail(line: str, status: int) -> int:
    with suppress(OSError):  # nobody reads stderr: the status still tells
        print(printable(re.sub(r"[ \t\r\n]+", " ", line)), file=sys.stderr, flush=True)
    return status


def _open_closed_streams() -> None:
    """Let what a process was started without (``2>&-``) go nowhere, and not into the next file that is opened."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # The lowest number that is free, which is that of the stream.
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - open as long as the process


def _stdout_is_broken() -> bool:
    """Return whether nobody reads stdout any more; text that is still buffered for it is then dropped."""
    try:
        number = sys.stdout.fileno()
    except (OSError, ValueError):
        return False
    pipe = select.poll()
    pipe.register(number, 0)  # errors are always reported
    if not any(event & select.POLLERR for _, event in pipe.poll(0)):
        return False
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)
    return True
