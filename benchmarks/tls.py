"""What encryption costs: short tasks, and the start of a cluster, with TLS and without."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial

import psutil
from distributed import Client

from benchmarks.harness import Case, Options, Row
from cluster import certificates, connect

TITLE = "TLS"
ABOUT = (
    "a local cluster of two workers that speaks TLS, as by default, against one that does not (tls=off), in turns: "
    "tasks that sleep for 10 ms, and the start up to the first result"
)
TASKS, QUICK_TASKS, SECONDS, WORKERS = 1000, 40, 0.01, 2
OFF = {"TLS": [], "tls=off": ["tls=off"]}


def cases(options: Options) -> Iterator[Case]:
    count = QUICK_TASKS if options.quick else TASKS
    yield Case(text := f"{count} tasks of 10 ms, {WORKERS} workers", rows=partial(tasks, text, count, options))
    yield Case(text := f"start of {WORKERS} workers", rows=partial(start, text, options))


@dataclass
class Measured:
    """Of one side: seconds by the clock, and processor seconds of client, scheduler and workers, of every turn."""

    client: Client
    workers: list[psutil.Process]
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def turn(self, count: int) -> None:
        """Have so many tasks done, and check what they say."""
        spent, began = self._spent(), time.perf_counter()
        found = self.client.gather(self.client.map(slept, range(count), pure=False))
        self.seconds.append(time.perf_counter() - began)
        self.cpu.append(self._spent() - spent)
        assert found == list(range(count))

    def _spent(self) -> float:
        times = [process.cpu_times() for process in (psutil.Process(), *self.workers)]
        return float(sum(found.user + found.system for found in times))


def slept(number: int) -> int:
    time.sleep(SECONDS)
    return number


def tasks(case: str, count: int, options: Options) -> list[Row]:
    """Both clusters live all the time, and have the tasks in turns."""
    with ExitStack() as stack:
        sides = {}
        for name, words in OFF.items():
            client = stack.enter_context(connect("local", workers=WORKERS, options=words)).client
            pids = client.run(os.getpid).values()
            sides[name] = Measured(client, [psutil.Process(pid) for pid in pids])
            sides[name].turn(count)
            sides[name].seconds.clear()
            sides[name].cpu.clear()
        for _ in range(options.repeats):
            for side in sides.values():
                side.turn(count)
    ours, theirs = sides.values()
    row = Row(case, "tls=off", ours.seconds, theirs.seconds, target=1.05, relation="<=")
    row.value = statistics.median(ours.seconds) / statistics.median(theirs.seconds)
    idle = SECONDS / WORKERS
    for name, side in sides.items():
        beyond, cpu = (statistics.median(found) / count for found in (side.seconds, side.cpu))
        row.notes.append(f"{name}: {1e3 * (beyond - idle):.2f} ms a task beyond its own, processor {1e3 * cpu:.2f} ms")
    return [row]


def start(case: str, options: Options) -> list[Row]:
    """One cluster at a time."""
    seconds: dict[str, list[float]] = {name: [] for name in OFF}
    for _ in range(options.repeats):
        for name, words in OFF.items():
            began = time.perf_counter()
            with connect("local", workers=WORKERS, options=words) as cluster:
                cluster.client.submit(slept, 1).result()
                seconds[name].append(time.perf_counter() - began)
    began = time.perf_counter()
    certificates.temporary()
    made = time.perf_counter() - began
    ours, theirs = seconds.values()
    row = Row(case, "tls=off", ours, theirs)
    row.value = statistics.median(ours) / statistics.median(theirs)
    row.notes = [f"certificate and key: {1e3 * made:.2g} ms"]
    row.relation = "<="
    return [row]
