"""Rows that count as a column says: as if they stood there as often, in learning, in searches and in figures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import balanced_accuracy_score, log_loss, mean_absolute_error, r2_score

from flows.options.batch import BatchOptions
from flows.options.online import OnlineOptions
from flows.options.score import ScoreOptions
from ikmap.cells import Cells
from ikmap.learners.dual.linear_svm import SVMParams, fit_linear_svm
from ikmap.learners.rows import Block
from pipeline.errors import InputError
from pipeline.rows.prepared import PreparedRows
from pipeline.runs.trained import load_run
from pipeline.storage.store import Store
from tests.support.kills import KilledAfter
from tests.support.one_process import Command, Heard, one_process, results, score_file

pytestmark = pytest.mark.slow

N = 160
COMMON: dict[str, Any] = {"label": "y", "weight": "w", "partitioner": "iforest", "t": 5, "psi": 8, "tol": 1e-9}


@pytest.fixture(autouse=True)
def _one_process() -> Iterator[None]:
    with one_process():
        yield


def write(path: Path, *, seed: int = 0, labels: str = "classes", weights: Any = None) -> Path:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=N), rng.integers(0, 3, N)
    y = a + b + 0.3 * rng.normal(size=N)
    named = np.where(y > 1, "late", "early") if labels == "classes" else np.round(y, 4).astype(str)
    w = rng.integers(0, 4, N) if weights is None else weights
    lines = [f"{a[k]:.5f},{w[k]},{'xyz'[b[k]]},{named[k]}" for k in range(N)]
    path.write_text("\n".join(["a,w,b,y", *lines]) + "\n")
    return path


def stored(folder: Path, side: str = "train") -> tuple[Cells, np.ndarray, np.ndarray]:
    group: Any = zarr.open_group(str(folder / "store.zarr"), mode="r")["cells"]
    (label,) = group.group_keys()
    arrays = group[label][side]
    cells = Cells(arrays["codes"][...], np.arange(COMMON["t"] + 1, dtype=np.int64) * COMMON["psi"])
    return cells, arrays["labels"][...], arrays["weights"][...]


def weights_of_svm(folder: Path) -> np.ndarray:
    """Return the weights of the features that the SVM of a run has learned."""
    model: Any = load_run(folder, "svm")._model.load()[1]
    return model.coef


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, heard = tmp_path_factory.mktemp("weights"), Heard()
    file = write(folder / "t.csv")
    options = BatchOptions(input=str(file), learner=("svm", "logistic", "ogd"), C=1.0, importance=True, **COMMON)
    with one_process():
        metrics = Command(options).run(folder / "run", heard=heard)
    assert metrics["data"]["weight"] == "w"
    return folder / "run"


def test_weights_are_no_feature_and_go_with_their_rows(run: Path) -> None:
    assert load_run(run).feature_names_in_ == ["a", "b"]
    rows = np.loadtxt(run.parent / "t.csv", delimiter=",", skiprows=1, usecols=1)
    for side in ("train", "test"):
        prepared = PreparedRows(Store(run / "store.zarr"), side)
        expected = rows[prepared.numbers(0, prepared.n_rows)]
        np.testing.assert_array_equal(prepared.read(0, prepared.n_rows).sample_weight, expected)
        np.testing.assert_array_equal(stored(run, side)[2], expected)


def test_a_weight_is_how_often_a_row_stands_there(run: Path) -> None:
    """In the optimum: of our SVM on repeated rows, and of scikit-learn's logistic regression with the weights."""
    cells, y, w = stored(run)
    again = np.repeat(np.arange(y.size), w.astype(int))
    repeated = fit_linear_svm(
        [Block(cells[again].packed(), y[again])], 2, SVMParams(C=1.0, tol=1e-9, fit_intercept=False)
    )
    np.testing.assert_allclose(weights_of_svm(run)[:, 0], repeated.coef[:, 0], atol=1e-3)
    dense = cells.to_csr().toarray()
    sklearn = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000, fit_intercept=False).fit(dense, y, sample_weight=w)
    decision: Any = load_run(run, "logistic")._model.load()[1].decision_function(cells)
    np.testing.assert_allclose(decision[:, 0], sklearn.decision_function(dense), atol=1e-3)


@pytest.mark.parametrize("solver", ["block", "distributed"])
def test_every_solver_weighs_rows(solver: str, run: Path, tmp_path: Path) -> None:
    more = {"parts": 2} if solver == "distributed" else {}
    options = BatchOptions(
        input=str(run.parent / "t.csv"), learner=("svm",), C=1.0, **{**COMMON, "tol": 1e-7}, solver=solver, **more
    )
    Command(options).run(tmp_path / "run")
    expected, found = (weights_of_svm(path) for path in (run, tmp_path / "run"))
    np.testing.assert_allclose(found, expected, atol=5e-3)


def test_a_run_that_was_killed_goes_on_with_its_weights(run: Path, tmp_path: Path) -> None:
    options = BatchOptions(input=str(run.parent / "t.csv"), learner=("svm", "logistic", "ogd"), C=1.0, importance=True,
                           **COMMON)  # fmt: skip
    for _ in range(3):
        with pytest.raises(KeyboardInterrupt):
            Command(options).run(tmp_path / "run", heard=KilledAfter(None, 1))
    Command(options).run(tmp_path / "run")
    assert results(tmp_path / "run") == results(run)


def test_figures_are_weighted(run: Path) -> None:
    import json

    metrics = json.loads((run / "metrics.json").read_text())
    cells, y, w = stored(run, "test")
    for name in ("svm", "logistic", "ogd"):
        decision = load_run(run, name)._model.load()[1].decision_function(cells)[:, 0]
        predicted, found = decision >= 0, metrics["learners"][name]["weighted"]
        assert found["accuracy"] == pytest.approx(np.average(predicted == y, weights=w))
        assert found["balanced_accuracy"] == pytest.approx(balanced_accuracy_score(y, predicted, sample_weight=w))
        assert metrics["learners"][name]["accuracy"] == pytest.approx(np.mean(predicted == y))
        if name == "logistic":
            assert found["log_loss"] == pytest.approx(log_loss(y, 1 / (1 + np.exp(-decision)), sample_weight=w))
    page = (run / "report.html").read_text()
    assert "Rows count by column w" in page


def test_numbers_and_rows_that_count_nothing(tmp_path: Path) -> None:
    file = write(tmp_path / "t.csv", labels="numbers")
    options = BatchOptions(input=str(file), task="regression", learner=("ridge",), C=2.0, **COMMON)
    metrics = Command(options).run(tmp_path / "run")
    cells, y, w = stored(tmp_path / "run")
    dense = cells.to_csr().toarray()
    model: Any = load_run(tmp_path / "run")._model.load()[1]
    expected = Ridge(alpha=1 / (2 * 2.0), tol=1e-12).fit(dense, y, sample_weight=w).predict(dense)
    np.testing.assert_allclose(model.decision_function(cells)[:, 0], expected, atol=1e-3)
    cells, y, w = stored(tmp_path / "run", "test")
    predicted, found = model.decision_function(cells)[:, 0], metrics["learners"]["ridge"]["weighted"]
    assert found["mae"] == pytest.approx(mean_absolute_error(y, predicted, sample_weight=w))
    assert found["rmse"] == pytest.approx(np.average((y - predicted) ** 2, weights=w) ** 0.5)
    assert found["r2"] == pytest.approx(r2_score(y, predicted, sample_weight=w))


def test_searches_and_calibration_heed_weights(tmp_path: Path) -> None:
    """Half of the rows have labels at random, and count nothing: nothing that is chosen or learned goes by them."""
    rng = np.random.default_rng(3)
    lines = []
    for k in range(240):
        a, noise = rng.normal(), k % 2
        y = rng.integers(0, 2) if noise else int(a > 0.2)
        lines.append(f"{a:.5f},{rng.normal():.5f},{1 - noise},{y}")
    file = tmp_path / "t.csv"
    file.write_text("\n".join(["a,b,w,y", *lines]) + "\n")
    more: dict[str, Any] = {**COMMON, "psi": "auto", "tol": 1e-3, "split_by": "stratified", "calibration": "platt"}
    options = BatchOptions(input=str(file), learner=("svm", "ogd"), select_by="log_loss", **more)
    metrics = Command(options).run(tmp_path / "run")
    for name in ("svm", "ogd"):
        figures = metrics["learners"][name]
        assert figures["weighted"]["accuracy"] > 0.9 > figures["accuracy"] + 0.05
    by_accuracy = BatchOptions(
        input=str(file), learner=("svm",), select_by="accuracy", **{**more, "calibration": "none"}
    )
    metrics = Command(by_accuracy).run(tmp_path / "again")
    assert max(metrics["selection"]["accuracy"]["svm"]) > 0.9


@pytest.mark.parametrize(
    ("weight", "said"),
    [
        ("-1", "found -1, expected a finite number >= 0 in every row (the weight; --weight)"),
        ("", "found an empty cell, expected a finite number >= 0 in every row"),
        ("inf", "found inf, expected a finite number >= 0"),
        ("many", "found 'many', expected a finite number >= 0"),
    ],
)
def test_a_bad_weight_is_refused_with_its_place(weight: str, said: str, tmp_path: Path) -> None:
    file = write(tmp_path / "t.csv", weights=[1.0] * 70 + [weight] + [2.0] * (N - 71))
    with pytest.raises(InputError) as refused:
        Command(BatchOptions(input=str(file), learner=("svm",), C=1.0, **COMMON)).run(tmp_path / "run")
    assert str(refused.value).startswith(f"{file}: line 72, column 'w': {said}")


def test_what_cannot_weigh_is_refused(run: Path, tmp_path: Path) -> None:
    file = run.parent / "t.csv"
    options = BatchOptions(input=str(file), label="y", weight="w", learner=("norma", "svm"), psi=8)
    with pytest.raises(InputError) as refused:
        Command(options).run(tmp_path / "run")
    assert str(refused.value).startswith(
        "--weight w: found --learner norma, which counts every row once in classification; expected some of --learner "
        "svm,logistic,ogd,"
    )
    numbers = write(tmp_path / "n.csv", labels="numbers")
    options = BatchOptions(input=str(numbers), label="y", weight="w", learner=("ogd",), psi=8, task="regression")
    with pytest.raises(InputError, match="every row once in regression; expected some of --learner ridge,svr"):
        Command(options).run(tmp_path / "run2")
    with pytest.raises(InputError, match=r"found no column 'v' \(--weight\), expected one of a, w, b, y"):
        Command(BatchOptions(input=str(file), label="y", weight="v", learner=("svm",), psi=8)).run(tmp_path / "run3")
    with pytest.raises(InputError, match="--weight w: found --learner norma, which counts every row once; expected"):
        OnlineOptions(input=str(file), label="y", weight="w", learner=("norma",), psi=8)
    stream = OnlineOptions(input=str(numbers), label="y", weight="w", learner=("ogd",), psi=8, task="regression")
    with pytest.raises(InputError, match="--weight w: found --learner ogd, which counts every row once in regression"):
        Command(stream).run(tmp_path / "run5")
    nothing = write(tmp_path / "zero.csv", weights=[0] * N)
    with pytest.raises(InputError, match="--weight w: found 0 in every row"):
        Command(BatchOptions(input=str(nothing), learner=("svm",), C=1.0, **COMMON)).run(tmp_path / "run4")


def test_rows_are_scored_with_and_without_weights(run: Path, tmp_path: Path) -> None:
    file = run.parent / "t.csv"
    score_file(ScoreOptions(model=str(run), input=str(file), output=str(tmp_path / "a.csv")))
    lines = [",".join(part for k, part in enumerate(line.split(",")) if k != 1) for line in file.read_text().split()]
    (tmp_path / "less.csv").write_text("\n".join(lines) + "\n")
    score_file(ScoreOptions(model=str(run), input=str(tmp_path / "less.csv"), output=str(tmp_path / "b.csv")))
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()
