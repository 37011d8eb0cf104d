"""Two hosts, as network namespaces: scheduler and client on one, a worker on the other, over TLS."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster import certificates
from flows.options.batch import BatchOptions
from tests.support.one_process import Command, one_process
from tests.system.test_batch import environment, results, write_libsvm

ONE, TWO, PORT = "10.213.77.1", "10.213.77.2", 8786


def _missing() -> str | None:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return "needs root and the ip command"
    probe = f"ikmap-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if made.returncode != 0:
        return f"needs network namespaces: {made.stderr.strip()}"
    subprocess.run(["ip", "netns", "delete", probe], check=True)
    return None


pytestmark = [pytest.mark.system, pytest.mark.netns, pytest.mark.timeout(300)]


class Host:
    """A network namespace, and what runs in it."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.processes: list[subprocess.Popen[bytes]] = []

    def words(self, *words: str) -> list[str]:
        return ["ip", "netns", "exec", self.name, sys.executable, "-m", *words]

    def start(self, *words: str) -> None:
        with open(self.folder / f"{self.name}.log", "ab") as log:
            self.processes.append(
                subprocess.Popen(
                    self.words(*words), env={**environment(), "NUMBA_NUM_THREADS": "1"}, cwd=self.folder,
                    stdout=log, stderr=log, start_new_session=True,
                )
            )  # fmt: skip

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.words(*words), env=environment(), cwd=self.folder, capture_output=True, text=True)


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, Host]]:
    reason = _missing()
    if reason is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("hosts")
    names = [f"ikmap-{letter}-{os.getpid()}" for letter in "ab"]
    links = [f"ikm{letter}{os.getpid() % 10**7}" for letter in "ab"]
    hosts = [Host(name, folder) for name in names]
    one, two = hosts
    try:
        for name in names:
            subprocess.run(["ip", "netns", "add", name], check=True)
            subprocess.run(["ip", "-n", name, "link", "set", "lo", "up"], check=True)
        peers = ["peer", "name", links[1], "netns", names[1]]
        subprocess.run(["ip", "link", "add", links[0], "netns", names[0], "type", "veth", *peers], check=True)
        for name, link, own in zip(names, links, (ONE, TWO), strict=True):
            subprocess.run(["ip", "-n", name, "address", "add", f"{own}/24", "dev", link], check=True)
            subprocess.run(["ip", "-n", name, "link", "set", link, "up"], check=True)
        tls = folder / "tls"
        assert one.run("cluster.certificates", str(tls)).returncode == 0
        words = ["--tls-ca-file", str(tls / certificates.CA), "--tls-cert", str(tls / certificates.CERTIFICATE)]
        words += ["--tls-key", str(tls / certificates.KEY)]
        one.start(
            "distributed.cli.dask_scheduler", "--protocol", "tls", "--host", ONE, "--port", str(PORT),
            "--scheduler-file", str(folder / "scheduler.json"), "--dashboard-address", "127.0.0.1:8787", *words,
        )  # fmt: skip
        _until((folder / "scheduler.json").exists)
        two.start(
            "distributed.cli.dask_worker", "--scheduler-file", str(folder / "scheduler.json"), "--nthreads", "1",
            "--memory-limit", "1GB", "--dashboard-address", "127.0.0.1:0",
            "--death-timeout", "120", "--local-directory", str(folder), *words,
        )  # fmt: skip
        _until(lambda: "Registered to:" in (folder / f"{two.name}.log").read_text())
        yield one, two
    finally:
        for host in hosts:
            for process in host.processes:
                process.terminate()
            for process in host.processes:
                process.wait(30)
        for name in names:
            subprocess.run(["ip", "netns", "delete", name])


def _until(so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_a_run_across_hosts_has_the_same_bits(hosts: tuple[Host, Host]) -> None:
    one, _ = hosts
    folder = one.folder
    file = write_libsvm(folder / "train.libsvm", 900, classes=3)
    words = [
        "--input",
        str(file),
        "--partitioner",
        "anne",
        "--learner",
        "svm,ogd",
        "--t",
        "13",
        "--psi",
        "16",
        "--shard-rows",
        "100",
    ]
    done = one.run(
        "flows.batch", *words, "--no-dask-report", "--run-dir", "far", "--cluster", "file:scheduler.json",
        "--cluster-option", "tls=tls", "--cluster-option", "wait=120",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "tls cluster: 1 worker, 1 thread, 0.93 GiB each, dashboard http://127.0.0.1:8787/status" in done.stderr
    options = BatchOptions(input=str(file), partitioner="anne", learner=("svm", "ogd"), t=13, psi=16, shard_rows=100)
    with one_process():
        Command(options).run(folder / "near")
    assert results(folder / "far") == results(folder / "near")

    secret = (folder / "tls" / certificates.KEY).read_text().splitlines()[2]
    written = [path for path in folder.rglob("*") if path.is_file() and path.parent.name != "tls"]
    assert any(path.name == "metrics.json" for path in written)
    assert not any(secret.encode() in path.read_bytes() for path in written)


ATTEMPTS = """
import sys
from cluster import connect
from pipeline.errors import InputError

for where, tls in (word.split(",") for word in sys.argv[1:]):
    try:
        with connect(where, options=[f"tls={tls}"] if tls else []) as cluster:
            print(cluster.client.submit(sum, [1, 2]).result(), *sorted(cluster.client.nthreads()))
    except InputError as error:
        print(error)
"""


def test_who_has_no_certificate_of_the_cluster_is_refused(hosts: tuple[Host, Host]) -> None:
    _, two = hosts
    certificates.write(two.folder / "other", certificates.temporary())
    (two.folder / "attempts.py").write_text(ATTEMPTS)
    where = f"{ONE}:{PORT}"
    done = subprocess.run(
        ["ip", "netns", "exec", two.name, sys.executable, "attempts.py", f"tls://{where},", f"tls://{where},other",
         f"tcp://{where},", f"tls://{where},tls"],
        env=environment(), cwd=two.folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    without, strange, plain, own = done.stdout.splitlines()
    assert "TLS needs a certificate, expected --cluster-option tls=DIR" in without
    assert "no Dask scheduler answered" in strange
    assert "no Dask scheduler answered" in plain
    answer, address = own.split()
    assert answer == "3"  # nothing else was in their way
    # The worker is on this host, the scheduler is on the other one; they speak TLS.
    assert address.startswith(f"tls://{TWO}:")
