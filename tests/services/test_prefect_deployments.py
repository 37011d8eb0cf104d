"""Deployments as a user makes them: a server, a work pool, `prefect deploy --all`, a worker, runs, and the UI."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

import flows.online
from flows.cli import run_command
from flows.options.batch import BatchOptions
from flows.options.common import CommonOptions
from flows.options.online import OnlineOptions
from flows.options.reproduce import ReproduceOptions
from flows.options.score import ScoreOptions
from tests import ROOT
from tests.conftest import PREFECT_ALONE
from tests.pipeline.report.test_report_browser import ARGUMENTS, CHROMIUM, DRIVER
from tests.support.one_process import commands_in_this_process
from tests.support.prefect_database import empty_database, one_authority

STAGES = ["ingest", "partition", "cells", "train:ogd", "evaluate:ogd"]
FILES = {
    "prefect.yaml": "default",
    "cluster/slurm/prefect.yaml": "slurm",
    "cluster/kubernetes/prefect.yaml": "kubernetes",
}
OPTIONS: dict[str, type[CommonOptions]] = {
    "batch": BatchOptions,
    "online": OnlineOptions,
    "score": ScoreOptions,
    "reproduce": ReproduceOptions,
}
FINAL = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}
WAIT_SECONDS = 300.0

needs_server = pytest.mark.deployments


@pytest.mark.parametrize("file", FILES)
def test_what_is_deployed(file: str) -> None:
    """Every flow under the name of its place; nothing on a schedule that nobody has switched on."""
    declared = yaml.safe_load((ROOT / file).read_text(encoding="utf-8"))
    found = {entry["entrypoint"].rpartition(".")[2]: entry for entry in declared["deployments"]}
    assert list(found) == list(OPTIONS)
    place = FILES[file]
    for flow, entry in found.items():
        assert entry["entrypoint"] == f"flows.prefect.flows.{flow}"
        assert entry["name"] == place
        assert {"ikmap", flow} <= set(entry["tags"])
        assert entry["work_pool"]["name"] == ("ikmap" if place == "default" else f"ikmap-{place}")
        assert int(entry["work_pool"]["job_variables"]["env"]["PREFECT_TASKS_DEFAULT_RETRIES"]) > 0
        assert all(schedule["active"] is False for schedule in entry.get("schedules", []))
        given = entry.get("parameters", {})
        assert given.get("cluster", "default") == place
        specs = OPTIONS[flow].specs()
        for name, value in given.items():
            if name != "cluster":
                specs[name].check(value)
    assert len({json.dumps(entry["work_pool"], sort_keys=True) for entry in found.values()}) == 1
    steps = [step for action in declared["pull"] for step in action]
    assert steps == ["prefect.deployments.steps.set_working_directory"]


def test_pods_get_what_the_deployment_says() -> None:
    """Each variable that the pool's job asks for is declared, and those that must be given are given."""
    template = json.loads((ROOT / "cluster/kubernetes/work-pool.json").read_text(encoding="utf-8"))
    variables = template["variables"]
    asked = {word.split("}}")[0].strip() for word in json.dumps(template["job_configuration"]).split("{{")[1:]}
    assert asked == set(variables["properties"])
    entry = yaml.safe_load((ROOT / "cluster/kubernetes/prefect.yaml").read_text(encoding="utf-8"))["deployments"][0]
    assert set(variables["required"]) <= set(entry["work_pool"]["job_variables"]) <= set(variables["properties"])
    shipped = ROOT / "cluster/kubernetes/rbac.yaml"
    (account,) = (d for d in yaml.safe_load_all(shipped.read_text()) if d["kind"] == "ServiceAccount")
    assert entry["work_pool"]["job_variables"]["service_account_name"] == account["metadata"]["name"]
    pod = template["job_configuration"]["job_manifest"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}


@dataclass
class Place:
    """A Prefect server with our deployments, and a worker.

    Attributes
    ----------
    folder : Path
        From which they were deployed: where runs work.
    """

    folder: Path
    url: str
    environment: Mapping[str, str]
    api: httpx.Client
    worker: psutil.Process

    def prefect(self, *words: str) -> str:
        """Run a command of Prefect's and return what it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "prefect", *words],
            cwd=self.folder,
            env=dict(self.environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=WAIT_SECONDS,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    def get(self, path: str) -> Any:
        return self.api.get(path).raise_for_status().json()

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        until = time.monotonic() + WAIT_SECONDS
        # SQLite is locked for a moment: Prefect's own client asks again, too.
        while (answer := self.api.post(path, json=body)).status_code == 503 and time.monotonic() < until:
            time.sleep(1)
        return answer.raise_for_status().json()

    def of_run(self, what: str, run: str) -> list[dict[str, Any]]:
        """What the API has of a run: artifacts, or task runs."""
        key = "artifacts" if what == "artifacts" else "flow_runs"
        by = {"flow_run_id": {"any_": [run]}} if what == "artifacts" else {"id": {"any_": [run]}}
        found: list[dict[str, Any]] = self.post(f"/{what}/filter", {key: by})
        return found

    def start(self, deployment: str, parameters: Mapping[str, Any]) -> str:
        """Ask for a run, as the form of the UI does; return its id."""
        found = self.get(f"/deployments/name/{deployment}")
        return str(self.post(f"/deployments/{found['id']}/create_flow_run", {"parameters": dict(parameters)})["id"])

    def state(self, run: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/flow_runs/{run}")["state"]
        return found

    def ended(self, run: str) -> dict[str, Any]:
        """The state in which a run ends."""
        return until(lambda: self.state(run), lambda state: state["type"] in FINAL)

    def stages(self, run: str) -> list[str]:
        found = self.of_run("task_runs", run)
        return [task["name"] for task in sorted(found, key=lambda task: task["start_time"] or "")]


def until[T](read: Callable[[], T], wanted: Callable[[T], bool]) -> T:
    deadline = time.monotonic() + WAIT_SECONDS
    while not wanted(found := read()):
        assert time.monotonic() < deadline, found
        time.sleep(1.0)
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def process(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Iterator[psutil.Process]:
    """A command of Prefect's that goes on; in the end it is stopped, with all that it has started."""
    with open(folder / f"{words[0]}.log", "w") as log:
        started = subprocess.Popen(
            [sys.executable, "-m", "prefect", *words],
            cwd=folder,
            env=dict(environment),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    found = psutil.Process(started.pid)
    try:
        yield found
    finally:
        with suppress(psutil.NoSuchProcess):
            family = [found, *found.children(recursive=True)]
            found.send_signal(signal.SIGTERM)
            for left in psutil.wait_procs(family, timeout=30)[1]:
                with suppress(psutil.NoSuchProcess):
                    left.kill()
        started.wait()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, kept: Callable[[str], Path]) -> Iterator[Place]:
    folder, home = tmp_path_factory.mktemp("deployed"), tmp_path_factory.mktemp("home")
    shutil.copy(ROOT / "prefect.yaml", folder)
    shutil.copy(empty_database(kept("prefect")), home / "prefect.db")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    own = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT", "IKMAP_CLUSTER"))}
    environment = (
        own
        | PREFECT_ALONE
        | {
            "PREFECT_HOME": str(home),
            "PREFECT_API_URL": f"{url}/api",
            "PREFECT_SERVER_UI_API_URL": f"{url}/api",
            # The worker's questions are most of what a server does that waits for a run.
            "PREFECT_WORKER_QUERY_SECONDS": "3",
            # The database is as this version of Prefect has it, and no run asks for a block.
            "PREFECT_SERVER_DATABASE_MIGRATE_ON_START": "false",
            "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
            "PREFECT_API_SSL_CERT_FILE": str(one_authority(home)),
            "PYTHONPATH": str(ROOT),
        }
    )
    server = ["server", "start", "--host", "127.0.0.1", "--port", str(port)]
    with ExitStack() as stack:
        running = stack.enter_context(process(server, folder, environment))
        api = stack.enter_context(httpx.Client(base_url=f"{url}/api", timeout=60.0))
        until(lambda: is_up(api) or not running.is_running(), bool)
        assert is_up(api), (folder / "server.log").read_text()
        words = ["worker", "start", "--pool", "ikmap", "--type", "process", "--limit", "1"]
        worker = stack.enter_context(process(words, folder, environment))  # makes the pool, too
        place = Place(folder, url, environment, api, worker)
        until(lambda: api.get("/work_pools/ikmap").status_code == 200, bool)
        place.prefect("--no-prompt", "deploy", "--all")
        yield place


def is_up(api: httpx.Client) -> bool:
    with suppress(httpx.HTTPError):
        return api.get("/health").status_code == 200
    return False


@pytest.fixture(scope="module")
def finished(place: Place) -> str:
    """A run of `batch/default`, asked for as the form does, at its end; its id."""
    run = place.start("batch/default", {"psi": 16, "t": 20, "learner": ["ogd"], "workers": 1, "no_dask_report": True})
    state = place.ended(run)
    assert state["type"] == "COMPLETED", state
    return run


@needs_server
def test_deployments_are_there(place: Place) -> None:
    found = {entry["entrypoint"]: entry for entry in place.post("/deployments/filter", {})}
    assert set(found) == {f"flows.prefect.flows.{flow}" for flow in OPTIONS}
    for entry in found.values():
        assert entry["name"] == "default"
        assert not any(schedule["active"] for schedule in entry["schedules"])
        (step,) = entry["pull_steps"]
        assert step["prefect.deployments.steps.set_working_directory"]["directory"] == str(place.folder)


@needs_server
def test_run_is_completed(place: Place, finished: str) -> None:
    run = place.get(f"/flow_runs/{finished}")
    assert run["state"]["type"] == "COMPLETED"
    assert {"batch", "ikmap", "local"} <= set(run["tags"])
    assert place.stages(finished) == STAGES

    # Nobody has named a directory: it is the run's own, where it was deployed.
    (path,) = (place.folder / "runs").iterdir()
    assert path.name == f"{run['name']}-{finished[:8]}"
    metrics = json.loads((path / "metrics.json").read_text())
    found = {artifact["key"]: artifact for artifact in place.of_run("artifacts", finished)}
    assert {"dask-dashboard", "throughput", "accuracy", "report"} <= set(found)
    assert [row["stage"] for row in json.loads(found["throughput"]["data"])] == STAGES
    (row,) = json.loads(found["accuracy"]["data"])
    assert row["accuracy"] == round(metrics["learners"]["ogd"]["accuracy"], 4) > 0.8
    assert f"`{path / 'report.html'}`" in found["report"]["data"]
    assert "Dask dashboard" in found["dask-dashboard"]["data"]


@needs_server
def test_run_had_the_cluster_to_itself(place: Place, finished: str) -> None:  # noqa: ARG001
    (limit,) = place.post("/v2/concurrency_limits/filter", {})
    assert (limit["name"], limit["limit"], limit["active_slots"]) == (f"ikmap-local-{socket.gethostname()}", 1, 0)


@needs_server
@pytest.mark.parametrize("wrong", [{"psi": 0}, {"psi": "all"}, {"partitioner": "voronoi"}, {"learner": ["svn"]}])
def test_form_refuses_wrong_parameters(place: Place, wrong: dict[str, Any]) -> None:
    """The server does, before there is a run."""
    found = place.get("/deployments/name/batch/default")
    answer = place.api.post(f"/deployments/{found['id']}/create_flow_run", json={"parameters": wrong})
    assert answer.status_code in (409, 422), answer.text
    assert next(iter(wrong)) in answer.text


@needs_server
def test_cancelled_run_is_resumed(
    place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that would wait for ever is cancelled: its processes end, and the command that its log names goes on."""
    rng = np.random.default_rng(0)
    stream = place.folder / "stream"
    stream.mkdir()

    def add(name: str) -> None:
        X = rng.normal(size=(500, 2))
        table = {"a": X[:, 0], "b": X[:, 1], "y": (X.sum(axis=1) > 0).astype(int)}
        pq.write_table(pa.table(table), stream / f".{name}")
        (stream / f".{name}").rename(stream / f"{name}.parquet")

    add("1")
    given = {"input": "stream", "label": "y", "initial": 100, "psi": 4, "t": 5, "block_rows": 50, "workers": 1}
    given |= {"idle_seconds": 3600.0, "run_dir": "online", "no_dask_report": True}
    run = place.start("online/default", given)
    until(lambda: place.stages(run), lambda stages: "stream" in stages)
    family = [child for child in place.worker.children(recursive=True) if is_of(child, run)]
    assert any("forkserver" in word for child in family for word in child.cmdline())  # Dask's workers

    place.post(f"/flow_runs/{run}/set_state", {"state": {"type": "CANCELLING"}})
    state = place.ended(run)
    assert state["type"] == "CANCELLED", state
    where = {"logs": {"flow_run_id": {"any_": [run]}}}
    lines = until(
        lambda: [str(log["message"]) for log in place.post("/logs/filter", where)],
        lambda lines: any(line.startswith("Finished in state Cancelled") for line in lines),
    )
    (words,) = [shlex.split(line)[2:-2] for line in lines if line.startswith("interrupted; run ")]
    assert words[:3] == ["python", "-m", "flows.online"]
    assert "--run-dir online" in " ".join(words)
    assert not any("Traceback" in line for line in lines)
    assert psutil.wait_procs(family, timeout=WAIT_SECONDS)[1] == []
    assert not (place.folder / "online" / "metrics.json").exists()

    add("2")
    (stream / "_SUCCESS").touch()
    monkeypatch.chdir(place.folder)
    monkeypatch.setattr("flows.prefect.configured.api_is_configured", lambda: False)
    with commands_in_this_process():
        assert run_command(flows.online.main, words[3:]) == 0
    assert "ingest: done before" in capsys.readouterr().err
    metrics = json.loads((place.folder / "online" / "metrics.json").read_text())
    assert metrics["stages"][-1]["rows"] == 900


def is_of(child: psutil.Process, run: str) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(child.environ().get("PREFECT__FLOW_RUN_ID") == run)
    return False


@pytest.fixture
def chrome(tmp_path: Path) -> Iterator[webdriver.Chrome]:
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("chromium or chromedriver is not on the search path")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in (*ARGUMENTS, f"--user-data-dir={tmp_path}", "--window-size=1300,1600"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@needs_server
@pytest.mark.browser
def test_what_the_pages_show(place: Place, finished: str, chrome: webdriver.Chrome) -> None:
    """The run with its stages and artifacts, and the form with what each parameter means; nobody else is asked."""

    def shown(*words: str) -> str:
        """What the page says, as soon as these words are on it."""

        def text() -> str:
            return str(chrome.execute_script("return document.body.innerText"))

        return until(text, lambda text: all(word in text for word in words))

    run = place.get(f"/flow_runs/{finished}")
    chrome.get(f"{place.url}/runs/flow-run/{finished}")
    text = shown("Completed", "evaluate:ogd: done")
    assert run["name"] in text
    assert "5 Task runs" in text
    chrome.find_element("id", "artifacts").click()
    shown("throughput", "accuracy", "report", "dask-dashboard")
    # The form with the fewest parameters: Prefect's pages take long to draw many, and all are made alike.
    deployment = place.get("/deployments/name/score/default")["id"]
    chrome.get(f"{place.url}/deployments/deployment/{deployment}/run")
    specs = ScoreOptions.specs()
    heads = [f"\n{name}{'' if spec.required else ' (Optional)'}\n{spec.group}: " for name, spec in specs.items()]
    text = shown(*heads)
    at = [text.index(head) for head in heads]
    assert at == sorted(at)  # group after group, as in --help
    assert "(default: the first it trained)" in text
    assert "kubernetes, tcp://HOST:PORT" in text

    messages = [json.loads(entry["message"])["message"] for entry in chrome.get_log("performance")]
    sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    asked = [url for url in sent if url.startswith(("http", "ws"))]  # the rest is the browser's own
    assert asked
    assert [url for url in asked if not url.startswith(f"{place.url}/")] == []
