"""Peak memory of one side of a case, in a process of its own: how far its work lifts the resident set.

Run by `benchmarks.harness.measure_memory`. The case is prepared and warmed, what that left behind is given back to the
system, and then the work is done once while the kernel notes the peak.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import psutil


def growth(work: Callable[[], Any]) -> int:
    """Bytes by which the peak of the resident set exceeds what is resident now, while `work` runs."""
    gc.collect()
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    before = psutil.Process().memory_info().rss
    if _reset_peak():
        result = work()
        peak = _peak()
    else:
        peak, result = _watched(work)
    del result
    grown: int = max(0, peak - before)
    return grown


def _reset_peak() -> bool:
    """Linux: forget the peak so far."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def _peak() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise OSError("/proc/self/status names no VmHWM")


def _watched(work: Callable[[], Any]) -> tuple[int, Any]:
    """Elsewhere: look every millisecond."""
    process, seen, done = psutil.Process(), [0], threading.Event()

    def watch() -> None:
        while not done.is_set():
            seen[0] = max(seen[0], process.memory_info().rss)
            time.sleep(1e-3)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        result = work()
    finally:
        done.set()
        thread.join()
    return seen[0], result


def main(which: str, options: str) -> int:
    """Print the growth for ``[benchmark, case, side]``, all arguments in JSON."""
    from benchmarks.harness import options_from_json

    benchmark, case_name, side_name = json.loads(which)
    module = import_module(f"benchmarks.{benchmark}")
    (case,) = (case for case in module.cases(options_from_json(json.loads(options))) if case.name == case_name)
    work = case.comparison()
    (side,) = (side for side in (work.ours, *work.peers) if side.name == side_name)
    if side is work.ours or side.warm is not None:
        (side.warm or side.work)()
    if side.fresh is not None:
        side.fresh()
    print(growth(side.work))
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
