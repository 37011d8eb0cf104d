"""Benchmarks of tables: the same rows for all sides, figures as scikit-learn has them, and nothing measured twice."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from benchmarks import defaults, encodings, peers, table_peers, tables
from benchmarks.harness import Options
from benchmarks.table_sets import SETS, TEST, TRAIN, read_table, write_sides
from flows.options.batch import BatchOptions
from tests.support.kills import counted

pytestmark = pytest.mark.slow
N = 600


@pytest.fixture
def options(tmp_path: Path) -> Options:
    """A data directory with a table of words, dates and missing cells under the names of two others."""
    rng = np.random.default_rng(0)
    age, job = rng.integers(20, 60, N), np.array(["a", "b", "?"])[rng.integers(0, 3, N)]
    income = np.where(age + 20 * (job == "a") + 5 * rng.normal(size=N) > 50, ">50K", "<=50K")
    table = pa.table({"age": age, "job": job, "income": income})
    pyarrow.csv.write_csv(table, tmp_path / "adult.csv")
    (tmp_path / "adult.csv").rename(tmp_path / "adult.csv.gz")
    with pa.OSFile(str(tmp_path / "adult.csv.gz"), "wb") as raw, pa.CompressedOutputStream(raw, "gzip") as out:
        pyarrow.csv.write_csv(table, out)
    date = np.datetime64("2001-01-01T00:00:00") + np.sort(rng.integers(0, 100 * 86_400, N))
    flights = {"date": date, "delay": rng.integers(-10, 60, N), "origin": np.array(["x", "y"])[rng.integers(0, 2, N)]}
    pq.write_table(pa.table(flights), tmp_path / "flights-3m.parquet")
    return Options(quick=True, data_dir=tmp_path, datasets=("adult",), threads=1)


def test_sides_of_a_split(options: Options, tmp_path: Path) -> None:
    write_sides(SETS["flights-later"], options, 0, tmp_path)
    train, test = (pq.read_table(tmp_path / name) for name in (TRAIN, TEST))
    assert train.num_rows + test.num_rows == N
    assert max(train["date"].to_pylist()) < min(test["date"].to_pylist())
    assert set(train["delay"].to_pylist()) == {0, 1}
    assert read_table(SETS["adult"], options)["job"].null_count > 0
    write_sides(SETS["adult"], options, 1, tmp_path)
    assert pq.read_table(tmp_path / TEST).num_rows == N // 5


@pytest.mark.parametrize("peer", table_peers.PEERS)
@pytest.mark.parametrize("name", ["adult", "delay"])
def test_peers_learn(options: Options, tmp_path: Path, peer: str, name: str) -> None:
    of = SETS[name]
    write_sides(of, options, 0, tmp_path)
    about = {"label": of.label, "numbers": of.numbers, "categories": (), "threads": 1}
    module = {table_peers.LIGHTGBM: "lightgbm", table_peers.PARTS: "lightgbm", table_peers.CATBOOST: "catboost"}
    if peer in module and (
        peers.find(module[peer]) is None or (peer == table_peers.CATBOOST and not peers.find("pandas"))
    ):
        with pytest.raises(ImportError, match="make bench"):
            table_peers.fit_peer(tmp_path, peer, about)
        return
    found = table_peers.fit_peer(tmp_path, peer, about)
    assert found["seconds"] > 0
    if of.numbers:
        assert 10 < found["rmse"] < 40
    else:
        assert found["roc_auc"] > 0.9
        assert found["accuracy"] > 0.8


def test_runs_and_peers_are_measured_once(options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    actual = subprocess.run

    def run(command: list[str], **given_too: Any) -> Any:
        if command[0] == "git":
            return actual(command, **given_too)
        asked.append(command)
        if command[2] == "benchmarks.table_peers":
            return SimpleNamespace(returncode=0, stdout='{"seconds": 1.0, "roc_auc": 0.9}\n', stderr="")
        given = BatchOptions.parse(command[3:])
        assert given.run_dir is not None
        Path(given.run_dir).mkdir()
        metrics = {"run": {"seconds": 2.0}, "learners": {"logistic": {"roc_auc": 0.95, "rmse": None}}}
        (Path(given.run_dir) / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
        return SimpleNamespace(returncode=0, stdout="", stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    for _ in range(2):
        assert tables.run(options, tmp_path, unset=[]) == 0
    assert len(asked) == 5
    text = (tmp_path / "tables.md").read_text(encoding="utf-8")
    assert "| adult | **ours, default options** | 0.95 |" in text
    assert "| adult | LightGBM | 0.9 |" in text
    for of in SETS.values():  # whose options are taken
        for side in tables.OURS:
            BatchOptions.parse(
                tables.command_of(of, side, "train.parquet", "test.parquet", replace(options, quick=False))
            )


def test_encodings_are_measured_once(options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: {**about, "n_estimators": 10, "max_samples": 16} for name, about in encodings.MAPS.items()}
    monkeypatch.setattr(encodings, "MAPS", few)
    both = replace(options, datasets=("adult", "delay"))
    assert encodings.run(both, tmp_path, unset=[]) == 0
    measured = json.loads((tmp_path / "encodings.json").read_text(encoding="utf-8"))["measured"]
    assert len(measured["adult"]) == 20
    assert min(np.mean(figure) for figure in measured["adult"].values()) > 0.7
    assert {"iforest, time, cycles", "anne, category, hash"} <= measured["delay"].keys()
    with counted(encodings.score) as scores:
        assert encodings.run(both, tmp_path, unset=[]) == 0
    assert not scores.number
    assert "| adult | iforest |" in (tmp_path / "encodings.md").read_text(encoding="utf-8")


def test_nothing_but_the_label(options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command of each set has no option beside; figures of both sides stand in one line of the table."""
    words = {of.name: of.command(tmp_path, options) for of in defaults.ALL}
    assert words["adult"][4:] == ["--label", "income"]
    assert words["flights-3m-above-15"][4:] == ["--label", "delay", "--above", "15"]
    assert words["sector"][:2] == ["--dataset", "sector"]
    for of in words.values():
        asked = BatchOptions.parse(of)
        assert (asked.learner, asked.partitioner, asked.psi, asked.t) == (("auto",), "auto", "auto", None)
    actual = subprocess.run

    def run(command: list[str], **given: Any) -> Any:
        if "benchmarks.table_peers" in command:
            return SimpleNamespace(returncode=0, stdout='{"seconds": 1.0, "r2": 0.25}\n', stderr="")
        if "--run-dir" not in command:
            return actual(command, **given)
        given_dir = Path(command[command.index("--run-dir") + 1])
        given_dir.mkdir()
        metrics = {"learners": {"ridge": {"r2": 0.5}}, "params": {"psi": 8, "C": 1}}
        (given_dir / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", run)
    folder = tmp_path / "measured"
    folder.mkdir()
    assert defaults.run(replace(options, datasets=("flights-3m",)), folder, unset=[]) == 0
    line = "| flights-3m | R2 | 0.5000 | 0.2500 | +0.2500 | ridge, 8, 1 |"
    assert any(row.startswith(line) for row in (folder / "defaults.md").read_text().splitlines())
