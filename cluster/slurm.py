"""Workers as Slurm jobs, by dask-jobqueue; the scheduler is in this process.

A job that ends, at its limit or by hand, is asked for again as long as the run lasts.
"""

from __future__ import annotations

import logging
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from asyncio import to_thread
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import dask
from dask.utils import key_split
from distributed import Client, SchedulerPlugin
from tornado.ioloop import PeriodicCallback

from cluster import certificates, remote
from cluster._starting import starting
from cluster.closed import ClosedScheduler
from cluster.handle import ClusterHandle
from cluster.settings import scale
from pipeline.errors import InputError
from pipeline.running.dispatch import LOSSES

WALLTIME = "01:00:00"
LOGS = "slurm-logs"
JOB_NAME = "ikmap-worker"
#: A worker leaves so many seconds before its job's limit, so that its tasks are not counted as accidents ...
LEAVE_SECONDS = 60
#: ... where that leaves it at least so many.
LEAST_SECONDS = 300
#: Of work in sight, for which one more worker is asked for. Tasks are handed out as they can be done: it is never much.
WORK_SECONDS = "0.5s"
#: Looks, one a second, that find a worker idle before it is let go: whoever leaves has to queue again.
IDLE_LOOKS = 60
#: Between two looks for jobs that ended before their workers came.
LOST_JOBS_SECONDS = 15.0
#: Blanks and quotes: dask-jobqueue writes paths into job scripts as they are, for Slurm and the shell to read.
_NOT_IN_SCRIPTS = re.compile(r"[\s\"'\\]")


def start(
    *, workers: int | None, memory_limit: str | None, values: Mapping[str, Any], say: Callable[[str], None]
) -> ClusterHandle:
    """Submit worker jobs and connect to the first that come.

    Raises
    ------
    InputError
        Where there is no Slurm, for a folder that no job script can name, for a job that Slurm does not take, or when
        no worker comes.
    """
    fewest, most = scale("slurm", workers, values)
    _check_folders(values)
    memory = remote.memory_of(memory_limit)
    SLURMCluster = _jobqueue().SLURMCluster
    if shutil.which("sbatch") is None:
        raise InputError("--cluster slurm: found no sbatch here, expected a host that can submit Slurm jobs")
    security = certificates.of(values, "slurm", say)
    with ExitStack() as stack:
        with starting("slurm", stack):
            folder = stack.enter_context(remote.from_here(values, most))
            cluster = SLURMCluster(
                n_workers=0,
                security=security,
                protocol=certificates.protocol(security),
                scheduler_cls=ClosedScheduler,
                shared_temp_directory=str(folder),
                scheduler_options=remote.scheduler_options(values, security),
                silence_logs=logging.CRITICAL,
                **job_options(values, memory, explicit=memory_limit is not None),
            )
            stack.callback(_close, cluster)
            cluster.loop.add_callback(cluster.scheduler.add_plugin, Interruptions(_walltime(values), say))
            client = stack.enter_context(Client(cluster))
            try:
                # Submitted here and now, so that a job Slurm does not take is told.
                cluster.sync(_submit, cluster, fewest)
            except RuntimeError as error:
                raise InputError(f"--cluster slurm: {_reason(error)}") from None
            # Also with a fixed number: jobs that are lost are replaced.
            cluster.adapt(minimum=fewest, maximum=most, target_duration=WORK_SECONDS, wait_count=IDLE_LOOKS)
            replacing = _replacing_lost_jobs(cluster, values, say)
            stack.callback(cluster.loop.add_callback, replacing.stop)
        handle = remote.connected(client, "slurm", stack, fewest, values, say, partial(_fault, cluster, values), folder)
        # Not before: where the first jobs come to nothing, so would all others.
        cluster.loop.add_callback(replacing.start)
        return handle


def job_options(values: Mapping[str, Any], memory: int, *, explicit: bool = True) -> dict[str, Any]:
    """Return the options of dask-jobqueue for each worker job.

    Parameters
    ----------
    memory
        Bytes of each worker.
    explicit
        Whether somebody asked for that; for GPU jobs it is else left to the site, which often gives memory with GPUs.
    """
    gpus = values.get("gpus")
    cores = values.get("cores", gpus or 1)
    processes = gpus or cores
    walltime = _walltime(values)
    lines = [f"export {name}={value}" for name, value in sorted(remote.worker_environment().items())]
    if seconds_of(walltime) - LEAVE_SECONDS >= LEAST_SECONDS:
        lines.append(f"export DASK_DISTRIBUTED__WORKER__LIFETIME__DURATION={seconds_of(walltime) - LEAVE_SECONDS}s")
    return {
        "queue": values.get("queue"),
        "account": values.get("account"),
        "walltime": walltime,
        "job_name": JOB_NAME,
        "cores": processes,  # of Dask: one thread for each process
        "job_cpu": cores,
        "processes": processes,
        "memory": remote.size_word(memory * processes),
        "interface": values.get("interface"),
        "death_timeout": remote.DEATH_TIMEOUT,
        "python": f"{_python()} -m {remote.LAUNCHER}",
        "local_directory": '"${TMPDIR:-/tmp}"',  # a word of the script
        "log_directory": str(_logs(values)),
        "worker_command": "dask_cuda.cli" if gpus else "distributed.cli.dask_worker",
        "worker_extra_args": remote.worker_words(gpus=bool(gpus), values=values),
        "job_directives_skip": ["--mem"] if gpus and not explicit else [],
        "job_extra_directives": [*([f"--gpus={gpus}"] if gpus else []), *values.get("directive", ())],
        "job_script_prologue": [*values.get("prologue", ()), *lines],
    }


class Interruptions(SchedulerPlugin):
    """A plug-in of the scheduler that tells of tasks that are interrupted again and again as worker jobs end.

    Dask does not count a worker that leaves before its job's limit as an accident: a task that takes longer than a job
    may run is begun anew for ever, and nothing else says so. It is not given up, for it may fit into a job and only
    have come to workers that were about to leave.

    Parameters
    ----------
    walltime : str
        Limit of each job.
    say : callable
        Function that shows a line.
    """

    name = "ikmap-interruptions"

    def __init__(self, walltime: str, say: Callable[[str], None]) -> None:
        self._walltime, self._say = walltime, say
        self._times = Counter[str]()

    def log_event(self, topic: str, msg: Any) -> None:
        """Count the tasks of a worker that leaves in order: Dask calls it for every event of the scheduler."""
        if topic != "all" or msg.get("action") != "remove-worker" or not msg["expected"]:
            return
        for key in msg["processing-tasks"]:
            self._times[key] += 1
            times, stage = self._times[key], key_split(key).replace("_", ":")
            if times % LOSSES == 0:
                self._say(
                    f"a task of {stage} was begun {times} times and not ended, as its workers left at the limit of "
                    f"their jobs ({self._walltime}); if it takes longer than that, end this command and type it again "
                    "with --cluster-option walltime=TIME, a longer one"
                )


def _fault(cluster: Any, values: Mapping[str, Any]) -> str | None:
    """Return the reason why no worker will come: all jobs that were submitted are gone. None if one may come."""
    jobs = _jobs_of(cluster)
    if not jobs or set(_gone(jobs)) != set(jobs):
        return None
    return f"the worker jobs ended before a worker came; {_last_words(jobs.values(), values)}"


def _replacing_lost_jobs(cluster: Any, values: Mapping[str, Any], say: Callable[[str], None]) -> PeriodicCallback:
    """Give up jobs that ended before their workers came, so that others are asked for: Dask would wait for ever."""

    async def look() -> None:
        there = {str(worker["name"]) for worker in cluster.scheduler_info["workers"].values()}
        # A job of several workers has names such as SLURMCluster-0-1.
        awaited = {
            name: job
            for name, job in _jobs_of(cluster).items()
            if not any(known == str(name) or known.startswith(f"{name}-") for known in there)
        }
        lost = await to_thread(_gone, awaited)
        if lost:
            words = _last_words([awaited[name] for name in lost], values)
            say(f"worker jobs that ended before they were of use: {len(lost)}; others are asked for ({words})")
            await cluster.scale_down(lost)

    return PeriodicCallback(look, LOST_JOBS_SECONDS * 1000)


def _jobs_of(cluster: Any) -> dict[str, str]:
    """Number of every job that has been submitted, by its name in Dask."""
    return {name: str(worker.job_id) for name, worker in cluster.workers.items() if worker.job_id}


def _gone(jobs: Mapping[str, str]) -> list[str]:
    """Names of those jobs that Slurm, as far as it answers, has no more."""
    queue = subprocess.run(["squeue", "-h", "-o", "%i", f"--name={JOB_NAME}"], capture_output=True, text=True)
    there = set(queue.stdout.split())
    return [name for name, job in jobs.items() if job not in there] if queue.returncode == 0 else []


def _last_words(jobs: Iterable[str], values: Mapping[str, Any]) -> str:
    errors = [_logs(values) / f"{JOB_NAME}-{job}.err" for job in sorted(jobs)]
    return next((f"{path}: {line}" for path in errors if (line := remote.last_line(path))), f"see {_logs(values)}")


def _logs(values: Mapping[str, Any]) -> Path:
    return Path(values.get("logs", LOGS)).expanduser().absolute()


def _python() -> str:
    """Command of Python in a job script: the configured one, else this Python."""
    return str(dask.config.get("jobqueue.slurm.python", None) or shlex.quote(sys.executable))


def _check_folders(values: Mapping[str, Any]) -> None:
    """Refuse folders that no job script can name.

    Raises
    ------
    InputError
    """
    folders = {"logs": _logs(values)}
    tls = values.get("tls")
    if tls is None:  # jobs are told of temporary certificates in it
        folders["shared"] = remote.shared_parent(values)
    elif tls != certificates.OFF:
        folders["tls"] = Path(tls).expanduser().absolute()
    for option, folder in folders.items():
        if sign := _NOT_IN_SCRIPTS.search(str(folder)):
            raise InputError(
                f"--cluster slurm: {folder}: found {sign[0]!r}, expected a path without blanks and quotes, which "
                f"the scripts of worker jobs cannot name; type --cluster-option {option}=DIR with another folder"
            )


def _walltime(values: Mapping[str, Any]) -> str:
    return str(values.get("walltime", WALLTIME))


def seconds_of(walltime: str) -> int:
    """Seconds of a time of Slurm's: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]]."""
    days, dash, rest = walltime.rpartition("-")
    numbers = [int(number) for number in rest.split(":")]
    if dash:
        hours, minutes, seconds = [*numbers, 0, 0][:3]
        return ((int(days) * 24 + hours) * 60 + minutes) * 60 + seconds
    if len(numbers) == 3:
        return (numbers[0] * 60 + numbers[1]) * 60 + numbers[2]
    return numbers[0] * 60 + (numbers[1] if len(numbers) == 2 else 0)


def _jobqueue() -> ModuleType:
    """dask-jobqueue, which makes Ctrl-C end the process with status 0 when it is imported: undone."""
    handler = signal.getsignal(signal.SIGINT)
    import dask_jobqueue

    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, handler)
    return dask_jobqueue


async def _submit(cluster: Any, workers: int) -> None:
    cluster.scale(workers)
    await cluster


def _close(cluster: Any) -> None:
    with suppress(AssertionError):  # in the end, about jobs that Slurm did not take
        cluster.close()


def _reason(error: RuntimeError) -> str:
    """Return the message of Slurm, out of all that dask-jobqueue says."""
    lines = [line.partition("error: ")[2] for line in str(error).splitlines() if "error: " in line]
    return "; ".join(lines) or " ".join(str(error).split())
