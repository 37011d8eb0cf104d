"""A limit of the runs at a time on a cluster: one, unless the user gives another."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import httpx
from prefect import get_client
from prefect.client.schemas.actions import GlobalConcurrencyLimitCreate
from prefect.concurrency.sync import concurrency
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound

from flows.prefect.artifacts import TRIES, tries

THIS_MACHINE = ("local", "cuda")
"""Kinds of clusters that are made of this machine."""
MADE_ANEW = ("slurm", "srun", "kubernetes")
"""Kinds that give every run workers of its own: somebody else shares out the machines."""
LOOK_SECONDS = 5.0
"""Seconds between two looks of a run that waits."""
LEASE_SECONDS = 60.0
"""The place of a run that was killed is free again after so long."""


def limit_name(cluster: str) -> str:
    """Name of the concurrency limit of a cluster, given as for ``--cluster``."""
    where = f"{cluster}-{socket.gethostname()}" if cluster in THIS_MACHINE else cluster
    return "ikmap-" + re.sub("[^a-z0-9.]+", "-", where.lower()).strip("-")


@contextmanager
def place_on(cluster: str, say: Callable[[str], None], look: Callable[[], None]) -> Iterator[None]:
    """Wait until the cluster takes one more run, and keep the place.

    Parameters
    ----------
    cluster : str
        As for ``--cluster``. Clusters that several runs would have to share get a limit of 1 when they are first
        used; others, and those whose limit somebody has changed, are taken as they are.
    say : callable
        Told once that the run has to wait.
    look : callable
        Called before each time of waiting; may raise what ends it.
    """
    name = limit_name(cluster)
    if not _has_limit(name, create=cluster not in MADE_ANEW):
        yield
        return
    with ExitStack() as held:
        waited = False
        while not _take(name, held):
            if not waited:
                say(
                    f"waiting: other runs are on this cluster (prefect gcl inspect {name}); "
                    f"to run more at a time: prefect gcl update {name} --limit 2; if the server was restarted "
                    f"while a run was on, and there is none now: prefect gcl update {name} --active-slots 0"
                )
            waited = True
            look()
            time.sleep(LOOK_SECONDS)
        try:
            yield
        finally:
            # An API that is away takes the place back by itself.
            with suppress(httpx.HTTPError), tries(TRIES):
                held.close()


def _take(name: str, held: ExitStack) -> bool:
    """Take a place, if there is one."""
    with get_client(sync_client=True) as client, suppress(ObjectNotFound):
        limit = client.read_global_concurrency_limit_by_name(name)
        # Looked at first, as Prefect logs an error whenever a place that was asked for is not to be had.
        if limit.active and limit.active_slots >= limit.limit:
            return False
    with suppress(TimeoutError):  # somebody else was faster
        held.enter_context(concurrency(name, timeout_seconds=LOOK_SECONDS, lease_duration=LEASE_SECONDS))
        return True
    return False


def _has_limit(name: str, *, create: bool) -> bool:
    with get_client(sync_client=True) as client:
        try:
            client.read_global_concurrency_limit_by_name(name)
        except ObjectNotFound:
            if not create:
                return False
            with suppress(ObjectAlreadyExists):  # another run was faster
                client.create_global_concurrency_limit(GlobalConcurrencyLimitCreate(name=name, limit=1))
    return True
