"""A client without a cluster: it does every task in this process, here and now."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextvars import Context
from typing import TYPE_CHECKING, TypedDict

from pipeline.record_types import TaskRecord
from pipeline.running.measured import measured

if TYPE_CHECKING:
    from pipeline.running.dispatch import Task, Work

ADDRESS = "in-process"
"""Address of the only worker, which is this process."""
ARRIVAL_SECONDS = 0.01
"""Seconds between looks while rows may arrive that a task could begin with."""


class WorkerInfo(TypedDict):
    """The description of a worker."""

    host: str
    nthreads: int


class InProcess:
    """A client without a cluster: it does every task in this process, one after the other.

    It has those members of a Dask client that runs use, and can take the place of one.
    """

    id = ADDRESS

    def run_tasks[R: TaskRecord](
        self, function: Callable[..., R], tasks: Sequence[Task], stop: Callable[[], bool] | None = None
    ) -> Iterator[tuple[Task, R]]:
        """Do the tasks in their order and yield each with its record, until `stop` returns True."""
        for task in tasks:
            if stop is not None and stop():
                return
            yield task, _measured(function, task)

    def run_ready[R: TaskRecord](self, work: Work[R]) -> Iterator[tuple[Task, R]]:
        """Do tasks as they become ready and yield each with its record."""
        while True:
            more, ready = work.more(), list(work.ready())
            for function, task in ready:
                yield task, _measured(function, task)
            if not ready and not more:
                return
            time.sleep(0.0 if ready else ARRIVAL_SECONDS)

    def scheduler_info(self, n_workers: int = 5) -> dict[str, dict[str, WorkerInfo]]:  # noqa: ARG002
        """Return the description of the only worker."""
        return {"workers": {ADDRESS: {"host": ADDRESS, "nthreads": 1}}}

    def submit[R](self, function: Callable[..., R], *args: object, **options: object) -> Future[R]:  # noqa: ARG002
        """Call a function and return its result as a future."""
        future: Future[R] = Future()
        future.set_result(function(*args))
        return future

    def run(self, function: Callable[..., object], *args: object, **options: object) -> dict[str, object]:  # noqa: ARG002
        """Call a function in all other processes, of which there are none."""
        return {}

    def register_plugin(self, plugin: object, name: str | None = None) -> None:
        """Start a plug-in in all other processes, of which there are none."""

    def log_event(self, topic: object, message: object) -> None:
        """Tell a scheduler, of which there is none."""


def _measured[R: TaskRecord](function: Callable[..., R], task: Task) -> R:
    """Do a task as a worker does, which knows nothing of what its caller is about to promise."""
    return Context().run(measured, function, task.args)
