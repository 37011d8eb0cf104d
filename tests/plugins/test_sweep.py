"""A sweep chooses its map's own option: throwaway methods, which nothing but their own file knows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ikmap.learners.rows import Block
from ikmap.methods import Sample, Swept, Training
from ikmap.methods.checks import check_method
from ikmap.model_selection import FOLDS, folds
from ikmap.tasks import CLASSIFICATION, Task, criterion_of
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.report import render_report
from pipeline.running.stage import Context
from pipeline.runs.batch import run_batch, run_identity
from pipeline.runs.metrics import Invocation
from pipeline.runs.new_data import open_data
from pipeline.runs.score import score
from pipeline.runs.score_output import Output
from pipeline.runs.trained_model import open_run
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.sources.datasets.spec import Split
from pipeline.stages import select, select_sweeps
from pipeline.stages.select import searches
from pipeline.stages.select_cells import cell_learners
from pipeline.stages.select_sweeps import POINTS, best_of_sweep
from pipeline.storage.rundir import RunDirectory
from tests.plugins import registered
from tests.plugins.sweeping import LIMIT, ArrivingCuts, SweptBayes
from tests.support.calls import counted, killed_at
from tests.support.in_process import InProcess
from tests.support.metrics import check_metrics
from tests.support.one_process import Heard, forget, one_process, results, write_rows
from tests.support.sizes import SmallSizes

pytestmark = pytest.mark.slow

CUTS, SWEPT = ArrivingCuts.about.name, SweptBayes.about.name
HERE = {"kind": "local", "workers": 1, "threads": 1}


@pytest.fixture(autouse=True)
def _known(small_sizes: SmallSizes) -> Iterator[None]:
    small_sizes.learning_blocks(16)
    with registered(ArrivingCuts, SweptBayes):
        yield


def asked(learners: tuple[str, ...], **options: Any) -> Params:
    return Params.given(
        **{"partitioner": CUTS, "learners": learners, "t": 5, "cv_rows": 150, "select_by": "accuracy", **options}
    )


def run(path: Path, file: Path, *learners: str, heard: Heard | None = None, **options: Any) -> dict[str, Any]:
    forget()
    params = asked(learners, **options)
    data = ResolvedDataset("rows", str(file), None, split=Split(fraction=0.75))
    with closing(RunDirectory(path, run_identity(params.as_json(), data, []))) as held:
        context = Context(InProcess(), held, params, heard or Heard())
        return run_batch(context, data, Invocation("test", "", HERE, dask_report=False))


def points(n: int = 120) -> tuple[np.ndarray, np.ndarray, Task]:
    rng = np.random.default_rng(7)
    X = rng.random((n, 4))
    y = ((X[:, 0] * 5).astype(np.int32) + (X[:, 1] > 0.5)) % 3
    return X, y.astype(np.int32), CLASSIFICATION.of([0, 1, 2])


def test_the_sweep_is_at_every_value_the_map_of_that_value() -> None:
    X, _, _ = points()
    cuts = ArrivingCuts(t=5)
    sample = Sample(80, X.shape[1], None, X[:80].__getitem__, 3)
    start, splits = cuts.events(LIMIT, sample, [X[:80], X[80:]])
    codes = [cells.codes.copy() for cells in start]
    n_splits = 0
    for split in splits:
        split.apply(codes)
        there = cuts.at({"lifetime": split.value}).fit(sample)
        np.testing.assert_array_equal(codes[0], there.cells(X[:80]).codes)
        np.testing.assert_array_equal(codes[1], there.cells(X[80:]).codes)
        n_splits += 1
        assert there.offsets[-1] == cuts.t + n_splits
    assert n_splits > 15
    assert len(set(np.diff(there.offsets))) > 1  # ragged


def slowly(X: np.ndarray, y: np.ndarray, task: Any, fit: np.ndarray, held_out: np.ndarray, seed: int) -> Any:
    """Values and totals of a sweep by the definition: for every value the map is fitted, and all is learned anew."""
    sample = Sample(fit.size, X.shape[1], None, X[fit].__getitem__, seed)
    cuts, bayes = ArrivingCuts(t=5), SweptBayes()
    _, splits = cuts.events(LIMIT, sample, [])
    for split in splits:
        model = cuts.at({"lifetime": split.value}).fit(sample)
        training = Training(Block(model.cells(X[fit]), y[fit]), task.codec.classes, seed, task=task)
        learned: Any = bayes.fit(training)[0]
        predicted = task.decisions.predict(learned.decision_function(model.cells(X[held_out])))
        yield Swept(split.value, float(criterion_of(task).row_scores(y[held_out], predicted).sum()))


def test_the_totals_of_a_sweep_are_those_of_learning_anew_at_every_value() -> None:
    X, y, task = points()
    fit, held_out = folds(len(X), 3)[0]
    sample = Sample(fit.size, X.shape[1], None, X[fit].__getitem__, 3)
    (training, tested), splits = ArrivingCuts(t=5).events(LIMIT, sample, [X[fit], X[held_out]])
    found = list(
        SweptBayes().sweep(
            Training(Block(training, y[fit]), task.codec.classes, 3, task=task),
            Block(tested, y[held_out]),
            splits,
        )
    )
    assert found == list(slowly(X, y, task, fit, held_out, 3))
    assert len({point.total for point in found}) > 3


def test_a_sweep_takes_the_smallest_of_the_best_values_and_keeps_some() -> None:
    _, _, task = points()
    curve = [(1.0, 3), (2.0, 9), (2.0, 5), (3, 7), (4.5, 7)]
    found = best_of_sweep([Swept(*point) for point in curve], task, 10, "x")
    assert found == {"values": [1.0, 2.0, 3, 4.5], "accuracy": [0.3, 0.5, 0.7, 0.7], "tried": 4, "chosen": 3}
    many = best_of_sweep((Swept(0.1 * k, 1 - abs(k - 54_321) / 1e6) for k in range(1, 100_000)), task, 1, "x")
    assert many["tried"] == 99_999
    assert many["chosen"] == 0.1 * 54_321
    assert many["chosen"] in many["values"]
    assert 100 < len(many["values"]) <= POINTS + 2
    falling = [Swept(2.0, 1), Swept(1.0, 1)]
    nothing: list[Swept] = []
    strayed = [Swept(1.0, 3), Swept(2.0, float("nan"))]
    for swept, message in (
        (falling, "value 1 after 2"), (nothing, "no cell has split"), (strayed, "a score that is not a number"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=message):
            best_of_sweep(swept, task, 10, "x")


def test_a_map_without_a_sweep_is_searched_by_its_grid() -> None:
    assert searches(asked((SWEPT,), partitioner="anne", psi="auto")) == ["psi"]
    assert cell_learners(asked((SWEPT,), partitioner="anne", psi="auto")) == (SWEPT,)
    assert cell_learners(asked((SWEPT,))) == ()
    assert searches(asked((SWEPT,), partitioner="anne", psi=8)) == []  # then there is nothing to choose
    assert searches(asked((SWEPT,), lifetime=2.0)) == []
    assert searches(asked((SWEPT, "ogd"))) == ["lifetime"]


@pytest.mark.parametrize("one", [ArrivingCuts, SweptBayes], ids=lambda one: one.about.name)
def test_it_passes_the_checks_of_all_methods(one: Any) -> None:
    assert check_method(one) == []


def test_a_run_chooses_by_the_sweep_beside_a_grid_also_after_a_kill(tmp_path: Path) -> None:
    file = write_rows(tmp_path)
    learners = (SWEPT, "ogd")
    with one_process():
        metrics = run(tmp_path / "whole", file, *learners)
        run(tmp_path / "other", file, *learners, shard_rows=64)
        for at in (0, 1, 2):  # killed in the sweep, after it, and within the grid
            with killed_at(select.score, at + 1):
                run(tmp_path / f"killed-{at}", file, *learners)
            with counted(select_sweeps.best_of_sweep) as sweeps:
                again = run(tmp_path / f"killed-{at}", file, *learners)
            assert sweeps.number == (at == 0)  # what the sweep found is not found again
            assert again["selection"] == metrics["selection"]
            assert results(tmp_path / f"killed-{at}") == results(tmp_path / "whole")
    assert results(tmp_path / "other") == results(tmp_path / "whole")
    check_metrics(tmp_path / "whole")

    selection = metrics["selection"]
    swept = selection["swept"][SWEPT]
    assert selection["parameter"] == swept["parameter"] == "lifetime"
    assert selection["chosen"] == {SWEPT: swept["chosen"], "ogd": selection["chosen"]["ogd"]}
    assert selection["lifetime"] == [1.5, 3.0, LIMIT]
    assert selection["chosen"]["ogd"] in selection["lifetime"]
    assert swept["chosen"] not in selection["lifetime"]  # between the values of the grid
    assert selection["accuracy"].keys() == {"ogd"}
    at = swept["values"].index(swept["chosen"])
    assert swept["accuracy"][at] == max(swept["accuracy"])
    assert swept["tried"] >= len(swept["values"]) > 10
    of = metrics["learners"][SWEPT]
    assert (of["parameter"], of["value"]) == ("lifetime", swept["chosen"])
    assert of["accuracy"] > 0.4
    page = render_report(metrics)
    assert f"best of {swept['tried']} tried" in page
    assert "for swept-bayes one sweep over all values, on one fold" in page


def test_a_run_of_nothing_but_a_sweep(tmp_path: Path) -> None:
    file, heard = write_rows(tmp_path), Heard()
    with one_process():
        metrics = run(tmp_path / "run", file, SWEPT, heard=heard, budget=1e-9)
        scored = score_run(tmp_path, file)
    assert scored["accuracy"] > 0.4
    check_metrics(tmp_path / "run")
    selection = metrics["selection"]
    assert "accuracy" not in selection
    assert selection["chosen"] == {SWEPT: selection["swept"][SWEPT]["chosen"]}
    said = [line for line in heard.lines if "sweep" in line]
    assert f"select: sweeps lifetime up to {LIMIT:g} for {SWEPT} on 150 rows, 1 of {FOLDS} held out" in said
    assert any(f"{selection['chosen'][SWEPT]:g} for {SWEPT}" in line for line in said)
    assert "Choice of" in render_report(metrics)


def score_run(folder: Path, file: Path) -> dict[str, Any]:
    forget()
    model, client = open_run(str(folder / "run"), SWEPT), InProcess()
    with Output(str(folder / "out.parquet")) as output:
        return score(client, model, open_data(model, str(file)), output, Heard())
