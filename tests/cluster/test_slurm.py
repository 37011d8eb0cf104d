"""Worker jobs of Slurm that end while tasks are at work; a Slurm is in ``tests/services/test_slurm.py``."""

from __future__ import annotations

import threading
from queue import Queue

import pytest
from distributed import Client, LocalCluster, get_worker

from cluster.slurm import Interruptions
from pipeline.running.dispatch import LOSSES

at_work = Queue[str]()
"""Addresses of the workers on which the task has begun."""
released = threading.Event()


def hold() -> None:
    at_work.put(get_worker().address)
    assert released.wait(60)


@pytest.mark.system
def test_a_task_that_outlives_its_workers_again_and_again_is_told() -> None:
    said: list[str] = []
    released.clear()
    with (
        LocalCluster(
            n_workers=LOSSES + 1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        cluster.loop.add_callback(cluster.scheduler.add_plugin, Interruptions("02:00:00", said.append))
        future = client.submit(hold, key="train_kernel-svm-0a1b2c3d-fit-17", pure=False)
        for _ in range(LOSSES):
            assert said == []
            client.retire_workers([at_work.get(timeout=60)])  # as a worker does at the end of its lifetime
        at_work.get(timeout=60)
        released.set()
        future.result(timeout=60)
    assert said == [
        f"a task of train:kernel-svm was begun {LOSSES} times and not ended, as its workers left at the limit of "
        "their jobs (02:00:00); if it takes longer than that, end this command and type it again with "
        "--cluster-option walltime=TIME, a longer one"
    ]


def test_workers_that_leave_with_nothing_to_do_are_not_told() -> None:
    said: list[str] = []
    plugin = Interruptions("02:00:00", said.append)
    left = {"action": "remove-worker", "expected": True, "processing-tasks": {"cells-0a1b2c3d-k-1"}, "worker": "a"}
    for _ in range(LOSSES):
        plugin.log_event("all", {**left, "processing-tasks": set()})
        plugin.log_event("all", {**left, "expected": False})  # Dask counts it itself
        plugin.log_event("a", left)
        plugin.log_event("all", {"action": "add-worker", "worker": "a"})
    assert said == []
