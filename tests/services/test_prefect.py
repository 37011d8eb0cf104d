"""The commands under Prefect: what its API knows of a run, and that nothing of it is there without one."""

from __future__ import annotations

import http.server
import json
import re
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import datetime
from itertools import repeat
from pathlib import Path
from threading import Thread, Timer
from typing import Any, ClassVar
from urllib.parse import urlsplit

import pytest

import flows.batch
import flows.score
from cluster import ClusterHandle, connect
from flows.cli import run_command
from flows.options.batch import BatchOptions
from flows.runs.batch import find_data
from pipeline.errors import ClusterLost, InputError
from pipeline.monitoring.events import QuietProgress
from pipeline.storage.rundir import read_manifest
from tests.support.calls import counted
from tests.support.narrow import present
from tests.support.one_process import commands_find
from tests.support.prefect_database import empty_database, one_authority
from tests.support.serving import serving

STAGES = ["ingest", "partition", "cells", "train:svm", "evaluate:svm", "train:ogd", "evaluate:ogd"]
prefect_test = pytest.mark.prefect


@pytest.fixture(scope="module")
def server(prefect_home: None, kept: Callable[[str], Path]) -> Iterator[str]:  # noqa: ARG001
    """A Prefect server of our own; its address."""
    from prefect.settings import PREFECT_API_SSL_CERT_FILE, get_current_settings, temporary_settings
    from prefect.testing.utilities import prefect_test_harness

    folder = tempfile.mkdtemp()  # which the harness removes
    shutil.copy(empty_database(kept("prefect")), Path(folder, "prefect-test.db"))
    authority = {PREFECT_API_SSL_CERT_FILE: str(one_authority(Path(folder)))}
    with pytest.MonkeyPatch.context() as patch, temporary_settings(authority):
        patch.setattr("prefect.testing.utilities.mkdtemp", lambda: folder)
        # The database is as this version of Prefect has it, and no run asks for a block.
        patch.setenv("PREFECT_SERVER_DATABASE_MIGRATE_ON_START", "false")
        patch.setenv("PREFECT_SERVER_REGISTER_BLOCKS_ON_START", "false")
        # Every flow would wait for the second that its heartbeat sleeps.
        patch.setattr("prefect.flow_engine._send_heartbeats", lambda *_, **__: nullcontext())
        with prefect_test_harness(server_startup_timeout=120):
            url = get_current_settings().api.url
            assert url
            yield url


@pytest.fixture
def api(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client of that server, which the commands find as a user's would."""
    from prefect import get_client

    monkeypatch.setenv("PREFECT_API_URL", server)
    with get_client(sync_client=True) as client:
        yield client


@pytest.fixture(scope="module")
def one_worker() -> Iterator[ClusterHandle]:
    """A cluster on which one task is done after the other, so that stages have an order."""
    with connect("local", workers=1, memory_limit="2GB") as cluster:
        yield cluster


@pytest.fixture
def cluster_is_up(one_worker: ClusterHandle) -> Iterator[None]:
    """Commands find a cluster in place of starting one, which takes longer than what is done on it here."""
    with commands_find(one_worker):
        yield


def last_run(api: Any) -> Any:
    from prefect.client.schemas.sorting import FlowRunSort

    return api.read_flow_runs(sort=FlowRunSort.EXPECTED_START_TIME_DESC, limit=1)[0]


def eventually[T](read: Callable[[], T], wanted: Callable[[T], bool]) -> T:
    """Task runs and logs reach the server a moment later."""
    deadline = time.monotonic() + 60
    while not wanted(found := read()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return found


def task_states(api: Any, run: Any, count: int) -> dict[str, Any]:
    """States of the task runs by name, in the order in which they started."""
    from prefect.client.schemas.filters import FlowRunFilter

    where = FlowRunFilter.model_validate({"id": {"any_": [run.id]}})
    found = eventually(
        lambda: api.read_task_runs(flow_run_filter=where),
        lambda found: len(found) == count and all(task.state.is_final() for task in found),
    )
    names = [task.name for task in sorted(found, key=lambda task: task.start_time)]
    assert len(set(names)) == len(names)
    return {name: next(task.state for task in found if task.name == name) for name in names}


def artifacts(api: Any, run: Any) -> dict[str, Any]:
    body = {"artifacts": {"flow_run_id": {"any_": [str(run.id)]}}}
    return {found["key"]: found for found in api._client.post("/artifacts/filter", json=body).json()}


def without_bars(found: dict[str, Any]) -> set[str]:
    """Keys of artifacts; whether a stage is slow enough for a bar is the machine's affair."""
    return {key for key in found if not key.startswith("progress-")}


def log_lines(api: Any, run: Any, *beginnings: str) -> list[str]:
    """Return the log of a flow run once it has a line with each beginning: lines are stored in no fixed order."""
    from prefect.client.schemas.filters import LogFilter

    where = LogFilter.model_validate({"flow_run_id": {"any_": [run.id]}})
    return eventually(
        lambda: [log.message for log in api.read_logs(where, limit=200)],
        lambda lines: all(any(line.startswith(text) for line in lines) for text in beginnings),
    )


@prefect_test
@pytest.mark.usefixtures("cluster_is_up")
def test_batch_and_score(api: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The embedded data set through both commands: what the terminal shows, and what the API knows."""
    path = tmp_path / "run"
    words = ["--learner", "svm,ogd", "--psi", "16", "--t", "20", "--workers", "1", "--run-dir", str(path)]
    assert run_command(flows.batch.main, words) == 0
    out, err = capsys.readouterr()
    run = last_run(api)
    metrics = json.loads((path / "metrics.json").read_text())
    assert "train:svm" in out
    assert "prefect" not in out.lower()
    lines = err.splitlines()
    assert f"Prefect flow run {run.name}: " in lines[0]
    assert str(run.id) in lines[0]
    assert not any("|" in line or "Traceback" in line for line in lines)
    assert sum("train:svm: done" in line for line in lines) == 1

    assert (run.state.name, api.read_flow(run.flow_id).name) == ("Completed", "batch")
    given = BatchOptions(learner=("svm", "ogd"), psi=16, t=20, workers=1, run_dir=str(path))
    assert run.parameters == {**given.to_dict(), "scoped": {}}
    states = task_states(api, run, len(STAGES))
    assert list(states) == STAGES
    assert {state.name for state in states.values()} == {"Completed"}

    found = artifacts(api, run)
    assert without_bars(found) == {"throughput", "accuracy", "dask-dashboard", "report"}
    throughput = json.loads(found["throughput"]["data"])
    assert [row["stage"] for row in throughput] == STAGES
    assert [row["tasks"] for row in throughput] == [stage["tasks"] for stage in metrics["stages"]]
    assert [row["rows/s"] for row in throughput] == [round(s["rows_per_second"]) for s in metrics["stages"]]
    accuracy = {row["learner"]: row["accuracy"] for row in json.loads(found["accuracy"]["data"])}
    assert accuracy == {name: round(result["accuracy"], 4) for name, result in metrics["learners"].items()}
    assert f"[Dask dashboard]({metrics['run']['cluster']['dashboard']}/" in found["dask-dashboard"]["data"]
    assert f"`{path / 'report.html'}`" in found["report"]["data"]
    assert f"`{metrics['run']['command']}`" in found["report"]["data"]
    created = {key: datetime.fromisoformat(artifact["created"]) for key, artifact in found.items()}
    assert created["dask-dashboard"] < states["ingest"].timestamp < created["throughput"]
    logged = log_lines(api, run, "report: ", "evaluate:ogd: done", "run directory: ")
    assert any(line.startswith("evaluate:ogd: done, 1/1 task, 359 rows") for line in logged)
    assert f"run directory: {path}" in logged

    source = find_data(BatchOptions(), QuietProgress()).train_url
    words = ["--model", str(path), "--input", source, "--output", str(tmp_path / "p.parquet"), "--workers", "1"]
    assert run_command(flows.score.main, words) == 0
    out = capsys.readouterr().out
    run = last_run(api)
    assert (run.state.name, api.read_flow(run.flow_id).name) == ("Completed", "score")
    assert list(task_states(api, run, 1)) == ["score"]
    found = artifacts(api, run)
    assert without_bars(found) == {"throughput", "accuracy", "dask-dashboard"}
    (row,) = json.loads(found["throughput"]["data"])
    assert (row["stage"], row["rows"]) == ("score", 1797)
    (row,) = json.loads(found["accuracy"]["data"])
    assert f"accuracy {row['accuracy']:.4f} on 1,797 rows" in out


@prefect_test
def test_the_query_of_a_url_is_not_for_prefect(api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """It is used, as the server's answer shows, but neither parameters nor messages nor logs have it."""

    class Asked(http.server.BaseHTTPRequestHandler):
        paths: ClassVar[list[str]] = []

        def do_GET(self) -> None:
            self.paths.append(self.path)
            self.send_error(403)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    with serving(Asked) as site:
        assert run_command(flows.batch.main, ["--input", f"{site}/a.csv?sig=0123456789"]) == 2
    run = last_run(api)
    assert Asked.paths == ["/a.csv?sig=0123456789"]
    assert run.parameters["input"] == f"{site}/a.csv?..."
    message = f"{site}/a.csv?...: cannot be read: the server answered 403"
    assert run.state.message == message
    known = [run.model_dump_json(), *log_lines(api, run, message), *capsys.readouterr()]
    assert not [text for text in known if "0123456789" in text]


def files_of_prefect_with(text: str) -> list[Path]:
    """Return the files of Prefect's home and of its server's database in which a text stands."""
    from prefect.settings import get_current_settings

    settings = get_current_settings()
    database = Path(present(settings.server.database.connection_url).get_secret_value().partition(":///")[2])
    files = [path for path in (*settings.home.rglob("*"), *database.parent.glob("*")) if path.is_file()]
    assert database in files
    return [path for path in files if text.encode() in path.read_bytes()]


@prefect_test
@pytest.mark.parametrize("place", ["flow", "stage"])
def test_the_query_of_a_url_in_an_error(
    api: Any, place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error has it in its arguments, which Prefect repeats in its log; nothing of it reaches the server."""

    secret = f"{place}0123456789"
    text = "https://host/x.csv?...: wrong"

    def stage() -> dict[str, Any]:
        raise InputError(f"https://host/x.csv?sig={secret}: wrong")

    def run(*_: Any, call: Callable[..., dict[str, Any]], **__: Any) -> dict[str, Any]:
        return call("ingest", stage) if place == "stage" else stage()

    monkeypatch.setattr("flows.runs.batch.run", run)
    assert run_command(flows.batch.main, ["--workers", "1"]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"error: {text}"
    found = last_run(api)
    assert (found.state.name, found.state.message) == ("Failed", text)
    assert text in log_lines(api, found, text, "Finished in state Failed")
    assert files_of_prefect_with("https://host/x.csv?...")
    assert files_of_prefect_with(secret) == []


@prefect_test
@pytest.mark.parametrize("place", ["flow", "stage"])
@pytest.mark.parametrize("started_by", ["command", "deployment"])
def test_defect(
    api: Any,
    place: str,
    started_by: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The server has the failed run with one traceback in its log, and Prefect keeps no secret of it anywhere."""
    from flows.prefect import flows as prefect_flows

    secret = f"{place}{started_by}0123456789"
    url = f"https://host/x.csv?sig={secret}"
    text = "ValueError: https://host/x.csv?...: odd"

    def stage() -> dict[str, Any]:
        try:
            raise KeyError(url)
        except KeyError as cause:
            raise ValueError(f"{url}: odd") from cause

    def run(*_: Any, call: Callable[..., dict[str, Any]], **__: Any) -> dict[str, Any]:
        return call("ingest", stage) if place == "stage" else stage()

    monkeypatch.setattr("flows.runs.batch.run", run)
    monkeypatch.chdir(tmp_path)
    if started_by == "command":
        assert run_command(flows.batch.main, ["--workers", "1"]) == 1
        last = capsys.readouterr().err.splitlines()[-1]
        assert last == f"internal error: {text}; rerun with --debug for the traceback"
    else:
        with pytest.raises(prefect_flows.Failure, match=f"^{re.escape(text)}$") as raised:
            prefect_flows.batch(workers=1)
        assert isinstance(raised.value.error.__cause__, KeyError)

    found = last_run(api)
    assert found.state.type == "FAILED"
    assert found.state.message.endswith(text)
    states = task_states(api, found, int(place == "stage"))
    assert {name: (state.name, state.message) for name, state in states.items()} == (
        {"ingest": ("Failed", text)} if place == "stage" else {}
    )
    lines = log_lines(api, found, "Traceback", "Finished in state Failed")
    (trace,) = [line for line in lines if "Traceback" in line]
    assert "KeyError: 'https://host/x.csv?...'" in trace
    assert trace.rstrip().splitlines()[-1] == text

    assert files_of_prefect_with(text)
    assert files_of_prefect_with(secret) == []


@prefect_test
def test_missing_file(api: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Before any stage: the run has failed, in the words that the command ends with."""
    assert run_command(flows.batch.main, ["--input", "missing.libsvm"]) == 2
    out, err = capsys.readouterr()
    run = last_run(api)
    assert (run.state.name, run.state.message) == ("Failed", "missing.libsvm: no such file")
    assert out == ""
    assert err.splitlines()[-1] == "error: missing.libsvm: no such file"
    assert "starting: " not in err
    assert "missing.libsvm: no such file" in log_lines(api, run, "missing")


@prefect_test
@pytest.mark.usefixtures("cluster_is_up")
def test_wrong_file(
    api: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within a stage: its task run has failed too. No retry helps."""
    from prefect.settings import PREFECT_TASKS_DEFAULT_RETRIES, temporary_settings

    monkeypatch.chdir(tmp_path)
    Path("wrong.libsvm").write_text("1 1:2\n2 1:x\n")
    with temporary_settings({PREFECT_TASKS_DEFAULT_RETRIES: 3}):
        assert run_command(flows.batch.main, ["--input", "wrong.libsvm", "--psi", "2", "--workers", "1"]) == 2
    run = last_run(api)
    message = "wrong.libsvm: line 2, column 5: found 'x' for index 1, expected a number"
    assert (run.state.name, run.state.message) == ("Failed", message)
    states = task_states(api, run, 1)
    assert (states["ingest"].name, states["ingest"].message) == ("Failed", message)
    err = capsys.readouterr().err
    assert err.count("ingest: started") == 1
    assert err.splitlines()[-1] == f"error: {message}"
    assert "Traceback" not in err
    assert without_bars(artifacts(api, run)) == {"dask-dashboard"}


@prefect_test
@pytest.mark.usefixtures("api")
@pytest.mark.parametrize(
    ("error", "calls"), [(OSError("flaky"), 3), (ClusterLost("gone"), 3), (InputError("wrong"), 1)]
)
def test_retries_are_for_what_may_pass(error: Exception, calls: int) -> None:
    from prefect import flow

    from flows.prefect.flows import as_task

    seen: list[int] = []

    def work() -> dict[str, Any]:
        seen.append(len(seen))
        if len(seen) < 3:
            raise error
        return {"tries": len(seen)}

    @flow
    def trial() -> dict[str, Any]:
        return as_task("trial", work, retries=2)

    if calls == 3:
        assert trial() == {"tries": 3}
    else:
        with pytest.raises(InputError, match=r"^wrong$"):
            trial()
    assert len(seen) == calls


class StoppedAtCells(QuietProgress):
    """Does something when the cells begin."""

    def __init__(self, stop: Callable[[], None], *, says: bool = False) -> None:
        self._stop = stop
        self._says = says

    def message(self, text: str) -> None:
        if self._says:
            print(text, file=sys.stderr)

    def stage_started(self, name: str, total_tasks: int | None = None, total_rows: int | None = None) -> None:  # noqa: ARG002
        if name == "cells":
            self._stop()


def _interrupt() -> None:
    raise KeyboardInterrupt


def _cancel() -> None:
    """As the button of the UI does."""
    from prefect import get_client
    from prefect.runtime import flow_run
    from prefect.states import Cancelling

    with get_client(sync_client=True) as client:
        client.set_flow_run_state(present(flow_run.get_id()), Cancelling())


@prefect_test
@pytest.mark.usefixtures("cluster_is_up")
def test_stopped_run_is_resumed(
    api: Any, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is interrupted and, as it goes on, cancelled."""
    from flows.prefect import events as prefect_events
    from flows.prefect import flows as prefect_flows

    path = tmp_path / "run"
    words = ["--input", str(small), "--learner", "svm,ogd", "--psi", "4", "--t", "5", "--workers", "1"]
    words += ["--run-dir", str(path)]
    again = BatchOptions.parse(words).command()
    for stop, state in ((_interrupt, "Crashed"), (_cancel, "Cancelled")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(prefect_events, "_CANCELLED_SECONDS", 0.0)
            patch.setattr(prefect_flows, "choose_progress", lambda quiet, stop=stop: StoppedAtCells(stop))  # noqa: ARG005
            assert run_command(flows.batch.main, words) == 130
        assert capsys.readouterr().err.splitlines() == [f"interrupted; run {again} to resume"]
        run = last_run(api)
        assert run.state.name == state
        assert f"interrupted; run {again} to resume" in log_lines(api, run, "interrupted")
        assert list(read_manifest(path)["stages"]) == ["ingest", "partition"]

    monkeypatch.chdir(tmp_path)
    assert run_command(flows.batch.main, words) == 0
    assert "ingest: done before" in capsys.readouterr().err
    run = last_run(api)
    assert run.state.name == "Completed"
    assert list(task_states(api, run, 5)) == STAGES[2:]


@prefect_test
@pytest.mark.usefixtures("cluster_is_up")
def test_two_runs_take_turns(api: Any, small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run waits for the one that is on its cluster, says so, and can be cancelled while it waits."""
    from prefect.concurrency.sync import concurrency

    from flows.prefect import limit as prefect_limit
    from flows.prefect.limit import limit_name, place_on

    looks: list[int] = []

    def look() -> None:
        looks.append(1)
        raise KeyboardInterrupt

    said: list[str] = []
    with place_on("local", said.append, look):
        assert said == []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(prefect_limit, "LOOK_SECONDS", 0.5)
            with pytest.raises(KeyboardInterrupt), place_on("local", said.append, look):
                pytest.fail("two at a time")
        assert len(looks) == len(said) == 1
        assert f"prefect gcl update {limit_name('local')} --limit 2" in said[0]
        with place_on("slurm", said.append, look), place_on("slurm", said.append, look):
            pass  # every run brings workers of its own
    assert api.read_global_concurrency_limit_by_name(limit_name("local")).active_slots == 0

    words = ["--input", str(small), "--psi", "4", "--t", "5", "--learner", "ogd", "--workers", "1"]
    held = concurrency(limit_name("local"), lease_duration=60.0)
    held.__enter__()
    timer = Timer(3.0, lambda: held.__exit__(None, None, None))
    timer.start()
    assert run_command(flows.batch.main, [*words, "--run-dir", str(tmp_path / "run")]) == 0
    timer.join()
    lines = capsys.readouterr().err.splitlines()
    assert lines[1].endswith(said[0])
    assert not any("ERROR" in line for line in lines)


@prefect_test
def test_run_as_a_deployment_does_it(api: Any, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From Prefect's engine, which Python would have every worker import again; each stage has a bar."""
    import prefect.engine

    from flows.prefect import artifacts as prefect_artifacts
    from flows.prefect import flows as prefect_flows

    found: list[dict[str, bool]] = []

    def look(cluster: Any, *_: Any) -> None:
        found.append(cluster.client.run(_has_prefect))

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(prefect_artifacts, "PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr(prefect_flows, "link_dashboard", look)
    main = sys.modules["__main__"]
    monkeypatch.setattr(main, "__spec__", prefect.engine.__spec__)
    prefect_flows.batch(input=str(small), psi=4, t=5, learner=["ogd"], workers=1)
    assert [list(answer.values()) for answer in found] == [[False]]
    assert sys.modules["__main__"] is main
    run = last_run(api)
    assert read_manifest(Path("runs", f"{run.name}-{str(run.id)[:8]}"))["stages"]

    bars = {key: bar for key, bar in artifacts(api, run).items() if key.startswith("progress-")}
    assert set(bars) == {f"progress-{name}" for name in ("ingest", "partition", "cells", "train-ogd", "evaluate-ogd")}
    assert {(bar["type"], bar["data"]) for bar in bars.values()} == {("progress", 100.0)}
    assert bars["progress-cells"]["description"].startswith("cells: 2/2 tasks, 120 rows, ")


@prefect_test
@pytest.mark.usefixtures("cluster_is_up")
def test_a_retry_of_a_finished_run_shows_its_report(
    api: Any, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is done when the first attempt fails, at the first artifact after the link to the dashboard."""
    from flows.prefect import artifacts as prefect_artifacts
    from flows.prefect import flows as prefect_flows

    def fail(call: int) -> None:
        if call == 2:
            raise OSError("odd")

    monkeypatch.chdir(tmp_path)
    with counted(prefect_artifacts.show_report, fail):  # all of them are called by one function
        prefect_flows.batch.with_options(retries=1)(input=str(small), psi=4, t=5, learner=["ogd"], workers=1)
    run = last_run(api)
    path = tmp_path / "runs" / f"{run.name}-{str(run.id)[:8]}"
    assert read_manifest(path)["status"] == "finished"
    assert f"`{path / 'report.html'}`" in artifacts(api, run)["report"]["data"]


def _has_prefect() -> bool:
    return "prefect" in sys.modules


@contextmanager
def line_to(url: str) -> Iterator[tuple[str, Callable[[], None]]]:
    """Another address of a server, and what cuts the line to it."""
    ends = [socket.create_server(("127.0.0.1", 0))]

    def carry(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while chunk := source.recv(1 << 16):
                target.sendall(chunk)
            target.shutdown(socket.SHUT_WR)

    def serve() -> None:
        with suppress(OSError):
            while True:
                near = ends[0].accept()[0]
                far = socket.create_connection((parts.hostname, parts.port))
                ends.extend((near, far))
                for pair in ((near, far), (far, near)):
                    Thread(target=carry, args=pair, daemon=True).start()

    def cut() -> None:
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    parts = urlsplit(url)
    Thread(target=serve, daemon=True).start()
    try:
        yield url.replace(parts.netloc, f"127.0.0.1:{ends[0].getsockname()[1]}"), cut
    finally:
        cut()


@prefect_test
@pytest.mark.usefixtures("cluster_is_up")
def test_run_does_not_need_the_api_to_end(
    server: str, small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is lost in the middle of a run: the result is the same, the command says that Prefect does not know."""
    from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    from flows.prefect import artifacts as prefect_artifacts
    from flows.prefect import events as prefect_events
    from flows.prefect import flows as prefect_flows

    path = tmp_path / "run"
    words = ["--input", str(small), "--psi", "4", "--t", "5", "--learner", "ogd", "--workers", "1"]
    monkeypatch.setattr(prefect_artifacts, "TRIES", 1)
    monkeypatch.setattr(prefect_artifacts, "PROGRESS_SECONDS", 0.0)
    monkeypatch.setattr(prefect_events, "_CANCELLED_SECONDS", 0.0)
    # Nothing is waited for: neither for a server that takes the events of this run, which Prefect does for half a
    # minute, nor between two attempts to connect.
    monkeypatch.setattr("prefect.events.utilities.should_emit_events", lambda: False)
    for kind in ("_sync", "_async"):
        monkeypatch.setattr(f"httpcore.{kind}.connection.exponential_backoff", lambda factor: repeat(0.0))  # noqa: ARG005
    with line_to(server) as (url, cut):
        monkeypatch.setenv("PREFECT_API_URL", url)
        monkeypatch.setattr(prefect_flows, "choose_progress", lambda quiet: StoppedAtCells(cut, says=True))  # noqa: ARG005
        with temporary_settings({PREFECT_API_URL: url, PREFECT_CLIENT_MAX_RETRIES: 0}):
            assert run_command(flows.batch.main, [*words, "--run-dir", str(path)]) == 0
    out, err = capsys.readouterr()
    assert f"{url}: no Prefect API answers (ConnectError): it was not told how the run ended" in err
    assert "ogd" in out
    assert (path / "metrics.json").exists()
    assert read_manifest(path)["status"] == "finished"
