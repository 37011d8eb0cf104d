"""Probabilities and thresholds from rows that were not learned from: the stage, scoring, and models in Python."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from flows.options.batch import BatchOptions
from flows.options.online import OnlineOptions
from flows.options.score import ScoreOptions
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.rows import block_sizes
from pipeline.rows.folds import folds_of
from pipeline.rows.prepared import PreparedRows
from pipeline.runs.trained import load_run
from pipeline.stages import calibrate
from pipeline.storage.rundir import read_manifest_or_copy
from pipeline.training.in_memory import stream_model, train_in_memory
from tests.support.narrow import entries
from tests.support.one_process import Command, Heard, Snapshots, one_process, results, score_file, write_rows
from tests.support.sizes import SmallSizes

WORDS = "--t 16 --psi 8"


@pytest.fixture
def two_classes(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    X = rng.random((300, 3))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=300) > 0.5, "yes", "no")
    lines = [",".join([*(f"{v:.3f}" for v in x), label]) for x, label in zip(X, y, strict=True)]
    path = tmp_path / "two.csv"
    path.write_text("\n".join(["a,b,c,kind", *lines]) + "\n")
    return path


def command(path: Path, words: str) -> Command:
    label = ["--label", "kind"] if path.suffix == ".csv" else []
    return Command(BatchOptions.parse(["--input", str(path), *label, *WORDS.split(), *words.split()]))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "learners"),
    [
        ("platt", "--learner svm,ogd,kernel-ogd,kernel-svm --kernel gaussian --gamma 1"),
        ("isotonic", "--learner svm"),
    ],
)
def test_every_learner_has_probabilities(two_classes: Path, tmp_path: Path, how: str, learners: str) -> None:
    words = f"{learners} --calibration {how} --threshold-for f1"
    with one_process():
        metrics = command(two_classes, words).run(tmp_path / "run")
        for name, learner in metrics["learners"].items():
            assert learner["calibration"] == {"how": how, "rows": 240, "folds": 5, "rows_learned": 192}
            assert learner["decision_threshold"]["for"] == "f1"
            assert 0 < learner["log_loss"] < 0.69
            assert 0.7 < learner["roc_auc"] <= 1
            assert 0 < learner["brier"] < 0.25
            output = tmp_path / f"{name}.parquet"
            score_file(
                ScoreOptions(model=str(tmp_path / "run"), learner=name, input=str(two_classes), label="kind",
                             output=str(output))
            )  # fmt: skip
            table = pq.read_table(output)
            X = np.loadtxt(two_classes, delimiter=",", skiprows=1, usecols=(0, 1, 2))
            model = load_run(tmp_path / "run", name)
            probability = model.predict_proba(X)
            assert table["probability_yes"].to_pylist() == probability[:, 1].tolist()
            assert table["probability_no"].to_pylist() == probability[:, 0].tolist()
            assert table["prediction"].to_pylist() == model.predict(X).tolist()
            at = learner["decision_threshold"]["value"]
            assert (model.predict(X) == np.where(model.decision_function(X) >= at, "yes", "no")).all()


@pytest.mark.slow
@pytest.mark.parametrize("words", ["--order shuffled", "--order file --average"])
def test_a_fold_learns_in_the_order_of_a_run(
    two_classes: Path, tmp_path: Path, small_sizes: SmallSizes, words: str
) -> None:
    """Of several blocks, of which a run learns one after the other."""
    small_sizes.learning_blocks(16, 1000)
    with one_process():
        command(two_classes, f"--learner ogd {words}").run(tmp_path / "run")
    params = Params(**entries(read_manifest_or_copy(tmp_path / "run")[0]["identity"]["params"]))
    model = load_run(tmp_path / "run")._model
    rows = PreparedRows(model.store, "train")
    block = calibrate.take(rows, model.fitted, model.store, np.arange(rows.n_rows))
    assert len(block_sizes.learning_blocks(rows.n_rows, 16, 0)) > 2
    found = stream_model(params, "ogd", None, rows.preparation.task, block)
    np.testing.assert_array_equal(found.decision_function(block.rows), model.load()[1].decision_function(block.rows))


@pytest.mark.slow
def test_decisions_are_those_of_rows_that_were_not_learned_from(two_classes: Path, tmp_path: Path) -> None:
    """By the estimator on the same cells and folds."""
    with one_process():
        command(two_classes, "--learner ogd --calibration platt --order file").run(tmp_path / "run")
    manifest, _ = read_manifest_or_copy(tmp_path / "run")
    params = Params(**entries(manifest["identity"]["params"]))
    model = load_run(tmp_path / "run")
    store = model._model.store
    rows = PreparedRows(store, "train")
    fit, held = folds_of(rows, np.arange(rows.n_rows), params)[2]
    record = calibrate.decide_fold(store, params, "ogd", model._model.fitted, None, 2)
    kind: Any = model.task.kind
    evidence = kind.evidence_from(model.task, [record["evidence"]])
    assert evidence.rows == held.size == record["rows"]
    assert evidence.columns[0].counts.sum(axis=0).tolist() == np.bincount(rows.take(held).y).tolist()
    assert model._model.fitted is not None
    cells = model._model.fitted.load(store)
    from ikmap import CellOGDClassifier

    peer = CellOGDClassifier(shuffle=False).fit(cells.cells(rows.take(fit).rows), rows.take(fit).y)
    decision = np.atleast_2d(peer.decision_function(cells.cells(rows.take(held).rows)))
    expected = kind.evidence(model.task, rows.take(held).y, decision.reshape(-1, 1))
    assert evidence.as_json() == expected.as_json()


@pytest.mark.slow
def test_a_fold_learns_from_all_other_rows_however_many(
    two_classes: Path, tmp_path: Path, small_sizes: SmallSizes
) -> None:
    """Block by block, where they do not fit: the model is that of the same rows in memory."""
    with one_process():
        command(two_classes, "--learner ogd,svm --order file --calibration platt --tol 1e-9").run(tmp_path / "run")
    params = Params(**entries(read_manifest_or_copy(tmp_path / "run")[0]["identity"]["params"]))
    model = load_run(tmp_path / "run")._model
    rows = PreparedRows(model.store, "train")
    kept = np.ones(rows.n_rows, dtype=np.bool_)
    fit, held_out = folds_of(rows, np.arange(rows.n_rows), params)[1]
    kept[held_out] = False
    block, tested = (calibrate.take(rows, model.fitted, model.store, numbers) for numbers in (fit, held_out))
    assert model.fitted is not None
    arguments = {name: (model.store, params, name, model.fitted, None, 1) for name in ("ogd", "svm")}
    in_memory = {name: calibrate.decide_fold(*arguments[name]) for name in arguments}
    small_sizes.learning_blocks(16, 1000)
    small_sizes.calibration(fit_bytes=16 * 10)
    for name, error in (("ogd", 0.0), ("svm", 1e-4)):
        expected = train_in_memory(params, name, None, rows.preparation.task, block).decision_function(tested.rows)
        found = calibrate.learn_by_blocks(model.store, params, name, model.fitted, None, kept)
        np.testing.assert_allclose(found.decision_function(tested.rows), expected, rtol=0, atol=error)
        by_blocks, record = calibrate.decide_fold(*arguments[name]), in_memory[name]
        assert by_blocks["rows"] == record["rows"] == held_out.size
        assert (by_blocks["evidence"] == record["evidence"]) == (name == "ogd")


@pytest.mark.slow
def test_a_run_goes_on_after_any_stage_with_the_same_bits(tmp_path: Path, small_sizes: SmallSizes) -> None:
    """Three classes, folds that are learned from block by block, and evidence of some rows only."""
    small_sizes.calibration(fit_bytes=16 * 100, numbers=60)
    with one_process():
        run = command(write_rows(tmp_path), "--learner svm --calibration isotonic")
        snapshots = Snapshots(tmp_path / "whole", tmp_path / "snapshots")
        metrics = run.run(tmp_path / "whole", snapshots)
        assert metrics["learners"]["svm"]["calibration"] == {
            "how": "isotonic", "rows": 100, "folds": 5, "rows_learned": 154,
        }  # fmt: skip
        expected = results(tmp_path / "whole")
        for name in ("train:svm", "calibrate:svm"):
            run.run(snapshots.taken[name])
            assert results(snapshots.taken[name]) == expected
        found = load_run(tmp_path / "whole").predict_proba(np.full((2, 5), 0.5))
        assert found.shape == (2, 3)
        assert found.sum(axis=1) == pytest.approx(1)


@pytest.mark.slow
def test_folds_that_learn_from_a_sample_say_so(two_classes: Path, tmp_path: Path, small_sizes: SmallSizes) -> None:
    """Trees that see labels are grown anew for each fold, on what fits in memory."""
    small_sizes.calibration(fit_bytes=(16 + 24) * 100)
    heard = Heard()
    with one_process():
        words = "--partitioner forest --learner svm --calibration platt"
        metrics = command(two_classes, words).run(tmp_path / "run", heard=heard)
    (said,) = (line for line in heard.lines if line.startswith("calibrate:svm: "))
    learned = metrics["learners"]["svm"]["calibration"]["rows_learned"]
    assert learned < 192
    assert f"each fold learns from {learned} of 192 rows" in said
    assert said.endswith("compare calibration_error and calibration_chance of the test rows")


@pytest.mark.slow
def test_one_fold_is_enough_of_many_rows(two_classes: Path, tmp_path: Path, small_sizes: SmallSizes) -> None:
    small_sizes.calibration(enough_rows=90)
    with one_process():
        metrics = command(two_classes, "--learner svm --calibration platt").run(tmp_path / "run")
    assert metrics["learners"]["svm"]["calibration"]["folds"] == 2
    assert metrics["learners"]["svm"]["calibration"]["rows"] == 96


@pytest.mark.slow
def test_log_odds_need_no_calibration(two_classes: Path, tmp_path: Path) -> None:
    with one_process():
        metrics = command(two_classes, "--learner logistic,svm").run(tmp_path / "run")
        assert not any(stage["name"].startswith("calibrate") for stage in metrics["stages"])
        assert metrics["learners"]["logistic"]["log_loss"] < 0.69
        assert metrics["learners"]["svm"]["log_loss"] is None
        assert load_run(tmp_path / "run", "logistic").predict_proba(np.zeros((1, 3))).shape == (1, 2)
        with pytest.raises(AttributeError, match="--calibration platt or isotonic"):
            load_run(tmp_path / "run", "svm").predict_proba(np.zeros((1, 3)))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--calibration platt --task regression --learner ridge", "--calibration platt: found --task regression"),
        ("--threshold-for cost:2:1", "--threshold-for cost:2:1: found 3 classes, expected two"),
        ("--select-by r2 --psi auto", "--select-by r2: found --task classification, expected one of accuracy"),
    ],
)
def test_what_a_task_cannot_have_is_refused(tmp_path: Path, words: str, message: str) -> None:
    with one_process(), pytest.raises(InputError, match=message):
        command(write_rows(tmp_path), words).run(tmp_path / "run")


def in_time(folder: Path, said_yes: range) -> Path:
    """Rows of 300 times, of which these are "yes"; the first 240 are to train."""
    x = np.random.default_rng(0).random(300)
    lines = [f"{v:.3f},{k},{'yes' if k in said_yes and v > 0.3 else 'no'}" for k, v in enumerate(x)]
    path = folder / "times.csv"
    path.write_text("\n".join(["x,when,kind", *lines]) + "\n")
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("said_yes", "words", "message"),
    [
        (
            range(150),
            "--threshold-for recall:0.9",
            "--threshold-for recall:0.9: found no row of class 'yes' among the 24 training rows that were held out, "
            "expected some; leave --threshold-for out, or give more rows of it",
        ),
        (
            range(150),
            "--calibration platt --threshold-for f1",
            "--calibration platt, --threshold-for f1: found no row of class 'yes' among the 24 training rows that were "
            "held out, expected some; leave --calibration and --threshold-for out, or give more rows of it",
        ),
        (
            range(220, 300),
            "--threshold-for f1",
            "--threshold-for f1: found no fold whose other rows have every class, expected more rows of the rarest "
            "one; leave --threshold-for out",
        ),
    ],
)
def test_a_class_without_a_row_to_judge_by_is_told_with_the_options_that_were_typed(
    tmp_path: Path, small_sizes: SmallSizes, said_yes: range, words: str, message: str
) -> None:
    """Of many rows, the last fold alone is held out."""
    small_sizes.calibration(enough_rows=1)
    run = command(in_time(tmp_path, said_yes), f"--split-by time:when --drop when --learner svm {words}")
    with one_process(), pytest.raises(InputError, match=rf"^{re.escape(message)}$"):
        run.run(tmp_path / "run")


@pytest.mark.slow
def test_the_folds_of_a_calibration_are_those_that_were_used(tmp_path: Path) -> None:
    """Three of five folds have no row of the second class before them."""
    run = command(
        in_time(tmp_path, range(170, 300)), "--split-by time:when --drop when --learner svm --calibration platt"
    )
    with one_process():
        metrics = run.run(tmp_path / "run")
    assert metrics["learners"]["svm"]["calibration"] == {"how": "platt", "rows": 48, "folds": 2, "rows_learned": 216}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_years", "words", "message"),
    [
        (4, "--calibration platt", ""),
        (
            3,
            "--calibration platt --threshold-for f1",
            "--calibration platt, --threshold-for f1, --split-by time:year: found the same time in all 100 rows, "
            "expected several, of which some are held out; leave --calibration and --threshold-for out",
        ),
    ],
)
def test_a_fold_before_which_there_is_one_time_is_left_out_where_the_learner_holds_out_the_last(
    n_years: int, words: str, message: str, tmp_path: Path
) -> None:
    """The last year is the test set, so that the first fold learns from the first year, and the second from two."""
    x = np.random.default_rng(0).random(100 * n_years)
    lines = [f"{v:.3f},{1990 + k // 100},{'yes' if v + k % 7 / 20 > 0.6 else 'no'}" for k, v in enumerate(x)]
    path = tmp_path / "years.csv"
    path.write_text("\n".join(["x,year,kind", *lines]) + "\n")
    options = f"--input {path} --label kind --split-by time:year --learner boosting --rounds 5 {words}"
    run = Command(BatchOptions.parse(options.split()))
    with one_process():
        if message:
            with pytest.raises(InputError, match=rf"^{re.escape(message)}$"):
                run.run(tmp_path / "run")
            return
        metrics = run.run(tmp_path / "run")
    assert metrics["learners"]["boosting"]["calibration"] == {
        "how": "platt", "rows": 100, "folds": 1, "rows_learned": 200,
    }  # fmt: skip


def test_options_that_cannot_be() -> None:
    with pytest.raises(InputError, match=r"--threshold-for: found 'best', expected cost:MISSED:FALSE"):
        BatchOptions(threshold_for="best")
    with pytest.raises(InputError, match="--calibration platt: found a stream"):
        OnlineOptions(calibration="platt")
    with pytest.raises(InputError, match="--select-by roc_auc: found nothing to choose"):
        BatchOptions(select_by="roc_auc", psi=8, C=1.0)


@pytest.mark.slow
def test_a_search_by_another_figure(two_classes: Path, tmp_path: Path) -> None:
    """A race, whose choice is the best by the full search too, as few are left out of so few rows."""
    words = "--psi auto --C auto --learner svm,kernel-svm --kernel gaussian --gamma auto --select-by roc_auc"
    run = command(two_classes, words)
    with one_process():
        metrics = run.run(tmp_path / "run")
        full = Command(replace(run.options, search="full")).run(tmp_path / "full")
    found = metrics["selection"]
    assert found["by"] == "roc_auc"
    assert full["selection"]["chosen"]["svm"] == found["chosen"]["svm"]
    by_psi = full["selection"]["roc_auc"]["svm"]
    assert found["psi"][int(np.argmax(by_psi))] == found["chosen"]["svm"]
    assert "roc_auc" in found["tuned"]["kernel-svm"]
    assert "ROC AUC" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("maps", ["forest", "iforest,forest"])
def test_rows_that_calibrate_have_not_grown_trees_by_their_own_labels(tmp_path: Path, maps: str) -> None:
    """Labels that follow from nothing are found to do so: else the cells of the held-out rows seem to tell them."""
    rng = np.random.default_rng(5)
    path = tmp_path / "noise.csv"
    rows = [
        f"{a:.4f},{b:.4f},{'yes' if k else 'no'}"
        for a, b, k in zip(*rng.random((2, 400)), rng.integers(0, 2, 400), strict=True)
    ]
    path.write_text("\n".join(["a,b,kind", *rows]) + "\n")
    words = f"--partitioner {maps} --psi 256 --min-leaf 1 --learner svm --C 1 --calibration platt"
    with one_process():
        (learner,) = command(path, words).run(tmp_path / "run")["learners"].values()
    assert learner["calibration"]["folds"] == 5
    assert learner["log_loss"] < 0.72  # of a coin 0.693
