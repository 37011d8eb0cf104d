"""A Slurm of one node for the tests: all of it in a temporary folder, on free ports, with nobody's rights but ours.

Needs Debian's packages slurm-wlm and munge, or the like. Nothing of the system's own Slurm is touched, and what was
started ends with the block. To look around in one: ``python -m tests.support.slurm_host``.
"""

from __future__ import annotations

import getpass
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

#: Beside these are sbatch, srun, scancel and what else Slurm's users run.
DAEMONS = ("munged", "slurmctld", "slurmd")
COMMANDS = ("sbatch", "scancel", "scontrol", "sinfo", "squeue", "srun")
NODE = "one"
#: Of the node, whatever the machine has: the tests' jobs wait for nothing but each other.
CPUS, MEMORY_MB = 4, 16_000
START_SECONDS = 60.0
END_SECONDS = 30.0

CONFIGURATION = """\
ClusterName=ikmap-tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
SchedulerParameters=sched_interval=2,batch_sched_delay=0,sched_min_interval=100000
KillWait=5
CompleteWait=0
ReturnToService=2
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
MailProg=/bin/true
NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} State=UNKNOWN
PartitionName=main Nodes={node} Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str | None:
    """Why there can be no Slurm here, or None."""
    absent = [name for name in (*DAEMONS, *COMMANDS) if _path_of(name) is None]
    return f"needs Slurm and MUNGE (Debian: slurm-wlm, munge): found no {', '.join(absent)}" if absent else None


def _path_of(name: str) -> str | None:
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin"]))


@contextmanager
def one_host_slurm() -> Iterator[dict[str, str]]:
    """Start it and give the environment in which Slurm's commands find it; end its jobs, then itself.

    Raises
    ------
    RuntimeError
        If it does not come up, with what its daemons wrote last.
    """
    with ExitStack() as stack:
        # Not in a folder of pytest's: the path of a socket has to be short.
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="ikmap-slurm-", ignore_cleanup_errors=True))
        )
        for name in ("state", "spool"):
            (folder / name).mkdir()
        (folder / "munge.key").write_bytes(os.urandom(128))
        (folder / "munge.key").chmod(0o400)
        folder.chmod(0o755)  # munged wants its socket to be in reach of everybody
        configuration = CONFIGURATION.format(
            folder=folder, host=socket.gethostname().partition(".")[0], ports=_free_ports(2), user=getpass.getuser(),
            node=NODE, cpus=CPUS, memory=MEMORY_MB,
        )  # fmt: skip
        (folder / "slurm.conf").write_text(configuration)
        environment = {"SLURM_CONF": str(folder / "slurm.conf")}
        munged = ["--foreground", f"--socket={folder}/munge.socket", f"--key-file={folder}/munge.key"]
        munged += [f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/seed"]
        stack.enter_context(_daemon(folder, environment, "munged", *munged))
        _await(lambda: (folder / "munge.socket").exists(), folder)
        stack.enter_context(_daemon(folder, environment, "slurmctld", "-D"))
        stack.enter_context(_daemon(folder, environment, "slurmd", "-D", "-N", NODE))
        _await(lambda: _said(environment, "sinfo", "-h", "-o", "%t") == "idle", folder)
        try:
            yield environment
        finally:
            _said(environment, "scancel", "--full", f"--user={getpass.getuser()}")
            deadline = time.monotonic() + END_SECONDS
            while _said(environment, "squeue", "-h") and time.monotonic() < deadline:
                time.sleep(0.1)


@contextmanager
def _daemon(folder: Path, environment: dict[str, str], name: str, *words: str) -> Iterator[None]:
    command = [_path_of(name) or name, *words]
    with open(folder / f"{name}.err", "wb") as said:
        process = subprocess.Popen(
            command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            start_new_session=True,
        )  # fmt: skip
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await(condition: Callable[[], bool], folder: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            lines = [f"{path.name}: {line}" for path in sorted(folder.glob("*.[el][or][rg]"))
                     for line in path.read_text(errors="replace").splitlines()[-3:]]  # fmt: skip
            raise RuntimeError("Slurm did not come up; " + "; ".join(lines))
        time.sleep(0.05)


def _said(environment: dict[str, str], *words: str) -> str:
    done = subprocess.run(words, env={**os.environ, **environment}, capture_output=True, text=True)
    return done.stdout.strip()


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(closing(socket.socket())) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


if __name__ == "__main__":
    with one_host_slurm() as where:
        shell = os.environ.get("SHELL", "/bin/sh")
        print(f"SLURM_CONF={where['SLURM_CONF']}: a shell follows; it ends with the shell", file=sys.stderr)
        subprocess.run([shell], env={**os.environ, **where})
