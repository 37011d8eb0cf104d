"""Tasks are sent to a client, here to one without a cluster, which does what a Dask client would have others do."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from distributed import Client
from distributed.comm import CommClosedError

from pipeline.errors import ClusterLost
from pipeline.record_types import TaskRecord
from pipeline.running.compiling import prepare
from pipeline.running.dispatch import Task, result_of, run_ready, run_tasks, worker_addresses
from pipeline.storage import durable
from tests.support.in_process import ADDRESS, InProcess
from tests.support.runs import context


def count(rows: int) -> TaskRecord:
    return {"rows": rows, "outputs": [str(os.getpid())]}


def test_it_has_members_of_a_dask_client_only() -> None:
    members = {name for name in vars(InProcess) if not name.startswith("_")}
    own = {"id", "identity"}  # A client has the one once it is made, its scheduler the other.
    assert {name for name in members - own if not hasattr(Client, name)} == set()
    assert worker_addresses(InProcess()) == [ADDRESS]


def test_tasks_are_done_here_in_their_order_until_they_are_enough() -> None:
    tasks = [Task(f"k-{k}", (k,), worker="gone") for k in range(5)]
    records = list(run_tasks(InProcess(), "count", count, tasks))
    assert [(task.name, record["rows"]) for task, record in records] == [(f"k-{k}", k) for k in range(5)]
    assert {record["outputs"][0] for _, record in records} == {str(os.getpid())}
    assert {"seconds", "worker", "peak_rss_bytes"} <= records[0][1].keys()
    done: list[Task] = []
    for task, _ in run_tasks(InProcess(), "count", count, tasks, lambda: len(done) == 2):
        done.append(task)
    assert done == tasks[:2]


class Halving:
    """Each task makes the next one ready; the last has one row."""

    def __init__(self, rows: int) -> None:
        self.rows, self.looks = rows, 0

    def more(self) -> bool:
        self.looks += 1
        return self.looks < 20

    def ready(self) -> Iterable[tuple[Any, Task]]:
        if self.rows and self.looks % 2:  # now and then there is none
            self.rows //= 2
            yield count, Task(f"rows-{self.rows}", (self.rows,))

    def lost(self, task: Task) -> None:
        raise AssertionError(task)


def test_tasks_that_become_ready_are_done() -> None:
    assert [record["rows"] for _, record in run_ready(InProcess(), "count", Halving(20))] == [10, 5, 2, 1, 0]


def write(path: str) -> TaskRecord:
    durable.write_arrays(path, {})
    durable.written(path)
    return {"rows": 1}


def test_what_a_task_writes_is_no_promise_of_its_caller(tmp_path: Path) -> None:
    """As if another process had written it: it is on the disk when the task is done."""
    with durable.promised():
        list(run_tasks(InProcess(), "write", write, [Task("k", (str(tmp_path / "a.npz"),))]))
        assert durable.taken() == set()


def test_a_run_needs_no_other_process(tmp_path: Path) -> None:
    client = context(tmp_path).client
    assert isinstance(client, InProcess)
    assert client.run(os.getpid, on_error="ignore") == {}
    assert client.submit(count, 3, pure=False).result()["rows"] == 3
    assert prepare(client, ["anne dense"], print) == 0.0


class Cut(InProcess):
    """A client whose futures are all cancelled by Dask, as it has lost the connection to the scheduler."""

    def submit(self, func: Callable[..., Any], *args: Any, key: str = "", **more: Any) -> Any:
        future = super().submit(func, *args, key=key, **more)
        future.cancelled = lambda: True
        return future


class Closed(InProcess):
    """A client that takes nothing any more once it is closed."""

    def submit(self, func: Callable[..., Any], *args: Any, key: str = "", **more: Any) -> Any:
        assert self.scheduler is not None
        return super().submit(func, *args, key=key, **more)

    def cancel(self, futures: Sequence[Any], *_: Any, **__: Any) -> Any:
        assert self.scheduler is not None
        return super().cancel(futures)


@pytest.mark.parametrize(
    "work",
    [
        lambda client: list(run_tasks(client, "count", count, [Task("k", (1,))])),
        lambda client: list(run_ready(client, "count", Halving(20))),
        lambda client: prepare(client, ["anne dense"], print),
    ],
    ids=["tasks", "ready", "compiling"],
)
def test_a_lost_connection_is_told_as_what_it_is(work: Callable[[Client], object]) -> None:
    with pytest.raises(ClusterLost, match=r"^the connection to the scheduler was lost; give the same command again: "):
        work(Cut())


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_client_that_is_closed_is_told_as_a_lost_connection(when: str) -> None:
    client = Closed()
    tasks = run_tasks(client, "count", count, [Task(f"k-{k}", (k,)) for k in range(9)])
    if when == "after":
        next(tasks)
    client.scheduler = None  # as Dask does when it cannot connect anew
    with pytest.raises(ClusterLost, match="the connection to the scheduler was lost"):
        next(tasks)


def closed() -> TaskRecord:
    raise CommClosedError("of the task")


def test_a_result_that_does_not_arrive_is_told_and_an_error_of_the_task_gets_out_as_it_was() -> None:
    with pytest.raises(CommClosedError, match="of the task"):
        result_of(InProcess().submit(closed, pure=False))
    future = InProcess().submit(count, 3, pure=False)
    future.result = closed
    with pytest.raises(ClusterLost, match="the connection to the scheduler was lost"):
        result_of(future)
