"""NORMA in service: the command is killed with SIGKILL while rows come, and goes on to the same bits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flows.online
from flows.cli import run_command
from flows.options.online import OnlineOptions
from ikmap.learners.linear_model import LinearModel
from pipeline.storage.models import MODELS, load_model
from pipeline.storage.store import Store
from tests.support.metrics import check_metrics
from tests.support.one_process import Command, commands_in_this_process, one_process

ROOT = Path(__file__).parents[2]
N, INITIAL, BLOCK, WARM_UP = 2400, 200, 20, 60
ASKED: dict[str, Any] = {
    "task": "novelty", "learner": ("norma",), "nu": 0.1, "partitioner": "iforest", "t": 20, "psi": 8,
    "initial": INITIAL, "block_rows": BLOCK, "warm_up": WARM_UP,
}  # fmt: skip


def write(path: Path) -> list[str]:
    X = np.random.default_rng(2).normal(size=(N, 3)).round(3)
    X[7::23] += 5
    np.savetxt(path, X, delimiter=",", header="a,b,c", comments="", fmt="%g")
    return path.read_text().splitlines(keepends=True)


def words_of(folder: Path, alerts: Path) -> list[str]:
    words = ["--input", "-", "--format", "csv", "--alerts", str(alerts)]
    for name, value in ASKED.items():
        words += [f"--{name.replace('_', '-')}", value[0] if isinstance(value, tuple) else str(value)]
    return [*words, "--workers", "1", "--memory-limit", "1GB", "--quiet", "--no-dask-report", "--run-dir", str(folder)]


def start(words: list[str]) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "flows.online", *words]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
    environment |= {"PREFECT_HOME": "/nonexistent", "PYTHONPATH": str(ROOT)}
    pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(words, env=environment, cwd=ROOT, start_new_session=True, **pipes)


@contextmanager
def standard_input(path: Path) -> Iterator[None]:
    """Let a file be the standard input of this process."""
    kept = os.dup(0)
    try:
        with path.open("rb") as file:
            os.dup2(file.fileno(), 0)
        yield
    finally:
        os.dup2(kept, 0)
        os.close(kept)


def alerts_of(path: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "time"} for line in lines]


def test_killed_while_rows_come_and_given_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process of its own is killed; the same command goes on in this one."""
    lines = write(tmp_path / "rows.csv")
    to = tmp_path / "killed.jsonl"
    words = words_of(tmp_path / "killed", to)
    process = start(words)
    assert process.stdin is not None
    process.stdin.write("".join(lines[: 1 + N // 2]).encode())
    process.stdin.flush()  # and nothing more: the stream has not ended
    deadline = time.monotonic() + 200
    while not (to.exists() and to.stat().st_size):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    before = to.read_bytes()
    assert not (tmp_path / "killed" / "metrics.json").exists()
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("PREFECT_HOME", "/nonexistent")
    with standard_input(tmp_path / "rows.csv"), commands_in_this_process():
        assert run_command(flows.online.main, words) == 0
    check_metrics(tmp_path / "killed")

    with one_process():  # the same rows, all there, never killed
        whole = Command(
            OnlineOptions(input=str(tmp_path / "rows.csv"), order="file", alerts=str(tmp_path / "whole.jsonl"), **ASKED)
        ).run(tmp_path / "whole")
    killed = json.loads((tmp_path / "killed" / "metrics.json").read_text())
    mine, theirs = killed["learners"]["norma"], whole["learners"]["norma"]
    for key in ("content_hash", "traces", "rows", "n_support", "alert_rate"):
        assert mine[key] == theirs[key], key
    for name in ("coef", "intercept"):
        first, second = (
            getattr(load_model(Store(tmp_path / run / "store.zarr"), f"{MODELS}/norma", LinearModel), name).tobytes()
            for run in ("killed", "whole")
        )
        assert first == second
    predictions = [(tmp_path / run / "predictions" / "norma.int32").read_bytes() for run in ("killed", "whole")]
    assert predictions[0] == predictions[1]
    assert to.read_bytes().startswith(before[: before.rfind(b"\n") + 1])
    assert alerts_of(to) == alerts_of(tmp_path / "whole.jsonl")  # none is lost, none comes twice
    assert len(alerts_of(to)) == killed["online"]["alerts"]["sent"]["norma"] > 20
    (stage,) = [one for one in killed["stages"] if one["name"] == "stream"]
    assert stage["tasks_skipped"] > 0
