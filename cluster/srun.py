"""Workers in the Slurm allocation that this process runs in: one job for all; the scheduler is in this process."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from distributed import Client
from distributed.deploy.spec import SpecCluster

from cluster import certificates, remote
from cluster._starting import starting
from cluster.closed import ClosedScheduler
from cluster.handle import ClusterHandle
from cluster.local import MIN_WORKER_BYTES, WORKERS_SHARE
from pipeline.errors import InputError

#: Seconds that srun has to end its workers.
STOP_SECONDS = 20.0


def start(
    *, workers: int | None, memory_limit: str | None, values: Mapping[str, Any], say: Callable[[str], None]
) -> ClusterHandle:
    """Start workers on the nodes of the allocation, by srun, and connect to them.

    Raises
    ------
    InputError
        Outside an allocation, or when srun does not start workers.
    """
    if "SLURM_JOB_ID" not in os.environ or shutil.which("srun") is None:
        raise InputError("--cluster srun: found no Slurm job here, expected sbatch cluster/slurm/batch.sbatch")
    memory = remote.memory_of(memory_limit) if memory_limit else share(workers, values, os.environ)
    expected = count(workers, values, os.environ)
    security = certificates.of(values, "srun", say)
    with ExitStack() as stack:
        with starting("srun", stack):
            folder = stack.enter_context(remote.from_here(values, expected))
            scheduler = {"cls": ClosedScheduler, "options": remote.scheduler_options(values, security)}
            cluster = stack.enter_context(
                SpecCluster(scheduler=scheduler, workers={}, security=security, silence_logs=logging.CRITICAL)
            )
            words = [] if security is None else stack.enter_context(certificates.files(security, folder / "tls"))
            client = stack.enter_context(Client(cluster))
            command = worker_step(cluster.scheduler_address, workers, memory, values, words, os.environ)
            step, errors = stack.enter_context(_running(command, folder / "srun.err"))

        def fault() -> str | None:
            if step.poll() is None:
                return None
            reason = remote.last_line(errors) or "no reason given; look with sacct -j $SLURM_JOB_ID"
            return f"srun ended with status {step.returncode}: {reason}"

        return remote.connected(client, "srun", stack, expected, values, say, fault, folder)


def count(workers: int | None, values: Mapping[str, Any], job: Mapping[str, str]) -> int:
    """Workers that will come: one for each task of the allocation, or for each GPU of its nodes."""
    if "gpus" in values:
        return int(job.get("SLURM_JOB_NUM_NODES", "1")) * int(values["gpus"])
    return workers or int(job.get("SLURM_NTASKS", "1"))


def share(workers: int | None, values: Mapping[str, Any], job: Mapping[str, str]) -> int:
    """Bytes of each worker: its part of what the allocation has, less a share for this process."""
    mib = 2**20
    expected = count(workers, values, job)
    if "SLURM_MEM_PER_CPU" in job:
        size = int(job["SLURM_MEM_PER_CPU"]) * mib * int(job.get("SLURM_CPUS_PER_TASK", "1"))
        if "gpus" in values:  # its workers share what the tasks have; other workers are tasks themselves
            size = size * int(job.get("SLURM_NTASKS", "1")) // expected
    elif "SLURM_MEM_PER_NODE" in job:
        nodes = int(job.get("SLURM_JOB_NUM_NODES", "1"))
        size = int(job["SLURM_MEM_PER_NODE"]) * mib // -(-expected // nodes)  # some nodes may have one more
    else:
        return remote.memory_of(None)
    return max(MIN_WORKER_BYTES, int(size * WORKERS_SHARE))


def worker_step(
    address: str,
    workers: int | None,
    memory: int,
    values: Mapping[str, Any],
    security: list[str],
    job: Mapping[str, str],
) -> list[str]:
    """The words of the srun command that starts all workers; secrets are in files that they name."""
    gpus = values.get("gpus")
    if gpus:
        nodes = job.get("SLURM_JOB_NUM_NODES", "1")
        tasks = [f"--ntasks={nodes}", "--ntasks-per-node=1", f"--gpus-per-node={gpus}"]
    else:
        tasks = [f"--ntasks={count(workers, values, job)}"]
        if "SLURM_CPUS_PER_TASK" in job:  # srun does not take it from sbatch by itself
            tasks.append(f"--cpus-per-task={job['SLURM_CPUS_PER_TASK']}")
    module = "dask_cuda.cli" if gpus else "distributed.cli.dask_worker"
    words = [sys.executable, "-m", remote.LAUNCHER, "-m", module, address, "--nthreads", "1"]
    words += ["--memory-limit", remote.size_word(memory)]
    words += ["--death-timeout", str(remote.DEATH_TIMEOUT), "--local-directory", job.get("TMPDIR", "/tmp")]
    if "interface" in values:
        words += ["--interface", values["interface"]]
    words += remote.worker_words(gpus=bool(gpus), values=values) + security
    # A worker that ends takes no other with it; its output goes nowhere, srun's own errors to us.
    return ["srun", "--kill-on-bad-exit=0", "--wait=0", "--output=/dev/null", *tasks, *words]


@contextmanager
def _running(command: list[str], said: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    with open(said, "wb") as errors:
        step = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            env={**os.environ, **remote.worker_environment()},
            start_new_session=True,  # Ctrl-C is for the client, which ends it in order
        )
    try:
        yield step, said
    finally:
        step.terminate()
        try:
            step.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            step.kill()
            step.wait()
