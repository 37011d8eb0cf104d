"""A scheduler that somebody else started: what is asked of it while a run goes on."""

from __future__ import annotations

import asyncio

import pytest
from distributed import LocalCluster

from cluster import connect
from pipeline.running.dispatch import LOST_SECONDS, lost_seconds


@pytest.mark.parametrize(("options", "seconds"), [((), LOST_SECONDS), (("wait=300",), 300.0)])
def test_a_run_waits_for_workers_later_as_long_as_at_its_start(options: tuple[str, ...], seconds: float) -> None:
    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address="127.0.0.1:0"
    ) as running:
        with connect(running.scheduler_address, options=options):
            assert lost_seconds() == seconds
        assert lost_seconds() == LOST_SECONDS


def test_it_is_found_from_within_an_event_loop_that_runs() -> None:
    """Notebooks have such a loop."""

    async def cell(address: str) -> int:
        with connect(address) as handle:
            return handle.workers

    with LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address="127.0.0.1:0"
    ) as running:
        assert asyncio.run(cell(running.scheduler_address)) == 1
