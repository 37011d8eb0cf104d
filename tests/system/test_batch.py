"""The batch pipeline end to end, on small data: same bits whatever the cluster and the shards, kill and resume."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import distributed
import numpy as np
import pytest
import zarr
from distributed import Client
from jsonschema import Draft202012Validator

import flows.batch
from cluster import ClusterHandle, connect
from flows.cli import run_command
from flows.options.batch import BatchOptions
from flows.runs.batch import batch_params, find_data
from pipeline.errors import InputError
from pipeline.monitoring.events import QuietProgress
from pipeline.running.stage import Context
from pipeline.runs.batch import run_batch, run_identity
from pipeline.runs.metrics import Invocation
from pipeline.storage.durable import read_json, write_json
from pipeline.storage.rundir import RunDirectory
from tests import ROOT
from tests.support.in_process import InProcess
from tests.support.one_process import commands_find, commands_in_this_process, forget
from tests.support.opening import opened


def write_libsvm(path: Path, n: int, seed: int = 0, classes: int = 2) -> Path:
    """A learnable file: the class depends on three of eight columns; zeros are left out."""
    rng = np.random.default_rng(seed)
    X = np.round(rng.random((n, 8)) * (rng.random((n, 8)) < 0.8), 3)
    y = np.floor((X[:, 0] + X[:, 1] * X[:, 2]) * classes / 1.2).clip(0, classes - 1).astype(int)
    lines = (
        f"{label} " + " ".join(f"{j + 1}:{value:g}" for j, value in enumerate(row) if value)
        for label, row in zip(y, X, strict=True)
    )
    path.write_text("\n".join(lines) + "\n")
    return path


ALONE = ClusterHandle(
    cast("Client", InProcess()), "local", workers=1, threads=1, memory_limit=None, dashboard_link=None
)
"""This process in place of a cluster, where a test is not about workers."""
METHODS: dict[str, Any] = {"partitioner": "anne", "learner": ("svm", "ogd")}
"""Two learners of a run, unless a test names others."""


def run(cluster: ClusterHandle, directory: Path, **options: Any) -> dict[str, Any]:
    asked = BatchOptions(run_dir=str(directory), **{**METHODS, **options})
    data = find_data(asked, QuietProgress())
    urls = [url for url in (data.train_url, data.test_url) if url]
    contents = [dict(opened(url, data.format, data.label, data.n_columns).identity()) for url in urls]
    params = batch_params(asked)
    forget()
    held = RunDirectory(directory, run_identity(params.as_json(), data, contents), fresh=asked.fresh)
    try:
        invocation = Invocation(
            asked.command(session=False), asked.to_toml(), {**cluster.record(), "dashboard": None},
            sources=[{"url": u, **c} for u, c in zip(urls, contents, strict=True)],
        )  # fmt: skip
        return run_batch(Context(cluster.client, held, params, QuietProgress()), data, invocation)
    finally:
        held.close()


def results(directory: Path) -> dict[str, Any]:
    """Everything that must not depend on how a run was executed: cells, models, accuracies."""
    store: Any = zarr.open_group(str(directory / "store.zarr"), mode="r")
    found: dict[str, Any] = {}
    for psi, sides in store["cells"].groups():
        for side, group in sides.groups():
            for name, array in group.arrays():
                found[f"cells/{psi}/{side}/{name}"] = array[...].tobytes()
    for kind in ("partitions", "models"):
        for name, group in store[kind].groups():
            if "content_hash" in group.attrs:
                found[f"{kind}/{name}"] = group.attrs["content_hash"]
    metrics = json.loads((directory / "metrics.json").read_text())
    found["learners"] = {
        name: {k: v for k, v in learner.items() if not k.endswith("seconds")}
        for name, learner in metrics["learners"].items()
    }
    return found


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "flows.batch", "--no-dask-report", *words]


def environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
    return {**kept, "PREFECT_HOME": "/nonexistent", "PYTHONPATH": str(ROOT)}


def test_metrics_follow_the_schema_and_the_files_are_there(
    two_workers: ClusterHandle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dask's own report is one of the files."""
    monkeypatch.setattr("pipeline.runs.metrics.performance_report", distributed.performance_report)
    files = ["manifest.json", "report.html", "dask-report.html", "run.toml", "store.zarr/zarr.json"]
    file = write_libsvm(tmp_path / "train.libsvm", 600, classes=3)
    directory = tmp_path / "run"
    metrics = run(two_workers, directory, input=str(file), t=20, learner=("svm", "ogd", "logistic"))
    schema = json.loads((ROOT / "docs" / "metrics.schema.json").read_text())
    written = json.loads((directory / "metrics.json").read_text())
    Draft202012Validator(schema).validate(written)
    assert read_json(directory / "metrics.json") == metrics
    for name in files:
        assert (directory / name).exists()
    assert [stage["name"] for stage in metrics["stages"]] == [
        "ingest", "select", "partition", "cells", "train:svm", "evaluate:svm", "train:ogd", "evaluate:ogd",
        "train:logistic", "evaluate:logistic",
    ]  # fmt: skip
    assert metrics["data"]["rows_train"] == 480
    assert metrics["data"]["rows_test"] == 120
    majority = max(metrics["data"]["class_counts_train"]) / 480
    for learner in metrics["learners"].values():
        assert learner["accuracy"] > majority + 0.15
        assert np.sum(learner["confusion"]) == 120
    assert BatchOptions.from_toml((directory / "run.toml").read_text(), "run.toml").input == str(file)


def test_the_same_bits_for_any_number_of_workers_and_any_shards(two_workers: ClusterHandle, tmp_path: Path) -> None:
    file = write_libsvm(tmp_path / "train.libsvm", 900, classes=3)
    options: dict[str, Any] = {"input": str(file), "t": 13, "psi": 16}
    run(two_workers, tmp_path / "a", **options)
    expected = results(tmp_path / "a")
    run(two_workers, tmp_path / "b", **options, shard_rows=37)
    assert results(tmp_path / "b") == expected
    run(ALONE, tmp_path / "c", **options, shard_rows=200)
    assert results(tmp_path / "c") == expected


def test_kill_at_any_moment_and_resume_to_the_same_bits(two_workers: ClusterHandle, tmp_path: Path) -> None:
    """The command is killed again and again, each time a little later; the finished run equals an undisturbed one."""
    file = write_libsvm(tmp_path / "train.libsvm", 3000, classes=3)
    words = ["--input", str(file), "--t", "20", "--psi", "64", "--shard-rows", "128", "--workers", "1"]
    words += ["--partitioner", METHODS["partitioner"], "--learner", ",".join(METHODS["learner"])]
    run(two_workers, tmp_path / "whole", input=str(file), t=20, psi=64, shard_rows=128)
    expected = results(tmp_path / "whole")
    directory = tmp_path / "killed"
    killed_at = []
    seconds_before = 0.0
    for stage in ("ingest", "train-svm"):
        process = subprocess.Popen(
            command(*words, "--run-dir", str(directory)), env=environment(), cwd=tmp_path, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + 300
        while not list((directory / "records" / stage).glob("*.json")) and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            killed_at.append(stage)
        process.wait()
        # Whatever was being written may be there in part.
        counted = json.loads((directory / "manifest.json").read_text())["seconds"]
        assert counted >= seconds_before
        seconds_before = counted
    assert killed_at
    assert not (directory / "metrics.json").exists() or len(killed_at) < 2
    again = subprocess.run(
        command(*words, "--run-dir", str(directory)), env=environment(), cwd=tmp_path, capture_output=True
    )
    assert again.returncode == 0, again.stderr.decode()
    assert results(directory) == expected
    metrics = json.loads((directory / "metrics.json").read_text())
    stages = {s["name"]: s for s in metrics["stages"]}
    assert stages["ingest"]["tasks_skipped"] == stages["ingest"]["tasks"]
    # Every session counts, the killed ones up to their last event: a stage of a later one begins after those before.
    last = stages["evaluate:ogd"]
    assert (seconds_before > 0) == (len(killed_at) > 1)
    about = metrics["run"]
    assert seconds_before < last["started"] < about["seconds"] - last["seconds"] + 0.01
    # What a clock on the wall says beside the work: the sessions' imports and clusters.
    parts = [about[name] for name in ("start_seconds", "seconds", "stop_seconds")]
    assert min(parts) > 0
    assert about["wall_seconds"] == pytest.approx(sum(parts))


def test_a_worker_killed_in_the_middle_changes_nothing(tmp_path: Path) -> None:
    file = write_libsvm(tmp_path / "train.libsvm", 1500)
    options: dict[str, Any] = {"input": str(file), "t": 20, "psi": 64, "shard_rows": 64}
    with connect("local", workers=2) as cluster:
        run(cluster, tmp_path / "a", **options)
        pids = cluster.client.run(os.getpid)
        os.kill(next(iter(pids.values())), signal.SIGKILL)
        run(cluster, tmp_path / "b", **options)
    assert results(tmp_path / "a") == results(tmp_path / "b")


def test_another_run_is_refused_with_the_difference_named(tmp_path: Path) -> None:
    file = write_libsvm(tmp_path / "train.libsvm", 300)
    directory = tmp_path / "run"
    run(ALONE, directory, input=str(file), t=5, psi=4)
    with pytest.raises(InputError, match=r"params\.methods\.anne\.psi was 4, now 8; params\.seed was 0, now 1"):
        run(ALONE, directory, input=str(file), t=5, psi=8, seed=1)
    write_libsvm(file, 300, seed=7)
    with pytest.raises(InputError, match=r"data\.sources"):
        run(ALONE, directory, input=str(file), t=5, psi=4)
    metrics = run(ALONE, directory, input=str(file), t=5, psi=4, fresh=True)
    assert metrics["params"]["psi"] == 4


def test_finished_stages_are_not_done_again(tmp_path: Path) -> None:
    file = write_libsvm(tmp_path / "train.libsvm", 300)
    directory = tmp_path / "run"
    run(ALONE, directory, input=str(file), t=5, psi=4)
    expected = results(directory)
    manifest = read_json(directory / "manifest.json")
    for stage in ("train:ogd", "evaluate:ogd"):
        del manifest["stages"][stage]
        shutil.rmtree(directory / "records" / stage.replace(":", "-"))
    manifest["status"] = "unfinished"
    write_json(directory / "manifest.json", manifest)
    metrics = run(ALONE, directory, input=str(file), t=5, psi=4)
    assert results(directory) == expected
    skipped = {stage["name"]: stage["tasks_skipped"] == stage["tasks"] for stage in metrics["stages"]}
    assert skipped.pop("train:ogd") is False
    assert skipped.pop("evaluate:ogd") is False
    assert all(skipped.values())


@pytest.mark.parametrize("psi", ["8", "auto"])
def test_a_dry_run_ends_after_its_plan_and_the_command_that_it_names_goes_on(
    psi: str, two_workers: ClusterHandle, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    data, directory = write_libsvm(tmp_path / "train.libsvm", 300), tmp_path / "run"
    words = ["--input", str(data), "--psi", psi, "--t", "5", "--workers", "1", "--no-dask-report"]
    words += ["--learner", "ogd", "--run-dir", str(directory)]
    with commands_find(two_workers):
        assert run_command(flows.batch.main, [*words, "--dry-run"]) == 0
    said = capfd.readouterr().err
    assert "plan: data: 240 training and 60 test rows x 8 columns" in said
    again = said.splitlines()[-1].partition("to go on from here: python -m flows.batch ")[2].split()
    assert not (directory / "metrics.json").exists()
    with commands_find(two_workers):
        assert run_command(flows.batch.main, again) == 0
    assert "ingest: done before" in capfd.readouterr().err
    assert (directory / "metrics.json").exists()


@pytest.mark.parametrize("psi", ["auto", 8])
def test_C_chosen_by_cross_validation_is_used_and_kept(psi: int | str, tmp_path: Path) -> None:
    file = write_libsvm(tmp_path / "train.libsvm", 400)
    directory = tmp_path / "run"
    options: dict[str, Any] = {"input": str(file), "t": 7, "psi": psi, "C": "auto"}
    metrics = run(ALONE, directory, **options)
    Draft202012Validator(json.loads((ROOT / "docs" / "metrics.schema.json").read_text())).validate(metrics)
    selection = metrics["selection"]
    C = selection["chosen_C"]["svm"]
    assert metrics["params"]["C"] == C
    assert set(selection["chosen_C"]) == {"svm"}
    chosen = selection["chosen"]["svm"]
    assert chosen == metrics["learners"]["svm"]["psi"]
    assert psi in ("auto", chosen)
    # The model is that of a run that is given both.
    given = run(ALONE, tmp_path / "given", **{**options, "psi": chosen, "C": C, "learner": ("svm",)})
    assert given["selection"] is None
    assert given["learners"]["svm"]["content_hash"] == metrics["learners"]["svm"]["content_hash"]
    # Taken up again after selection, the same C is used.
    manifest = read_json(directory / "manifest.json")
    for stage in ("train:svm", "evaluate:svm"):
        del manifest["stages"][stage]
        shutil.rmtree(directory / "records" / stage.replace(":", "-"))
    manifest["status"] = "unfinished"
    write_json(directory / "manifest.json", manifest)
    again = run(ALONE, directory, **options)
    assert again["selection"] == selection
    assert again["learners"]["svm"]["content_hash"] == metrics["learners"]["svm"]["content_hash"]


FAULTS: dict[str, tuple[str, list[str], str]] = {
    "missing": ("", ["--input", "{dir}/nothing.libsvm"], "nothing.libsvm"),
    "text": ("hello world\n", ["--input", "{file}"], r"line 1, column 1"),
    "zero": ("1 0:1\n-1 1:1\n", ["--input", "{file}"], r"line 1, column 3.*index 0"),
    "descending": ("1 2:1 1:1\n", ["--input", "{file}"], r"line 1"),
    "nan": ("1 1:nan\n-1 1:1\n", ["--input", "{file}"], r"line 1.*nan"),
    "infinite": ("1 1:1\n-1 1:inf\n", ["--input", "{file}"], r"line 2.*inf"),
    "one class": ("1 1:1\n" * 20, ["--input", "{file}"], "one class only"),
    "empty": ("", ["--input", "{file}"], "empty|no rows"),
    "psi": ("1 1:1\n-1 1:2\n" * 10, ["--input", "{file}", "--psi", "17"], "--psi 17.*16 training rows"),
    "name": ("", ["--dataset", "a9b"], "a9a"),
    "both": ("", ["--dataset", "a9a", "--input", "{file}"], "--input"),
}


def faulty(fault: str, folder: Path) -> tuple[list[str], str]:
    """The words of the command, and what it says."""
    text, words, expected = FAULTS[fault]
    file = folder / "data.libsvm"
    file.write_text(text)
    words = [word.format(dir=folder, file=file) for word in words]
    return [*words, "--workers", "1", "--quiet", "--run-dir", str(folder / "run")], expected


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_input_is_one_line_and_exit_status_2(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The whole command, but for starting its cluster."""
    monkeypatch.setattr("flows.prefect.configured.api_is_configured", lambda: False)
    words, expected = faulty(fault, tmp_path)
    with commands_in_this_process():
        status = run_command(flows.batch.main, words)
    out, err = capfd.readouterr()
    assert status == 2, err
    assert out == ""
    assert len(err.strip().splitlines()) == 1, err
    assert re.search(expected, err), err
    assert not (tmp_path / "run" / "metrics.json").exists()


def test_test_data_that_does_not_fit(tmp_path: Path) -> None:
    train = tmp_path / "train.libsvm"
    train.write_text("1 1:1 2:1\n-1 1:2\n" * 20)
    wide = tmp_path / "wide.libsvm"
    wide.write_text("1 1:1\n-1 3:1\n")
    with pytest.raises(InputError, match=r"wide.libsvm: line 2.*3.*2 columns"):
        run(ALONE, tmp_path / "a", input=str(train), test_input=str(wide), psi=4, t=5)
    labels = tmp_path / "labels.libsvm"
    labels.write_text("1 1:1\n7 2:1\n")
    with pytest.raises(InputError, match=r"labels.libsvm: found label 7, expected the training labels: -1, 1"):
        run(ALONE, tmp_path / "b", input=str(train), test_input=str(labels), psi=4, t=5)


def test_a_directory_that_is_no_run_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    with pytest.raises(InputError, match=r"precious.txt"):
        RunDirectory(tmp_path, {}, fresh=True)
    assert (tmp_path / "precious.txt").read_text() == "mine"


def test_only_one_process_works_on_a_run(tmp_path: Path) -> None:
    held = RunDirectory(tmp_path / "run", {})
    with pytest.raises(InputError, match="another process"):
        RunDirectory(tmp_path / "run", {})
    held.close()
    RunDirectory(tmp_path / "run", {}).close()


def test_without_options_the_embedded_data_set_is_used(tmp_path: Path) -> None:
    metrics = run(ALONE, tmp_path / "run", psi=64)
    assert metrics["data"]["name"] == "digits"
    assert metrics["learners"]["svm"]["accuracy"] > 0.95


def test_tables_scaling_and_text_labels(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((400, 3)) * [1, 1000, 0.001]
    y = np.where(X[:, 1] > 500, "high", "low")
    file = tmp_path / "table.csv"
    file.write_text("a,b,c,label\n" + "".join(f"{a},{b},{c},{k}\n" for (a, b, c), k in zip(X, y, strict=True)))
    metrics = run(ALONE, tmp_path / "run", input=str(file), scale="minmax", psi=32, t=50)
    assert metrics["data"]["classes"] == ["high", "low"]
    assert metrics["learners"]["svm"]["accuracy"] > 0.9


def test_a_shard_that_went_missing_is_made_again(tmp_path: Path) -> None:
    """Zarr reads an absent object as its fill value: a run that goes on must not take that for cells."""
    file = write_libsvm(tmp_path / "train.libsvm", 300)
    directory = tmp_path / "run"
    run(ALONE, directory, input=str(file), t=5, psi=4, shard_rows=64)
    expected = results(directory)
    manifest = read_json(directory / "manifest.json")
    for stage in ("train:svm", "evaluate:svm", "train:ogd", "evaluate:ogd"):
        del manifest["stages"][stage]
        shutil.rmtree(directory / "records" / stage.replace(":", "-"))
    manifest["status"] = "unfinished"
    write_json(directory / "manifest.json", manifest)
    (directory / "store.zarr/cells/anne-psi-4/train/codes/c/1/0").unlink()
    shutil.rmtree(directory / "store.zarr/partitions/anne-psi-4")
    run(ALONE, directory, input=str(file), t=5, psi=4, shard_rows=64)
    assert results(directory) == expected


def test_a_shard_that_workers_find_damaged_is_made_again(two_workers: ClusterHandle, tmp_path: Path) -> None:
    file = write_libsvm(tmp_path / "train.libsvm", 300)
    directory = tmp_path / "run"
    options: dict[str, Any] = {"input": str(file), "t": 5, "psi": 4}
    run(two_workers, directory, **options)
    expected = results(directory)
    manifest = read_json(directory / "manifest.json")
    for stage in ("train:svm", "evaluate:svm", "train:ogd", "evaluate:ogd"):
        del manifest["stages"][stage]
        shutil.rmtree(directory / "records" / stage.replace(":", "-"))
    manifest["status"] = "unfinished"
    write_json(directory / "manifest.json", manifest)
    for side in ("train", "test"):
        shard = directory / f"store.zarr/cells/anne-psi-4/{side}/codes/c/0/0"
        shard.write_bytes(shard.read_bytes()[:-40])
    metrics = run(two_workers, directory, **options)
    assert results(directory) == expected
    stages = {stage["name"]: stage for stage in metrics["stages"]}
    assert (stages["cells"]["tasks"], stages["cells"]["tasks_skipped"]) == (2, 1)  # one by one, as they were found
