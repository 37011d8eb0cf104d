"""Regression from the command line to the report: batch, scoring, any solver, kills, a stream, bad input."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import r2_score

from flows.options.batch import BatchOptions
from flows.options.online import OnlineOptions
from flows.options.score import ScoreOptions
from flows.score import result_lines
from ikmap.tasks import REGRESSION
from pipeline.errors import InputError
from pipeline.rows.preparation import Preparation
from pipeline.runs.trained import load_run
from pipeline.sources.feeds.feed import Arrival
from pipeline.streams.arrived import check
from pipeline.training.sums import SumsRounds
from tests.support.calls import counted, killed_at
from tests.support.in_process import InProcess
from tests.support.metrics import check_metrics
from tests.support.one_process import Command, one_process, results, score_file
from tests.support.sizes import SmallSizes

N = 360


def write(path: Path, n: int = N, seed: int = 0, cell: str | None = None) -> np.ndarray:
    """Rows of a table whose label is a smooth number of them; `cell` stands for the label of row 101."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3)).round(6)
    y = (5000 + 40 * X[:, 0] - 30 * X[:, 1] ** 2 + 0.5 * rng.normal(size=n)).round(4)
    words = [f"{v!r}" for v in y.tolist()]
    if cell is not None:
        words[100] = cell
    lines = ["a,b,c,y", *(",".join([*map(str, x), word]) for x, word in zip(X.tolist(), words, strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return y


def command(file: Path, *, stream: bool = False, **options: Any) -> Command:
    given = {"task": "regression", "learner": ("ogd",) if stream else ("ridge",), "t": 12, "psi": 8, **options}
    return Command((OnlineOptions if stream else BatchOptions)(input=str(file), **given))


@pytest.fixture
def _small_pieces(small_sizes: SmallSizes) -> None:
    small_sizes.ridge_pieces(40, read_rows=16)


def test_a_table(tmp_path: Path) -> None:
    y = write(tmp_path / "rows.csv")
    asked: dict[str, Any] = {"learner": ("ridge", "ogd"), "psi": "auto", "cv_rows": 150}
    with one_process():
        metrics = command(tmp_path / "rows.csv", **asked).run(tmp_path / "run")
        check_metrics(tmp_path / "run")
        new = write(tmp_path / "new.csv", 90, seed=1)
        out = tmp_path / "out.parquet"
        again = score_file(
            ScoreOptions(model=str(tmp_path / "run"), input=str(tmp_path / "new.csv"), output=str(out), learner="ridge")
        )
        loaded = load_run(tmp_path / "run", "ridge")
    data, about = metrics["data"], metrics["learners"]["ridge"]
    assert data["task"] == "regression"
    assert data["target_mean"] == pytest.approx(y.mean(), rel=1e-14)
    assert data["target_deviation"] == pytest.approx(y.std(), rel=1e-9)
    assert metrics["selection"]["r2"].keys() == {"ridge", "ogd"}
    assert about["alpha"] == 1 / (2 * metrics["selection"]["chosen_C"]["ridge"])
    assert about["duality_gap"] <= 1e-3
    assert about["converged"]
    for name in ("ridge", "ogd"):
        assert 0.7 < metrics["learners"][name]["r2"] < 1
    assert sum(group["rows"] for group in about["by_decile"]) == data["rows_test"] == 72
    assert math.fsum(about["residuals"]["share"]) == pytest.approx(1)
    table = pq.read_table(out)
    assert table.column_names == ["row", "prediction", "label"]
    predicted = table["prediction"].to_numpy()
    assert table["label"].to_numpy().tolist() == new.tolist()
    assert again["r2"] == pytest.approx(r2_score(new, predicted), rel=1e-12)
    assert f"r2 {again['r2']:.4f} on 90 rows with a known label" in result_lines(again)
    X = np.loadtxt(tmp_path / "new.csv", delimiter=",", skiprows=1)[:, :3]
    assert np.array_equal(loaded.predict(X), predicted)
    page = (tmp_path / "run" / "report.html").read_text()
    assert "has R2 = <b>" in page
    about = max(metrics["learners"].values(), key=lambda one: one["r2"])
    assert f"off by {about['mae']:.4g} on average, by {about['rmse']:.4g} as the root of the mean square" in page
    for said in ("Predicted against true", "Errors of ridge by tenths of the true values", "Residuals"):
        assert said in page


@pytest.mark.usefixtures("_small_pieces")
def test_the_same_bits_from_every_solver(tmp_path: Path, small_sizes: SmallSizes) -> None:
    write(tmp_path / "rows.csv")
    asked: dict[str, Any] = {"C": 5.0, "tol": 1e-8}
    with one_process():
        runs = [
            command(tmp_path / "rows.csv", solver=solver, shard_rows=rows, **asked).run(tmp_path / solver)
            for solver, rows in (("memory", 50), ("block", 70), ("distributed", 400))
        ]
        small_sizes.sums_in_files()
        distributed, client = command(tmp_path / "rows.csv", solver="distributed", **asked), InProcess(1 << 30)
        runs.append(distributed.run(tmp_path / "in-files", client=client))
    first, *others = (run["learners"]["ridge"] for run in runs)
    for other in others:
        assert {**other, "solver": "memory"} | {key: 0 for key in other if key.endswith("seconds")} == first | {
            key: 0 for key in first if key.endswith("seconds")
        }
    check_metrics(tmp_path / "distributed")


@pytest.mark.usefixtures("_small_pieces")
@pytest.mark.parametrize("solver", ["memory", "distributed"])
def test_rounds_go_on_after_a_kill(tmp_path: Path, small_sizes: SmallSizes, solver: str) -> None:
    write(tmp_path / "rows.csv")
    small_sizes.rounds_checkpoints()
    asked: dict[str, Any] = {"C": 5.0, "tol": 1e-8, "solver": solver}
    with one_process():
        with counted(SumsRounds.work) as needed:
            command(tmp_path / "rows.csv", **asked).run(tmp_path / "whole")
        with killed_at(SumsRounds.work, 60):
            command(tmp_path / "rows.csv", **asked).run(tmp_path / "run")
        with counted(SumsRounds.work) as more:
            command(tmp_path / "rows.csv", **asked).run(tmp_path / "run")
    assert more.number < needed.number - 45
    assert results(tmp_path / "run") == results(tmp_path / "whole")


def test_a_stream(tmp_path: Path) -> None:
    y = write(tmp_path / "rows.csv")
    asked: dict[str, Any] = {"stream": True, "initial": 100, "block_rows": 30, "order": "file"}
    with one_process():
        metrics = command(tmp_path / "rows.csv", **asked).run(tmp_path / "run")
        check_metrics(tmp_path / "run")
    about = metrics["learners"]["ogd"]
    predicted = np.fromfile(tmp_path / "run" / "predictions" / "ogd.float64")
    errors = (y[100:] - predicted) ** 2
    assert about["r2"] == pytest.approx(1 - errors.mean() / y.var(), rel=1e-9)
    assert about["rmse"] == pytest.approx(math.sqrt(errors.mean()), rel=1e-9)
    assert about["mae"] == pytest.approx(np.abs(y[100:] - predicted).mean(), rel=1e-12)
    assert sum(group["rows"] for group in about["by_decile"]) == about["rows"] == N - 100
    assert about["curve"]["r2"][-1] == pytest.approx(about["r2"], abs=1e-6)
    assert about["r2"] > 0.3
    page = (tmp_path / "run" / "report.html").read_text()
    assert "had R2 = <b>" in page
    assert f"off by {about['mae']:.4g} on average" in page


def test_a_file_to_score_whose_label_is_no_number(tmp_path: Path) -> None:
    write(tmp_path / "rows.csv")
    write(tmp_path / "new.csv", cell="many")
    of: dict[str, Any] = {
        "model": str(tmp_path / "run"),
        "input": str(tmp_path / "new.csv"),
        "output": str(tmp_path / "out.parquet"),
    }
    with one_process():
        command(tmp_path / "rows.csv").run(tmp_path / "run")
        with pytest.raises(InputError, match=r"new.csv: line 102, column 'y': found 'many', expected a number as in"):
            score_file(ScoreOptions(**of))
    assert not (tmp_path / "out.parquet").exists()


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("many", r"rows.csv: line 102, column 'y': found 'many', expected a number as in the first rows \(the label\)"),
        ("inf", r"rows.csv: line 102, column 'y': found inf, expected a finite number \(the label\)"),
        ("", "rows.csv: line 102, column 'y': found an empty cell or a word of --missing, expected a label"),
        ("1e200", r"rows.csv: line 102: found target 1e\+200, expected a number of at most 1e\+150"),
    ],
)
def test_targets_that_are_no_numbers(tmp_path: Path, cell: str, message: str) -> None:
    write(tmp_path / "rows.csv", cell=cell)
    with one_process(), pytest.raises(InputError, match=message):
        command(tmp_path / "rows.csv").run(tmp_path / "run")


@pytest.mark.parametrize("cell", ["many", "1e200"])
def test_rows_that_arrive_with_targets_that_are_no_numbers(cell: str) -> None:
    task = REGRESSION.of()
    y = np.array([1.0, 2.0, 3.0, cell], dtype=object) if cell == "many" else np.array([1.0, 2.0, 3.0, float(cell)])
    with pytest.raises(InputError, match=r"^a.parquet: row 14: found target .*, expected a"):
        check(Arrival("a.parquet", "a", 11, np.zeros((4, 2)), y), Preparation(2, None, True, task))


def test_targets_of_text_and_constant_ones(tmp_path: Path) -> None:
    (tmp_path / "text.csv").write_text("a,y\n1,yes\n2,no\n")
    (tmp_path / "same.csv").write_text("a,y\n" + "".join(f"{k},7.5\n" for k in range(30)))
    with one_process():
        with pytest.raises(InputError, match=r"text.csv: line 2: found target 'yes', expected a finite number$"):
            command(tmp_path / "text.csv", psi=2).run(tmp_path / "text")
        with pytest.raises(
            InputError, match=r"same.csv: found the same target 7.5 in all rows, expected numbers that differ; --label"
        ):
            command(tmp_path / "same.csv", psi=2).run(tmp_path / "same")


def test_what_auto_finds(tmp_path: Path) -> None:
    write(tmp_path / "rows.csv", 120)
    (tmp_path / "whole.csv").write_text("a,y\n" + "".join(f"{k},{k % 3}\n" for k in range(60)))
    auto: dict[str, Any] = {"task": "auto", "learner": ("ogd",), "psi": 4}
    with one_process():
        found = command(tmp_path / "rows.csv", **auto).run(tmp_path / "a")["data"]["task"]
        classes = command(tmp_path / "whole.csv", **auto).run(tmp_path / "b")["data"]["task"]
        # Ridge learns nothing but numbers.
        numbers = command(tmp_path / "whole.csv", task="auto", psi=4).run(tmp_path / "c")["data"]["task"]
        with pytest.raises(InputError, match=r"--task regression --learner ridge predicts them as numbers"):
            command(tmp_path / "rows.csv", task="auto", learner=("svm", "ogd")).run(tmp_path / "d")
    assert (found, classes, numbers) == ("regression", "classification", "regression")


def test_test_rows_with_one_target_have_no_r2_and_a_result_all_the_same(tmp_path: Path) -> None:
    write(tmp_path / "rows.csv")
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    same = [f"{line.rpartition(',')[0]},4.5" for line in lines[1:40]]
    (tmp_path / "test.csv").write_text("\n".join([lines[0], *same]) + "\n")
    with one_process():
        metrics = command(tmp_path / "rows.csv", test_input=str(tmp_path / "test.csv"), psi=8).run(tmp_path / "run")
    assert metrics["learners"]["ridge"]["r2"] is None
    page = (tmp_path / "run" / "report.html").read_text()
    assert "ridge has no r2 on these test rows. All these rows have the same true value. Its predictions are" in page
    assert "as the root of the mean square (RMSE)" in page
    assert "no result yet" not in page
