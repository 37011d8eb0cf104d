"""Maps side by side through whole runs: search, resume, score, report, stream, novelty, workers."""

from __future__ import annotations

import json
import shutil
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import flows.batch
from flows.cli import run_command
from flows.options.batch import BatchOptions
from flows.options.score import ScoreOptions
from ikmap.methods import Sample, register, unregister
from ikmap.methods.anne import Anne
from ikmap.methods.composed import composed_of_record
from ikmap.partitioners import SideBySide
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.running.foreign import checked, checked_path
from pipeline.running.stage import Context
from pipeline.runs.metrics import Invocation
from pipeline.runs.online import OnlineParams, run_online
from pipeline.runs.trained import load_run
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.storage.durable import read_json
from pipeline.storage.models import load_model
from pipeline.storage.rundir import RunDirectory
from pipeline.storage.store import Store
from tests.plugins import registered
from tests.plugins.growing_bins import GrowingBins
from tests.support.in_process import InProcess
from tests.support.metrics import check_metrics
from tests.support.one_process import (
    Command,
    Heard,
    Snapshots,
    commands_in_this_process,
    forget,
    one_process,
    results,
    score_file,
    write_rows,
)

BOTH = "iforest,anne"
LABEL = "anne,growing-bins-anne.psi-8-growing-bins.bins-4"

SEARCHED: dict[str, Any] = {"cv_rows": 60, "select_by": "accuracy"}
"""By accuracy, for which no scores are calibrated: that takes longer than all the rest."""


def command(file: Path, **options: Any) -> Command:
    given = {"partitioner": BOTH, "t": 7, "learner": ("svm", "ogd"), "shard_rows": 64, **options}
    return Command(BatchOptions(input=str(file), **given))


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Snapshots]:
    """A run that chooses psi for both maps, and copies of it on the way."""
    folder = tmp_path_factory.mktemp("composed")
    taken = Snapshots(folder / "run", folder / "copies")
    with one_process():
        command(write_rows(folder), **SEARCHED).run(folder / "run", taken)
    return folder, taken


def test_psi_is_chosen_for_each_map_and_each_learner(searched: tuple[Path, Snapshots]) -> None:
    folder, _ = searched
    check_metrics(folder / "run")
    metrics = read_json(folder / "run" / "metrics.json")
    selection = metrics["selection"]
    assert selection["parameter"] == "iforest.psi, anne.psi"
    tried = [tuple(value) for value in selection["iforest.psi, anne.psi"]]
    common = [(psi, psi) for psi in (4, 8, 16, 32)]
    assert set(common) <= set(tried)
    for name in ("svm", "ogd"):
        best = tuple(selection["chosen"][name])
        # Whatever was chosen in the end, both maps' other values were tried with it, or with what was best before.
        assert {(best[0], psi) for psi, _ in common} <= set(tried)
        of = metrics["learners"][name]
        assert (of["parameter"], of["value"]) == ("iforest.psi, anne.psi", list(best))
        assert "psi" not in of
    assert len(tried) == len(set(tried)) == len(selection["accuracy"]["svm"]) == len(selection["folds_tried"]["ogd"])
    assert metrics["params"]["t"] == 7
    report = (folder / "run" / "report.html").read_text()
    assert "Choice of ψ of iforest" in report
    assert "Choice of ψ of anne" in report
    assert "cells per partitioning of anne" in report


def test_an_interrupted_run_goes_on_to_the_same_bits(searched: tuple[Path, Snapshots]) -> None:
    folder, taken = searched
    # As if it had been killed in the search, after some tasks of its second race.
    records = [path.relative_to(folder / "run") for path in (folder / "run").rglob("*fold-*-values-*.json")]
    assert any(path.name.startswith("race-2-") for path in records)
    half = taken.taken["ingest"]
    for path in records:
        if not path.name.startswith(("race-2-", "race-1-fold-3", "race-1-fold-4")):
            (half / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / "run" / path, half / path)
    for copy in (half, taken.taken["partition"]):
        with one_process():
            command(folder / "rows.libsvm", **SEARCHED).run(copy)
        assert results(copy) == results(folder / "run")


def test_new_rows_are_scored_with_both_maps(searched: tuple[Path, Snapshots]) -> None:
    folder, _ = searched
    with one_process():
        score_file(
            ScoreOptions(
                model=str(folder / "run"), input=str(folder / "rows.libsvm"), output=str(folder / "out.parquet")
            )
        )
        model = load_run(folder / "run")
        rows = np.random.default_rng(0).random((20, 5))
        assert model.predict(rows).shape == (20,)
    predicted = pq.read_table(folder / "out.parquet")["prediction"].to_numpy()
    labels = np.loadtxt(folder / "rows.libsvm", usecols=0, converters=float)
    assert (predicted.astype(float) == labels).mean() > 0.7


def test_psi_that_is_given_for_one_map_and_searched_for_the_other(tmp_path: Path) -> None:
    asked = command(write_rows(tmp_path), scoped={"anne": {"psi": 8}}, learner=("ogd",), **SEARCHED)
    with one_process():
        asked.run(tmp_path / "run")
    tried = read_json(tmp_path / "run" / "metrics.json")["selection"]["iforest.psi, anne.psi"]
    assert tried == [[psi, 8] for psi in (4, 8, 16, 32)]


def test_a_budget_ends_the_search_and_something_is_chosen(tmp_path: Path) -> None:
    with one_process():
        metrics = command(write_rows(tmp_path), cv_rows=60, learner=("ogd",), budget=1e-6).run(tmp_path / "run")
        check_metrics(tmp_path / "run")
    assert metrics["selection"]["budget"]["reached"]
    assert tuple(metrics["selection"]["chosen"]["ogd"]) == (4, 4)  # the first that was scored


def test_novelty_has_the_mean_of_both_kernels(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    X[::50] += 9
    np.savetxt(tmp_path / "rows.csv", X, delimiter=",", header="a,b,c", comments="")
    with one_process():
        command(
            tmp_path / "rows.csv", partitioner="iforest,inne", task="novelty", learner=("idk",), t=20, test_size=0.1
        ).run(tmp_path / "run")
        check_metrics(tmp_path / "run")
        model = load_run(tmp_path / "run")
    assert read_json(tmp_path / "run" / "metrics.json")["learners"]["idk"]["value"] == [32, 32]
    scores = model.decision_function(X).ravel()
    assert scores[::50].mean() > np.quantile(np.delete(scores, np.arange(0, 400, 50)), 0.99)


def stream(folder: Path, file: Path, partitioner: str, block_rows: int, **more: Any) -> dict[str, Any]:
    """A run on a stream in this process; the command line knows only what is installed when it starts."""
    forget()
    params = Params.given(partitioner=partitioner, learners=("ogd",), t=7, psi=8, order="file", **more)
    with closing(RunDirectory(folder, {"params": params.as_json(), "data": {"label": None}, "online": {}})) as held:
        context = Context(InProcess(), held, params, Heard())
        how = Invocation("test", "", {"kind": "local", "workers": 1, "threads": 1}, dask_report=False)
        return run_online(context, ResolvedDataset("rows", str(file), None), how, OnlineParams(60, block_rows))


def test_a_stream(tmp_path: Path) -> None:
    with one_process():
        metrics = stream(tmp_path / "run", write_rows(tmp_path), BOTH, 3)
        check_metrics(tmp_path / "run")
    assert metrics["learners"]["ogd"]["rows"] == 180
    assert metrics["learners"]["ogd"]["accuracy"] > 0.6


def test_a_stream_with_a_map_that_grows(tmp_path: Path) -> None:
    bins, file = GrowingBins.about.name, write_rows(tmp_path)
    with one_process(), registered(GrowingBins):
        metrics = stream(tmp_path / "run", file, f"anne,{bins}", 3, bins=4)
        check_metrics(tmp_path / "run")
        out = str(tmp_path / "out.parquet")
        score_file(ScoreOptions(model=str(tmp_path / "run"), input=str(file), output=out))
        first = load_model(Store(tmp_path / "run" / "store.zarr"), f"partitions/{LABEL}", SideBySide)
        last = load_model(Store(tmp_path / "run" / "store.zarr"), f"grown/{LABEL}", SideBySide)
    assert last.parts[0].content_hash == first.parts[0].content_hash
    assert last.offsets[-1] > first.offsets[-1]
    assert metrics["learners"]["ogd"]["accuracy"] > 0.6
    assert pq.read_table(out).num_rows == 240


def test_cells_of_a_part_of_another_package_are_checked(request: pytest.FixtureRequest) -> None:
    X = np.random.default_rng(0).random((30, 3))

    record = {"t": 4, "anne.psi": 4, "growing-bins.bins": 4}
    one, _ = composed_of_record((Anne, GrowingBins), record)
    model = one.fit(Sample(30, 3, None, X.__getitem__, 0))
    assert isinstance(model, SideBySide)
    codes = model.cells(X).codes
    assert checked(model, codes) is codes
    bad = codes.copy()
    bad[7, 3] = 99
    with pytest.raises(InputError, match=r"package tests: its map gives cell 99 in partitioning 1, expected -1"):
        checked(model, bad)
    bad = codes.copy()
    bad[7, 1] = 99  # one of ours, which the tests check
    checked(model, bad)
    register(GrowingBins, "tests")
    request.addfinalizer(lambda: unregister(GrowingBins.about.name))
    cells = model.cells(X)
    bad = cells.codes.copy()
    bad[7, 3] = 99
    with pytest.raises(InputError, match=r"package tests: its map gives cell 99 in partitioning 3"):
        list(checked_path([((4, 4), [type(cells)(bad, cells.offsets)])], one.description.name))


@pytest.mark.slow
def test_two_workers_and_other_shards_give_the_same_bits(tmp_path: Path) -> None:
    file = write_rows(tmp_path)
    words = [
        "--input",
        str(file),
        "--partitioner",
        BOTH,
        "--t",
        "7",
    ]
    words += ["--psi", "8", "--anne.psi", "16", "--C", "1", "--learner", "svm,ogd", "--quiet"]
    hashes = []
    for k, more in enumerate((["--workers", "2", "--shard-rows", "64"], ["--workers", "1", "--shard-rows", "200"])):
        folder = tmp_path / str(k)
        with nullcontext() if more[1] == "2" else commands_in_this_process():
            assert run_command(flows.batch.main, [*words, "--run-dir", str(folder), *more]) == 0
        metrics = json.loads((folder / "metrics.json").read_text())
        hashes.append({name: (of["content_hash"], of["accuracy"]) for name, of in metrics["learners"].items()})
        if not k:  # A clock on the wall says what starting and ending workers took, beside the work.
            parts = [metrics["run"][name] for name in ("start_seconds", "seconds", "stop_seconds")]
            assert min(parts) > 0
            assert metrics["run"]["wall_seconds"] == pytest.approx(sum(parts))
    assert hashes[0] == hashes[1]
