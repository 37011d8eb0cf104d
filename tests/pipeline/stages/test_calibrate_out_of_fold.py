"""Decisions out of fold: they are stored beside the model, and a calibration takes them in place of new models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flows.options.batch import BatchOptions
from flows.options.score import ScoreOptions
from ikmap.divisions import Division
from ikmap.learners.out_of_fold import OutOfFold
from ikmap.learners.rows import Block
from ikmap.methods import Training
from ikmap.methods.stacking import Stacking
from ikmap.tasks.classification.calibration import platt
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.split_rule import SplitRule
from pipeline.runs.trained import load_run
from pipeline.storage.models import OUT_OF_FOLD, load_model
from pipeline.storage.store import Store
from tests.support.one_process import Command, one_process, score_file

pytestmark = pytest.mark.slow
WORDS = "--label kind --learner stacking --t 20 --psi 32 --rounds 20 --n-folds 4"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    X = rng.random((400, 3))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=400) > 0.5, "yes", "no")
    lines = [",".join([*(f"{v:.3f}" for v in x), label]) for x, label in zip(X, y, strict=True)]
    path = tmp_path / "two.csv"
    path.write_text("\n".join(["a,b,c,kind", *lines]) + "\n")
    return path


def command(table: Path, words: str) -> Command:
    return Command(BatchOptions.parse(["--input", str(table), *WORDS.split(), *words.split()]))


def test_a_calibration_takes_them(table: Path, tmp_path: Path) -> None:
    with one_process():
        metrics = command(table, "--calibration platt --threshold-for f1").run(tmp_path / "run")["learners"]["stacking"]
        assert metrics["calibration"] == {"how": "platt", "rows": 320, "folds": 4, "rows_learned": 240}
        assert metrics["decision_threshold"]["for"] == "f1"
        assert metrics["log_loss"] < 0.6
        assert set(metrics["base_models"]) == {"boosting", "iforest"}
        output = tmp_path / "predictions.parquet"
        score_file(ScoreOptions(model=str(tmp_path / "run"), input=str(table), output=str(output)))
    store = Store(tmp_path / "run" / "store.zarr")
    rows = PreparedRows(store, "train").read(0, 320)
    stored = load_model(store, f"{OUT_OF_FOLD}/stacking", OutOfFold)
    learner = Stacking(t=20, psi=32, rounds=20, n_folds=4)
    model, summary, known = learner.fit_out_of_fold(Training(Block(rows.rows, rows.y), ["no", "yes"], 0))
    assert stored.content_hash == known.content_hash
    assert summary["base_models"] == metrics["base_models"]
    run = load_run(tmp_path / "run")
    X = np.asarray(rows.rows)
    np.testing.assert_allclose(run.decision_function(X), model.decision_function(X)[:, 0], rtol=1e-12)
    # Platt's line is that of these decisions, but for the bins in which they are counted.
    slope, intercept = platt(known.decisions[:, 0], (rows.y == 0).astype(int), (rows.y == 1).astype(int))
    odds = slope * model.decision_function(X)[:, 0] + intercept
    np.testing.assert_allclose(run.predict_proba(X)[:, 1], 1 / (1 + np.exp(-odds)), atol=0.01)


@pytest.mark.parametrize(
    ("rule", "rows", "learned"), [("stratified", 320, 240), ("group:who", 320, 240), ("time:when", 120, 280)]
)
def test_folds_of_stacking_divide_rows_as_the_run_does(
    table: Path, tmp_path: Path, rule: str, rows: int, learned: int
) -> None:
    """In order of time, decisions are of the last three of four folds: half of the rows come before the first one."""
    lines = table.read_text().splitlines()
    more = [f"{line},g{k % 40},{k * 7 % 400}" for k, line in enumerate(lines[1:])]
    table.write_text("\n".join([lines[0] + ",who,when", *more]) + "\n")
    with one_process():
        words = f"--calibration platt --split-by {rule} --drop who,when"
        metrics = command(table, words).run(tmp_path / "run")["learners"]["stacking"]
    assert metrics["calibration"] == {"how": "platt", "rows": rows, "folds": 4, "rows_learned": learned}
    store = Store(tmp_path / "run" / "store.zarr")
    train = PreparedRows(store, "train")
    decisions = load_model(store, f"{OUT_OF_FOLD}/stacking", OutOfFold).decisions
    assert int(np.isfinite(decisions).sum()) == rows
    block, division = train.read(0, 320), None
    if rule != "stratified":
        division = Division(train.keys(SplitRule.parse(rule), np.arange(320)), rule.startswith("time"))
    learner = Stacking(t=20, psi=32, rounds=20, n_folds=4)
    training = Training(Block(block.rows, block.y), ["no", "yes"], 0, division=division)
    np.testing.assert_array_equal(decisions, learner.fit_out_of_fold(training)[2].decisions)


def test_what_is_lost_is_found_again(table: Path, tmp_path: Path) -> None:
    with one_process():
        first = command(table, "--calibration platt")
        metrics = first.run(tmp_path / "run")
        Store(tmp_path / "run" / "store.zarr").delete(f"{OUT_OF_FOLD}/stacking")
        again = command(table, "--calibration platt").run(tmp_path / "run")
    assert Store(tmp_path / "run" / "store.zarr").attributes(f"{OUT_OF_FOLD}/stacking") is not None
    assert again["learners"]["stacking"]["content_hash"] == metrics["learners"]["stacking"]["content_hash"]
