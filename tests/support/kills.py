"""Kill a run in this process at a chosen place, as a signal or a lost power supply may: nothing of it is replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipeline.record_types import TaskProgress
from pipeline.running.measured import measured
from tests.support.in_process import InProcess
from tests.support.one_process import Heard


class KilledWhen(Heard):
    """Events of a run that is killed as soon as it reports while a file is there.

    Parameters
    ----------
    path : Path
        The record of a task, for example: a task's record is written before its end is reported.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    def task_done(self, name: str, record: TaskProgress) -> None:
        super().task_done(name, record)
        if self.path.exists():
            raise KeyboardInterrupt


class KilledAfter(Heard):
    """Events of a run that is killed once so many tasks of a stage, or of any, are done, recorded and reported."""

    def __init__(self, stage: str | None, tasks: int) -> None:
        super().__init__()
        self.stage, self.left = stage, tasks

    def task_done(self, name: str, record: TaskProgress) -> None:
        super().task_done(name, record)
        if self.stage in (None, name) and not record.get("skipped"):
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt


@dataclass(frozen=True)
class _Work:
    """A function of tasks that tells a client when it is called; tasks of one function are equal in this."""

    client: Watched
    function: Callable[..., Any]

    def __call__(self, *args: Any) -> Any:
        self.client.begun.append(self.function.__name__)
        result = self.function(*args)
        if len(self.client.begun) == self.client.after:
            raise KeyboardInterrupt
        return result


class Watched(InProcess):
    """A client that lists the tasks it has begun, and may be killed at one of them.

    Parameters
    ----------
    stage : str, optional
        The only stage whose tasks count, by its name on the dashboard; default: all count.
    after : int, optional
        The number of the task, from 1, after which the process is killed, before the record is written.

    Attributes
    ----------
    begun : list of str
        Names of the functions of tasks.
    """

    def __init__(self, stage: str | None = None, *, after: int = 0) -> None:
        super().__init__()
        self.stage, self.after = stage, after
        self.begun: list[str] = []

    def submit(self, func: Callable[..., Any], *args: Any, key: str = "", **more: Any) -> Any:
        if func is measured and self.stage in (None, *args[2:]):
            args = (_Work(self, args[0]), *args[1:])
        return super().submit(func, *args, key=key, **more)

    def number_of(self, function: Callable[..., Any]) -> int:
        """Return how many tasks of a function have begun."""
        return self.begun.count(function.__name__)
