"""A run on tables, as whole processes: killed while it reads, it ends as one that nobody disturbed."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.options.batch import BatchOptions
from tests.support.one_process import Command, one_process
from tests.system.test_batch import command, environment, results

pytestmark = pytest.mark.system

N = 900
AFTER = ("ingest",)
"""Stages of which the first record is waited for, each before one kill."""


def write(folder: Path) -> Path:
    """Two files of words, numbers with gaps, weights and ids, with their columns in another order."""
    rng = np.random.default_rng(0)
    size, town = rng.normal(size=N), rng.integers(0, 20, N)
    table = pa.table(
        {
            "who": [f"r{k}" for k in range(N)],
            "size": [None if k % 9 == 4 else float(v) for k, v in enumerate(size)],
            "town": [None if k % 50 == 3 else f"t{v}" for k, v in enumerate(town)],
            "w": rng.integers(0, 3, N),
            "y": np.where(size + town / 10 + rng.normal(size=N) > 1, "yes", "no"),
        }
    )
    folder.mkdir()
    pq.write_table(table.slice(0, 500), folder / "a.parquet", row_group_size=100)
    pq.write_table(table.slice(500).select(table.column_names[::-1]), folder / "b.parquet")
    return folder


def test_a_killed_run_on_tables_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    folder, directory = write(tmp_path / "parts"), tmp_path / "killed"
    options = BatchOptions(
        input=str(folder), label="y", id="who", weight="w", learner=("svm", "ogd"), t=7, psi=8, C=1.0, shard_rows=64
    )
    with one_process():
        Command(options).run(tmp_path / "whole")
    words = (*shlex.split(options.command())[3:], "--workers", "1", "--run-dir", str(directory))
    for stage in AFTER:
        process = subprocess.Popen(
            command(*words), env=environment(), cwd=tmp_path, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        deadline = time.monotonic() + 120
        while not any((directory / "records" / stage).glob("*.json")):
            assert process.poll() is None or (directory / "metrics.json").exists()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    again = subprocess.run(command(*words), env=environment(), cwd=tmp_path, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert "going on with an unfinished run" in again.stderr
    assert results(directory) == results(tmp_path / "whole")
    worst = results(directory)["learners"]["svm"]["worst"]
    assert all(row["id"] == f"r{row['row']}" for row in worst)
