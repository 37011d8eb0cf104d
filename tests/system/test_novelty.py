"""Novelty from the command line to the report: without labels, with labels that evaluate, as a stream."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import roc_auc_score

from flows.options.batch import BatchOptions
from flows.options.online import OnlineOptions
from flows.options.score import ScoreOptions
from flows.score import result_lines
from ikmap.learners.novelty.fading import FadingMasses
from ikmap.methods import LEARNERS, MAPS, Sample
from pipeline.errors import InputError
from pipeline.rows.permutation import position_in_shuffle
from pipeline.rows.prepared import PreparedRows
from pipeline.runs.trained import load_run
from pipeline.storage.durable import read_json
from pipeline.storage.store import Store
from tests.support.calls import killed_at
from tests.support.metrics import check_metrics
from tests.support.one_process import Command, Heard, one_process, results, score_file
from tests.support.sizes import SmallSizes

N = 400
ODD = range(7, N, 50)
"""Rows far from the others."""


def write(path: Path, labels: list[Any] | None = None, n: int = N, seed: int = 0) -> np.ndarray:
    X = np.random.default_rng(seed).normal(size=(n, 3)).round(3)
    X[[row for row in ODD if row < n]] += 9
    with path.open("w", newline="") as stream:
        rows = csv.writer(stream)
        rows.writerow(["a", "b", "c"] + (["label"] if labels else []))
        for row, x in enumerate(X):
            rows.writerow([*x, *([labels[row]] if labels else [])])
    return X


LABELS = ["odd" if row in ODD else "even" if row % 2 else "usual" for row in range(N)]


def command(file: Path, *, stream: bool = False, **options: Any) -> Command:
    kind = OnlineOptions if stream else BatchOptions
    given = {"task": "novelty", "learner": ("idk",), "t": 20, "partitioner": "iforest", **options}
    return Command(kind(input=str(file), **given))


@pytest.fixture
def _small_blocks(small_sizes: SmallSizes) -> None:
    small_sizes.learning_blocks(16)
    small_sizes.counted_pieces(3)


@pytest.mark.usefixtures("_small_blocks")
def test_a_table_without_labels(tmp_path: Path) -> None:
    X = write(tmp_path / "rows.csv")
    both: dict[str, Any] = {"learner": ("idk", "iforest-score"), "alert_rate": 0.2}
    with one_process():
        metrics = command(tmp_path / "rows.csv", shard_rows=64, **both).run(tmp_path / "run")
        check_metrics(tmp_path / "run")
        command(tmp_path / "rows.csv", shard_rows=200, **both).run(tmp_path / "other")
        assert results(tmp_path / "run") == results(tmp_path / "other")
        out = tmp_path / "out.parquet"
        again = score_file(ScoreOptions(model=str(tmp_path / "run"), input=str(tmp_path / "rows.csv"), output=str(out)))
        loaded = load_run(tmp_path / "run", "idk")
    data = metrics["data"]
    assert (data["task"], data["normal_labels"], data["anomaly_label"], data["anomalies_train"]) == (
        "novelty", None, None, None,
    )  # fmt: skip
    assert "selection" not in metrics or not metrics["selection"]
    table = pq.read_table(out)
    assert table.column_names == ["row", "alert", "score"]
    scores = table["score"].to_numpy()
    assert np.array_equal(table["alert"].to_numpy(), scores > 0)
    assert (again["alert_rate"], again["rows_labelled"]) == (float((scores > 0).mean()), 0)
    trained_on = ", rows that it was trained on among them"
    assert f"alert rate {again['alert_rate']:.4f} on all 400 rows{trained_on}" in result_lines(again)
    assert np.array_equal(loaded.decision_function(X).ravel(), scores)
    # The rows that the report names are rows of the file, and the most novel of the test rows.
    first = metrics["learners"]["idk"]["most_novel"]
    assert [scores[row["row"]] for row in first] == [row["score"] for row in first]
    assert {row["row"] for row in first[:1]} <= set(ODD)
    for name, about in metrics["learners"].items():
        assert about["psi"] == {"idk": 32, "iforest-score": 256}[name]
        assert about["alert_rate"] == about["alerts"] / data["rows_test"]
        assert 0 <= about["alert_rate_train"] <= 0.2
        assert about["roc_auc"] is None
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Most novel rows" in page
    assert "<h3>By idk</h3>" in page
    assert "alert rate" in page
    assert "alert_rate of" not in page
    count = metrics["learners"]["idk"]["alerts"]
    assert count > 1
    said = f"Most novel of these {count} rows are {', '.join(str(row['row']) for row in first[: min(5, count)])}"
    assert said in page


def test_labels_evaluate_only(tmp_path: Path) -> None:
    write(tmp_path / "plain.csv")
    write(tmp_path / "rows.csv", LABELS)
    heard = Heard()
    with one_process():
        plain = command(tmp_path / "plain.csv").run(tmp_path / "plain")
        metrics = command(tmp_path / "rows.csv").run(tmp_path / "run", heard=heard)
        out = tmp_path / "out.parquet"
        score_file(ScoreOptions(model=str(tmp_path / "run"), input=str(tmp_path / "rows.csv"), output=str(out)))
    assert any(line.startswith("labels are used for evaluation only: rows with label odd") for line in heard.lines)
    about, without = metrics["learners"]["idk"], plain["learners"]["idk"]
    assert about["content_hash"] == without["content_hash"]
    assert about["most_novel"] == without["most_novel"]
    assert about["roc_auc"] > 0.99
    assert about["average_precision"] > 0.9
    assert metrics["data"]["anomaly_label"] == "odd"
    assert pq.read_table(out)["label"].to_pylist() == [label == "odd" for label in LABELS]


@pytest.mark.usefixtures("_small_blocks")
def test_only_inliers_are_learned_from(tmp_path: Path) -> None:
    X = write(tmp_path / "rows.csv", LABELS)
    asked: dict[str, Any] = {"inliers": ("usual",), "test_size": 0.4, "seed": 3}
    with one_process():
        metrics = command(tmp_path / "rows.csv", **asked).run(tmp_path / "run")
        check_metrics(tmp_path / "run")
        whole = command(tmp_path / "rows.csv", test_size=0.4, seed=3).run(tmp_path / "whole")
        scaled = command(tmp_path / "rows.csv", **asked, scale="minmax").run(tmp_path / "scaled")
    data = metrics["data"]
    assert data["rows_test"] == whole["data"]["rows_test"] == 160
    assert 0.35 * N > data["rows_train"] > 0.2 * N
    assert (data["normal_labels"], data["anomalies_train"]) == (["usual"], 0)
    assert data["rows_left_out"] == 240 - data["rows_train"]
    page = (tmp_path / "run" / "report.html").read_text()
    assert "a random 40% of the rows" in page
    assert "share of the test rows above the threshold" in page
    assert scaled["data"]["rows_train"] == data["rows_train"]
    train, every = (PreparedRows(Store(tmp_path / run / "store.zarr"), "train") for run in ("run", "whole"))
    numbers = train.numbers(0, train.n_rows)
    usual = [row for row in every.numbers(0, every.n_rows) if LABELS[row] == "usual"]
    assert numbers.tolist() == usual
    assert np.array_equal(np.asarray(train.read(0, train.n_rows).rows), X[usual])
    assert train.where(5).endswith(f"rows.csv: row {usual[5] + 1}")


@pytest.mark.usefixtures("_small_blocks")
def test_counting_goes_on_after_a_kill(tmp_path: Path) -> None:
    """It is killed as it counts, and as it counts again."""
    write(tmp_path / "rows.csv")
    with one_process():
        command(tmp_path / "rows.csv").run(tmp_path / "whole")
        for what in ("count", "count_again"):
            with killed_at(getattr(LEARNERS["idk"], what), 2):
                command(tmp_path / "rows.csv").run(tmp_path / "run")
        command(tmp_path / "rows.csv").run(tmp_path / "run")
    assert results(tmp_path / "run") == results(tmp_path / "whole")
    assert not list((tmp_path / "run" / "store.zarr" / "models").glob("idk-counts*"))


@pytest.mark.parametrize("labels", [None, LABELS])
def test_a_stream(tmp_path: Path, labels: list[Any] | None) -> None:
    X = write(tmp_path / "rows.csv", labels)
    asked: dict[str, Any] = {
        "stream": True,
        "initial": 100,
        "block_rows": 30,
        "half_life": 80.0,
        "order": "file",
        "psi": 8,
    }
    with one_process():
        metrics = command(tmp_path / "rows.csv", **asked).run(tmp_path / "run")
        check_metrics(tmp_path / "run")
    about = metrics["learners"]["idk"]
    predicted = np.fromfile(tmp_path / "run" / "predictions" / "idk.int32", dtype=np.int32)
    of_map, _ = MAPS["iforest"].of_record({"t": 20, "psi": 8})
    cells = of_map.fit(Sample(100, 3, None, X[:100].__getitem__, 0), 1).cells(X).packed()
    state = FadingMasses.start(cells.offsets, 0.05, 80.0, "idk")
    state.partial_fit(cells[:100], np.zeros(100))
    expected: list[int] = []
    for start in range(100, N, 30):
        block = cells[start : min(start + 30, N)]
        expected += (state.decision_function(block)[:, 0] > 0).tolist()
        state.partial_fit(block, np.zeros(block.n_rows))
    assert predicted.tolist() == expected
    assert about["alert_rate"] == pytest.approx(predicted.mean())
    assert about["alerts"] == predicted.sum()
    assert (about["roc_auc"] is None) == (labels is None)
    assert about["traces"]["similarity"][-1] == 1.0 - state.threshold
    assert len(about["traces"]["alert_rate"]) == len(about["curve"]["rows"]) == 10
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Share of alerts among the last 1000 rows or so" in page
    assert "Dashed across: the share of alerts that was asked for, 5.0%" in page
    assert 'class="reference"' in page
    assert set(about["traces"]["asked"]) == {0.05}
    assert read_json(tmp_path / "run" / "metrics.json")["learners"]["idk"]["rows"] == 300


@pytest.mark.parametrize("order", ["file", "shuffled"])
def test_a_stream_whose_normal_rows_are_named(tmp_path: Path, order: str) -> None:
    """Only they are learned from; all are predicted, and counted by their number in the file."""
    X = write(tmp_path / "rows.csv", LABELS)
    usual = np.array(LABELS) == "usual"
    asked: dict[str, Any] = {
        "stream": True,
        "initial": 100,
        "block_rows": 30,
        "order": order,
        "psi": 8,
        "inliers": ("usual",),
    }
    with one_process():
        metrics = command(tmp_path / "rows.csv", **asked).run(tmp_path / "run")
        check_metrics(tmp_path / "run")
    about = metrics["learners"]["idk"]
    came = np.arange(N) if order == "file" else np.argsort(position_in_shuffle(np.arange(N), N, 0))
    first = came[:100][usual[came[:100]]]
    of_map, _ = MAPS["iforest"].of_record({"t": 20, "psi": 8})
    cells = of_map.fit(Sample(first.size, 3, None, X[first].__getitem__, 0), 1).cells(X).packed()
    state = FadingMasses.start(cells.offsets, 0.05, None, "idk")
    state.partial_fit(cells[first], np.zeros(first.size))
    scores = np.full(N, -np.inf)
    for start in range(100, N, 30):
        rows = came[start : start + 30]
        scores[rows] = state.decision_function(cells[rows])[:, 0]
        state.partial_fit(cells[rows[usual[rows]]], np.zeros(int(usual[rows].sum())))
    assert metrics["data"]["normal_labels"] == ["usual"]
    assert about["alerts"] == (scores > 0).sum()
    assert [(one["row"], one["score"]) for one in about["most_novel"]] == [
        (k, scores[k]) for k in np.lexsort((np.arange(N), -scores))[: len(about["most_novel"])]
    ]
    seen = came[100:]
    assert about["roc_auc"] == pytest.approx(roc_auc_score(~usual[seen], scores[seen]), abs=about["roc_auc_error"])
    assert "By the labels, ROC AUC is" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"psi": 900}, "--psi 900: found 320 training rows, expected at least psi"),
        ({"learner": ("svm",)}, r"--learner svm: does not learn novelty \(--task novelty\); expected --learner .*idk,"),
        (
            {"learner": ("iforest-score",), "partitioner": "anne"},
            "--learner iforest-score: needs the depth of cells, which --partitioner anne does not have; expected "
            "--partitioner iforest",
        ),
        ({"inliers": ("1",)}, "--inliers: found no labels, expected a column of labels; --label names it"),
        (
            {"inliers": ("1",), "stream": True, "initial": 100},
            "--inliers: found no labels, expected a column of labels",
        ),
        ({"task": "binary", "learner": ("ogd",), "inliers": ("1",), "label": "a"}, "--inliers: found task classific"),
        ({"cv_rows": 100}, "--cv-rows 100: found nothing to choose"),
        ({"learner": ("ogd",), "alert_rate": 0.1}, "--alert-rate 0.1: found --learner ogd, expected one of idk"),
    ],
)
def test_bad_input_is_one_line(tmp_path: Path, options: dict[str, Any], said: str) -> None:
    write(tmp_path / "rows.csv")
    with one_process(), pytest.raises(InputError, match=said) as caught:
        command(tmp_path / "rows.csv", **options).run(tmp_path / "run")
    assert "\n" not in str(caught.value)


def test_all_methods_of_novelty_are_taken_by_default_maps() -> None:
    tried: Callable[..., BatchOptions] = BatchOptions
    for name, usual in (("idk", "inne"), ("iforest-score", "iforest"), ("svm", "iforest")):
        assert tried(learner=(name,)).map == usual
