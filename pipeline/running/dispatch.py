"""Send tasks to a Dask cluster, a bounded number at a time, and cope with workers that die."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Protocol

import dask
from dask.utils import key_split
from distributed import CancelledError, Client, Future, wait
from distributed.comm import CommClosedError

from pipeline.errors import ClusterLost, InputError
from pipeline.record_types import TaskRecord
from pipeline.running.measured import measured
from pipeline.running.side_by_side import TimeLimitReached, stop_on_request
from pipeline.running.workers import workers_of

IN_FLIGHT_PER_WORKER = 3
"""Most tasks that a worker is sent at a time: no worker waits for the client, and nothing piles up."""
AHEAD_SECONDS = 0.5
"""Seconds of work that a worker is to have in hand. Long tasks go out one at a time, each to the first free worker."""
LOOK_SECONDS = 1.0
"""Seconds between looks, while no task finishes, at whether there are workers and whether to stop."""
ARRIVAL_SECONDS = 0.1
"""Seconds between looks while rows may arrive that a task could begin with."""
SETTLE_SECONDS = 0.5
"""Seconds after which a cancelled task that was on its way to a worker has begun there, or never will."""
LOSSES = 3
"""Number of workers that may die on a task before it is given up."""
LOST_SECONDS = 60.0
"""Seconds without any worker after which a run is given up; Dask replaces a worker that died within seconds."""

CONNECTION_LOST = (
    "the connection to the scheduler was lost; give the same command again: it goes on where the run stopped"
)

LARGE = {"distributed.admin.large-graph-warning-threshold": "1GB"}
"""Dask configuration in which it does not warn of a task that is known to be large."""


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
        Whether the arguments cannot be small, as the names of very many columns.
    ordered : bool
        Whether tasks before it that are at work are waited for when it fails, as the first of several failures is the
        one to raise: a file with two faults is refused for the first of them, however many workers there are.
    """

    name: str
    args: tuple[object, ...]
    worker: str | None = None
    large: bool = False
    ordered: bool = False


def run_tasks[R: TaskRecord](
    client: Client,
    key: str,
    function: Callable[..., R],
    tasks: Sequence[Task],
    stop: Callable[[], bool] | None = None,
) -> Iterator[tuple[Task, R]]:
    """Run ``function(*task.args)`` for every task and yield each as it finishes; only then are more submitted.

    Nothing is written down: the caller keeps what has to survive an interruption. Leaving the loop early cancels the
    tasks that are still running.

    Parameters
    ----------
    key : str
        Prefix of the tasks: the stage, a dash, and eight hexadecimal digits. Dask's dashboard groups by the stage.
    stop : callable, optional
        Called before the first task and every second from then on: once it returns True, the remaining tasks are given
        up.

    Raises
    ------
    ClusterLost
        If there has been no worker for ``LOST_SECONDS``, or the connection to the scheduler was lost.
    """
    if stop is not None and stop():
        return
    waiting = deque(tasks)
    running: dict[Future[R], Task] = {}
    # Nobody knows yet how long a task takes; those with a worker of their own need not be shared out.
    at_home = any(task.worker for task in tasks)
    in_flight = IN_FLIGHT_PER_WORKER if at_home else 1
    n_done, seconds = 0, 0.0
    watch, stage = Watch(client), key_split(key)

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
        while waiting:
            # The last ones go to who is free: in hand of one worker, they would wait while another has nothing to do.
            ahead = in_flight if at_home or len(waiting) > IN_FLIGHT_PER_WORKER * workers else 1
            if len(running) >= ahead * workers:
                break
            submit(waiting.popleft())

    fill()
    try:
        while running:
            done = next_done(client, running, watch, LOOK_SECONDS)
            if not done:
                fill()
            for future in done:
                if future.status == "error" and running[future].ordered:
                    _raise_first(running, future)
                task = running.pop(future)
                record = result_of(future)
                n_done, seconds = n_done + 1, seconds + record["seconds"]
                if task.worker is None:
                    in_flight = 1 + min(IN_FLIGHT_PER_WORKER - 1, int(AHEAD_SECONDS * n_done / max(seconds, 1e-9)))
                fill()
                # Not before: the client sends messages ten milliseconds apart, so that the next task would wait.
                future.release()
                yield task, record
            if running and stop is not None and stop():
                _end_running(client, running)
                return
    except TimeLimitReached:
        _end_running(client, running)
        raise
    finally:
        _give_up(client, running)


class Work[R: TaskRecord](Protocol):
    """Tasks that cannot all start at once: they wait for each other, or for rows to arrive."""

    def more(self) -> bool:
        """Return whether tasks may still become ready although none is running now."""

    def ready(self) -> Iterable[tuple[Callable[..., R], Task]]:
        """Return the functions and tasks that may begin now and were not returned before."""

    def lost(self, task: Task) -> None:
        """Note that the task's worker is gone; the task has to be returned again, with another worker."""


def run_ready[R: TaskRecord](client: Client, key: str, work: Work[R]) -> Iterator[tuple[Task, R]]:
    """Run tasks as they become ready; yield each as it finishes. The end is reached when no task runs or can come.

    A task that names a worker is done by no other worker: Dask must not move it away from what it needs.

    Raises
    ------
    ClusterLost
        If there has been no worker for ``LOST_SECONDS``, or the connection to the scheduler was lost.
    InputError
        If several workers have died on the same task.
    """
    running: dict[Future[R], Task] = {}
    watch, losses, stage = Watch(client), Counter[str](), key_split(key)
    spent: list[Future[R]] = []
    try:
        while True:
            more = work.more()  # called before ready(): else rows that come in between would be missed at the end
            for function, task in work.ready():
                name = f"{key}-{task.name}-{time.time_ns()}"
                home = {"workers": [task.worker]} if task.worker else {}
                future = client.submit(measured, function, task.args, stage, key=name, pure=False, **home)
                running[future] = task
            # Not before: the client sends messages ten milliseconds apart, so that these tasks would wait.
            for future in spent:
                future.release()
            spent.clear()
            if not running and not more:
                return
            for future in next_done(client, running, watch, ARRIVAL_SECONDS if more else LOOK_SECONDS):
                task = running.pop(future)
                record = result_of(future)
                spent.append(future)
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
        _give_up(client, running)


def _give_up[R](client: Client, running: Mapping[Future[R], Task]) -> None:
    """Cancel futures; a client that is closed has none."""
    if client.scheduler is not None:
        client.cancel(list(running), force=True)


def _raise_first[R](running: Mapping[Future[R], Task], failed: Future[R]) -> None:
    """Raise the error of the first task that fails among those that were submitted before a failed one."""
    for future in takewhile(lambda future: future is not failed, running):
        # Without workers there is nothing to wait for, and of a scheduler that is gone the failed task will tell.
        with suppress(TimeoutError, CancelledError):
            future.result(timeout=lost_seconds())


def _without_worker[R](running: Mapping[Future[R], Task], watch: Watch) -> list[Future[R]]:
    """Return the futures whose task names a worker that is gone.

    Tasks may already name a worker that has joined since the last look: a worker that seems to be gone is looked for
    again. Where there are no workers at all, their tasks wait for them.
    """

    def missing(workers: Collection[str]) -> list[Future[R]]:
        return [future for future, task in running.items() if workers and task.worker and task.worker not in workers]

    return missing(watch.look(now=True)) if missing(watch.look()) else []


def _end_running[R](client: Client, running: Mapping[Future[R], Task]) -> None:
    """Restart the workers that are at work on the futures.

    A task that is cancelled runs on, as threads cannot be ended; after a time limit that may be for hours. Workers
    without a nanny cannot be started anew: they are left to finish.
    """
    keys = {future.key for future in running}
    client.cancel(list(running), force=True)
    time.sleep(SETTLE_SECONDS)
    at_work = [worker for worker, stacks in client.call_stack().items() if keys & stacks.keys()]
    with suppress(ValueError):
        client.restart_workers(at_work, raise_for_error=False)


def worker_addresses(client: Client) -> list[str]:
    """Return the addresses of the workers that there are now, sorted."""
    return sorted(workers_of(client))


def tasks_of_a_host(client: Client, n_tasks: int) -> int:
    """Return how many of so many tasks run at the same time on the machine that has the most of them."""
    hosts = Counter(worker["host"] for worker in workers_of(client).values())
    return max(1, min(-(-n_tasks // max(1, len(hosts))), max(hosts.values(), default=1)))


def lost_seconds() -> float:
    """Return the seconds without workers after which a run gives up; Dask's configuration may allow more."""
    return float(dask.config.get("ikmap.lost-seconds", LOST_SECONDS))


def most_workers() -> int:
    """Return how many workers a cluster that grows with its work may have (Dask's configuration)."""
    return int(dask.config.get("ikmap.most-workers", 0))


def check_connection(client: Client) -> None:
    """Refuse a client that Dask has closed, as it has tried in vain to connect to its scheduler anew.

    Raises
    ------
    ClusterLost
    """
    if client.scheduler is None:
        raise ClusterLost(CONNECTION_LOST)


class Watch:
    """A look now and then at whether there are workers."""

    def __init__(self, client: Client) -> None:
        check_connection(client)
        self._client = client
        self._looked = self._last_seen = time.monotonic()
        self._there: Collection[str] = workers_of(client)

    def alive(self) -> None:
        """Note that a task has been done, so that there are workers."""
        self._last_seen = time.monotonic()

    def look(self, *, now: bool = False) -> Collection[str]:
        """Return the addresses of the workers, as of the last look or (`now`) as of now.

        Raises
        ------
        ClusterLost
            If there has been no worker for ``LOST_SECONDS``.
        """
        time_now = time.monotonic()
        if now or time_now - self._looked >= LOOK_SECONDS:
            self._looked = time_now
            self._there = workers_of(self._client)
            if self._there:
                self._last_seen = time_now
            if time_now - self._last_seen > lost_seconds():
                raise ClusterLost(
                    f"the cluster has had no workers for {lost_seconds():g} seconds, expected at least one; "
                    "the same command goes on where the run stopped"
                )
        return self._there


def next_done[R](client: Client, running: Collection[Future[R]], watch: Watch, patience: float) -> list[Future[R]]:
    """Wait for up to `patience` seconds and return the futures that are done by then, in order of submission.

    Raises
    ------
    ClusterLost
        If there has been no worker for ``LOST_SECONDS``, or the connection to the scheduler was lost.
    KeyboardInterrupt
        If the stage is told to stop.
    """
    stop_on_request()
    check_connection(client)
    if not running:
        time.sleep(patience)
        return []
    if not any(future.done() for future in running):
        try:
            with client.as_current():  # else `wait` asks whatever client is Dask's default
                wait(list(running), timeout=patience, return_when="FIRST_COMPLETED")
        except TimeoutError:
            watch.look()
            return []
        except CancelledError as error:
            raise ClusterLost(CONNECTION_LOST) from error
    done = [future for future in running if future.done()]
    # Dask cancels all futures when it loses the connection; those that we cancel are running no more.
    if any(future.cancelled() for future in done):
        raise ClusterLost(CONNECTION_LOST)
    watch.alive()
    return done


def result_of[R](future: Future[R]) -> R:
    """Wait for a future and return its result.

    Raises
    ------
    ClusterLost
        If the connection to the scheduler was lost before the result was here.
    """
    try:
        return future.result()
    except (CancelledError, CommClosedError) as error:
        if future.status == "error":  # It is the task's own.
            raise
        raise ClusterLost(CONNECTION_LOST) from error
