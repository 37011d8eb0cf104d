"""One worker process for each GPU of this machine, by dask-cuda."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from distributed import Client, Security

from cluster import certificates
from cluster._starting import starting
from cluster.closed import ClosedNanny, WithClosedScheduler
from cluster.handle import LOOPBACK, ClusterHandle
from cluster.local import bytes_of, on_this_machine
from pipeline.errors import InputError


def start(
    *, workers: int | None, memory_limit: str | None, values: Mapping[str, Any], say: Callable[[str], None]
) -> ClusterHandle:
    """Start a worker for each GPU, or for the first so many, and connect to them.

    Everything listens on the loopback interface only, and speaks to no other user of this machine.

    Raises
    ------
    InputError
        Where there is no GPU, or fewer than workers.
    """
    import cupy  # noqa: F401  # missing: say so here, not in every worker
    from dask_cuda import LocalCUDACluster

    class Cluster(WithClosedScheduler, LocalCUDACluster):
        pass

    security = certificates.of(values, "cuda", say)
    with ExitStack() as stack:
        with starting("cuda", stack):
            scratch = stack.enter_context(on_this_machine())
            try:
                cluster = stack.enter_context(
                    Cluster(**cluster_options(workers, memory_limit, values, scratch, security))
                )
            except ModuleNotFoundError:
                raise
            except Exception as error:
                # No driver, no device, fewer devices than workers: each has an exception of its own.
                raise InputError(f"--cluster cuda: {type(error).__name__}: {' '.join(str(error).split())}") from None
            client = stack.enter_context(Client(cluster))
        return ClusterHandle.of(client, "cuda", stack, Path(scratch))


def cluster_options(
    workers: int | None,
    memory_limit: str | None,
    values: Mapping[str, Any],
    scratch: str,
    security: Security | None,
) -> dict[str, Any]:
    """Return the options of dask-cuda: one thread for each GPU, and one pool of device memory that CuPy takes from."""
    return {
        "n_workers": workers,
        "threads_per_worker": 1,
        "memory_limit": "auto" if memory_limit is None else bytes_of(memory_limit),
        "device_memory_limit": values.get("device_memory_limit", "default"),
        # An asynchronous pool takes what is asked of it; one of a given size takes that at once.
        **({"rmm_pool_size": values["rmm_pool"]} if "rmm_pool" in values else {"rmm_async": True}),
        "rmm_allocator_external_lib_list": ["cupy"],
        "pre_import": ["cupy"],
        "local_directory": scratch,
        "host": LOOPBACK,
        "worker_class": ClosedNanny,
        "security": security,
        "dashboard_address": values.get("dashboard", f"{LOOPBACK}:0"),
        "worker_dashboard_address": f"{LOOPBACK}:0",
        "silence_logs": logging.CRITICAL,
    }
