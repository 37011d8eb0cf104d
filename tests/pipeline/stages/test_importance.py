"""Which columns matter: shuffled as a whole, whatever features are made of them, and how those that do, do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from flows.options.batch import BatchOptions
from pipeline.errors import InputError
from pipeline.rows.originals import Original, original_values, originals_of
from pipeline.rows.prepared import PreparedRows
from pipeline.runs.trained_model import open_run
from pipeline.stages import importance
from tests.support.one_process import Command, Snapshots, one_process, results, write_rows

N = 400
DAY = 86_400


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """The label is told by a word and a number; a time and another number say nothing."""
    rng = np.random.default_rng(0)
    word, x = rng.choice(["red", "green", "blue"], N), rng.random(N).round(2)
    columns: dict[str, Any] = {
        "noise": rng.random(N).round(3),
        "word": [None if k % 50 == 0 else str(w) for k, w in enumerate(word)],
        "when": np.array(rng.integers(0, 300, N) * DAY, dtype="datetime64[s]"),
        "x": x,
        "kind": np.where((word == "red") | (x > 0.7), "yes", "no"),
        "number": 3.0 * (word == "red") + x,
    }
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=90)
    return path


def run(table: Path, directory: Path, words: str, snapshots: Snapshots | None = None) -> dict[str, Any]:
    more: dict[str, Any] = {} if snapshots is None else {"call": snapshots}
    options = BatchOptions.parse(["--input", str(table), *words.split(), "--importance"])
    return Command(options).run(directory, **more)


@pytest.mark.slow
def test_what_tells_the_label_matters(table: Path, tmp_path: Path) -> None:
    words = "--t 32 --psi 32 --partitioner iforest --learner logistic,kernel-svm --kernel gaussian --gamma 0.5"
    with one_process():
        metrics = run(table, tmp_path / "run", f"--label kind --drop number,when {words}")
    for learner in metrics["learners"].values():
        found = {one["column"]: one for one in learner["importance"]}
        assert list(found) == sorted(found, key=lambda name: -found[name]["roc_auc"])
        assert set(found) == {"noise", "word", "x"}
        assert set(list(found)[:2]) == {"word", "x"}
        assert found["word"]["roc_auc"] > 0.1
        assert found["word"]["accuracy"] > 0.1
        assert abs(found["noise"]["roc_auc"]) < 0.1
        assert learner["importance_rows"] == 80
    logistic = metrics["learners"]["logistic"]
    of = {one["column"]: one for one in logistic["partial_dependence"]}
    by_word = dict(zip(of["word"]["values"], of["word"]["responses"]["probability of yes"], strict=True))
    assert by_word["red"] > by_word["green"] + 0.2
    assert set(by_word) >= {"red", "green", "blue"}
    values = of["x"]["values"]
    assert values == sorted(values)
    assert max(values) <= 1
    said = of["x"]["responses"]["probability of yes"]
    assert said[-1] > said[0] + 0.1
    text = (tmp_path / "run" / "report.html").read_text()
    assert "What matters" in text
    assert "logistic: by word" in text


@pytest.mark.slow
def test_numbers_to_predict(table: Path, tmp_path: Path) -> None:
    """Targets may be as small as 1e-9: responses keep their digits."""
    rows = pq.read_table(table)
    tiny = pa.array(rows["number"].to_numpy() * 1e-9)
    pq.write_table(rows.drop_columns(["kind", "number"]).append_column("tiny", tiny), table)
    with one_process():
        metrics = run(table, tmp_path / "run", "--label tiny --t 32 --psi 32 --learner ridge --scale minmax")
    ridge = metrics["learners"]["ridge"]
    assert ridge["importance"][0]["column"] == "word"
    assert ridge["importance"][0]["r2"] > 0.3
    responses = ridge["partial_dependence"][0]["responses"]
    assert list(responses) == ["prediction"]
    assert max(responses["prediction"]) > 2 * min(responses["prediction"]) > 0


@pytest.mark.slow
def test_a_figure_without_a_value_says_nothing_of_columns(table: Path, tmp_path: Path) -> None:
    """Test rows of one class tell the accuracy alone."""
    rows = pq.read_table(table)
    alike = rows.filter(pc.equal(rows["kind"], "yes"))
    pq.write_table(alike, tmp_path / "alike.parquet")
    words = f"--label kind --drop number,when --t 16 --psi 16 --learner svm --test-input {tmp_path / 'alike.parquet'}"
    with one_process():
        metrics = run(table, tmp_path / "run", words)
    found = metrics["learners"]["svm"]["importance"]
    assert {one["roc_auc"] for one in found} == {None}
    assert found == sorted(found, key=lambda one: -one["accuracy"])
    assert found[0]["accuracy"] > 0.1
    assert metrics["learners"]["svm"]["partial_dependence"]
    page = (tmp_path / "run" / "report.html").read_text()
    assert "svm: on these rows, ROC AUC has no value" in page
    assert "accuracy lost" in page
    assert "ROC AUC lost" not in page


@pytest.mark.slow
def test_columns_as_they_were_read(table: Path, tmp_path: Path) -> None:
    with one_process():
        run(table, tmp_path / "run", "--label kind --drop number --t 8 --psi 4 --learner svm")
    rows = PreparedRows(open_run(str(tmp_path / "run")).store, "test")
    numbers = rows.numbers(0, rows.n_rows)
    columns = {column.name: column for column in originals_of(rows)}
    assert {name: column.kind for name, column in columns.items()} == {
        "noise": "number", "word": "category", "when": "time", "x": "number",
    }  # fmt: skip
    assert sum(len(column.features) for column in columns.values()) == rows.preparation.n_columns
    known = pq.read_table(table).to_pydict()
    every = np.arange(rows.n_rows)
    assert original_values(rows, every, columns["word"]).tolist() == [known["word"][k] for k in numbers]
    assert original_values(rows, every, columns["x"]).tolist() == [known["x"][k] for k in numbers]


@pytest.mark.slow
def test_a_run_goes_on_with_the_same_bits_whatever_makes_a_task(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = "--label kind --drop number --t 8 --psi 4 --learner svm"
    with one_process():
        snapshots = Snapshots(tmp_path / "whole", tmp_path / "snapshots")
        run(table, tmp_path / "whole", words, snapshots)
        run(table, snapshots.taken["evaluate:svm"], words)
        assert results(snapshots.taken["evaluate:svm"]) == results(tmp_path / "whole")
        monkeypatch.setattr(importance, "AT_ONCE", 1)
        monkeypatch.setattr(importance, "ROW_COPIES", 1 << 17)  # a few rows in a block
        run(table, tmp_path / "one by one", words)
    assert results(tmp_path / "one by one")["learner svm"] == results(tmp_path / "whole")["learner svm"]


@pytest.mark.slow
def test_sparse_rows_without_names(tmp_path: Path) -> None:
    with one_process():
        metrics = run(write_rows(tmp_path), tmp_path / "run", "--t 16 --psi 16 --learner svm")
    found = metrics["learners"]["svm"]["importance"]
    assert {one["column"] for one in found} == {f"column {k}" for k in range(1, 6)}
    assert found[0]["column"] == "column 1"


def test_values_that_are_shown() -> None:
    words = np.array(["b", "a", None, "b", "a", "b"], dtype=object)
    assert importance.chosen_rows(words, "category") == [0, 1, 2]
    numbers = np.array([3.0, np.nan, 1.0, 3.0, 2.0])
    assert importance.chosen_rows(numbers, "number") == [2, 4, 0]
    many = np.random.default_rng(0).random(500)
    shown = many[importance.chosen_rows(many, "number")]
    assert shown.size == importance.VALUES
    assert (shown[0], shown[-1]) == (many.min(), many.max())
    assert importance.chosen_rows(np.full(3, np.nan), "number") == []
    assert importance.shown_value(0.0, "time") == "1970-01-01 00:00"
    assert importance.shown_value(None, "category") == "missing"


@pytest.mark.parametrize("words", ["--task novelty --learner idk"])
def test_refused(table: Path, tmp_path: Path, words: str) -> None:
    with one_process(), pytest.raises(InputError, match="--importance: found --task novelty"):
        run(table, tmp_path / "run", f"--label kind --drop number {words} --psi 4")
    assert Original(0, "a", "number", (0,)).features == (0,)
