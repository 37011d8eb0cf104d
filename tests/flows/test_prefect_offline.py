"""Prefect's part without a server: what is there of it without an API, its limit's name, its bars' pace."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from flows.options.batch import BatchOptions
from ikmap.tasks import TASKS, TaskKind
from pipeline.errors import InputError
from tests import ROOT

pytestmark = pytest.mark.system


prefect_test = pytest.mark.prefect


def plain_environment(home: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    return kept | {"PREFECT_HOME": str(home)} | {"PYTHONPATH": str(ROOT)}


def test_without_an_api_there_is_no_prefect(small: Path, tmp_path: Path) -> None:
    """Neither imported nor started, nor its home directory made."""
    code = """
import sys
from flows import batch, score
if __name__ == "__main__":  # Dask's workers import this file too
    run, source = "run", sys.argv[1]
    options = "--psi 4 --t 5 --learner ogd --workers 1 --no-dask-report --run-dir"
    assert batch.main(["--input", source, *options.split(), run]) == 0
    assert score.main(["--model", run, "--input", source, "--output", "p.parquet", "--workers", "1"]) == 0
    print("modules", *sorted(name for name in sys.modules if "prefect" in name))
"""
    script, home = tmp_path / "script.py", tmp_path / "home"
    script.write_text(code)
    done = subprocess.run(
        [sys.executable, str(script), str(small)],
        cwd=tmp_path,
        env=plain_environment(home),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "modules flows.prefect flows.prefect.configured"
    assert (tmp_path / "p.parquet").exists()
    assert not home.exists()


@prefect_test
@pytest.mark.parametrize(
    ("profile", "answer"),
    [
        ('active = "a"\n[profiles.a]\nPREFECT_API_URL = "http://127.0.0.1:9/api"\n', "True"),
        ('active = "a"\n[profiles.a]\nPREFECT_LOGGING_LEVEL = "INFO"\n', "False"),
    ],
)
def test_active_profile_may_name_the_api(tmp_path: Path, profile: str, answer: str) -> None:
    (tmp_path / "profiles.toml").write_text(profile)
    code = "from flows.prefect.configured import api_is_configured; print(api_is_configured())"
    done = subprocess.run(
        [sys.executable, "-c", code], env=plain_environment(tmp_path), capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == answer


@prefect_test
@pytest.mark.usefixtures("prefect_home")
def test_api_that_does_not_answer() -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from flows.prefect.flows import batch, command

    with (
        temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}),
        pytest.raises(InputError, match=r"^http://127.0.0.1:9/api: no Prefect API answers \(\w+\); start it"),
    ):
        command(batch, BatchOptions())


@prefect_test
@pytest.mark.usefixtures("prefect_home")
@pytest.mark.parametrize(
    ("cluster", "name"),
    [
        ("local", f"ikmap-local-{re.sub('[^a-z0-9.]+', '-', socket.gethostname().lower())}"),
        ("slurm", "ikmap-slurm"),
        ("tcp://10.0.0.1:8786", "ikmap-tcp-10.0.0.1-8786"),
    ],
)
def test_name_of_the_limit(cluster: str, name: str) -> None:
    from flows.prefect.limit import limit_name

    assert limit_name(cluster) == name


@prefect_test
@pytest.mark.usefixtures("prefect_home")
def test_bars_are_throttled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing before its time, then one call in so many seconds, and the end; an API that is away ends it quietly."""
    import httpx

    from flows.prefect import artifacts as prefect_artifacts
    from pipeline.monitoring.events import StageState

    calls: list[float] = []

    def create(progress: float, key: str, text: str) -> str:
        assert (key, text) == ("progress-train-svm", "train:svm: 6/10 tasks, 4.00 s left")
        calls.append(progress)
        return "id"

    def update(bar: str, progress: float, text: str) -> None:  # noqa: ARG001
        calls.append(progress)
        if progress == 90:
            raise httpx.ConnectError("away")

    monkeypatch.setattr(prefect_artifacts, "create_progress_artifact", create)
    monkeypatch.setattr(prefect_artifacts, "update_progress_artifact", update)
    bars, stage = prefect_artifacts.StageBars(), StageState("train:svm", 10, None, started=100.0)
    for second, shown in [(101.0, []), (104.9, []), (106.0, [60]), (107.0, [60]), (111.0, [60, 80])]:
        stage.tasks = {106.0: 6, 111.0: 8}.get(second, 5)
        bars.show(stage, second)
        assert calls == shown
    stage.tasks = 9
    bars.show(stage, 120.0)
    stage.finish({}, 130.0)
    bars.show(stage, 130.0)
    assert calls == [60, 80, 90]


@prefect_test
@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_prefect_takes_the_figures_of_every_task(task: TaskKind, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.artifacts import TableArtifact

    from flows.prefect import artifacts

    shown: list[TableArtifact] = []
    monkeypatch.setattr(artifacts, "create_table_artifact", lambda **given: shown.append(TableArtifact(**given)))
    artifacts.show_metrics(task, {"one": {task.presenter.metric.key: 0.12345, "train_seconds": 1.0}}, "said")
    (artifact,) = shown
    assert artifact.key == task.presenter.metric.key.replace("_", "-")
    assert artifact.table == [{"learner": "one", task.presenter.metric.name: 0.1235, "train s": 1.0}]
    assert artifacts.artifact_key("progress-train:OGD 2") == "progress-train-ogd-2"


@prefect_test
@pytest.mark.usefixtures("prefect_home")
@pytest.mark.parametrize("proxy", ["https://ann:kept?secret@host/", "s3://host/x.csv?sig=secret"])
def test_proxy_that_is_none(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, which repeats nothing of its address."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from flows.prefect.flows import batch, command

    monkeypatch.setenv("http_proxy", proxy)
    with (
        temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}),
        pytest.raises(InputError, match="its client cannot be made") as raised,
    ):
        command(batch, BatchOptions())
    assert not re.search("kept|secret", str(raised.value))
    assert raised.value.__suppress_context__


@prefect_test
@pytest.mark.usefixtures("prefect_home")
def test_what_prefect_is_told_of_a_defect() -> None:
    """Its text without secrets, also where Prefect stores the error."""
    import pickle

    from flows.prefect.flows import Failure

    error = ValueError("https://host/x.csv?sig=secret: odd")
    failure = Failure(error)
    assert failure.error is error
    assert str(failure) == str(pickle.loads(pickle.dumps(failure))) == "ValueError: https://host/x.csv?...: odd"
