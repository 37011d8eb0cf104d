"""Quantiles of a target from the command line to the report: batch, cross-validated psi, scoring, a stream."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from flows.options.batch import BatchOptions
from flows.options.score import ScoreOptions
from pipeline.runs.trained import load_run
from tests.support.metrics import check_metrics
from tests.support.one_process import Command, one_process, score_file
from tests.support.sizes import SmallSizes
from tests.system.test_regression import command, write


def test_a_table(tmp_path: Path) -> None:
    write(tmp_path / "rows.csv")
    with one_process():
        metrics = command(tmp_path / "rows.csv", learner=("quantile",), psi="auto", cv_rows=150).run(tmp_path / "run")
        check_metrics(tmp_path / "run")
        y, out = write(tmp_path / "new.csv", 90, seed=1), tmp_path / "out.parquet"
        score_file(ScoreOptions(model=str(tmp_path / "run"), input=str(tmp_path / "new.csv"), output=str(out)))
        loaded = load_run(tmp_path / "run")
    about = metrics["learners"]["quantile"]
    (interval,) = about["intervals"]
    assert (interval["low"], interval["high"], interval["nominal"]) == (0.05, 0.95, 0.9)
    assert 0.6 < interval["coverage"] <= 1
    table = pq.read_table(out)
    assert table.column_names == ["row", "prediction", "quantile_0.05", "quantile_0.5", "quantile_0.95", "label"]
    columns = [table[name].to_numpy() for name in table.column_names]
    assert (columns[2] <= columns[3]).all()
    assert (columns[3] <= columns[4]).all()
    assert np.array_equal(columns[1], columns[3])
    assert np.array_equal(columns[5], y)
    X = np.loadtxt(tmp_path / "new.csv", delimiter=",", skiprows=1)[:, :3]
    assert np.array_equal(loaded.predict(X), columns[1])
    assert np.array_equal(np.sort(loaded.decision_function(X), axis=1), np.column_stack(columns[2:5]))
    page = (tmp_path / "run" / "report.html").read_text()
    assert f"made to hold 90% of the true values, hold {interval['coverage']:.1%} of them" in page
    assert "Prediction intervals of quantile" in page


def test_a_stream(tmp_path: Path, small_sizes: SmallSizes) -> None:
    """Figures are of what was predicted before it was learned; in chunks of any size."""
    y = write(tmp_path / "rows.csv")
    asked = {"learner": ("quantile",), "quantiles": "0.2,0.8", "initial": 100, "block_rows": 20, "order": "file"}
    with one_process():
        metrics = command(tmp_path / "rows.csv", stream=True, **asked).run(tmp_path / "run")
        check_metrics(tmp_path / "run")
        small_sizes.stream_chunks(2)
        again = command(tmp_path / "rows.csv", stream=True, **asked).run(tmp_path / "again")
    about = metrics["learners"]["quantile"]
    predicted = np.fromfile(tmp_path / "run" / "predictions" / "quantile.float64")
    assert about["quantiles"][0]["not_above"] == (y[100:] <= predicted).mean()
    assert about["rmse"] == pytest.approx(np.sqrt(np.mean((y[100:] - predicted) ** 2)))
    names = ("intervals", "quantiles", "pinball", "crossed", "r2")
    assert [about[name] for name in names] == [again["learners"]["quantile"][name] for name in names]


def test_a_quantile_of_boosting(tmp_path: Path) -> None:
    """It is told by how often it is met, and not by how far it is from the mean."""
    write(tmp_path / "rows.csv")
    with one_process():
        asked = ["--input", str(tmp_path / "rows.csv"), "--task", "regression", "--learner", "boosting"]
        options = BatchOptions.parse([*asked, "--quantile-level", "0.9", "--rounds", "30"])
        metrics = Command(options).run(tmp_path / "run")
        check_metrics(tmp_path / "run")
    (figures,) = metrics["learners"]["boosting"]["quantiles"]
    assert figures["level"] == 0.9
    assert 0.7 < figures["not_above"] < 1
    assert figures["pinball"] == metrics["learners"]["boosting"]["pinball"] > 0
    first = metrics["verdicts"][0]
    assert first["kind"] == "quality"
    assert "predicts the quantile 0.9, which the true value is not above on" in first["message"]
    assert not any(verdict["kind"] == "nothing" for verdict in metrics["verdicts"])


def test_columns_that_matter_are_shown_by_the_prediction_among_several_quantiles(tmp_path: Path) -> None:
    write(tmp_path / "rows.csv")
    with one_process():
        run_of = command(tmp_path / "rows.csv", learner=("quantile",), psi=8, importance=True)
        metrics = run_of.run(tmp_path / "run")
        model = load_run(tmp_path / "run")
    shown = metrics["learners"]["quantile"]["partial_dependence"][0]
    X = np.loadtxt(tmp_path / "rows.csv", delimiter=",", skiprows=1)[:, :3]
    middle = model.predict(X)
    assert middle.min() <= min(shown["responses"]["prediction"])
    lowest = np.sort(model.decision_function(X), axis=1)[:, 0]
    assert np.mean(shown["responses"]["prediction"]) > (lowest.mean() + middle.mean()) / 2
