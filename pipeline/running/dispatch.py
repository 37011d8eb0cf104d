"""Send tasks to a Dask cluster, a bounded number at a time, and cope with workers that die."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

import dask
from dask.utils import key_split
from distributed import Client, Future, wait

from pipeline.errors import InputError
from pipeline.record_types import Record
from pipeline.running.measured import measured
from pipeline.running.side_by_side import TimeLimitReached, stop_on_request

IN_FLIGHT_PER_WORKER = 3
"""At most: enough that no worker waits for the client, few enough that nothing piles up."""
AHEAD_SECONDS = 0.5
"""Work that a worker is to have in hand. Long tasks are handed out one at a time, each to the first that is free."""
LOOK_SECONDS = 1.0
"""How often, while no task finishes, to look whether there are workers and whether to stop."""
ARRIVAL_SECONDS = 0.1
"""The same, while rows may arrive that a task could begin with."""
SETTLE_SECONDS = 0.5
"""After a task is cancelled: if it was on its way to a worker, it has begun there by then, or never will."""
LOSSES = 3
"""So many workers may die on a task before it is given up."""
LOST_SECONDS = 60.0
"""Without any worker for so long, a run is given up; Dask starts a worker that died again within seconds."""

LARGE = {"distributed.admin.large-graph-warning-threshold": "1GB"}
"""Has Dask not warn of a task that is known to be large."""


@dataclass(frozen=True)
class Task:
    """A unit of work: written whole and idempotently, so that it can be done again at any time.

    Attributes
    ----------
    name : str
        Unique within the stage; the name of its record.
    args : tuple
        Small, picklable arguments.
    worker : str, optional
        Address of the worker that should do it, as it holds what the task needs; another may.
    large : bool
        Whether the arguments are not small, and cannot be: the names of very many columns.
    """

    name: str
    args: tuple[object, ...]
    worker: str | None = None
    large: bool = False


def run_tasks(
    client: Client,
    key: str,
    function: Callable[..., Record],
    tasks: Sequence[Task],
    stop: Callable[[], bool] | None = None,
) -> Iterator[tuple[Task, Record]]:
    """Run ``function(*task.args)`` for every task and yield each as it finishes; only then are more submitted.

    Nothing is written down: what has to survive an interruption is the caller's matter. Leaving the loop early
    cancels what is still running.

    Parameters
    ----------
    key : str
        Prefix of the tasks: the stage, a dash, and eight hexadecimal digits. Dask's dashboard groups by the stage.
    stop : callable, optional
        Asked before the first task and every second from then on: once it says so, what is not done is given up.
    """
    if stop is not None and stop():
        return
    waiting = iter(tasks)
    running: dict[Future[Record], Task] = {}
    # Nobody knows yet how long a task takes; those with a worker of their own need not be shared out.
    in_flight = IN_FLIGHT_PER_WORKER if any(task.worker for task in tasks) else 1
    n_done, seconds = 0, 0.0
    watch, stage = _Watch(client), key_split(key)

    def submit(task: Task) -> None:
        # Impure, with a key of its own in every attempt: Dask must never answer from an earlier run's result.
        name = f"{key}-{task.name}-{time.time_ns()}"
        home = {"workers": [task.worker], "allow_other_workers": True} if task.worker else {}
        with dask.config.set(LARGE) if task.large else nullcontext():
            future = client.submit(measured, function, task.args, stage, key=name, pure=False, **home)
        running[future] = task

    def fill() -> None:
        # Workers may come at any time; an adaptive cluster asks for as many as there are tasks in sight.
        workers = max(1, len(watch.look()), most_workers())
        for task in islice(waiting, max(0, in_flight * workers - len(running))):
            submit(task)

    fill()
    try:
        while running:
            done = _next_done(client, running, watch, LOOK_SECONDS)
            if not done:
                fill()
            for future in done:
                task = running.pop(future)
                record = future.result()
                future.release()
                n_done, seconds = n_done + 1, seconds + record["seconds"]
                if task.worker is None:
                    in_flight = 1 + min(IN_FLIGHT_PER_WORKER - 1, int(AHEAD_SECONDS * n_done / max(seconds, 1e-9)))
                fill()
                yield task, record
            if running and stop is not None and stop():
                _end_running(client, running)
                return
    except TimeLimitReached:
        _end_running(client, running)
        raise
    finally:
        client.cancel(list(running), force=True)


class Work(Protocol):
    """Tasks that cannot all start at once: they wait for each other, or for rows to arrive."""

    def more(self) -> bool:
        """Whether tasks may still become ready although none is running now."""

    def ready(self) -> Iterable[tuple[Callable[..., Record], Task]]:
        """The functions and tasks that may begin now and were not returned before."""

    def lost(self, task: Task) -> None:
        """Note that the task's worker is gone; the task has to be returned again, with another worker."""


def run_ready(client: Client, key: str, work: Work) -> Iterator[tuple[Task, Record]]:
    """Run tasks as they become ready; yield each as it finishes. The end is reached when nothing runs or can come.

    A task that names a worker is done by that one and by no other: Dask must not move it away from what it needs.

    Raises
    ------
    InputError
        If there has been no worker for ``LOST_SECONDS``, or several have died on the same task.
    """
    running: dict[Future[Record], Task] = {}
    watch, losses, stage = _Watch(client), Counter[str](), key_split(key)
    try:
        while True:
            more = work.more()  # asked before what is ready: else what comes in between would be the end
            for function, task in work.ready():
                name = f"{key}-{task.name}-{time.time_ns()}"
                home = {"workers": [task.worker]} if task.worker else {}
                future = client.submit(measured, function, task.args, stage, key=name, pure=False, **home)
                running[future] = task
            if not running and not more:
                return
            for future in _next_done(client, running, watch, ARRIVAL_SECONDS if more else LOOK_SECONDS):
                task = running.pop(future)
                record = future.result()
                future.release()
                yield task, record
            for future in _without_worker(running, watch):
                task = running.pop(future)
                client.cancel([future], force=True)
                losses[task.name] += 1
                if losses[task.name] > LOSSES:
                    raise InputError(
                        f"workers died again and again in {key.partition('-')[0]}, {task.name}: killed, for memory "
                        "perhaps, or crashed; try fewer --workers or a larger --memory-limit, then the same command "
                        "again"
                    )
                work.lost(task)
    except TimeLimitReached:
        _end_running(client, running)
        raise
    finally:
        client.cancel(list(running), force=True)


def _without_worker(running: Mapping[Future[Record], Task], watch: _Watch) -> list[Future[Record]]:
    """Futures whose task names a worker that is gone.

    A worker that has joined since the last look is not in its answer, though tasks may name it already: who seems to
    be gone is looked for again. Where there are no workers at all, their tasks wait for them.
    """

    def missing(there: Collection[str]) -> list[Future[Record]]:
        return [future for future, task in running.items() if there and task.worker and task.worker not in there]

    return missing(watch.look(now=True)) if missing(watch.look()) else []


def _end_running(client: Client, running: Mapping[Future[Record], Task]) -> None:
    """Restart the workers that are at work on these futures.

    A task that is cancelled runs on, as threads cannot be ended; after a time limit that may be for hours. Workers
    without a nanny cannot be started anew: they are left to finish.
    """
    keys = {future.key for future in running}
    client.cancel(list(running), force=True)
    time.sleep(SETTLE_SECONDS)
    at_work = [worker for worker, stacks in client.call_stack().items() if keys & stacks.keys()]
    with suppress(ValueError):
        client.restart_workers(at_work, raise_for_error=False)


def lost_seconds() -> float:
    """Seconds without workers after which a run gives up; Dask's configuration allows more where workers queue."""
    return float(dask.config.get("ikmap.lost-seconds", LOST_SECONDS))


def most_workers() -> int:
    """The most workers to which a cluster that grows with its work may grow (Dask's configuration)."""
    return int(dask.config.get("ikmap.most-workers", 0))


class _Watch:
    """Looks now and then whether there are workers."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._looked = self._last_seen = time.monotonic()
        self._there: Collection[str] = client.scheduler_info(n_workers=-1)["workers"]

    def alive(self) -> None:
        """Note that a task has been done, so that there are some."""
        self._last_seen = time.monotonic()

    def look(self, *, now: bool = False) -> Collection[str]:
        """Addresses of the workers that there were when it looked last; or that there are now.

        Raises
        ------
        InputError
            If there has been none for ``LOST_SECONDS``.
        """
        time_now = time.monotonic()
        if now or time_now - self._looked >= LOOK_SECONDS:
            self._looked = time_now
            self._there = self._client.scheduler_info(n_workers=-1)["workers"]
            if self._there:
                self._last_seen = time_now
            if time_now - self._last_seen > lost_seconds():
                raise InputError(
                    f"the cluster has had no workers for {lost_seconds():g} seconds, expected at least one; "
                    "the same command goes on where the run stopped"
                )
        return self._there


def _next_done(
    client: Client, running: Mapping[Future[Record], Task], watch: _Watch, patience: float
) -> list[Future[Record]]:
    """Wait up to so many seconds and return the futures that are done by then, in order of submission.

    Raises
    ------
    InputError
        If there has been no worker for ``LOST_SECONDS``.
    KeyboardInterrupt
        If the stage is told to stop.
    """
    stop_on_request()
    if not running:
        time.sleep(patience)
        return []
    try:
        with client.as_current():  # else `wait` asks whatever client is Dask's default
            done = wait(list(running), timeout=patience, return_when="FIRST_COMPLETED").done
    except TimeoutError:
        watch.look()
        return []
    watch.alive()
    return [future for future in running if future in done]
