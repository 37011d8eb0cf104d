"""Rows divided by time, by group and by class: training and test rows, and the folds of cross-validation."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.options.batch import BatchOptions
from flows.options.online import OnlineOptions
from ikmap import divisions
from ikmap.divisions import folds_in_time, parts_of_groups
from ikmap.learners.rows import Block
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.rows.folds import folds_of, parts_of_classes
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.split_rule import SplitRule
from pipeline.stages.select_rows import swept_rows
from pipeline.storage.rundir import read_manifest_or_copy
from pipeline.storage.store import Store
from tests.support.narrow import entries
from tests.support.one_process import Command, Heard, Snapshots, one_process, results

N = 300
SECONDS = 86_400


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Path]:
    """A table with a time, a group of words, one of numbers, and two classes."""

    def write(form: str = "parquet", /, **more: Any) -> Path:
        rng = np.random.default_rng(0)
        x = rng.random(N).round(3)
        columns: dict[str, Any] = {
            "x": x,
            "z": rng.random(N).round(3),
            "when": np.array(rng.integers(0, 40, N) * SECONDS, dtype="datetime64[s]"),
            "who": np.array([f"g{k}" for k in rng.integers(0, 23, N)]),
            "number": rng.integers(0, 23, N).astype(float),
            "row": np.arange(N).astype(float),
            "kind": np.where(x + 0.2 * rng.normal(size=N) > 0.8, "yes", "no"),
        }
        found = pa.table({**columns, **more})
        path = tmp_path / f"rows.{form}"
        if form == "parquet":
            pq.write_table(found, path, row_group_size=70)
        else:
            from pyarrow import csv

            csv.write_csv(found, path)
        return path

    return write


def command(path: Path, words: str) -> Command:
    return Command(BatchOptions.parse(["--input", str(path), "--label", "kind", "--t", "8", *words.split()]))


def sides(directory: Path) -> tuple[Store, Params, dict[str, np.ndarray]]:
    """Numbers in the file of the training and of the test rows."""
    store = Store(directory / "store.zarr")
    rows = {name: PreparedRows(store, name) for name in ("train", "test")}
    params = Params(**entries(read_manifest_or_copy(directory)[0]["identity"]["params"]))
    return store, params, {name: side.numbers(0, side.n_rows) for name, side in rows.items()}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        *(("parquet", rule) for rule in ("time:when", "group:who", "group:number", "stratified")),
        *(("csv", rule) for rule in ("time:when", "group:number")),
    ],
)
def test_both_sides_and_folds(table: Callable[..., Path], tmp_path: Path, kind: str, rule: str) -> None:
    drop = "--drop row" + (f",{rule.partition(':')[2]}" if ":" in rule else "")
    path = table(kind)
    with one_process():
        command(path, f"--split-by {rule} {drop} --psi 4 --learner svm --seed 3").run(tmp_path / "run")
    store, params, of = sides(tmp_path / "run")
    assert sorted(np.concatenate([*of.values()]).tolist()) == list(range(N))
    assert abs(of["train"].size - 0.8 * N) <= 25
    train = PreparedRows(store, "train")
    names = train.preparation.column_names or []
    assert not any(rule.partition(":")[2] and name.startswith(rule.partition(":")[2]) for name in names)
    values = pq.read_table(table()).to_pydict()
    folds = [(of["train"][fit], of["train"][held]) for fit, held in folds_of(train, np.arange(train.n_rows), params)]
    assert len(folds) == 5
    for fit, held in [(of["train"], of["test"]), *folds]:
        assert not set(fit.tolist()) & set(held.tolist())
        if rule == "time:when":
            assert max(values["when"][k] for k in fit) < min(values["when"][k] for k in held)
        elif rule.startswith("group"):
            column = values[rule.partition(":")[2]]
            assert not {column[k] for k in fit} & {column[k] for k in held}
        else:
            shares = [np.mean([values["kind"][k] == "yes" for k in side]) for side in (fit, held)]
            assert abs(shares[0] - shares[1]) < 0.04
    if rule != "time:when":
        assert sorted(np.concatenate([held for _, held in folds]).tolist()) == sorted(of["train"].tolist())


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["time:when", "group:who", "stratified"])
def test_neither_blocks_nor_interruptions_change_a_bit(table: Callable[..., Path], tmp_path: Path, rule: str) -> None:
    psi = "auto --search full --cv-rows 100" if rule.startswith("time") else "4"
    run = command(table(), f"--split-by {rule} --drop row --psi {psi} --learner ogd --calibration platt")
    with one_process():
        snapshots = Snapshots(tmp_path / "whole", tmp_path / "snapshots")
        run.run(tmp_path / "whole", snapshots)
        expected = results(tmp_path / "whole")
        for name in ("ingest", "train:ogd"):
            run.run(snapshots.taken[name])
            assert results(snapshots.taken[name]) == expected
        # Row groups and parts of another size, other shards.
        pq.write_table(pq.read_table(tmp_path / "rows.parquet"), tmp_path / "rows.parquet", row_group_size=31)
        metrics = Command(replace(run.options, shard_rows=64)).run(tmp_path / "other")
    found = results(tmp_path / "other")
    assert [name for name in expected if name.startswith(("models", "learner"))] != []
    same = {name for name in expected if name.startswith(("models", "learner", "readings", "partitions"))}
    assert {name: found[name] for name in same} == {name: expected[name] for name in same}
    assert metrics["data"]["rows_train"] + metrics["data"]["rows_test"] == N


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["group:who", "time:when", ""])
def test_encodings_by_targets_know_no_label_that_they_must_not(
    table: Callable[..., Path], tmp_path: Path, rule: str
) -> None:
    rng = np.random.default_rng(2)
    more = {"word": np.array([f"w{k}" for k in rng.integers(0, 6, N)])}
    path = table(**more)
    words = f"--drop row,who,number,when --psi 4 --learner ogd {f'--split-by {rule}' if rule else ''}"

    def features(labels: np.ndarray, name: str) -> tuple[dict[str, np.ndarray], Block, Block]:
        table(**more, kind=labels)
        with one_process():
            command(path, words).run(tmp_path / name)
        store, _, of = sides(tmp_path / name)
        both = [PreparedRows(store, side) for side in ("train", "test")]
        train, test = (rows.read(0, rows.n_rows) for rows in both)
        return of, train, test

    labels = pq.read_table(path).column("kind").to_numpy(zero_copy_only=False)
    of, train, test = features(labels, "first")
    other = {"yes": "no", "no": "yes"}
    flipped = labels.copy()
    flipped[of["test"]] = [other[label] for label in flipped[of["test"]]]
    again, train_again, test_again = features(flipped, "test-flipped")
    assert again["train"].tolist() == of["train"].tolist()
    np.testing.assert_array_equal(train_again.rows, train.rows)
    np.testing.assert_array_equal(test_again.rows, test.rows)
    # The labels of a group, or of a single row, are not in its own features; in those of others they are.
    who = np.array(pq.read_table(path).to_pydict()["who"])
    own = of["train"][:1]
    if rule.startswith("group"):
        own = of["train"][who[of["train"]] == who[own[0]]]
    flipped = labels.copy()
    flipped[own] = [other[label] for label in flipped[own]]
    _, train_again, _ = features(flipped, "own-flipped")
    same = np.isin(of["train"], own)
    np.testing.assert_array_equal(np.asarray(train_again.rows)[same], np.asarray(train.rows)[same])
    assert (np.asarray(train_again.rows)[~same] != np.asarray(train.rows)[~same]).any()


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["time", "group"])
def test_rows_are_divided_by_a_column_without_a_name(rule: str, table: Callable[..., Path], tmp_path: Path) -> None:
    """Rows are divided as by the same column under a name; ``DataFrame.to_csv`` writes such an index."""
    path = table("csv")
    found = []
    for name in ("number", ""):
        path.write_text(path.read_text().replace('"number"', f'"{name}"'))
        run = tmp_path / f"run-{name}"
        with one_process():
            Command(
                BatchOptions(
                    input=str(path), label="kind", t=8, psi=8, learner=("ogd",), split_by=f'{rule}:"{name}"',
                    drop=("when",),
                )
            ).run(run)  # fmt: skip
        found.append(sides(run)[2])
    for side in ("train", "test"):
        np.testing.assert_array_equal(found[0][side], found[1][side])


def test_words_of_the_option() -> None:
    assert SplitRule.parse("time:date of it") == SplitRule("time", "date of it")
    assert SplitRule.parse("stratified", 3) == SplitRule("stratified", "", 3)
    assert [SplitRule.parse(word).column for word in ('time:""', 'time:" x"', "time: x")] == ["", " x", " x"]
    for bad in ("time", "time:", "stratified:x", "random", "groups:x"):
        with pytest.raises(InputError, match=r"--split-by: found '.*', expected time:COLUMN, group:COL"):
            BatchOptions(split_by=bad)
    with pytest.raises(InputError, match="--split-by stratified: found a stream"):
        OnlineOptions(split_by="stratified")


@pytest.mark.parametrize(
    ("words", "more", "message"),
    [
        ("--split-by time:who", {}, r"row 1, column 'who': found words such as '.*', expected dates, times or numbers"),
        ("--split-by group:nobody", {}, r"found no column 'nobody' \(--split-by\), expected one of x, z"),
        ("--split-by group:kind", {}, "column 'kind' is the label"),
        ("--split-by group:who", {"who": ["a"] * N}, "--split-by group:who: found the same value in all 300 rows"),
        ("--split-by group:who", {"who": [None, *"ab" * 149, "a"]}, "row 1, column 'who': found a missing value"),
        (
            "--split-by stratified --task regression --learner ridge",
            {"kind": np.arange(N) / 7},
            "found --task regression",
        ),
        ("--split-by group:who --psi auto", {"who": [*"ab" * 150]}, "expected enough for 5 folds"),
    ],
)
def test_what_cannot_be_divided(
    table: Callable[..., Path], tmp_path: Path, words: str, more: dict[str, Any], message: str
) -> None:
    psi = "" if "--psi" in words else "--psi 4"
    learner = "" if "--learner" in words else "--learner svm"
    with one_process(), pytest.raises(InputError, match=message):
        command(table(**more), f"{words} {psi} {learner}").run(tmp_path / "run")


def test_folds_in_time_part_no_time() -> None:
    keys = np.random.default_rng(0).integers(0, 9, 200).astype(float)
    for fit, held in folds_in_time(keys, 5):
        assert keys[fit].max() < keys[held].min()
    few = folds_in_time(np.repeat([0.0, 1.0], 50), 5)
    assert [(fit.size, held.size) for fit, held in few] == [(50, 50)]


@pytest.mark.slow
def test_searches_and_calibrations_by_coarse_times_score_each_row_once(
    table: Callable[..., Path], tmp_path: Path
) -> None:
    """The last of six years is for tests; the last three of the other five are held out, one after the other."""
    path, heard = table(when=np.repeat(np.arange(2001.0, 2007.0), N // 6)), Heard()
    words = "--split-by time:when --drop row,who,number --psi auto --learner svm --C 1 --calibration platt"
    with one_process():
        metrics = command(path, words).run(tmp_path / "run", heard=heard)
    assert metrics["learners"]["svm"]["calibration"] == {"how": "platt", "rows": 150, "folds": 3, "rows_learned": 200}
    assert metrics["selection"]["folds"] == 3
    assert max(metrics["selection"]["folds_tried"]["svm"]) == 3
    assert metrics["selection"]["race"]["rounds"]["svm"][0]["rows"] == 50
    said = "\n".join(heard.lines)
    assert "250 rows in 3 folds" in said
    assert "psi by 3-fold cross-validation" in said
    assert "of 5 folds" not in said


@pytest.mark.slow
def test_a_sweep_in_time_is_scored_on_the_latest_rows(table: Callable[..., Path], tmp_path: Path) -> None:
    """The last of the four years of the training rows has 40 rows, and the one before it 60."""
    path, heard = table(when=np.repeat(np.arange(2001.0, 2006.0), [80, 60, 60, 40, 60])), Heard()
    words = "--split-by time:when --drop row,who,number --partitioner mondrian --learner svm --C 1"
    with one_process():
        command(path, words).run(tmp_path / "run", heard=heard)
    record = json.loads((tmp_path / "run" / "records" / "select" / "sweep-svm.json").read_text())
    assert record["held_out"] == 40
    assert any("for svm on 240 rows, the latest ones held out" in line for line in heard.lines)
    store, params, of = sides(tmp_path / "run")
    fit, held_out = swept_rows(PreparedRows(store, "train"), params, 240)
    assert of["train"][held_out].tolist() == list(range(200, 240))
    assert of["train"][fit].tolist() == list(range(200))


def test_parts_of_groups_are_even_and_of_classes_too() -> None:
    groups = np.random.default_rng(0).integers(0, 60, 1000).astype(float)
    part = parts_of_groups(groups, 5)
    assert all(np.unique(part[groups == group]).size == 1 for group in range(60))
    assert np.ptp(np.bincount(part)) < 20
    targets = np.r_[np.zeros(97, int), np.ones(13, int)]
    part = parts_of_classes(targets, 1)
    assert all(np.ptp(np.bincount(part[targets == k], minlength=5)) <= 1 for k in (0, 1))
    assert divisions.FIRST_SHARE == 0.5
