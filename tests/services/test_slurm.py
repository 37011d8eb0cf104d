"""A real Slurm: workers as jobs of their own, one of which is cancelled; a whole run as one job, stopped and resumed.

The Slurm is one of our own, on this host alone (`tests.support.slurm_host`).
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.certificates import KEY
from flows.options.batch import BatchOptions
from tests import ROOT
from tests.support.one_process import Command, one_process
from tests.support.slurm_host import missing, one_host_slurm
from tests.system.test_batch import environment, results, write_libsvm

WAIT_SECONDS = 240


def _missing() -> str | None:
    if importlib.util.find_spec("dask_jobqueue") is None:
        return "needs dask-jobqueue, which is an extra"
    return missing()


pytestmark = [
    pytest.mark.system,
    pytest.mark.slurm,
    pytest.mark.timeout(600),
    pytest.mark.skipif(_missing() is not None, reason=str(_missing())),
]


@pytest.fixture(scope="module", autouse=True)
def _host() -> Iterator[None]:
    with one_host_slurm() as where, pytest.MonkeyPatch.context() as patch:
        for name, value in where.items():
            patch.setenv(name, value)
        yield


def slurm(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True).stdout


def await_that(condition: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + WAIT_SECONDS
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.05)
    return found


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    file = write_libsvm(tmp_path_factory.mktemp("data") / "train.libsvm", 8_000, classes=3)
    return [
        "--input",
        str(file),
        "--partitioner",
        "anne",
        "--learner",
        "svm,ogd",
        "--t",
        "100",
        "--psi",
        "256",
        "--shard-rows",
        "100",
    ]


@pytest.fixture(scope="module")
def expected(words: list[str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The result of the same run on this host alone."""
    folder = tmp_path_factory.mktemp("local")
    options = BatchOptions(input=words[1], partitioner="anne", learner=("svm", "ogd"), t=100, psi=256, shard_rows=100)
    with one_process():
        Command(options).run(folder)
    return results(folder)


def files_of(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and "store.zarr" not in path.parts]


def processes() -> str:
    """Arguments of every process of this host."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return "\n".join(found)


def options_of(folder: Path) -> list[str]:
    """Settings of worker jobs that are marked by the name of a folder."""
    site = [f"shared={folder}", f"logs={folder / 'logs'}", "interface=lo", "walltime=00:20:00"]
    return [*site, f"directive=--comment={folder}"]


def submitting(words: list[str], folder: Path, *more: str) -> subprocess.Popen[str]:
    """A run in a folder, whose workers are Slurm jobs."""
    flags = [word for option in options_of(folder) for word in ("--cluster-option", option)]
    command = [sys.executable, "-m", "flows.batch", "--no-dask-report", *words, "--cluster", "slurm", *more, *flags]
    command += ["--memory-limit", "1GB", "--run-dir", str(folder / "run")]
    return subprocess.Popen(
        command, env=environment(), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def jobs_of(folder: Path) -> list[str]:
    """Its worker jobs that are running."""
    lines = slurm("squeue", "-h", "-o", "%i %T %k").splitlines()
    return [line.split()[0] for line in lines if line.endswith(f" {folder}") and " RUNNING " in line]


def test_a_worker_job_is_cancelled_and_the_run_has_the_same_bits(
    words: list[str], expected: dict[str, Any], tmp_path: Path
) -> None:
    process = submitting(words, tmp_path, "--workers", "2")

    def half_way() -> bool:
        assert process.poll() is None, process.stdout and process.stdout.read()
        return len(jobs_of(tmp_path)) == 2 and len(list((tmp_path / "run/records/cells").glob("*.json"))) > 3

    try:
        await_that(half_way, "the cells, by two jobs")
        (key_file,) = tmp_path.glob("ikmap-dask-*/.dask-jobqueue.worker.key.*")
        assert key_file.stat().st_mode & 0o077 == 0
        assert key_file.parent.stat().st_mode & 0o077 == 0
        secret = key_file.read_text().splitlines()[2]
        job, *_ = jobs_of(tmp_path)
        script = slurm("scontrol", "write", "batch_script", job, "-")
        subprocess.run(["scancel", job], check=True)
        arguments = processes()
        shown, _ = process.communicate(timeout=WAIT_SECONDS)
    finally:
        process.kill()
        assert process.stdout is not None
        process.stdout.close()
    assert process.returncode == 0, shown
    assert results(tmp_path / "run") == expected
    assert "slurm cluster: 2 workers, 2 threads" in shown
    assert re.search(
        r"dashboard http://127\.0\.0\.1:(\d+), full address in \S+/dashboard \(from elsewhere: ssh -L "
        r"8787:127\.0\.0\.1:\1 ",
        shown,
    )

    assert str(key_file) in script
    assert str(key_file) in arguments  # it is named there
    texts = [script, arguments, shown, *(path.read_text(errors="replace") for path in files_of(tmp_path))]
    assert not any(secret in text or "PRIVATE KEY" in text for text in texts)
    assert not key_file.parent.exists()
    await_that(lambda: not jobs_of(tmp_path), "the end of all worker jobs")
    metrics = json.loads((tmp_path / "run/metrics.json").read_text())
    assert metrics["run"]["cluster"]["kind"] == "slurm"


MEETING = """
import os, sys, time
from pathlib import Path
from cluster import connect
from pipeline.running.dispatch import Task, run_tasks

def meet(folder):
    Path(folder, str(os.getpid())).touch()
    while len(os.listdir(folder)) < 2:
        time.sleep(0.1)
    return {}

if __name__ == "__main__":
    folder, *options = sys.argv[1:]
    with connect("slurm", memory_limit="1GB", options=[*options, "minimum=1", "maximum=2"]) as cluster:
        done = list(run_tasks(cluster.client, "meet", meet, [Task(f"k-{k}", (folder,)) for k in range(4)]))
        print(cluster.workers, len(done))
"""


def test_more_workers_are_asked_for_as_there_is_work(tmp_path: Path) -> None:
    """Its tasks end only when two workers are at work on them; one is there at first."""
    (tmp_path / "script.py").write_text(MEETING)
    (tmp_path / "met").mkdir()
    command = [sys.executable, "script.py", str(tmp_path / "met"), *options_of(tmp_path)]
    done = subprocess.run(
        command, env=environment(), cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_SECONDS
    )
    assert (done.stdout, done.stderr, done.returncode) == ("1 4\n", "", 0)
    await_that(lambda: not jobs_of(tmp_path), "the end of all worker jobs")


LOSING = """
import sys
from cluster import connect, slurm

if __name__ == "__main__":
    slurm.LOST_JOBS_SECONDS = 1.0
    with connect("slurm", workers=2, memory_limit="1GB", options=sys.argv[1:], say=print) as cluster:
        cluster.client.wait_for_workers(2, timeout=200)
"""


def test_a_job_that_ends_before_its_worker_comes_is_asked_for_again(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(LOSING)
    once = f"prologue=mkdir {tmp_path}/once && echo this node is broken >&2 && exit 1"
    command = [sys.executable, "script.py", *options_of(tmp_path), once]
    done = subprocess.run(
        command, env=environment(), cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_SECONDS
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert re.search(r"of use: 1; others are asked for \(.*ikmap-worker-\d+\.err: this node is broken\)", done.stdout)
    await_that(lambda: not jobs_of(tmp_path), "the end of all worker jobs")


def test_a_job_that_is_told_of_its_limit_goes_on_where_it_stopped(
    words: list[str], expected: dict[str, Any], tmp_path: Path
) -> None:
    """The batch script, told as Slurm tells before the limit, ends resumable; the same command then finishes."""
    site = {"IKMAP_PYTHON": sys.executable, "IKMAP_CLUSTER_INTERFACE": "lo", "IKMAP_CLUSTER_SHARED": str(tmp_path)}
    script = ["sbatch", "--parsable", "--no-requeue", "--mem-per-cpu=1G", "-J", "limited", "-o", "out.txt"]

    def submit() -> str:
        command = [*script, str(ROOT / "cluster/slurm/batch.sbatch"), *words]
        done = subprocess.run(command, cwd=tmp_path, env={**environment(), **site}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def ended(job: str) -> bool:
        return not slurm("squeue", "-h", "-j", job, "-o", "%T").strip()

    output, run = tmp_path / "out.txt", tmp_path / "runs/limited"
    job = submit()
    try:
        records = run / "records/cells"
        await_that(lambda: ended(job) or len(list(records.glob("*.json"))) > 3, "the cells")
        subprocess.run(["scancel", "--batch", "--signal=USR1", job], check=True)
        await_that(lambda: ended(job), "the end of the job that was told")
        assert "interrupted; run python -m flows.batch" in output.read_text()
        assert not (run / "metrics.json").exists()
        secret_folders = [path for path in tmp_path.iterdir() if path.name.startswith("ikmap-dask-")]
        assert not any((path / "tls" / KEY).exists() for path in secret_folders)
        job = submit()
        await_that(lambda: ended(job), "the end of the job that goes on")
    finally:
        subprocess.run(["scancel", job], capture_output=True)
    assert results(run) == expected, output.read_text()
    stages = {stage["name"]: stage for stage in json.loads((run / "metrics.json").read_text())["stages"]}
    assert stages["cells"]["tasks_skipped"] > 3
    assert "srun cluster: 2 workers" in output.read_text()
    assert "PRIVATE KEY" not in output.read_text()


def test_what_slurm_does_not_take_is_one_line(tmp_path: Path) -> None:
    flags = ["--cluster-option", "queue=nowhere", "--cluster-option", f"shared={tmp_path}"]
    command = [
        sys.executable,
        "-m",
        "flows.batch",
        "--no-dask-report",
        "--psi",
        "4",
        "--cluster",
        "slurm",
        "--workers",
        "1",
        *flags,
    ]
    done = subprocess.run(command, env=environment(), cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: --cluster slurm: ")
    assert "invalid partition specified: nowhere" in done.stderr
    assert os.listdir(tmp_path / "slurm-logs") == []


def test_worker_jobs_that_end_at_once_are_told(tmp_path: Path) -> None:
    process = submitting([], tmp_path, "--workers", "2", "--cluster-option", "prologue=echo no such module >&2; exit 1")
    shown, _ = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 2
    assert re.search(r"^error: --cluster slurm: the worker jobs ended before .*ikmap-worker-\d+\.err: no such module$",
                     shown.splitlines()[-1])  # fmt: skip
