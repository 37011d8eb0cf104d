"""Running tasks on Dask: bounded in flight, recorded, skipped when done, and failures that get out unchanged."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import pytest
from distributed import Client, KilledWorker, LocalCluster

from cluster import connect
from pipeline.errors import ClusterLost, InputError
from pipeline.monitoring.events import QuietProgress
from pipeline.record_types import TaskRecord
from pipeline.running.dispatch import IN_FLIGHT_PER_WORKER, Task, run_ready, run_tasks
from pipeline.running.measured import summarise
from pipeline.running.side_by_side import TimeLimitReached, side_by_side, time_limit
from pipeline.running.stage import Context, Stage
from pipeline.storage.durable import read_json, write_json
from pipeline.storage.rundir import BEGUN
from tests import ROOT
from tests.support.calls import counted
from tests.support.narrow import number
from tests.support.runs import context
from tests.support.sizes import SmallSizes

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0", set_as_default=False
    ) as client:
        yield client


@pytest.fixture(autouse=True)
def _nothing_done() -> None:
    done.clear()


done: list[int] = []
"""What tasks have run: the workers of these tests are threads of this process."""


class Squared(TaskRecord):
    square: int


def square(k: int) -> Squared:
    done.append(k)
    return {"rows": k, "square": k * k}


def fail_at(k: int, bad: int) -> TaskRecord:
    done.append(k)
    if k == bad:
        raise InputError(f"row {k}: found nothing")
    time.sleep(0.01)
    return {}


began, released = threading.Event(), threading.Event()


def wait(*_: object) -> TaskRecord:
    began.set()
    assert released.wait(60)
    return {}


def squares(n: int) -> list[Task]:
    return [Task(f"k-{k}", (k,)) for k in range(n)]


@pytest.mark.parametrize("n", [0, 1, 2, 30])
def test_every_task_is_run_once(client: Client, n: int) -> None:
    found = list(run_tasks(client, "square", square, squares(n)))
    assert sorted(int(number(task.args[0])) for task, _ in found) == list(range(n))
    assert sorted(done) == list(range(n))
    for task, record in found:
        assert record["square"] == number(task.args[0]) ** 2
        assert record["worker"].endswith(f":{os.getpid()}")
        assert 0 <= record["seconds"] < 60
        assert record["peak_rss_bytes"] > 1 << 20


def test_tasks_run_again_are_not_answered_from_memory(client: Client) -> None:
    for _ in range(2):
        list(run_tasks(client, "square", square, squares(3)))
    assert sorted(done) == [0, 0, 1, 1, 2, 2]


def in_flight(client: Client, n: int) -> list[int]:
    """Return how many tasks of `n` were not given back yet, as each was submitted."""
    in_flight, taken = [], 0
    with counted(Client.submit, lambda submitted: in_flight.append(submitted - taken)) as submits:
        for _ in run_tasks(client, "square", square, squares(n)):
            taken += 1
    assert taken == submits.number == n
    return in_flight


def test_no_more_in_flight_than_workers_can_use(client: Client) -> None:
    assert max(in_flight(client, 20)) == IN_FLIGHT_PER_WORKER + 1  # one is replaced just before it is handed over


def test_long_tasks_are_handed_out_one_at_a_time(client: Client, small_sizes: SmallSizes) -> None:
    """Whoever is free first takes the next one: none waits behind another."""
    small_sizes.all_tasks_are_long()
    assert max(in_flight(client, 5)) == 2  # the next is handed out just before the one that is done is given back


meeting = threading.Barrier(2)


def meet(k: int) -> TaskRecord:  # noqa: ARG001
    meeting.wait(60)
    return {}


@pytest.mark.parametrize("told", [False, True])
def test_workers_that_come_late_get_tasks(told: bool, small_sizes: SmallSizes) -> None:
    """Two of these tasks end only together: while the first is at work on the only worker, another one comes."""
    small_sizes.looks_at_workers(3600.0 if told else 0.05)
    with (
        dask.config.set({"ikmap.most-workers": 2 if told else 0}),
        LocalCluster(processes=False, n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        if told:
            cluster.adapt(minimum=1, maximum=2, target_duration="0.5s", interval="50ms")
        else:
            threading.Timer(0.5, cluster.scale, [2]).start()
        assert len(list(run_tasks(client, "meet", meet, squares(6)))) == 6


def test_a_stage_that_is_told_to_stop_cancels_its_tasks(client: Client, small_sizes: SmallSizes) -> None:
    small_sizes.looks_at_workers(0.05)
    began.clear()
    released.clear()

    def failing() -> None:
        assert began.wait(60)
        raise InputError("found nothing")

    try:
        with pytest.raises(InputError, match=r"^found nothing$"):
            side_by_side(
                {
                    "waiting": lambda: list(run_tasks(client, "waiting", wait, [Task(f"k-{k}", ()) for k in range(5)])),
                    "failing": failing,
                }
            )
    finally:
        released.set()
    assert_idle(client)


def test_a_failure_gets_out_as_it_was_and_the_rest_is_cancelled(client: Client) -> None:
    tasks = [Task(f"k-{k}", (k, 2)) for k in range(100)]
    with pytest.raises(InputError, match=r"^row 2: found nothing$"):
        list(run_tasks(client, "failing", fail_at, tasks))
    assert len(done) < 20
    assert_idle(client)


def fail_after(seconds: float, row: int) -> TaskRecord:
    time.sleep(seconds)
    if row:
        raise InputError(f"row {row}: found nothing")
    return {}


def test_of_several_failures_the_first_in_order_gets_out() -> None:
    """Not the first in time, where tasks are ordered as the rows of a file are."""
    faults = [(0.0, 0), (1.0, 3), (0.0, 0), (0.0, 7), (0.3, 0)]
    options = {"processes": False, "n_workers": 2, "threads_per_worker": 2, "dashboard_address": "127.0.0.1:0"}
    with Client(**options, set_as_default=False) as client:
        for ordered, row in ((True, 3), (False, 7)):
            tasks = [Task(f"k-{k}", fault, ordered=ordered) for k, fault in enumerate(faults)]
            with pytest.raises(InputError, match=rf"^row {row}: found nothing$"):
                list(run_tasks(client, "failing", fail_after, tasks))


def test_leaving_early_cancels_the_rest(client: Client) -> None:
    for task, _ in run_tasks(client, "square", fail_at, [Task(f"k-{k}", (k, -1)) for k in range(100)]):
        assert task.name.startswith("k-")
        break
    assert len(done) < 20
    assert_idle(client)


def assert_idle(client: Client) -> None:
    """Soon nothing is left to do; what failed stays known as long as somebody holds the exception."""
    for _ in range(500):
        left = client.run_on_scheduler(_unfinished)
        if left == 0:
            return
        time.sleep(0.01)
    pytest.fail(f"{left} tasks are left")


def _unfinished(dask_scheduler: Any) -> int:
    return sum(task.state != "erred" for task in dask_scheduler.tasks.values())


def test_a_task_that_kills_its_workers_is_told() -> None:
    with connect("local", workers=1, memory_limit="1GB") as cluster, pytest.raises(KilledWorker):
        list(run_tasks(cluster.client, "killing", _kill, [Task("k", ())]))


def _kill() -> TaskRecord:
    os.kill(os.getpid(), signal.SIGKILL)
    return {}


def test_a_cluster_without_workers_is_given_up(small_sizes: SmallSizes) -> None:
    small_sizes.looks_at_workers(0.05, lost=0.5)
    with (
        Client(n_workers=0, processes=False, dashboard_address="127.0.0.1:0", set_as_default=False) as client,
        pytest.raises(InputError, match=r"no workers for 0.5 seconds.*the same command goes on"),
    ):
        list(run_tasks(client, "square", square, squares(3)))
    assert done == []


def test_a_connection_that_breaks_is_told() -> None:
    began.clear()
    released.clear()
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):

        def cut() -> None:
            assert began.wait(60)
            cluster.loop.add_callback(cluster.scheduler.client_comms[client.id].abort)

        cutting = threading.Thread(target=cut)
        cutting.start()
        try:
            with pytest.raises(ClusterLost, match=r"^the connection to the scheduler was lost; give the same command"):
                list(run_tasks(client, "waiting", wait, squares(3)))
        finally:
            released.set()
            cutting.join()


def test_a_worker_that_comes_late_is_waited_for(small_sizes: SmallSizes) -> None:
    small_sizes.looks_at_workers(0.05)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        threading.Timer(0.5, cluster.scale, [1]).start()
        assert len(list(run_tasks(client, "square", square, squares(3)))) == 3


def test_a_task_whose_worker_is_gone_is_given_out_again(client: Client, small_sizes: SmallSizes) -> None:
    small_sizes.looks_at_workers(0.05)

    class Pinned:
        """Tasks that only one worker may do; for the first, one that is no more."""

        def __init__(self) -> None:
            (here,) = client.scheduler_info()["workers"]
            self.todo = [Task("k-3", (3,), "tcp://127.0.0.1:9"), Task("k-4", (4,), here)]
            self.asked = 0

        def more(self) -> bool:
            self.asked += 1
            return self.asked < 20

        def ready(self) -> Any:
            todo, self.todo = self.todo, []
            return [(square, task) for task in todo]

        def lost(self, task: Task) -> None:
            self.todo.append(Task(task.name, task.args))

    work = Pinned()
    found = {task.name: record["square"] for task, record in run_ready(client, "square", work)}
    assert found == {"k-3": 9, "k-4": 16}
    assert sorted(done) == [3, 4]
    assert work.asked >= 20
    assert_idle(client)

    class Doomed(Pinned):
        def lost(self, task: Task) -> None:
            self.todo.append(task)

    with pytest.raises(InputError, match="workers died again and again in square, k-3"):
        list(run_ready(client, "square", Doomed()))
    assert_idle(client)


def test_a_worker_that_has_just_come_is_not_taken_for_gone(small_sizes: SmallSizes) -> None:
    """It joined after the last look: the answer of that look does not have it, though a task names it already."""
    with (
        LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):

        class Joined:
            """Tasks for a worker that joins when the first is asked for; each ends long after the other."""

            def __init__(self) -> None:
                self.begun, self.lost_tasks = False, list[str]()

            def more(self) -> bool:
                return False

            def ready(self) -> Any:
                if self.begun:
                    return []
                self.begun = True
                # Only one look is made: just before the worker comes.
                small_sizes.looks_at_workers(3600)
                (old,) = client.scheduler_info()["workers"]
                cluster.scale(2)
                client.wait_for_workers(2, timeout=60)
                (new,) = set(client.scheduler_info()["workers"]) - {old}
                return [(square, Task("k-3", (3,), old)), (nap, Task("k-4", (4,), new))]

            def lost(self, task: Task) -> None:
                self.lost_tasks.append(task.name)

        work = Joined()
        assert [task.name for task, _ in run_ready(client, "square", work)] == ["k-3", "k-4"]
        assert not work.lost_tasks


def nap(k: int) -> Squared:
    time.sleep(1)
    return square(k)


class Recorder(QuietProgress):
    def __init__(self) -> None:
        self.said: list[tuple[str, Any]] = []

    def task_done(self, name: str, record: Any) -> None:
        self.said.append((name, dict(record)))


def test_a_stage_writes_records_and_skips_what_has_one(client: Client, tmp_path: Path) -> None:
    ctx = context(tmp_path, client=client)
    ctx.events = events = Recorder()
    ctx.run.task_record("train:svm", "k-1").parent.mkdir(parents=True)
    before = {"rows": 10, "seconds": 2.0, "peak_rss_bytes": 1 << 40, "worker": "old:1", "bytes_read": 7}
    write_json(ctx.run.task_record("train:svm", "k-1"), before)
    stage = Stage(ctx, "train:svm", 3)
    records = stage.run(square, squares(3))
    assert sorted(done) == [0, 2]
    assert records[1] == before
    assert [record["rows"] for record in records] == [0, 10, 2]
    for k in (0, 2):
        assert read_json(tmp_path / "records" / "train-svm" / f"k-{k}.json") == records[k]
    same = {"bytes_written": 0, "total_tasks": 3}
    said = [("train:svm", {"rows": k, "bytes_read": 7 * (k == 10), **same, "skipped": k == 10}) for k in (0, 2, 10)]
    assert sorted(events.said, key=str) == sorted(said, key=str)
    assert stage.finish({"answer": 42}) == {"answer": 42}
    kept = ctx.run.stage("train:svm")
    assert kept is not None
    assert kept["result"] == {"answer": 42}
    summary = kept["record"]
    assert (summary["tasks"], summary["tasks_skipped"]) == (3, 1)
    assert (summary["rows"], summary["bytes_read"], summary["peak_rss_bytes"]) == (12, 7, 1 << 40)


def test_rates_of_a_resumed_stage_are_of_all_processes(client: Client, tmp_path: Path) -> None:
    """Rows, busy seconds and bytes are of all; so are the seconds that they are divided by."""

    def begun() -> Context:
        ctx = context(tmp_path, client=client)
        ctx.clock, ctx._started = (lambda: now[0]), 0.0
        return ctx

    now = [1.0]
    Stage(begun(), "cells", 4).run(square, squares(3))  # and then this process is killed
    session = read_json(tmp_path / "records" / "cells" / BEGUN)["session"]
    for file in (tmp_path / "records" / "cells").iterdir():
        os.utime(file, (session, session + 60.0))
    ctx = begun()
    now[0] = 5.0
    stage = Stage(ctx, "cells", 4)
    now[0] = 7.0
    stage.run(square, squares(4))
    stage.finish({})
    summary = ctx.run.manifest["stages"]["cells"]["record"]
    assert (summary["tasks"], summary["tasks_skipped"], summary["rows"]) == (4, 3, 6)
    assert (summary["seconds"], summary["seconds_before"]) == (62.0, 60.0)
    assert summary["rows_per_second"] == round(6 / 62, 1)
    assert summary["started"] == 1.0
    # Done once more, as if something had been damaged, it goes on from there.
    assert Stage(begun(), "cells", 4).before == 62.0


def test_records_of_what_was_done_before_a_failure_are_kept(client: Client, tmp_path: Path) -> None:
    ctx = context(tmp_path, client=client)
    tasks = [Task(f"k-{k}", (k, 5)) for k in range(9)]
    with pytest.raises(InputError):
        Stage(ctx, "cells", 9).run(fail_at, tasks)
    kept = {path.stem for path in (tmp_path / "records" / "cells").glob("*.json")}
    assert "k-5" not in kept
    assert {"k-0", "k-1", "k-2"} <= kept
    done.clear()
    with pytest.raises(InputError):
        Stage(ctx, "cells", 9).run(fail_at, tasks)
    assert not kept & {f"k-{k}" for k in done}


def test_the_sum_of_records() -> None:
    records: list[TaskRecord] = [
        {"worker": "b", "seconds": 1.0, "peak_rss_bytes": 5, "rows": 3, "bytes_read": 2, "bytes_written": 9},
        {"worker": "a", "seconds": 2.0, "peak_rss_bytes": 7, "rows": 4},
        {"worker": "b", "seconds": 0.5, "peak_rss_bytes": 6},
    ]
    found = summarise("cells", records, 1.5, 2.0, skipped=1)
    assert found["rows"] == 7
    assert found["rows_per_second"] == 3.5
    assert (found["bytes_read"], found["bytes_written"], found["peak_rss_bytes"]) == (2, 9, 7)
    assert found["workers"] == [{"name": "a", "seconds_busy": 2.0}, {"name": "b", "seconds_busy": 1.5}]
    assert (found["tasks"], found["tasks_skipped"]) == (3, 1)
    assert summarise("cells", records, 0, 2.0, rows=100)["rows"] == 100
    assert summarise("cells", [], 0, 0.0)["rows_per_second"] == 0.0


FREED = """
from pipeline.running.measured import peak_rss_bytes
before = peak_rss_bytes()
block = bytearray(before + (64 << 20))
del block
print(before, peak_rss_bytes())
"""


def test_peak_memory_sees_what_was_freed() -> None:
    """In a small process: this one may have held gigabytes."""
    command = [sys.executable, "-c", FREED]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    before, after = map(int, done.stdout.split())
    assert after >= before + (64 << 20)


def test_tasks_of_two_threads_do_not_mix(client: Client) -> None:
    found: dict[int, list[int]] = {}

    def take(first: int) -> None:
        tasks = [Task(f"k-{k}", (k,)) for k in range(first, first + 8)]
        found[first] = sorted(record["rows"] for _, record in run_tasks(client, "square", square, tasks))

    threads = [threading.Thread(target=take, args=(first,)) for first in (0, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {0: list(range(8)), 100: list(range(100, 108))}


def sleep_for(seconds: float) -> TaskRecord:
    time.sleep(seconds)
    return {}


def test_a_time_limit_ends_what_is_at_work_and_nothing_else() -> None:
    """A thread cannot be ended: its worker is started anew; the task of another run on the same cluster is done."""
    with connect("local", workers=2) as cluster:
        other: list[Any] = []
        beside = threading.Thread(
            target=lambda: other.extend(run_tasks(cluster.client, "other", sleep_for, [Task("b", (4.0,))]))
        )
        beside.start()
        with pytest.raises(TimeLimitReached), time_limit(1.5):
            list(run_tasks(cluster.client, "long", sleep_for, [Task("a", (600.0,))]))
        # Both workers can be had again: neither waits for the ten minutes.
        tasks = [Task(str(k), (0.01,)) for k in range(20)]
        assert len(list(run_tasks(cluster.client, "short", sleep_for, tasks))) == 20
        assert len(cluster.client.scheduler_info()["workers"]) == 2
        assert not cluster.client.call_stack()
        beside.join(60)
        assert [task.name for task, _ in other] == ["b"]
