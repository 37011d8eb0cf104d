"""A large model to all workers: read from the store by each, against Dask's scatter and broadcast."""

from __future__ import annotations

import os
import socket
import struct
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from distributed import Client

from benchmarks.harness import Case, Disagreement, Options, Row
from cluster import connect
from ikmap.partitioners import Partitions
from ikmap.partitioners.voronoi.model import VoronoiPartitions
from pipeline.running.workers import workers_of
from pipeline.storage.models import load_model, save_model
from pipeline.storage.store import Store

TITLE = "Models on the workers"
ABOUT = (
    "a model from one process to all workers of this machine, until each has it in memory: read from the store through "
    "the cache of each process, as tasks do, against `client.scatter(..., broadcast=True)`. The column of memory holds "
    "the bytes that went through the sockets of the process of client and scheduler"
)
WORKERS, QUICK_WORKERS = 8, 2
MEBIBYTES, QUICK_MEBIBYTES = (64, 1024), (2,)
SCATTERED = 64
"""MiB up to which it is scattered too: that takes many times its memory."""
SOON_SECONDS, QUICK_SOON_SECONDS = 10.0, 0.1
"""After so long it is looked how many workers still have what was scattered."""


def cases(options: Options) -> Iterator[Case]:
    workers = QUICK_WORKERS if options.quick else WORKERS
    for size in QUICK_MEBIBYTES if options.quick else MEBIBYTES:
        text = f"{size} MiB to {workers} workers"
        yield Case(text, rows=partial(stored_against_scattered, text, size << 20, workers, options))


def stored_against_scattered(case: str, size: int, workers: int, options: Options) -> list[Row]:
    """Our way as often as asked, each with new processes; the other way once."""
    soon = QUICK_SOON_SECONDS if options.quick else SOON_SECONDS
    needed, free = int(1.5 * workers * size), psutil.virtual_memory().available
    if needed > free:
        row = Row(case, "scatter, broadcast")
        row.notes = [f"not measured: needs about {needed / 2**30:.1f} GiB of memory, found {free / 2**30:.1f}"]
        return [row]
    row = Row(case, "the model to the client once", target=1.0, relation="<=")
    with tempfile.TemporaryDirectory(prefix="ikmap-benchmarks-") as folder:
        store, model = Store(Path(folder) / "store.zarr"), large_model(size)
        store.create()
        save_model(store, "partitions/large", model)
        small = save_model(store, "partitions/small", large_model(1 << 16))
        for _ in range(min(options.repeats, 2)):
            with connect("local", workers=workers) as cluster:
                everywhere(cluster.client, held_hash, store, "partitions/small", small)  # loads what is needed
                seconds, through, again = to_all_from_store(cluster.client, store, model.content_hash)
            row.ours.append(seconds)
            row.ours_bytes = max(row.ours_bytes or 0, through)
        row.notes = [f"the second time, from the caches: {again * 1e3:.3g} ms"]
        row.theirs_bytes, row.value = model.nbytes, (row.ours_bytes or 0) / model.nbytes
        rows = [row]
        if size <= SCATTERED << 20:
            with connect("local", workers=workers) as cluster:
                everywhere(cluster.client, held_hash, store, "partitions/small", small)
                seconds, through, left = to_all_by_scatter(cluster.client, model, soon)
            peer = Row(case, "scatter, broadcast", row.ours, [seconds], ours_bytes=row.ours_bytes, theirs_bytes=through)
            peer.value = seconds / float(np.median(row.ours))
            peer.notes = [f"of {workers} copies scattered, {left} are left after {soon:g} s"]
            rows.append(peer)
    return rows


def large_model(size: int) -> Partitions:
    """Partitionings of about so many bytes, of numbers that do not compress."""
    columns = 1024
    centers = np.random.default_rng(0).random((max(2, size // (8 * columns)), columns))
    members = np.arange(4 * (len(centers) // 2), dtype=np.int32).reshape(4, -1) % len(centers)
    return VoronoiPartitions(centers=centers, members=members.astype(np.int32))


def held_hash(store: Store, name: str, content_hash: str) -> str:
    """On a worker: have the model; say which it is."""
    return load_model(store, name, Partitions, content_hash).content_hash


def everywhere(client: Client, *args: Any) -> float:
    """Let every worker have the model, all at the same time; return the seconds until the last one has it."""
    began = time.perf_counter()
    there = sorted(workers_of(client))
    futures = [client.submit(*args, workers=[worker], pure=False) for worker in there]
    found = set(client.gather(futures))
    if len(found) != 1:
        raise Disagreement(f"workers have {len(found)} different models")
    return time.perf_counter() - began


def to_all_from_store(client: Client, store: Store, content_hash: str) -> tuple[float, int, float]:
    """Seconds of the first time, bytes through this process's sockets, seconds of the second time."""
    before = socket_bytes()
    seconds = everywhere(client, held_hash, store, "partitions/large", content_hash)
    through = socket_bytes() - before
    return seconds, through, everywhere(client, held_hash, store, "partitions/large", content_hash)


def to_all_by_scatter(client: Client, model: Partitions, soon: float) -> tuple[float, int, int]:
    """Seconds, bytes through this process's sockets, and how many workers have it a while later."""
    before, began = socket_bytes(), time.perf_counter()
    future = client.scatter(model, broadcast=True)
    everywhere(client, lambda held: held.members.shape, future)
    seconds, through = time.perf_counter() - began, socket_bytes() - before
    time.sleep(soon)
    return seconds, through, len(client.who_has([future])[future.key])


def socket_bytes() -> int:
    """Bytes that were sent and received on the TCP sockets of this process that are open (Linux: TCP_INFO)."""
    total = 0
    for number in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if not os.readlink(f"/proc/self/fd/{number}").startswith("socket:"):
                continue
            with socket.socket(fileno=os.dup(int(number))) as copy:
                if copy.type == socket.SOCK_STREAM and copy.family in (socket.AF_INET, socket.AF_INET6):
                    info = copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 136)
                    total += sum(struct.unpack_from("=QQ", info, 120))  # bytes_acked, bytes_received
    return total
