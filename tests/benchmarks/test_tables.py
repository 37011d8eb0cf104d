"""Benchmarks of tables: the same rows for all sides, figures as scikit-learn has them, and nothing measured twice."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from benchmarks import budgets, encodings, environment, peers, records, runner, table_peers, tables
from benchmarks.harness import Options
from benchmarks.table_sets import RESERVED, SETS, TEST, TRAIN, capped_rows, draw, read_table, sets_of, write_sides
from flows import batch
from flows.options.batch import BatchOptions
from pipeline.errors import InputError
from tests.support.calls import counted
from tests.support.one_process import commands_in_this_process

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


PACKAGES = {table_peers.XGBOOST: ("xgboost",), table_peers.CATBOOST: ("catboost", "pandas"), "FLAML-10": ("flaml",)}
LIGHTGBM = (table_peers.LIGHTGBM, table_peers.ROUNDS, table_peers.STOPPED, table_peers.BAG, table_peers.PARTS)


@pytest.mark.parametrize("peer", [*(peer for peer in table_peers.PEERS if peer not in table_peers.FLAML), "FLAML-10"])
@pytest.mark.parametrize("name", ["adult", "delay"])
def test_peers_learn(options: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, peer: str, name: str) -> None:
    monkeypatch.setitem(table_peers.STOPPING, "n_estimators", 60)
    monkeypatch.setitem(table_peers.FLAML, "FLAML-10", 1)
    of = SETS[name]
    write_sides(of, options, 0, tmp_path)
    about = {"label": of.label, "numbers": of.numbers, "categories": (), "threads": 1}
    packages = PACKAGES.get(peer, ("lightgbm",) if peer in LIGHTGBM else ())
    if any(peers.find(package) is None for package in packages):
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


def test_parts_that_end_rounds_have_rows_of_every_class() -> None:
    y = np.repeat([0, 1, 2], [95, 20, 4])
    part = table_peers.parts_of(y, 5, classes=True)
    assert [np.bincount(part[(y == k) & (part >= 0)], minlength=5).tolist() for k in range(3)] == [
        [19] * 5,
        [4] * 5,
        [0] * 5,
    ]
    assert (part == -1).sum() == 4
    assert np.bincount(table_peers.parts_of(y.astype(float), 10, classes=False) + 1).tolist() == [9, *[11] * 10]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands of sides, none of which is run: peers have an area of .9, our sides one of .95."""
    commands: list[list[str]] = []
    actual = subprocess.run

    def run(command: list[str], **given_too: Any) -> Any:
        if command[0] == "git":
            return actual(command, **given_too)
        commands.append(command)
        if command[2] == "benchmarks.table_peers":
            if json.loads(command[4])["peer"] == table_peers.CATBOOST:
                raise subprocess.TimeoutExpired(command, given_too["timeout"])
            return SimpleNamespace(returncode=0, stdout='{"seconds": 1.0, "roc_auc": 0.9}\n', stderr="")
        given = BatchOptions.parse(command[3:])
        assert given.run_dir is not None
        Path(given.run_dir).mkdir()
        metrics = {"run": {"seconds": 2.0}, "learners": {"logistic": {"roc_auc": 0.95, "rmse": None}}}
        (Path(given.run_dir) / "metrics.json").write_text(json.dumps(metrics), encoding="utf-8")
        return SimpleNamespace(returncode=0, stdout="", stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    return commands


def test_runs_and_peers_are_measured_once(options: Options, tmp_path: Path, asked: list[list[str]]) -> None:
    """Sides that this build lacks are named, and tried again; a side that was given up is not."""
    lacking = [side for side in tables.OURS if is_lacking(side, options)]
    sides = [side for side in tables.SIDES if side not in {*lacking, table_peers.PARTS, *tables.ANYTIME}]
    for _ in range(2):
        assert tables.run(options, tmp_path, unset=[]) == 0
    assert len(asked) == len(sides)
    text = (tmp_path / "table_splits.md").read_text(encoding="utf-8")
    assert "| adult | **default** | 1 | 0.9500 |  | +0.0500 |  |  |  |  | 2 |" in text
    assert "| adult | LightGBM | 1 | 0.9000 |  |  |  |  |  |  | 1 |" in text
    assert "| adult | CatBoost | 0 | given up after 600 s |" in text
    for side in lacking:
        assert f"| adult | **{side}** | 0 | this build has no --" in text
    more = replace(options, datasets=("adult", "delay"), sides=("LightGBM", "iforest"))
    assert tables.run(more, tmp_path, unset=[]) == 0
    assert len(asked) == len(sides) + 2
    with pytest.raises(InputError, match="choose another folder"):
        tables.run(replace(more, rows=100), tmp_path, unset=[])
    with pytest.raises(InputError, match="--sides: found 'LightGDM'"):
        tables.run(replace(more, sides=("LightGDM",)), tmp_path, unset=[])


def test_quality_against_seconds_has_a_report_of_its_own(
    options: Options, tmp_path: Path, asked: list[list[str]]
) -> None:
    assert budgets.run(replace(options, datasets=("adult",)), tmp_path, unset=[]) == 0
    assert len(asked) == 2 + len(tables.ANYTIME)
    assert runner.record(tmp_path, ["budgets"], tmp_path / "docs") == ["budgets"]
    found = records.load("budgets", tmp_path / "docs" / "measured")
    assert found.command.startswith("python -m benchmarks budgets ")
    assert found.about.startswith("What --budget and FLAML come to")
    assert [row[0] for row in found.tables[0].rows] == [
        *(f"**default-{n}**" for n in table_peers.BUDGETS), "LightGBM", "CatBoost", *table_peers.FLAML,
    ]  # fmt: skip


def is_lacking(side: str, options: Options) -> bool:
    return bool(tables.lacked(tables.command_of(SETS["adult"], side, "train.parquet", "test.parquet", options)))


def test_learners_that_this_build_lacks_are_named() -> None:
    assert tables.lacked(["--label", "--x", "--learner", "logistic", "--partitioner", "iforest"]) == ""
    assert tables.lacked(["--learner", "logistic", "--partitioner", "oaks"]) == "--partitioner oaks"


def test_all_rows_have_a_report_of_their_own(options: Options, tmp_path: Path, asked: list[list[str]]) -> None:
    """Without a cap on rows there are as many splits as a table asks for, and dates have their parts."""
    whole = replace(options, datasets=("flights-3m",), rows=0, sides=("default", "given", "LightGBM-parts"))
    assert tables.run(whole, tmp_path, unset=[]) == 0
    assert len(asked) == 3
    assert json.loads((tmp_path / "tables.json").read_text(encoding="utf-8"))["options"]["rows"] == 0
    assert runner.record(tmp_path, ["tables"], tmp_path / "docs") == ["tables"]
    capped = replace(whole, rows=500, sides=("default",))
    assert tables.run(capped, tmp_path, unset=[]) == 0
    assert runner.record(tmp_path, ["tables"], tmp_path / "docs") == ["tables", "table_splits"]
    commands = [records.load(name, tmp_path / "docs" / "measured").command for name in ("tables", "table_splits")]
    assert [command.partition("--quick ")[2] for command in commands] == [
        "--threads 1 --rows 0",
        "--threads 1 --rows 500",
    ]
    slow = replace(whole, quick=False)
    counts = [seed for of, seed in tables.splits_of([SETS["adult"], SETS["delay"]], slow) if of.name == "adult"]
    assert counts == [0, 1, 2]
    order = [(of.name, seed) for of, seed in tables.splits_of([SETS["adult"], SETS["delay"]], replace(slow, splits=2))]
    assert order == [("adult", 0), ("delay", 0), ("adult", 1), ("delay", 1)]
    sides = [side for side in tables.OURS if not is_lacking(side, slow)]
    of_tables = [(of, sides[k % len(sides)]) for k, of in enumerate(SETS.values())]
    for of, side in [*of_tables, *((SETS[name], side) for name in ("adult", "delay") for side in sides)]:
        BatchOptions.parse(tables.command_of(of, side, "train.parquet", "test.parquet", slow))  # options are taken


def test_wins_and_errors_are_of_differences_on_the_same_splits() -> None:
    areas = {"LightGBM": (0.8, 0.9), "CatBoost": (0.8004, 0.9004), "boosting": (0.81, 0.92), "linear": (0.7, None)}
    by = {str(k): {side: {"roc_auc": two[k], "seconds": 1.0} for side, two in areas.items() if two[k]} for k in (0, 1)}
    report = {"measured": {"a": by}, "machine": environment.machine(1, [])}
    lines = tables.table(report).splitlines()
    assert "| **boosting** | 1 | 1, 0, 0 | +0.0150 | 1, 0, 0 | +0.0146 | 1 |" in lines
    assert "| CatBoost | 1 | 0, 1, 0 | +0.0004 |  |  | 1 |" in lines
    assert "| linear | 1 | 0, 0, 1 | -0.1000 | 0, 0, 1 | -0.1004 | 1 |" in lines
    assert "| a | **boosting** | 2 | 0.8650 ± 0.0550 |  | +0.0150 ± 0.0050 | +0.0146 ± 0.0050 |  |  |  | 1 |" in lines
    record = records.of_markdown(tables.table(report), command="", date="", commit="", origin="")
    assert [len(found.rows) for found in record.tables] == [4, 4]
    assert record.machine
    assert record.shown("; columns: table | ROC AUC; rows: LightGBM").splitlines()[2] == "| a | 0.8500 ± 0.0500 |"


# Public tables.


@pytest.fixture
def public(options: Options, tmp_path: Path) -> Options:
    """A folder with two public tables, one as a clone has it and one as a copy of its folder."""
    rng = np.random.default_rng(1)
    X, noise = rng.normal(size=(300, 3)), rng.normal(size=300)
    clone, copy = tmp_path / "tables/openml/data/mozilla4", tmp_path / "tables/uci_datasets/pol"
    clone.mkdir(parents=True)
    copy.mkdir(parents=True)
    kinds = np.where(X[:, 0] + 0.1 * noise > 0.5, "c", np.where(X[:, 0] < -0.5, "a", "b"))
    columns = {"id": np.arange(300), "start": X[:, 0], "end": X[:, 1], "state": kinds}
    pyarrow.csv.write_csv(pa.table(columns), clone / "mozilla4.csv")
    rows = "".join(f"{a!r},{b!r},{a + b!r}\n" for a, b in X[:, :2].tolist())
    (copy / "data.csv.gz").write_bytes(gzip.compress(rows.encode()))
    return replace(options, tables_dir=tmp_path / "tables", datasets=("public",))


def test_public_tables(public: Options, tmp_path: Path) -> None:
    """Ids are left out, and files without a header have their label in the last column."""
    words, numbers = (read_table(SETS[name], public) for name in ("mozilla4", "pol"))
    assert words.column_names == ["start", "end", "label"]
    assert words.num_rows == 300
    assert numbers.num_rows == 300
    assert numbers["label"].to_pylist() == pytest.approx((numbers["f0"].to_numpy() + numbers["f1"].to_numpy()).tolist())
    write_sides(SETS["mozilla4"], public, 0, tmp_path, rows=100)
    assert [pq.read_table(tmp_path / name).num_rows for name in (TRAIN, TEST)] == [100, 50]
    write_sides(SETS["pol"], public, 0, tmp_path, rows=1000)
    assert [pq.read_table(tmp_path / name).num_rows for name in (TRAIN, TEST)] == [200, 100]


def test_capped_rows_are_drawn_by_the_split_and_have_all_classes() -> None:
    of = replace(SETS["flights-later"], above=None)
    date, delay = np.arange(1000).astype("datetime64[D]"), np.repeat([0, 1], [995, 5])[np.arange(1000) * 7 % 1000]
    table = pa.table({"date": date, "delay": delay})
    train, test = capped_rows(of, table, 0, 300)
    assert train.max() < 799 <= test.min()
    assert (len(train), len(test)) == (300, 150)
    assert set(delay[train]) == set(delay[test]) == {0}  # of the other class there are too few rows
    assert train.tolist() != capped_rows(of, table, 1, 300)[0].tolist()
    free = replace(of, time="", least_rows=0)
    train, test = capped_rows(free, table, 0, 10_000)
    assert sorted([*train, *test]) == list(range(1000))
    assert len(test) == 333


def test_tables_that_are_not_there(public: Options, tmp_path: Path, capsys: Any, asked: list[list[str]]) -> None:
    """What is there is measured; a line says how to bring the rest."""
    few = replace(public, sides=("LightGBM",))
    assert tables.run(few, tmp_path, unset=[]) == 0
    assert len(asked) == 2
    said = capsys.readouterr().out.splitlines()[0]
    assert "kin40k, protein, elevators, bank-marketing" in said
    assert f"git clone --depth 1 https://github.com/treforevans/uci_datasets {few.tables_dir / 'uci_datasets'}" in said
    assert f"git clone --depth 1 https://github.com/datasets/openml-datasets {few.tables_dir / 'openml'}" in said
    with pytest.raises(InputError, match="to bring them: git clone"):
        tables.run(replace(few, tables_dir=tmp_path / "nowhere"), tmp_path, unset=[])
    with pytest.raises(InputError, match="--datasets: found 'kin41k'"):
        tables.run(replace(few, datasets=("kin41k",)), tmp_path, unset=[])


def test_reserved_tables_are_drawn_by_a_seed() -> None:
    """Ten of those that are neither measured by name nor in the data directory; a seed always draws the same."""
    drawn = draw(7)
    assert len(set(drawn)) == 10
    assert set(drawn) <= RESERVED.keys()
    assert drawn == draw(7) != draw(8)
    assert {name for seed in range(60) for name in draw(seed)} == RESERVED.keys()
    assert not RESERVED.keys() & (SETS.keys() | {"bike", "cardiotocography"})
    assert [of.name for of in sets_of(("drawn:7", "pol"))] == [*drawn, "pol"]


def test_a_side_of_ours_learns_several_classes(
    public: Options, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Our area of several classes is that of the probabilities, as for the peers. The command is run here."""
    actual = subprocess.run

    def run(command: list[str], **given: Any) -> Any:
        if command[0] == "git":
            return actual(command, **given)
        assert command[:3] == [sys.executable, "-m", "flows.batch"]
        with commands_in_this_process():
            return SimpleNamespace(returncode=batch.main(command[3:]), stdout="", stderr="")

    monkeypatch.setattr(subprocess, "run", run)
    few = replace(public, datasets=("mozilla4",), sides=("iforest",))
    assert tables.run(few, tmp_path, unset=[]) == 0
    measured = json.loads((tmp_path / "table_splits.json").read_text(encoding="utf-8"))["measured"]["mozilla4"]["0"]
    assert measured["iforest"]["roc_auc"] > 0.9
    assert measured["iforest"]["log_loss"] < 0.8


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
