"""Parts that the clusters that are started on other machines share."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import dask
from distributed import Client
from distributed.utils import get_ip

from cluster import certificates
from cluster._forking import WORKER_ENVIRONMENT
from cluster._scratch import scratch_folder
from cluster.closed import ClosedWorker
from cluster.handle import LOOPBACK, ClusterHandle
from cluster.local import CALM, bytes_of
from cluster.settings import MEMORY
from pipeline.errors import InputError
from pipeline.running.workers import workers_of

#: Seconds to wait for the first worker: jobs stand in a queue.
WAIT_SECONDS = 3600.0
#: Seconds more for those that come at the same time.
OTHERS_SECONDS = 10.0
#: Between two lines that tell that nothing has come yet.
SAY_SECONDS = 60.0
#: Between two looks at why.
FAULT_SECONDS = 5.0
#: Of a worker that was lost, until another one is asked for.
LOST = "5s"
#: Runs Dask's commands for a worker.
LAUNCHER = "cluster.worker"
#: Seconds for which a worker looks for its scheduler, and then ends.
DEATH_TIMEOUT = 120


def memory_of(text: str | None) -> int:
    """Bytes of each worker, from ``--memory-limit``."""
    return bytes_of(text or MEMORY)


def worker_environment() -> dict[str, str]:
    """Variables of a worker: one thread in each library, and a Dask that does not look after itself all the time."""
    dask_own = {f"DASK_{key.upper().replace('.', '__').replace('-', '_')}": value for key, value in CALM.items()}
    return {**WORKER_ENVIRONMENT, "DASK_LOGGING__DISTRIBUTED": "warning", **dask_own}


def worker_words(*, gpus: bool, values: Mapping[str, Any]) -> list[str]:
    """Words of every worker's command line beside address, memory, and certificates."""
    words = ["--dashboard-address", f"{LOOPBACK}:0"]
    words += ["--worker-class", f"{ClosedWorker.__module__}.{ClosedWorker.__qualname__}"]
    return words + gpu_words(values) if gpus else words


def gpu_words(values: Mapping[str, Any]) -> list[str]:
    """Words of ``dask cuda worker``: CuPy takes device memory from the pool, and is there before the first task."""
    words = ["--set-rmm-allocator-for-libs", "cupy", "--pre-import", "cupy"]
    return [*words, "--rmm-pool-size", values["rmm_pool"]] if "rmm_pool" in values else [*words, "--rmm-async"]


def scheduler_options(values: Mapping[str, Any], security: Any) -> dict[str, Any]:
    """Return the options of a scheduler in this process: only its members reach it, and only we see its dashboard."""
    options: dict[str, Any] = {
        "protocol": certificates.protocol(security),
        "security": security,
        "dashboard_address": values.get("dashboard", f"{LOOPBACK}:0"),
    }
    if "interface" in values:
        options["interface"] = values["interface"]
    else:
        options["host"] = own_address()
    if "port" in values:
        options["port"] = values["port"]
    return options


def own_address() -> str:
    """The address by which other machines know this one."""
    with warnings.catch_warnings(action="ignore"):  # without a network it is a guess, and loopback the last one
        return str(get_ip())


def shared_parent(values: Mapping[str, Any]) -> Path:
    """Return the folder of the user that all nodes see, in which the cluster has one of its own."""
    return Path(values.get("shared", "~")).expanduser().absolute()


@contextmanager
def shared_folder(values: Mapping[str, Any]) -> Iterator[Path]:
    """A folder that all nodes see and nobody else may look into, for as long as the cluster lives."""
    parent = shared_parent(values)
    if not os.access(parent, os.W_OK | os.X_OK):
        raise InputError(f"{parent}: not a folder to write to, expected --cluster-option shared=DIR that all nodes see")
    with scratch_folder(parent) as folder:
        yield Path(folder)


@contextmanager
def patient(values: Mapping[str, Any], most: int) -> Iterator[None]:
    """Dask's configuration for workers that come and go, up to ``most``: jobs end at their limits and are replaced."""
    known = {"ikmap.lost-seconds": values.get("wait", WAIT_SECONDS), "ikmap.most-workers": most}
    with dask.config.set({"distributed.deploy.lost-worker-timeout": LOST, **known, **CALM}):
        yield


@contextmanager
def from_here(values: Mapping[str, Any], most: int) -> Iterator[Path]:
    """Set up the surroundings of a scheduler here with up to ``most`` workers on other hosts; yield their folder.

    The scheduler's own temporary files are in another one, on this host.
    """
    with (
        patient(values, most),
        shared_folder(values) as folder,
        scratch_folder() as scratch,
        dask.config.set({"temporary-directory": scratch}),
    ):
        yield folder


def connected(
    client: Client,
    kind: str,
    stack: ExitStack,
    expected: int,
    values: Mapping[str, Any],
    say: Callable[[str], None],
    fault: Callable[[], str | None] = lambda: None,
    folder: Path | None = None,
) -> ClusterHandle:
    """The handle, once the first worker is there, and others that come at the same time.

    Parameters
    ----------
    expected
        Workers that were asked for.
    fault
        Looks whether there is a reason why no worker will come, and says it.
    folder
        Where the address of the dashboard is written down, if it is.

    Raises
    ------
    InputError
        If no worker comes, or none will.
    """
    began = last_message = looked = time.monotonic()
    wait = float(values.get("wait", WAIT_SECONDS))
    first: float | None = None
    while True:
        there = len(workers_of(client))
        now = time.monotonic()
        if there and first is None:
            first = now
        if there >= expected or (first is not None and now - first > OTHERS_SECONDS):
            return ClusterHandle.of(client, kind, stack, folder)
        if not there:
            if now - looked > FAULT_SECONDS:
                looked = now
                reason = fault()
                if reason is not None:
                    raise InputError(f"--cluster {kind}: {reason}")
            if now - began > wait:
                raise InputError(
                    f"--cluster {kind}: no worker has come in {wait:g} seconds; look why they wait (squeue --me, or "
                    f"kubectl get pods), or wait longer with --cluster-option wait={10 * wait:g}"
                )
        if now - last_message > SAY_SECONDS:
            last_message = now
            say(f"{kind} cluster: waiting for workers, {there} of {expected} there after {now - began:.0f} seconds")
        time.sleep(0.2)


def size_word(size: int) -> str:
    """Bytes for a command line of Dask's."""
    return f"{size}B"


def last_line(path: Path) -> str | None:
    """Return the last line of a file in which something may have said why it failed; None if there is none."""
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    return next((line for line in reversed(lines) if line.strip()), None)
