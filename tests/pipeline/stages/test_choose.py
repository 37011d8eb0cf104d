"""The bare command: a race chooses the model, kills change nothing, and its run.toml makes the same model again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from flows.options.batch import BatchOptions
from flows.runs.batch import chosen_invocation
from ikmap.auto.candidates import STACKING
from ikmap.auto.trial import run_trial
from ikmap.methods.base_models import CellsPart
from ikmap.tasks import AUTO
from pipeline.errors import InputError
from pipeline.runs.schema import metrics_schema
from pipeline.runs.trained import load_run
from pipeline.stages.calibrate import refuse_calibration
from tests.support.calls import counted, killed_at
from tests.support.kills import KilledAfter
from tests.support.one_process import Command, Heard, forget, one_process
from tests.support.runs import compiled_late

pytestmark = pytest.mark.slow
AMPLE = ["--cv-rows", "190", "--budget", "3000"]
"""Seconds that are ample here, so that no choice depends on how fast the machine is; the usual ones may not be."""


def write_table(folder: Path, *, words: bool = True, n: int = 240) -> Path:
    """Rows of a ring and what is around it: no linear model finds it. Weights, groups and days stand beside."""
    random = np.random.default_rng(5)
    X = random.normal(size=(n, 2)).round(3)
    size = (X**2).sum(axis=1)
    y = np.where(size > 1.4, "out", "in") if words else (size + random.normal(size=n) / 9).round(4)
    lines = [
        f"{a},{b},{1 + k % 3},{k // 4},2001-01-{1 + k % 28:02},{label}"
        for k, ((a, b), label) in enumerate(zip(X, y, strict=True))
    ]
    file = folder / "ring.csv"
    file.write_text("\n".join(["a,b,heavy,family,day,y", *lines]) + "\n")
    return file


def asked(file: Path, *words: str) -> BatchOptions:
    return BatchOptions.parse(["--input", str(file), "--label", "y", *words])


def plain(file: Path, *words: str) -> BatchOptions:
    return asked(file, "--drop", "heavy,family,day", *words)


def run(options: BatchOptions, directory: Path, heard: Heard | None = None) -> dict[str, Any]:
    with one_process():
        return Command(options).run(directory, heard=heard)


def model_of(metrics: dict[str, Any]) -> tuple[str, str]:
    ((name, learner),) = metrics["learners"].items()
    return name, learner["content_hash"]


type Raced = tuple[Path, dict[str, Any], Heard]


@pytest.fixture(scope="module")
def raced(tmp_path_factory: pytest.TempPathFactory) -> Raced:
    """A folder with the table of words and a run on it that nobody disturbed, its metrics, and what it said."""
    folder, heard = tmp_path_factory.mktemp("raced"), Heard()
    return folder, run(plain(write_table(folder), *AMPLE), folder / "run", heard), heard


def decided(metrics: dict[str, Any]) -> dict[str, Any]:
    """The choice without seconds."""
    choice = metrics["choice"]
    board = [
        {key: entry[key] for key in ("name", "options", "loss", "folds", "note")} for entry in choice["leaderboard"]
    ]
    return {**{key: choice[key] for key in ("name", "learner", "options", "scale")}, "leaderboard": board}


@pytest.mark.parametrize("words", [True, False], ids=["classes", "numbers"])
def test_run_toml_makes_the_chosen_model_without_a_race(words: bool, raced: Raced, tmp_path: Path) -> None:
    folder, metrics, heard = raced
    if not words:
        folder, heard = tmp_path, Heard()
        metrics = run(plain(write_table(folder, words=False), *AMPLE), folder / "run", heard)
    choice = metrics["choice"]
    assert not list(Draft202012Validator(metrics_schema()).iter_errors(json.loads(json.dumps(metrics))))
    # The cells win by themselves or in a sum.
    assert choice["name"] not in ("linear-model", "boosting")
    losses = {entry["name"]: entry["loss"] for entry in choice["leaderboard"]}
    assert losses[choice["name"]] == min(losses.values()) < losses["linear-model"]
    assert any(choice["name"] in line for line in heard.lines if line.startswith("choose: "))
    assert metrics["verdicts"][0]["kind"] == "quality"
    assert "that of a linear model of the columns" in metrics["verdicts"][0]["message"]
    assert "Choice of the model" in (folder / "run" / "report.html").read_text()

    again = BatchOptions.from_toml((folder / "run" / "run.toml").read_text())
    assert again.learner == (choice["learner"],)
    other = run(again, tmp_path / "again")
    assert "choice" not in other
    assert all(stage["name"] not in ("choose", "select") for stage in other["stages"])
    assert model_of(other) == model_of(metrics)


def test_all_loops_that_a_race_needs_are_compiled_before_it(raced: Raced) -> None:
    """Records name the loops that tasks had to compile: none, also where (as in CI) no run has compiled them before."""
    assert compiled_late(raced[0] / "run") == []


def test_a_sum_may_have_scaled_columns(tmp_path: Path) -> None:
    """Cells of nearest points win where the label is a distance."""
    random = np.random.default_rng(5)
    X, centres = random.random(size=(240, 2)).round(3), random.random((6, 2))
    y = np.sqrt(((X[:, None] - centres) ** 2).sum(axis=2)).min(axis=1).round(4)
    lines = [f"{a},{100 * b},{label}" for (a, b), label in zip(X, y, strict=True)]
    (tmp_path / "near.csv").write_text("\n".join(["a,b,y", *lines]) + "\n")
    metrics = run(asked(tmp_path / "near.csv", "--budget", "60"), tmp_path / "run")
    assert (metrics["choice"]["learner"], metrics["choice"]["scale"]) == (STACKING, "minmax")
    again = BatchOptions.from_toml((tmp_path / "run" / "run.toml").read_text())
    assert model_of(run(again, tmp_path / "again")) == model_of(metrics)

    # Where the ingest is made again, the rows still have the scale that the race chose after it.
    expected = load_run(tmp_path / "run").predict(X * (1, 100))
    (tmp_path / "run" / "store.zarr" / "data" / "zarr.json").unlink()
    forget()
    heard = Heard()
    run(asked(tmp_path / "near.csv", "--budget", "60"), tmp_path / "run", heard)
    assert "ingest: some of its output is missing and is made again" in heard.lines
    assert "choose: done before" in heard.lines
    assert np.array_equal(load_run(tmp_path / "run").predict(X * (1, 100)), expected)


def test_the_same_command_finds_its_run_finished(raced: Raced) -> None:
    folder, metrics, _ = raced
    assert run(plain(folder / "ring.csv", *AMPLE), folder / "run") == metrics


def test_a_run_that_was_killed_in_the_race_ends_as_one_that_was_not(raced: Raced, tmp_path: Path) -> None:
    folder, whole, _ = raced
    options = plain(folder / "ring.csv", *AMPLE)
    with pytest.raises(KeyboardInterrupt):
        run(options, tmp_path / "killed", KilledAfter("choose", 3))
    with killed_at(CellsPart.learn, 2), one_process():
        Command(options).run(tmp_path / "killed")
    resumed = run(options, tmp_path / "killed")
    assert decided(resumed) == decided(whole)
    assert model_of(resumed) == model_of(whole)
    (stage,) = (stage for stage in resumed["stages"] if stage["name"] == "choose")
    assert stage["tasks"] == sum(one["tasks"] for one in whole["stages"] if one["name"] == "choose")


def test_a_run_that_was_killed_as_its_model_was_chosen_goes_on_by_its_run_toml(raced: Raced, tmp_path: Path) -> None:
    """The manifest says what was chosen before run.toml does; the first kill is between the two."""
    folder, whole, _ = raced
    options = plain(folder / "ring.csv", *AMPLE)
    for place, learner in ((chosen_invocation, AUTO), (refuse_calibration, whole["choice"]["learner"])):
        with killed_at(place), one_process():
            Command(options).run(tmp_path / "killed")
        options = BatchOptions.from_toml((tmp_path / "killed" / "run.toml").read_text())
        assert options.learner == (learner,)
    resumed = run(options, tmp_path / "killed")
    assert decided(resumed) == decided(whole)
    assert model_of(resumed) == model_of(whole)


def test_a_candidate_that_fails_is_told_and_the_run_goes_on(tmp_path: Path) -> None:
    def refuse(_: int) -> None:
        raise ValueError("these rows have no cells; give a smaller {psi}")

    with counted(CellsPart.learn, refuse):
        # The usual budget is enough for a model, and tries few settings of boosting.
        metrics = run(plain(write_table(tmp_path), "--cv-rows", "190"), tmp_path / "run")
    notes = {entry["name"]: entry["note"] for entry in metrics["choice"]["leaderboard"]}
    assert notes["iforest"] == "failed: these rows have no cells; give a smaller --psi"
    ((learner, summary),) = metrics["learners"].items()
    assert learner in ("boosting", "linear-model", "stacking")
    assert all(name.startswith("boosting") for name in summary.get("base_models", ()))
    assert "failed: these rows have no cells" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (("in", "out", "new"), "class 'new'; give --split-by stratified, or another --seed or split"),
        (("0", "1", "7"), "class 7; give --split-by stratified, or another --seed or split, or --task regression, wh"),
    ],
)
def test_a_class_without_a_training_row_is_told_before_the_race(
    labels: tuple[str, str, str], said: str, tmp_path: Path
) -> None:
    file, heard = write_table(tmp_path), Heard()
    inside, outside, new = labels
    text = file.read_text().replace(",in\n", f",{inside}\n").replace(",out\n", f",{outside}\n")
    file.write_text(f"{text}1,1,1,1,2002-01-01,{new}\n")
    words = ["--drop", "heavy,family", "--split-by", "time:day"]
    with pytest.raises(InputError) as error:
        run(asked(file, *words), tmp_path / "run", heard)
    assert f"found no training row of {said}" in str(error.value)
    assert not list((tmp_path / "run" / "records" / "choose").glob("boosting*"))


def test_a_race_by_coarse_times_holds_out_each_row_once(tmp_path: Path) -> None:
    file = write_table(tmp_path, n=400)
    years = [f"{line.rpartition(',')[0]},{1990 + k // 100},{line.rpartition(',')[2]}"
             for k, line in enumerate(file.read_text().splitlines()[1:])]  # fmt: skip
    file.write_text("\n".join(["a,b,heavy,family,day,year,y", *years]) + "\n")
    metrics = run(plain(file, "--split-by", "time:year", "--budget", "3"), tmp_path / "run")
    choice = metrics["choice"]
    assert choice["folds"] == 1  # three years are left to train: two to learn from, and one that is held out
    assert not [own for own in choice["leaderboard"] if own.get("note", "").startswith("failed")]


def test_a_race_in_time_has_no_fold_that_learns_from_rows_that_weigh_nothing(tmp_path: Path) -> None:
    file = write_table(tmp_path, n=400)
    old = [f"{line.rpartition(',')[0]},{k},{int(k >= 200)},{line.rpartition(',')[2]}"
           for k, line in enumerate(file.read_text().splitlines()[1:])]  # fmt: skip
    file.write_text("\n".join(["a,b,heavy,family,day,time,w,y", *old]) + "\n")
    metrics = run(plain(file, "--split-by", "time:time", "--weight", "w", "--budget", "3"), tmp_path / "run")
    choice = metrics["choice"]
    assert not [own for own in choice["leaderboard"] if own["note"].startswith("failed")]
    assert choice["folds"] >= 1


def test_a_budget_of_almost_nothing_ends_with_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models are compared on as many rows of two columns as take so many bytes."""
    monkeypatch.setattr("ikmap.auto.race.SAMPLE_BYTES", 120 * 2 * 8)
    monkeypatch.setattr("ikmap.auto.race.LEAST_SAMPLE", 50)
    heard = Heard()
    metrics = run(plain(write_table(tmp_path), "--budget", "0.001"), tmp_path / "run", heard)
    assert metrics["choice"]["by_budget"]
    assert metrics["choice"]["rows"] == 120
    assert metrics["choice"]["folds"] >= 1
    assert any("the best that the budget has seconds for" in line for line in heard.lines)
    assert "The budget decided" in (tmp_path / "run" / "report.html").read_text()
    assert model_of(metrics)[1]


@pytest.mark.parametrize(
    "words",
    [
        "--weight heavy --split-by group:family --drop day",
        "--split-by time:day --drop heavy,family",
    ],
)
def test_rows_are_weighed_and_divided_in_the_race_too(words: str, tmp_path: Path) -> None:
    options = asked(write_table(tmp_path), *words.split(), *AMPLE)
    with counted(run_trial, note=lambda names: names["training"]) as trials:
        metrics = run(options, tmp_path / "run")
    assert {training.division.in_time for training in trials.notes} == {words.startswith("--split-by time")}
    for training in trials.notes:
        assert (training.block.sample_weight is None) == (not options.weight)
        assert not options.weight or np.unique(training.block.sample_weight).size == 3
    assert metrics["choice"]["folds"] >= 2
    assert metrics["choice"]["name"] != "linear-model"
    again = BatchOptions.from_toml((tmp_path / "run" / "run.toml").read_text())
    assert (again.weight, again.split_by) == (options.weight, options.split_by)
    assert model_of(run(again, tmp_path / "again")) == model_of(metrics)
