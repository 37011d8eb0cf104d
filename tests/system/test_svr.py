"""Support vector regression from the command line: chosen, trained, scored, by blocks, and after a kill."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from flows.options.batch import BatchOptions
from flows.options.score import ScoreOptions
from ikmap.learners.dual import cocoa
from ikmap.learners.linear_model import LinearModel
from pipeline.runs.trained import load_run
from pipeline.storage.durable import write_arrays
from pipeline.storage.models import MODELS, load_model
from pipeline.storage.store import Store
from pipeline.training.dual_tasks import store_model
from tests.support.calls import killed_at
from tests.support.metrics import check_metrics
from tests.support.one_process import Command, one_process, results, score_file


def write(path: Path, n: int = 360, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.random((n, 3)).round(6)
    y = (5000 + 40 * X[:, 0] - 30 * X[:, 1] ** 2 + 0.5 * rng.normal(size=n)).round(4)
    np.savetxt(path, np.column_stack([X, y]), delimiter=",", header="a,b,c,y", comments="", fmt="%.6f")
    return y


def command(file: Path, **options: Any) -> Command:
    return Command(
        BatchOptions(input=str(file), **{"task": "regression", "learner": ("svr",), "t": 12, "psi": 8, **options})
    )


def test_a_table(tmp_path: Path) -> None:
    write(tmp_path / "rows.csv")
    with one_process():
        metrics = command(tmp_path / "rows.csv", psi="auto", cv_rows=150).run(tmp_path / "run")
        check_metrics(tmp_path / "run")
        new = write(tmp_path / "new.csv", 90, seed=1)
        out = tmp_path / "out.parquet"
        score_file(ScoreOptions(model=str(tmp_path / "run"), input=str(tmp_path / "new.csv"), output=str(out)))
        loaded = load_run(tmp_path / "run", "svr")
    about = metrics["learners"]["svr"]
    assert metrics["selection"]["chosen_C"].keys() == {"svr"}
    assert about["converged"]
    assert 0 < about["duality_gap"] <= 1e-3
    assert 0.7 < about["r2"] < 1
    predicted = pq.read_table(out)["prediction"].to_numpy()
    assert np.abs(predicted - new).mean() < 0.5 * np.abs(new - new.mean()).mean()
    X = np.loadtxt(tmp_path / "new.csv", delimiter=",", skiprows=1)[:, :3]
    assert np.array_equal(loaded.predict(X), predicted)


def test_options_reach_the_solver_and_blocks_and_parts_find_the_same(tmp_path: Path) -> None:
    write(tmp_path / "rows.csv")
    asked = {"C": 2.0, "tol": 1e-6, "epsilon": 0.4, "svr_loss": "epsilon_insensitive"}
    with one_process():
        one = command(tmp_path / "rows.csv", **asked).run(tmp_path / "one")["learners"]["svr"]
        other = command(tmp_path / "rows.csv", **asked, solver="block").run(tmp_path / "block")["learners"]["svr"]
        parts = command(tmp_path / "rows.csv", **asked, solver="distributed", shard_rows=50)
        huge = parts.run(tmp_path / "huge")["learners"]["svr"]
        check_metrics(tmp_path / "huge")
        said = load_model(Store(tmp_path / "one" / "store.zarr"), f"{MODELS}/svr", LinearModel).params
    assert (one["solver"], other["solver"], huge["solver"]) == ("memory", "block", "distributed")
    assert one["objective"] == pytest.approx(other["objective"], rel=2e-6)
    assert one["objective"] == pytest.approx(huge["objective"], rel=2e-6)
    assert one["rmse"] == pytest.approx(huge["rmse"], rel=1e-2)
    assert (huge["parts"], huge["duality_gap"] <= 1e-6) == (8, True)
    assert one["n_support"] < 0.6 * 288  # errors up to epsilon cost nothing
    assert (said["epsilon"], said["loss"], said["C"]) == (0.4, "epsilon_insensitive", 2.0)


def by(solver: str) -> dict[str, Any]:
    return {"solver": solver, **({"parts": 3} if solver == "distributed" else {})}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Runs by a solver that nobody has killed, of shards of two sizes, which find the same; their folder."""

    @cache
    def made(solver: str) -> Path:
        folder = tmp_path_factory.mktemp(solver)
        write(folder / "rows.csv")
        with one_process():
            for run, more in (("whole", {}), ("other-shards", {"shard_rows": 70})):
                command(folder / "rows.csv", **by(solver), **more).run(folder / run)
        models = [
            load_model(Store(folder / run / "store.zarr"), f"{MODELS}/svr", LinearModel).coef
            for run in ("whole", "other-shards")
        ]
        assert np.array_equal(models[0], models[1])
        return folder

    return made


@pytest.mark.parametrize(
    ("solver", "where", "call"),
    [
        ("memory", store_model, 1),
        ("block", store_model, 1),
        ("distributed", write_arrays, 9),
        ("distributed", cocoa.improve, 5),
        ("distributed", store_model, 1),
    ],
)
def test_goes_on_after_a_kill(
    tmp_path: Path, undisturbed: Callable[[str], Path], solver: str, where: Callable[..., Any], call: int
) -> None:
    folder = undisturbed(solver)
    asked = command(folder / "rows.csv", **by(solver))
    with one_process():
        with killed_at(where, call):
            asked.run(tmp_path / "run")
        asked.run(tmp_path / "run")
    assert results(tmp_path / "run") == results(folder / "whole")
