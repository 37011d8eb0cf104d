"""``python -m tests.support.second_user PLAN UID``: what the user UID sees of a cluster and of the files of its runs.

Tried are all ways in that are known: to be a client, to speak to a worker or a nanny as Dask does, every page and web
socket, and every file. PLAN is a JSON file: what to try, and what somebody who is allowed in has (see `Plan`). The
answer is JSON on standard output: by kind of attempt, those that got in.

Everything is loaded before the process becomes the other user, for whom Python's own files may be closed.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import dask
from distributed import Client, Security, rpc
from distributed.http.utils import get_handlers

from cluster import certificates

SECONDS = 8.0
AT_ONCE = 16
"""Requests side by side: many of them wait until their time is up."""
SOCKETS = ("/eventstream", "/status/ws", "/individual-progress/ws")
OTHERS = (
    "/",
    "/sitemap.json",
    "/jupyter",
    "/jupyter/api/shutdown",
    "/api/v1",
    "/statics/",
    "/%2e%2e/status",
    "//status",
)


@dataclass
class Plan:
    """What is tried.

    Attributes
    ----------
    scheduler
        Address of the scheduler, less its scheme.
    ports
        All on which a process of the cluster listens.
    folders
        All files in them are tried, whether they can be listed or not: `files` names some.
    files
        Files to be read.
    processes
        Numbers of processes, whose environments are read.
    prefixes
        First parts of paths of pages; the empty one too.
    certificates
        Folder of the cluster's certificate and key.
    paths
        Of pages; default: all that Dask knows. To whom they are shown each takes a second.
    """

    scheduler: str
    ports: list[int]
    folders: list[str]
    files: list[str]
    processes: list[int]
    prefixes: list[str] = field(default_factory=lambda: [""])
    certificates: str | None = None
    paths: list[str] = field(default_factory=lambda: routes())


def routes() -> list[str]:
    """Paths of all pages that Dask knows, with something in place of what stands for a name."""
    modules = {module for process in ("scheduler", "worker")
               for module in dask.config.get(f"distributed.{process}.http.routes")}  # fmt: skip
    modules |= {"distributed.http.scheduler.api", "distributed.http.scheduler.missing_bokeh"}
    # With these comes Bokeh, which every process that collects tests would load.
    from distributed.dashboard.scheduler import applications as scheduler_pages
    from distributed.dashboard.worker import applications as worker_pages

    patterns = [pattern for pattern, *_ in get_handlers(server=None, modules=sorted(modules))]
    known = [pattern.replace(r"(\d+)", "80").replace("(.*?)", "127.0.0.1").replace("(.*)", "x") for pattern in patterns]
    return sorted({*known, *scheduler_pages, *worker_pages, *OTHERS} - {*SOCKETS})


async def within(attempt: Awaitable[Any]) -> bool:
    """Whether it comes to something."""
    try:
        return bool(await asyncio.wait_for(attempt, SECONDS))
    except Exception:
        return False


async def identity(address: str, security: Security) -> Any:
    """What a scheduler, a worker or a nanny says of itself."""
    async with rpc(address, connection_args=security.get_connection_args("client")) as there:
        return await there.identity()


async def task(address: str, security: Security) -> bool:
    """Run code on a worker."""
    async with Client(address, security=security, asynchronous=True, timeout=SECONDS / 2) as client:
        return await client.submit(os.getpid, pure=False) != os.getpid()


async def speaking(plan: Plan) -> list[str]:
    """As a client and as a worker do: unencrypted, with a certificate of one's own, and with that of the cluster."""
    ways = {"tcp": Security(), "tls": certificates.temporary()}
    if plan.certificates:
        ways["tls, allowed"] = certificates.from_folder(Path(plan.certificates))
    tried: dict[str, Awaitable[Any]] = {}
    for name, security in ways.items():
        scheme = name[:3]
        tried[f"{name}: task"] = task(f"{scheme}://{plan.scheduler}", security)
        for port in plan.ports:
            tried[f"{name}: {port}"] = identity(f"{scheme}://127.0.0.1:{port}", security)
    came = await asyncio.gather(*(within(attempt) for attempt in tried.values()))
    return [name for name, got_in in zip(tried, came, strict=True) if got_in]


def sockets(plan: Plan) -> list[str]:
    """Web sockets that open: a page is told by one what goes on."""
    wanted = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    wanted |= {"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==", "Sec-WebSocket-Protocol": "bokeh, x"}
    places = [(port, f"{prefix}{path}") for port in plan.ports for prefix in plan.prefixes for path in SOCKETS]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = pool.map(lambda place: asked(place[0], "GET", place[1], wanted), places)
        return [
            f"{port}{path}" for (port, path), answer in zip(places, answers, strict=True) if answer and answer[0] == 101
        ]


def asked(port: int, method: str, path: str, headers: dict[str, str]) -> tuple[int, bool] | None:
    """Status of an answer, and whether it says anything; None from what does not speak HTTP, or not with us."""
    connection = HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.status < 400 or bool(answer.headers.get("Location") or answer.read())
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()


def pages(plan: Plan) -> list[str]:
    """Whatever is more than a bare refusal: a page, a redirect, a hint."""
    places = [
        (method, port, f"{prefix}{path}")
        for port in plan.ports for prefix in plan.prefixes for path in plan.paths for method in ("GET", "POST")
    ]  # fmt: skip
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = pool.map(lambda place: asked(place[1], place[0], place[2], {}), places)
        found = zip(places, answers, strict=True)
        return [f"{method} {port}{path}" for (method, port, path), answer in found if answer is not None and answer[1]]


def read(plan: Plan) -> list[str]:
    """Files and folders that can be opened."""

    def can(look: Callable[[str], Any], path: str) -> bool:
        try:
            look(path)
        except OSError:
            return False
        return True

    def some_of(path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read(1)

    seen = [os.path.join(at, name) for folder in plan.folders for at, _, names in os.walk(folder) for name in names]
    environments = [f"/proc/{process}/environ" for process in plan.processes]
    return [
        *(path for path in plan.folders if can(os.listdir, path)),
        *(path for path in {*plan.files, *seen} if can(some_of, path)),
        *(path for path in environments if can(some_of, path)),
    ]


def become(uid: int) -> None:
    """Give up all rights but those of this user."""
    os.setgroups([])
    os.setgid(uid)
    os.setuid(uid)
    os.environ["HOME"] = "/"


def main(path: str, uid: str) -> None:
    plan = Plan(**json.loads(Path(path).read_text()))
    certificates.temporary()  # loads what it takes
    routes()
    become(int(uid))
    found = {"user": os.geteuid(), "speaking": asyncio.run(speaking(plan)), "sockets": sockets(plan)}
    found |= {"pages": pages(plan), "files": read(plan)}
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
