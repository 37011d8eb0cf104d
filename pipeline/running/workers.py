"""Ask a Dask scheduler which workers it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from distributed import Client


class Worker(TypedDict):
    """Description of a worker by its scheduler, as far as it is used here."""

    host: str
    nthreads: int
    memory_limit: int | None
    services: dict[str, int]


def workers_of(client: Client) -> dict[str, Worker]:
    """Return what the scheduler says of each worker that there is now, by address; none where it cannot be reached.

    `Client.scheduler_info` is not asked: between its question and its return another answer may take the place of its
    own, that of the client's look at the scheduler every two seconds, which is of no worker at all.
    """
    found: dict[str, Worker] = client.sync(_asked, client)
    return found


async def _asked(client: Client) -> dict[str, Worker]:
    """Return the description of the workers in the scheduler's own words."""
    if client.scheduler is None:  # While the client connects anew.
        return {}
    try:
        return dict((await client.scheduler.identity(n_workers=-1))["workers"])
    except OSError:
        return {}
