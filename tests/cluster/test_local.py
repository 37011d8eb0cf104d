"""Clusters: what is started, what workers see, what is refused, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import errno
import io
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import dask
import psutil
import pytest
from distributed import Worker

import cluster
from cluster import _forking, address, certificates, local, remote, targets
from cluster._quiet import interrupts_held
from cluster._scratch import folder_of_workers, scratch_folder
from cluster._starting import starting
from cluster.closed import PAGES
from cluster.handle import ClusterHandle, nearest
from pipeline.errors import InputError
from tests import ROOT
from tests.support.narrow import address_of, present

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def tls_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("cluster") / "tls"
    certificates.write(folder, certificates.temporary())
    return f"tls={folder}"


@pytest.fixture(scope="module")
def two_workers(tls_folder: str) -> Iterator[ClusterHandle]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "7")
        with cluster.connect("local", workers=2, memory_limit="1GB", options=[tls_folder]) as handle:
            yield handle


def _worker_view() -> dict[str, object]:
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    return {
        "threads": {os.environ.get(name) for name in names},
        "signals": signal.pthread_sigmask(signal.SIG_BLOCK, set()),
        "pid": os.getpid(),
    }


def test_handle_says_what_was_started(two_workers: ClusterHandle) -> None:
    handle = two_workers
    assert (handle.kind, handle.workers, handle.threads, handle.memory_limit) == ("local", 2, 2, 10**9)
    assert handle.record() == {"kind": "local", "workers": 2, "threads": 2}
    assert handle.describe().startswith("local cluster: 2 workers, 2 threads, 0.93 GiB each, dashboard http")


def _what_is_loaded() -> tuple[str, list[str]]:
    parent = psutil.Process().parent()
    assert parent is not None
    return " ".join(parent.cmdline()), [name for name in _forking.PRELOADED if name in sys.modules]


def test_workers_are_forked_from_a_process_that_has_imported_what_they_need(two_workers: ClusterHandle) -> None:
    found = two_workers.client.run(_what_is_loaded)
    assert len(found) == 2
    for command, loaded in found.values():
        assert "multiprocessing.forkserver" in command
        assert loaded == _forking.PRELOADED


def test_forked_workers_have_the_variables_that_are_set_as_they_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IKMAP_TEST_VARIABLE", "set after the fork server has started")
    with cluster.connect("local", workers=1, memory_limit="1GB") as handle:
        (found,) = handle.client.run(os.environ.get, "IKMAP_TEST_VARIABLE").values()
    assert found == "set after the fork server has started"


def test_the_address_of_the_dashboard_is_for_its_user_alone(
    two_workers: ClusterHandle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terminal shows it; a log, which others may read, says where it stands."""
    monkeypatch.setattr("sys.stderr", Terminal())
    assert two_workers.describe().endswith(f", dashboard {two_workers.dashboard_link}")
    monkeypatch.undo()
    link = present(two_workers.dashboard_link)
    secret = urlsplit(link).path.split("/")[1]
    assert len(secret) == 32
    assert secret not in two_workers.describe()
    note = Path(two_workers.describe().rpartition(" in ")[2])
    assert note.read_text() == f"{two_workers.dashboard_link}\n"
    assert note.stat().st_mode & 0o777 == 0o600
    assert note.parent.stat().st_mode & 0o777 == 0o700
    assert link.startswith(f"{two_workers.dashboard_server}/{secret}/")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_dashboard_answers_on_loopback(two_workers: ClusterHandle) -> None:
    link = present(two_workers.dashboard_link)
    assert link.startswith("http://127.0.0.1:")
    with urlopen(link, timeout=30) as page:
        assert page.status == 200


def test_everything_listens_on_loopback_only(two_workers: ClusterHandle) -> None:
    pids = {os.getpid(), *(view["pid"] for view in two_workers.client.run(_worker_view).values())}
    listening = [
        c.laddr.ip for pid in pids for c in psutil.Process(pid).net_connections("inet") if c.status == "LISTEN"
    ]
    assert len(listening) >= 4
    assert set(listening) == {"127.0.0.1"}


def test_workers_are_processes_with_one_thread_each(two_workers: ClusterHandle) -> None:
    views = list(two_workers.client.run(_worker_view).values())
    assert len({view["pid"] for view in views} | {os.getpid()}) == 3
    assert all(view["threads"] == {"1"} for view in views)
    assert set(two_workers.client.nthreads().values()) == {1}


def test_workers_keep_their_files_away_from_here(two_workers: ClusterHandle) -> None:
    def directory(dask_worker: Worker) -> str:
        return dask_worker.local_directory

    for path in two_workers.client.run(directory).values():
        assert not Path(path).resolve().is_relative_to(Path.cwd())


def test_address_connects_and_leaves_the_cluster_running(two_workers: ClusterHandle, tls_folder: str) -> None:
    where = address_of(two_workers)
    said: list[str] = []
    with cluster.connect(where, options=[tls_folder], say=said.append) as handle:
        assert (handle.kind, handle.workers, handle.threads) == ("tls", 2, 2)
        assert handle.dashboard_link == two_workers.dashboard_link
        assert said == []
        assert handle.client.submit(sum, [1, 2]).result() == 3
    handle.close()
    assert two_workers.client.submit(sum, [2, 2]).result() == 4
    assert len(two_workers.client.nthreads()) == 2


@pytest.mark.parametrize("option", [{"workers": 2}, {"memory_limit": "1GB"}])
def test_address_has_its_own_workers(two_workers: ClusterHandle, option: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="which has its own workers"):
        cluster.connect(address_of(two_workers), **option)


def test_address_where_nobody_or_somebody_else_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(address, "ANSWER_SECONDS", 0.3)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        where = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(InputError, match=f"{where}: no Dask scheduler answered within 0.3 seconds"):
            cluster.connect(where)
        silent.listen()
        with pytest.raises(InputError, match=f"{where}: no Dask scheduler answered within 0.3 seconds"):
            cluster.connect(where)


def test_scheduler_without_workers() -> None:
    class Client:
        scheduler = None

        def sync(self, func: Callable[..., Any], *args: Any) -> Any:
            return asyncio.run(func(*args))

    client: Any = Client()
    with pytest.raises(InputError, match="tcp://x:1: the scheduler has no workers"):
        address.wait_for_a_worker(client, "tcp://x:1", 0.1)


@pytest.mark.parametrize(
    ("kind", "options", "line"),
    [
        ("slurm", {}, "--workers: required with --cluster slurm, or --cluster-option maximum=N"),
        ("kubernetes", {"workers": 1}, "--cluster kubernetes: required, not given: --cluster-option image=NAME"),
        ("local", {"options": ["queue=a"]}, "found --cluster local, expected slurm"),
        ("lokal", {}, "found 'lokal', expected one of local"),
        ("tcp://", {}, "expected an address such as tcp://host:8786"),
        ("tcp://host:port", {}, "expected an address such as tcp://host:8786"),
        ("tls://127.0.0.1:1", {}, "TLS"),
        ("local", {"workers": 0}, "--workers: found 0, expected an integer >= 1"),
        ("local", {"workers": -2}, "--workers: found -2, expected an integer >= 1"),
        ("local", {"memory_limit": "lots"}, "--memory-limit: found 'lots', expected a size such as 4GB"),
        ("local", {"memory_limit": "4 parsecs"}, "--memory-limit: found '4 parsecs'"),
        ("local", {"memory_limit": "4"}, "--memory-limit: found '4', expected at least"),
        ("local", {"memory_limit": "-4GB"}, "--memory-limit: found '-4GB', expected at least"),
    ],
)
def test_refusals_are_one_line(kind: str, options: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError) as caught:
        cluster.connect(kind, **options)
    assert line in str(caught.value)
    assert "\n" not in str(caught.value)


def test_memory_is_shared_between_workers() -> None:
    assert local.worker_memory("4GB", 3) == 4 * 10**9
    one, four = local.worker_memory(None, 1), local.worker_memory(None, 4)
    assert four < one < psutil.virtual_memory().total
    assert local.worker_memory(None, 10**9) == local.MIN_WORKER_BYTES
    assert local.worker_memory(None, 2, lambda: 10**9) == local.WORKERS_SHARE * 10**9 / 2


def test_usable_cores() -> None:
    assert 1 <= local.usable_cores() <= len(os.sched_getaffinity(0))


@pytest.fixture
def interruptible() -> Iterator[None]:
    """A process started in the background of a plain shell ignores SIGINT; here it must not."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_interrupt_waits_for_the_end_of_the_block() -> None:
    before, reached = signal.getsignal(signal.SIGINT), []
    with pytest.raises(KeyboardInterrupt), interrupts_held():  # noqa: PT012
        signal.raise_signal(signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        reached.append(True)
    assert reached == [True]
    assert signal.getsignal(signal.SIGINT) is before
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, set())


def test_interrupts_are_held_outside_the_main_thread_too() -> None:
    masks = []

    def work() -> None:
        with interrupts_held():
            masks.append(signal.pthread_sigmask(signal.SIG_BLOCK, set()))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert signal.SIGINT in masks[0]


SCRIPT = """
import os, sys, tempfile
import cluster

def die(number):
    os._exit(3)

if __name__ == "__main__":
    names = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "MALLOC_TRIM_THRESHOLD_", "DASK_LOGGING__DISTRIBUTED")
    before = [os.environ.get(name) for name in names]
    with cluster.connect("local", workers=1, memory_limit="1GB") as handle:
        print("pandas" in sys.modules)
        try:
            handle.client.submit(die, 1).result()
        except Exception as error:
            print(type(error).__name__)
    folders = [name for name in os.listdir(tempfile.gettempdir()) if not name.startswith("pymp-")]
    print([os.environ.get(name) for name in names] == before, folders)
"""


def test_script_with_dying_worker_ends_without_noise_and_has_loaded_no_tables(tmp_path: Path) -> None:
    """Dask would import pandas and Arrow into it, which take as long as all else that a client does."""
    script, scratch, here = tmp_path / "script.py", tmp_path / "scratch", tmp_path / "here"
    script.write_text(SCRIPT)
    scratch.mkdir()
    here.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(scratch)}
    done = subprocess.run(
        [sys.executable, script], cwd=here, env=environment, capture_output=True, text=True, timeout=500
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.splitlines() == ["False", "KilledWorker", "True []"]
    assert list(scratch.iterdir()) == []  # nor the folder of Python's own for the socket of its fork server
    # Of a killed process `make coverage` finds no more than the file that it had begun.
    assert [path for path in here.iterdir() if not path.name.startswith(".coverage")] == []


def test_scratch_folders_of_dead_processes_are_removed_and_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    script = """
import os
from cluster._scratch import scratch_folder
from cluster.handle import nearest
with scratch_folder() as folder:
    open(folder + "/spilled", "w").close()
    print(folder, flush=True)
    os.kill(os.getpid(), 9)
"""
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    killed = subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=environment, capture_output=True, text=True)
    leftover = Path(killed.stdout.strip())
    unknown = tmp_path / "ikmap-dask-unknown"
    unknown.mkdir()
    (tmp_path / "other").mkdir()
    assert (leftover / "spilled").exists()
    with scratch_folder() as mine:
        assert not leftover.exists()
        with scratch_folder() as second:  # as another process would: what lives stays
            assert Path(mine).exists()
        assert not Path(second).exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ikmap-dask-unknown", "other"]


def test_workers_keep_their_files_where_nobody_else_can_put_any(tmp_path: Path) -> None:
    folder = folder_of_workers(str(tmp_path))
    assert folder.stat().st_mode & 0o777 == 0o700
    assert folder_of_workers(str(tmp_path)) == folder
    folder.chmod(0o777)  # as somebody else would make it
    other = folder_of_workers(str(tmp_path))
    assert other != folder
    assert other.stat().st_mode & 0o777 == 0o700
    folder.rmdir()
    folder.symlink_to(tmp_path / "elsewhere")
    assert folder_of_workers(str(tmp_path)) not in (folder, other)


def test_a_scheduler_of_remote_workers_keeps_its_files_to_itself(tmp_path: Path) -> None:
    """Python looks for modules there."""
    with remote.from_here({"shared": str(tmp_path)}, 1):
        scratch = Path(dask.config.get("temporary-directory"))
        assert scratch.name.startswith("ikmap-dask-")
        assert scratch.stat().st_mode & 0o777 == 0o700
    assert not scratch.exists()


def test_a_worker_that_is_started_elsewhere_is_closed_too(
    two_workers: ClusterHandle, tls_folder: str, tmp_path: Path
) -> None:
    """Somebody has made the folder that Dask would use, in which Python would then look for modules."""
    (tmp_path / "dask-scratch-space").mkdir()
    (tmp_path / "dask-scratch-space").chmod(0o777)
    before = set(two_workers.client.scheduler_info(n_workers=-1)["workers"])
    folder = Path(tls_folder.removeprefix("tls="))
    words = [sys.executable, "-m", remote.LAUNCHER, "-m", "distributed.cli.dask_worker"]
    words += [address_of(two_workers), "--nthreads", "1", "--memory-limit", "1GB"]
    words += ["--local-directory", str(tmp_path), *remote.worker_words(gpus=False, values={})]
    with certificates.files(certificates.from_folder(folder), tmp_path) as security:
        process = subprocess.Popen(
            [*words, *security], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        try:
            two_workers.client.wait_for_workers(3, timeout=120)
            workers = two_workers.client.scheduler_info(n_workers=-1)["workers"]
            (added,) = set(workers) - before
            paths = two_workers.client.run(lambda: sys.path, workers=[added])[added]
            port, pages = workers[added]["services"]["dashboard"], workers[added][PAGES]
            with urlopen(f"http://127.0.0.1:{port}{pages}/health", timeout=30) as page:
                assert page.read() == b"ok"
            with pytest.raises(HTTPError, match="404"):
                urlopen(f"http://127.0.0.1:{port}/health", timeout=30)
        finally:
            process.terminate()
            process.wait(60)
    own = tmp_path / f"ikmap-workers-{os.geteuid()}"
    assert Path(workers[added]["local_directory"]).is_relative_to(own)
    assert any(path.startswith(str(own)) for path in paths)
    assert not any(path.startswith(str(tmp_path / "dask-scratch-space")) for path in paths)
    assert list((tmp_path / "dask-scratch-space").iterdir()) == []


def test_pages_of_workers_are_found_from_those_of_the_scheduler(two_workers: ClusterHandle) -> None:
    told = two_workers.client.scheduler_info(n_workers=-1)
    for worker in told["workers"].values():
        port = worker["services"]["dashboard"]
        link = f"{two_workers.dashboard_server}{told[PAGES]}/proxy/{port}/{worker['host']}/status"
        with urlopen(link, timeout=30) as page:
            assert page.url == f"http://127.0.0.1:{port}{worker[PAGES]}/status"
    with pytest.raises(HTTPError, match="404"):
        urlopen(f"{two_workers.dashboard_server}{told[PAGES]}/proxy/1/127.0.0.1/status", timeout=30)


def test_what_listens_on_loopback_only_is_reached_there() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        own = {a.address for found in psutil.net_if_addrs().values() for a in found if a.family == socket.AF_INET}
        assert {nearest(host, port) for host in own} == {"127.0.0.1"}
        assert nearest("203.0.113.7", port) == "203.0.113.7"  # of somebody else, who is not asked
    assert nearest("127.0.0.1", port) == "127.0.0.1"


def test_a_start_that_fails_is_told_in_one_line() -> None:
    taken = OSError(errno.EADDRINUSE, "Address already in use")
    with (
        pytest.raises(InputError, match=r"^--cluster slurm: Address already in use$"),
        ExitStack() as stack,
        starting("slurm", stack),
    ):
        raise ValueError("cannot get address of non-running Server") from taken  # as Dask does when it cleans up
    with (
        pytest.raises(ValueError, match=r"^a defect$"),
        ExitStack() as stack,
        starting("slurm", stack),
    ):
        raise ValueError("a defect")
    with (
        pytest.raises(InputError, match=r"^--cluster slurm: Cluster failed to start: no such interface$"),
        ExitStack() as stack,
        starting("slurm", stack),
    ):
        raise RuntimeError("Cluster failed\n to start: no such interface")


def test_targets_are_those_that_answer(two_workers: ClusterHandle, monkeypatch: pytest.MonkeyPatch) -> None:
    groups, hidden = targets.targets(two_workers)
    assert [group["labels"]["process"] for group in groups] == ["scheduler", "worker", "worker"]
    assert [len(group["targets"]) for group in groups] == [1, 1, 1]
    assert len({group["labels"]["__metrics_path__"] for group in groups}) == 3
    assert hidden == 0
    monkeypatch.setattr(targets, "nearest", lambda host, port: "127.255.0.1")  # noqa: ARG005
    assert targets.targets(two_workers) == ([], 3)
