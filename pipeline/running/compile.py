"""``python -m pipeline.running.compile``: compile all loops for this processor, as an installation does at its end.

It uses as many processes as there are cores, and begins with the loops that take longest; loops that have been compiled
before are left as they are. With words (``python -m pipeline.running.compile anne dense``) it compiles only the loops
of runs that the words describe.
"""

from __future__ import annotations

import multiprocessing
import sys
import time
from collections.abc import Collection
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait

from ikmap._threads import usable_cores
from pipeline.running.compiling import Progress, by_module, compile_jobs, everything, missing


def compile_all(words: Collection[str], processes: int) -> tuple[int, list[str]]:
    """Compile the loops of runs that the words describe; return their number, and those that could not be compiled."""
    from ikmap._compiled_cache import folder, writable

    if not writable():
        return 0, [f"{folder()} cannot be written; NUMBA_CACHE_DIR can name another folder"]
    jobs = missing(words)
    if not jobs:
        return 0, []
    terminal = sys.stderr.isatty()
    failed: list[str] = []

    def say(line: str) -> None:
        print(f"\r{line}\033[K" if terminal else line, end="" if terminal else "\n", file=sys.stderr, flush=True)

    progress = Progress(jobs, say, every=0.5 if terminal else 5.0)
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(processes, len(jobs)), mp_context=spawn) as pool:
        running = {pool.submit(compile_jobs, group): group for group in by_module(jobs)}
        while running:
            for future in wait(running, timeout=0.5, return_when=FIRST_COMPLETED).done:
                group = running.pop(future)
                progress.done(group)
                if error := future.exception():  # of a process that has died
                    failed += [f"{job.name}: {' '.join(str(error).split())[:200]}" for job in group]
                else:
                    failed += future.result()
            progress.tell()
    progress.finish()
    if terminal:
        print(file=sys.stderr)
    return len(jobs), failed


def main(words: Collection[str] = ()) -> int:
    """Compile loops; return the exit status: 2 if a loop could not be compiled, with a line for each."""
    unknown = sorted(set(words) - everything())
    if unknown:
        print(f"error: {unknown[0]}: expected words among {' '.join(sorted(everything()))}", file=sys.stderr)
        return 2
    began = time.monotonic()
    n, failed = compile_all(words or everything(), usable_cores())
    for line in failed:
        print(f"not compiled: {line}", file=sys.stderr)
    if not n and not failed:
        print(f"everything has been compiled before ({time.monotonic() - began:.1f} s)", file=sys.stderr)
    return 2 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
