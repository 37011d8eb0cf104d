"""Weighted minwise hashes through whole runs: rows of zeros, search, resume, scores, beside another map, a stream."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from flows.options.batch import BatchOptions
from flows.options.online import OnlineOptions
from flows.options.score import ScoreOptions
from pipeline.errors import InputError
from pipeline.runs.trained import load_run
from pipeline.storage.durable import read_json
from tests.support.metrics import check_metrics
from tests.support.one_process import Command, Heard, Snapshots, one_process, results, score_file, write_rows

SEARCHED: dict[str, Any] = {"p": "auto", "b": "auto", "cv_rows": 60, "select_by": "accuracy"}
"""By accuracy, for which no scores are calibrated: that takes longer than all the rest."""


def command(file: Path, **options: Any) -> Command:
    given = {"partitioner": "gcws", "t": 9, "learner": ("svm", "ogd"), "shard_rows": 64, **options}
    return Command(BatchOptions(input=str(file), **given))


def rows_with_empty_ones(folder: Path) -> Path:
    path = write_rows(folder)
    lines = path.read_text().splitlines()
    lines[::20] = [line.split(" ")[0] for line in lines[::20]]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Snapshots, Heard]:
    """A run that chooses p, b and C on rows of which some are empty, and copies of it on the way."""
    folder = tmp_path_factory.mktemp("gcws")
    taken, heard = Snapshots(folder / "run", folder / "copies"), Heard()
    with one_process():
        command(rows_with_empty_ones(folder), **SEARCHED).run(folder / "run", taken, heard)
    return folder, taken, heard


def test_p_and_b_are_chosen(searched: tuple[Path, Snapshots, Heard]) -> None:
    folder, _, _ = searched
    check_metrics(folder / "run")
    metrics = read_json(folder / "run" / "metrics.json")
    assert metrics["selection"]["parameter"] == "p, b"
    for name in ("svm", "ogd"):
        of = metrics["learners"][name]
        assert (of["parameter"], of["value"]) == ("p, b", metrics["selection"]["chosen"][name])
        assert of["accuracy"] > 0.5
    assert "exponent of the values" in (folder / "run" / "report.html").read_text()


def test_empty_rows_have_no_cell_and_are_counted(searched: tuple[Path, Snapshots, Heard]) -> None:
    folder, _, heard = searched
    root: Any = zarr.open_group(str(folder / "run" / "store.zarr"), mode="r")
    stored = [array for name, array in root.members(max_depth=None) if name.startswith("cells/") and "codes" in name]
    assert stored
    for array in stored:
        absent = np.asarray(array[...]) < 0
        assert (absent.any(axis=1) == absent.all(axis=1)).all()
    assert any("12 of 240 rows have no cell in any partitioning of gcws-p-" in line for line in heard.lines), (
        heard.lines
    )


def test_what_is_predicted_of_empty_rows_is_learned_from_empty_rows(tmp_path: Path) -> None:
    """The label that is second in order, which a decision of 0 stands for, is not what rows without cells have here."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 240)
    labels[::4] = 0
    lines = [f"{y} {1 + y}:1 {3 + int(rng.integers(4))}:2" if i % 4 else "0" for i, y in enumerate(labels)]
    (tmp_path / "rows.libsvm").write_text("\n".join(lines) + "\n")
    asked = command(tmp_path / "rows.libsvm", learner=("svm", "logistic", "ogd"))
    with one_process():
        metrics = asked.run(tmp_path / "run")
        assert {of["accuracy"] for of in metrics["learners"].values()} == {1.0}
        for name in metrics["learners"]:
            model = load_run(tmp_path / "run", name)
            assert model.predict(np.zeros((1, 6))) == [0], name


def test_an_interrupted_run_goes_on_to_the_same_bits(searched: tuple[Path, Snapshots, Heard]) -> None:
    folder, taken, _ = searched
    half = taken.taken["ingest"]
    for path in (folder / "run").rglob("*fold-[01]-values-*.json"):
        place = half / path.relative_to(folder / "run")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    with one_process():
        command(folder / "rows.libsvm", **SEARCHED).run(half)
    assert results(half) == results(folder / "run")


def test_new_rows_are_scored(searched: tuple[Path, Snapshots, Heard]) -> None:
    folder, _, _ = searched
    with one_process():
        out = str(folder / "out.parquet")
        score_file(ScoreOptions(model=str(folder / "run"), input=str(folder / "rows.libsvm"), output=out))
        model = load_run(folder / "run")
        rows = np.random.default_rng(0).random((20, 5))
        rows[3] = 0.0
        assert model.predict(rows).shape == (20,)


def test_beside_another_map_each_is_searched(tmp_path: Path) -> None:
    asked = command(rows_with_empty_ones(tmp_path), partitioner="gcws,iforest", p="auto", cv_rows=60, learner=("ogd",))
    with one_process():
        metrics = asked.run(tmp_path / "run")
        check_metrics(tmp_path / "run")
    selection = metrics["selection"]
    assert selection["parameter"] == "gcws.p, gcws.b, iforest.psi"
    assert len({p for p, _, _ in selection[selection["parameter"]]}) > 5
    assert len({psi for _, _, psi in selection[selection["parameter"]]}) > 3
    assert len(metrics["learners"]["ogd"]["value"]) == 3


def test_a_stream(tmp_path: Path) -> None:
    with one_process():
        asked = OnlineOptions(
            input=str(rows_with_empty_ones(tmp_path)),
            partitioner="gcws",
            t=9,
            learner=("ogd",),
            initial=60,
            order="file",
        )
        metrics = Command(asked).run(tmp_path / "run")
    assert metrics["learners"]["ogd"]["rows"] == 180


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--p 0", "--p: found 0.0, expected a number > 0, or 'auto'"),
        ("--p inf", "--p: found inf, expected a finite number > 0"),
        ("--p 1e9", "--p 1e+09: found a p whose codes would leave int64, expected at most 1e+06"),
        ("--b 17", "--b: found 17, expected an integer >= 1 and <= 16, or 'auto'"),
        ("--gamma 1.5", "--gamma: found 1.5, expected an integer >= 1"),
        ("--code half", "--code: found 'half', expected one of 0-bit, full"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(words: str, said: str) -> None:
    with pytest.raises(InputError) as raised:
        BatchOptions.parse(["--input", "rows.csv", "--partitioner", "gcws", *words.split()])
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_options_of_one_name_can_be_given_to_each_method() -> None:
    words = (
        "--partitioner gcws --learner kernel-ogd,svm --kernel-ogd.kernel gaussian --gcws.gamma 2 --gaussian.gamma .5"
    )
    options = BatchOptions.parse(["--input", "rows.csv", *words.split()])
    assert options.by_method["gcws"]["gamma"] == 2
    assert options.by_method["gaussian"]["gamma"] == 0.5
    assert BatchOptions.parse(["--input", "x", "--partitioner", "gcws", "--gamma", "2"]).by_method["gcws"]["gamma"] == 2
