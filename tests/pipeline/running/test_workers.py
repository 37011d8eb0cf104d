"""Every answer of a scheduler about its workers is whole, however often its client looks for itself."""

from __future__ import annotations

import dask
import pytest
from distributed import Client, LocalCluster

from pipeline.running.workers import workers_of

LOOKS = 300


@pytest.mark.system
def test_a_client_that_looks_for_itself_takes_no_answer_away() -> None:
    with (
        dask.config.set({"distributed.client.scheduler-info-interval": "1ms"}),
        LocalCluster(n_workers=1, threads_per_worker=3, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        found = [workers_of(client) for _ in range(LOOKS)]
        assert [[worker["nthreads"] for worker in each.values()] for each in found] == [[3]] * LOOKS
        scheduler = client.scheduler
        client.scheduler = None
        assert workers_of(client) == {}
        client.scheduler = scheduler
