"""The learner "auto": what it becomes, when, and what of it is written down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.options.batch import BatchOptions
from flows.options.presets import PRESETS
from flows.options.score import ScoreOptions
from flows.runs.batch import batch_params
from ikmap.tasks import CLASSIFICATION, NOVELTY, REGRESSION
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.storage.durable import read_json
from pipeline.storage.rundir import read_manifest
from tests.support.narrow import entries
from tests.support.one_process import Command, Heard, one_process, score_file
from tests.support.papers import with_papers

SMALL = ["--t", "8", "--psi", "4"]


def write_table(folder: Path, labels: str, n: int = 160) -> Path:
    """A table with a label that is a word, a small whole number, or a fraction."""
    rng = np.random.default_rng(0)
    X = rng.random((n, 3)).round(3)
    size = X[:, 0] + X[:, 1]
    y = {
        "words": np.where(size > 1, "yes", "no"),
        "whole": (3 * size).astype(int),
        "fractions": size.round(4),
    }[labels]
    lines = (",".join(map(str, (*x, label))) for x, label in zip(X, y, strict=True))
    file = folder / f"{labels}.csv"
    file.write_text("\n".join(["a,b,c,y", *lines]) + "\n")
    return file


@pytest.mark.slow
@pytest.mark.parametrize(
    ("labels", "words", "learner", "said"),
    [
        ("words", "", "logistic", "labels: 2 different words, taken as classes"),
        (
            "whole",
            "",
            "logistic",
            "labels: 6 different numbers, all whole, taken as classes; to predict them as numbers",
        ),
        (
            "fractions",
            "",
            "ridge",
            "not all whole, taken as numbers to predict; if they are classes, give --task multi",
        ),
        ("whole", "--task regression", "ridge", ""),
        ("whole", "--task novelty", "iforest-score", ""),
    ],
)
def test_the_labels_tell_the_learner(labels: str, words: str, learner: str, said: str, tmp_path: Path) -> None:
    file = write_table(tmp_path, labels)
    options = BatchOptions.parse(["--input", str(file), "--label", "y", *SMALL, *words.split()])
    heard = Heard()
    with one_process():
        metrics = Command(options).run(tmp_path / "run", heard=heard)
        scored = score_file(ScoreOptions(model=str(tmp_path / "run"), input=str(file), label="y",
                                         output=str(tmp_path / "out.parquet")))  # fmt: skip
    assert list(metrics["learners"]) == metrics["params"]["learners"] == [learner]
    assert (metrics["params"]["partitioner"], metrics["params"]["t"]) == ("iforest", 8)
    assert scored["learner"] == learner
    assert any(said in line for line in heard.lines if line.startswith("labels: ")) == bool(said)
    # Written down as it was asked for.
    identity = entries(read_manifest(tmp_path / "run")["identity"]["params"])
    assert (identity["learners"], identity["partitioner"]) == (["auto"], "auto")
    assert BatchOptions.from_toml(options.to_toml()).learner == ("auto",)


def test_an_option_goes_to_every_learner_that_may_be_meant() -> None:
    params = batch_params(BatchOptions(input="x", C=3.0, psi=64, t=100, tol=0.01))
    classes, numbers = params.settled(CLASSIFICATION), params.settled(REGRESSION)
    assert [one.of(one.learners[0]).value_at("C") for one in (classes, numbers)] == [3.0, 3.0]
    assert [one.map.value_at("psi") for one in params.alternatives()] == [64, 64]
    assert (classes.t, numbers.t) == (100, 100)
    # It has no C.
    with pytest.raises(
        InputError, match=r"^--C 3.0: found task novelty, whose usual learner is iforest-score, expected"
    ):
        params.settled(NOVELTY)


@pytest.mark.parametrize(
    ("words", "learner", "C", "psi"),
    [("", "logistic", "auto", None), ("--psi 8", "logistic", 5.0, 8), ("--task regression", "ridge", "auto", None)],
)
def test_psi_and_C_are_chosen_unless_given(words: str, learner: str, C: Any, psi: int | None) -> None:
    params = batch_params(BatchOptions.parse(["--input", "x", *words.split()])).alternatives()[0]
    assert params.learners == (learner,)
    assert params.methods[learner]["C"] == C
    assert params.searches_C(learner) == (C == "auto")
    assert (params.t, None if params.map_searched else params.map.value_at("psi")) == (300, psi)


def test_another_map_leaves_only_the_learners_that_it_serves() -> None:
    params = Params(partitioner="anne")
    assert [one.learners for one in params.alternatives()] == [("logistic",), ("ridge",)]
    with pytest.raises(InputError, match="--learner iforest-score: needs the depth of cells, which --partitioner anne"):
        params.settled(NOVELTY)
    with pytest.raises(InputError, match="needs the depth of cells"):
        Params(partitioner="anne", task="novelty")


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["libsvm", "npy", "parquet"])
def test_a_target_of_fractions_is_no_class_in_any_format(suffix: str, tmp_path: Path) -> None:
    X = np.random.default_rng(0).random((90, 2)).round(3) + 0.001
    y, file = X.sum(axis=1).round(3), tmp_path / f"rows.{suffix}"
    if suffix == "parquet":
        pq.write_table(pa.table({"a": X[:, 0], "b": X[:, 1], "y": y}), file)
    elif suffix == "npy":
        np.save(file, np.column_stack([X, y]))
    else:
        file.write_text("".join(f"{v:g} 1:{x[0]:g} 2:{x[1]:g}\n" for x, v in zip(X, y, strict=True)))
    label = [] if suffix == "libsvm" else ["--label", "y" if suffix == "parquet" else "-1"]
    with one_process():
        metrics = Command(BatchOptions.parse(["--input", str(file), *label, *SMALL])).run(tmp_path / "run")
    assert list(metrics["learners"]) == ["ridge"]


def test_a_learner_of_classes_says_what_to_type_for_numbers(tmp_path: Path) -> None:
    file = write_table(tmp_path, "fractions")
    options = BatchOptions.parse(["--input", str(file), "--label", "y", "--learner", "svm", *SMALL])
    with one_process(), pytest.raises(InputError, match="expected classes; --task regression --learner ridge predicts"):
        Command(options).run(tmp_path / "run")


@pytest.mark.slow
def test_a_run_with_auto_goes_on(tmp_path: Path) -> None:
    file = write_table(tmp_path, "words")
    options = BatchOptions.parse(["--input", str(file), "--label", "y", *SMALL])

    def stop(name: str, work: Any) -> Any:
        if name.startswith("train"):
            raise KeyboardInterrupt
        return work()

    with one_process():
        with pytest.raises(KeyboardInterrupt):
            Command(options).run(tmp_path / "run", call=stop)
        Command(options).run(tmp_path / "run")
        whole = Command(options).run(tmp_path / "whole")
    found = read_json(tmp_path / "run" / "metrics.json")["learners"]["logistic"]
    assert found["content_hash"] == whole["learners"]["logistic"]["content_hash"]


@with_papers
@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_runs(preset: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.random((160, 2)).round(3)
    size = X.sum(axis=1)
    y = size.round(3) if preset == "mondrian" else np.where(size > 1, "yes", "no")
    lines = [f"{a},{b},{label}" for (a, b), label in zip(X, y, strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join(["a,b,y", *lines]) + "\n")
    options = BatchOptions.parse(["--preset", preset, "--input", str(tmp_path / "rows.csv"), "--label", "y"])
    with one_process():
        metrics = Command(options).run(tmp_path / "run")
    assert list(metrics["learners"]) == list(PRESETS[preset]["learner"])
    assert metrics["verdicts"][0]["kind"] == "quality"
