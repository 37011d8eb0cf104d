"""Another user of the same machine gets in nowhere: not to the cluster, not to its pages, not to the files of a run.

The same attempts are made by the owner, who is told what owners are told, and by the other user on a cluster as Dask
starts it and on a directory that is open: so they can succeed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from multiprocessing.util import get_temp_dir
from pathlib import Path
from typing import Any

import psutil
import pytest
from distributed import Client, Future, LocalCluster

from cluster import certificates, connect
from cluster.closed import METRICS, PAGES
from flows.options.batch import BatchOptions
from flows.options.online import OnlineOptions
from flows.runs import batch as run_batch
from flows.runs import online as run_online
from pipeline.monitoring.events import QuietProgress
from tests import ROOT
from tests.support.narrow import address_of
from tests.support.second_user import Plan

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user"),
    pytest.mark.timeout(400),
]

NOBODY = 65534
SMALL = ["--psi", "8", "--t", "10", "--learner", "ogd"]


def processes() -> list[psutil.Process]:
    """This one, in which the scheduler and the nannies are, and its workers."""
    return [psutil.Process(), *psutil.Process().children(recursive=True)]


def listening() -> set[int]:
    """Ports of these processes; all of them are on the loopback interface."""
    found = [c.laddr for process in processes() for c in process.net_connections("inet") if c.status == "LISTEN"]
    assert {place.ip for place in found} <= {"127.0.0.1"}
    return {place.port for place in found}


def spill(client: Client) -> tuple[list[str], list[Future]]:
    """Have every worker keep something in a file, for as long as the futures live; the folders of the workers."""
    kept = client.map(lambda number: b"row" * 10**6 + bytes([number]), range(4), pure=False)
    client.gather(kept)

    def evict(dask_worker: Any) -> str:
        assert dask_worker.data.evict() > 0
        return str(dask_worker.local_directory)

    return list(client.run(evict).values()), kept


def files_in(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file()]


def started(plan: Plan, uid: int, folder: Path) -> subprocess.Popen[str]:
    """Let a user make the attempts of the plan: for eight seconds, as some wait until their time is up."""
    path = folder / f"plan-{uid}.json"
    path.write_text(json.dumps(asdict(plan)))
    command = [sys.executable, "-m", "tests.support.second_user", str(path), str(uid)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def tried(process: subprocess.Popen[str], uid: int) -> dict[str, Any]:
    """Return what the user got into, by kind."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    assert found.pop("user") == uid
    return found


@pytest.fixture(scope="module")
def open_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder that everybody may look into, as those of pytest are not, and in which temporary files are kept."""
    tmp_path_factory.getbasetemp()  # where it always is
    get_temp_dir()  # that of the processes of this test session, which outlive the folder
    folder = Path(tempfile.mkdtemp(prefix="ikmap-second-user-"))
    folder.chmod(0o755)
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    before = tempfile.tempdir
    tempfile.tempdir = str(folder / "tmp")
    try:
        yield folder
    finally:
        tempfile.tempdir = before
        shutil.rmtree(folder)


SOME = ["/status", "/metrics", "/health", "/info/main/workers.html", "/counters"]


@dataclass
class Owned:
    """A cluster with runs on it: what others may know of it, and what its owner is told."""

    plan: Plan
    allowed: Plan
    secrets: list[str]
    arguments: str


@pytest.fixture(scope="module")
def owned(open_folder: Path) -> Iterator[Owned]:
    before = listening()
    mask = os.umask(0)  # nothing may depend on a careful one
    try:
        certificates.write(open_folder / "tls", certificates.temporary())
        option = f"tls={open_folder / 'tls'}"
        with connect("local", workers=2, memory_limit="1GB", options=[option]) as handle:
            on = [*SMALL, "--cluster", address_of(handle), "--cluster-option", option]
            batch, online = open_folder / "batch", open_folder / "online"
            run_batch.run(BatchOptions.parse([*on, "--run-dir", str(batch)]), events=QuietProgress())
            run_online.run(OnlineOptions.parse([*on, "--run-dir", str(online)]), events=QuietProgress())
            spilled, _kept = spill(handle.client)
            workers = [Path(folder) for folder in spilled]
            (scratch,) = (open_folder / "tmp").glob("ikmap-dask-*")
            assert all(folder.is_relative_to(scratch) and files_in(folder / "storage") for folder in workers)
            told = handle.client.scheduler_info(n_workers=-1)
            everyone = [told, *told["workers"].values()]
            folders = [batch, online, scratch, *workers, open_folder / "tls"]
            plan = Plan(
                scheduler=address_of(handle).removeprefix("tls://"),
                ports=sorted(listening() - before),
                folders=[str(folder) for folder in folders],
                files=[name for folder in folders for name in files_in(folder)],
                processes=[process.pid for process in processes()],
            )
            prefixes = [of[PAGES] for of in everyone]
            allowed = replace(plan, prefixes=prefixes, certificates=str(open_folder / "tls"), paths=SOME)
            key = (open_folder / "tls" / certificates.KEY).read_text().splitlines()[2]
            secrets = [key, *(of[name].split("/")[1] for of in everyone for name in (PAGES, METRICS))]
            arguments = "\n".join(" ".join(process.cmdline()) for process in processes())
            yield Owned(plan, allowed, secrets, arguments)
    finally:
        os.umask(mask)


@pytest.fixture(scope="module")
def got_into(owned: Owned, tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Any]]:
    """Return what the other user and the owner got into; both try at the same time."""
    folder = tmp_path_factory.mktemp("plans")
    plans = {NOBODY: owned.plan, 0: owned.allowed}
    processes = {uid: started(plan, uid, folder) for uid, plan in plans.items()}
    return {uid: tried(process, uid) for uid, process in processes.items()}


def test_another_user_gets_in_nowhere(owned: Owned, got_into: dict[int, dict[str, Any]]) -> None:
    assert len(owned.plan.ports) == 1 + 1 + 2 + 2 + 2  # scheduler and its pages; nannies, workers and their pages
    assert len(owned.plan.files) > 50
    assert got_into[NOBODY] == {"speaking": [], "sockets": [], "pages": [], "files": []}


def test_the_owner_gets_in_everywhere(owned: Owned, got_into: dict[int, dict[str, Any]]) -> None:
    found = got_into[0]
    # With a certificate that is not the cluster's, nobody does.
    assert {way.partition(":")[0] for way in found["speaking"]} == {"tls, allowed"}
    assert len(found["speaking"]) == 1 + 1 + 2 + 2  # a task; scheduler, nannies, workers
    assert set(owned.plan.folders) | set(owned.plan.files) <= set(found["files"])
    assert len(found["sockets"]) == 3 + 2  # of the scheduler, of each worker
    for prefix in owned.allowed.prefixes:
        below = {page.partition(prefix)[2] for page in found["pages"] if prefix in page}
        assert {"/status", "/metrics", "/health"} <= below
        assert "/info/main/workers.html" in below or "/counters" in below


def test_no_secret_is_on_a_command_line(owned: Owned) -> None:
    assert "multiprocessing" in owned.arguments
    assert not any(secret in owned.arguments for secret in owned.secrets)


def test_no_secret_is_in_the_files_of_a_run(owned: Owned) -> None:
    """They are given away when the run is done."""
    runs = [Path(name) for name in owned.plan.files if re.search("/(batch|online)/", name)]
    assert any(path.name == "metrics.json" for path in runs)
    assert not [path for path in runs if any(secret.encode() in path.read_bytes() for secret in owned.secrets)]


def test_what_is_left_of_temporary_files_is_closed(owned: Owned, open_folder: Path) -> None:
    """Whatever lies in the folder for temporary files belongs to the owner alone."""
    modes = {path.name: path.stat().st_mode & 0o777 for path in (open_folder / "tmp").iterdir()}
    assert owned.plan.folders
    assert modes
    assert set(modes.values()) == {0o700}


def test_another_user_gets_into_what_dask_starts_and_into_open_folders(open_folder: Path, tmp_path: Path) -> None:
    before = listening()
    run = open_folder / "open"
    run.mkdir(mode=0o755)
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0",
            worker_dashboard_address="127.0.0.1:0", local_directory=str(open_folder / "tmp"),
        ) as cluster,
        Client(cluster) as client,
    ):  # fmt: skip
        asked = ["--cluster", cluster.scheduler_address, *SMALL, "--run-dir", str(run)]
        run_batch.run(BatchOptions.parse(asked), events=QuietProgress())
        assert run.stat().st_mode & 0o777 == 0o755  # as it was found
        address = client.scheduler.address.removeprefix("tcp://")
        plan = Plan(address, sorted(listening() - before), [str(run)], files_in(run), [], paths=SOME)
        found = tried(started(plan, NOBODY, tmp_path), NOBODY)
    assert found["speaking"] == ["tcp: task", *found["speaking"][1:]]
    assert len(found["speaking"]) == 1 + 3
    assert set(plan.files) | set(plan.folders) == set(found["files"])
    assert len(found["sockets"]) == 3 + 1
    assert {"GET", "/status", "/metrics"} <= {part for page in found["pages"] for part in re.split(r" \d+", page)}


def test_certificates_of_two_clusters_differ() -> None:
    first, second = (certificates.contents(certificates.temporary()) for _ in range(2))
    assert not set(first.values()) & set(second.values())
