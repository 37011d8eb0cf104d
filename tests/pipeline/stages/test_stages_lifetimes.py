"""Runs whose map has a lifetime: found by sweeps and by the grid, kept after kills, scored on new rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from ikmap.tasks import CLASSIFICATION
from pipeline.errors import DoesNotFit, InputError
from pipeline.params import Params
from pipeline.report import render_report
from pipeline.running.stage import Context
from pipeline.running.worker_memory import USABLE
from pipeline.runs.batch import run_batch, run_identity
from pipeline.runs.metrics import Invocation
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.sources.datasets.spec import Split
from pipeline.stages import fit_parts, select, sweep_stored
from pipeline.storage.rundir import RunDirectory
from tests.support.calls import killed_at
from tests.support.in_process import InProcess, on_worker
from tests.support.metrics import check_metrics
from tests.support.one_process import Heard, forget, one_process, results
from tests.support.sizes import SmallSizes

HERE = {"kind": "local", "workers": 1, "threads": 1}


def rows(folder: Path, classes: bool) -> Path:
    rng = np.random.default_rng(4)
    X = rng.random((160, 2)) * 10
    y: Any = np.sin(X[:, 0]) + 0.2 * X[:, 1]
    y = np.where(y > 1, "yes", "no") if classes else y.round(3)
    lines = ["a,b,label", *(f"{a:.4f},{b:.4f},{label}" for (a, b), label in zip(X, y, strict=True))]
    file = folder / f"rows-{classes}.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def run(path: Path, file: Path, *learners: str, heard: Heard | None = None, **options: Any) -> dict[str, Any]:
    forget()
    params = Params.given(**{"partitioner": "mondrian", "learners": learners, "t": 5, "cv_rows": 120, **options})
    data = ResolvedDataset("rows", str(file), None, split=Split(fraction=0.75))
    with closing(RunDirectory(path, run_identity(params.as_json(), data, []))) as held:
        context = Context(InProcess(), held, params, heard or Heard())
        return run_batch(context, data, Invocation("test", "", HERE, dask_report=False))


@pytest.mark.slow
def test_regression_finds_lifetime_and_C_by_sweeps(tmp_path: Path) -> None:
    file, heard = rows(tmp_path, classes=False), Heard()
    with one_process():
        metrics = run(tmp_path / "run", file, "ridge", heard=heard)
        fixed = run(tmp_path / "fixed", file, "ridge", C=8.0)
    check_metrics(tmp_path / "run")
    check_metrics(tmp_path / "fixed")
    selection = metrics["selection"]
    swept = selection["swept"]["ridge"]
    assert metrics["learners"]["ridge"]["value"] == swept["chosen"] == selection["chosen"]["ridge"]
    by_C = swept["r2_by_C"]
    assert by_C[f"{selection['chosen_C']['ridge']:g}"] == max(by_C.values()) == max(swept["r2"])
    assert metrics["learners"]["ridge"]["alpha"] == 1 / (2 * selection["chosen_C"]["ridge"])
    assert len(swept["log_likelihood"]) == len(swept["values"])
    assert metrics["learners"]["ridge"]["r2"] > 0.7
    assert "chosen_C" not in fixed["selection"]
    assert any(
        "sweeps lifetime up to" in line and "for each C of 0.03125 to 2048, for ridge" in line for line in heard.lines
    )
    assert any(", with C " in line for line in heard.lines)
    assert "one sweep over all values" in render_report(metrics)


@pytest.mark.slow
def test_classification_by_sweeps_and_by_the_grid_also_after_a_kill(tmp_path: Path) -> None:
    file, learners = rows(tmp_path, classes=True), ("svm", "logistic", "ogd")
    with one_process():
        metrics = run(tmp_path / "whole", file, *learners)
        for at in (3, 13):  # among the sweeps, and in the grid
            with killed_at(select.score, at + 1):
                run(tmp_path / f"killed-{at}", file, *learners)
            run(tmp_path / f"killed-{at}", file, *learners)
            assert results(tmp_path / f"killed-{at}") == results(tmp_path / "whole")
    check_metrics(tmp_path / "whole")
    assert metrics["selection"]["swept"].keys() == {"svm", "logistic"}
    assert metrics["selection"]["chosen"].keys() == set(learners)
    larger = max(metrics["data"]["class_counts_train"]) / metrics["data"]["rows_train"]
    for name in learners:
        assert metrics["learners"][name]["accuracy"] > larger + 0.1


@pytest.mark.slow
def test_sweeps_over_rows_that_are_stored_also_after_kills(tmp_path: Path, small_sizes: SmallSizes) -> None:
    """As with more rows than fit in memory: trees in parts, cells in the store, each sweep block by block."""
    file = rows(tmp_path, classes=False)
    options: dict[str, Any] = {"t": 20, "C": 8.0}
    with one_process():
        in_memory = run(tmp_path / "memory", file, "ridge", **options)
        small_sizes.trees_in_parts(50)
        metrics = run(tmp_path / "whole", file, "ridge", **options)
        places: dict[Callable[..., Any], int] = {fit_parts.fit_part: 2, sweep_stored.map_swept: 1, select.score: 1}
        for where, call in places.items():
            folder = tmp_path / f"killed-{where.__name__}"
            with killed_at(where, call):
                run(folder, file, "ridge", **options)
            run(folder, file, "ridge", **options)
            assert results(folder) == results(tmp_path / "whole")
    check_metrics(tmp_path / "whole")
    assert {path.name for path in (tmp_path / "whole" / "store.zarr").iterdir()} == {
        path.name for path in (tmp_path / "memory" / "store.zarr").iterdir()
    }
    for found in (metrics, in_memory):
        assert found["selection"]["swept"]["ridge"]["chosen"] == found["learners"]["ridge"]["value"]
        assert found["learners"]["ridge"]["r2"] > 0.7
    parts = [stage["tasks"] for stage in metrics["stages"] if stage["name"] == "partition"]
    assert parts == [20 // 8 + 2]


@pytest.mark.slow
def test_random_binning_has_a_grid(tmp_path: Path) -> None:
    with one_process():
        metrics = run(tmp_path / "run", rows(tmp_path, classes=True), "svm", partitioner="binning", t=20)
    assert "swept" not in metrics["selection"]
    assert len(metrics["selection"]["lifetime"]) == 9
    assert metrics["selection"]["chosen"]["svm"] in metrics["selection"]["lifetime"]
    assert metrics["learners"]["svm"]["accuracy"] > 0.75


def test_nothing_to_choose_by_is_said() -> None:
    with pytest.raises(InputError, match=r"--lifetime auto: found --learner idk, .* as --lifetime 1$"):
        Params.given(partitioner="mondrian", learners=("idk",))
    params = Params.given(partitioner="mondrian", learners=("idk",), lifetime=2.0)
    assert params.map.value_at("lifetime") == 2.0


def test_a_sweep_is_refused_whose_weights_do_not_fit() -> None:
    """Beside trees that do, and with what to type."""
    X = np.random.default_rng(0).random((400, 2))
    params = Params.given(partitioner="mondrian", learners=("svm",), t=5)
    few, many = CLASSIFICATION.of([0, 1]), CLASSIFICATION.of(list(range(10_000)))
    used = psutil.Process().memory_info().rss
    with on_worker(int((used + 5 * 400 * 150_000) / USABLE)):
        fit_parts.refuse_too_large(params, 1e6, X)
        fit_parts.refuse_too_large(params, 1e6, X, few)
        with pytest.raises(DoesNotFit) as refused:
            fit_parts.refuse_too_large(params, 1e6, X, many)
        longest = float(str(refused.value).partition("give --lifetime ")[2].partition(",")[0])
        fit_parts.refuse_too_large(params, longest, X, many)
    assert re.match(
        r"--lifetime auto: a sweep over 5 Mondrian trees on 400 rows to 1e\+06 would take more than the (29|30)\d MB",
        str(refused.value),
    )
