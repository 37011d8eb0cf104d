"""Every learner of a run, on cells or rows: the same result however rows are stored, nothing seen that is held out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.options.batch import BatchOptions
from flows.runs.batch import batch_params
from ikmap.methods import (
    LEARNERS,
    Method,
    Sample,
    Shape,
    StreamLearner,
    WholeLearner,
    configured,
    parameter_of,
    search_of,
    value_of,
)
from ikmap.model import Model
from ikmap.model_selection import folds
from ikmap.seed_paths import PASSES
from ikmap.seeds import generator
from ikmap.tasks import CLASSIFICATION
from pipeline.errors import DoesNotFit, InputError
from pipeline.monitoring.events import QuietProgress
from pipeline.params import Params
from pipeline.record_types import SelectResult
from pipeline.rows.permutation import position_in_shuffle
from pipeline.rows.prepared import PreparedRows, count_targets
from pipeline.running.attempt import with_spent, without_spent
from pipeline.running.stage import Context
from pipeline.running.worker_memory import USABLE
from pipeline.runs.batch import run_batch
from pipeline.runs.metrics import Invocation, weights_of_loss
from pipeline.runs.new_data import open_data
from pipeline.runs.plan import DataSizes, make_plan
from pipeline.runs.score import score
from pipeline.runs.score_output import Output
from pipeline.runs.trained_model import open_run
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.stages import select_rows
from pipeline.stages.cells import cells
from pipeline.stages.evaluate import evaluate
from pipeline.stages.partition import partition
from pipeline.storage.durable import read_arrays, write_arrays
from pipeline.storage.fitted import Fitted
from pipeline.storage.models import load_model
from pipeline.storage.rundir import RunDirectory
from pipeline.training.train import train
from pipeline.training.whole_runner import Fitting, fit_rows, learn_model
from tests.support.calls import killed_at
from tests.support.in_process import InProcess, on_worker
from tests.support.metrics import check_metrics
from tests.support.narrow import entries
from tests.support.params_for import params_for
from tests.support.runs import context, points, sparse, store_rows
from tests.support.sizes import SmallSizes
from tests.support.watched_learners import watched

pytestmark = pytest.mark.slow

PSI = 8
SLOW = {"adaraker"}
"""Learners whose steps at eta = 0.5 are so small that in 240 rows they hardly leave zero."""
OF_CLASSES = [name for name, learner in LEARNERS.items() if "classification" in learner.about.tasks]
ON_ROWS = [name for name, learner in LEARNERS.items() if learner.about.on == "rows"]


def learned(
    path: Path, name: str, *, part_rows: int = 150, kind: str = "dense", classes: int = 2, **params: Any
) -> Any:
    """Train and evaluate one learner on 240 of 300 rows; return its run, model and results."""
    X, y = points(300, classes=classes)
    ctx = context(path, params_for(**{"learners": (name,), "t": 10, "psi": PSI, "C": 1.0, "decay": 1e-3, **params}))
    store_rows(ctx.store, X if kind == "dense" else sparse(X), y, rule="first", n_train=240, part_rows=part_rows)
    fitted = None
    if LEARNERS[name].about.on == "cells":
        fitted = Fitted(**partition(ctx, [PSI])["fitted"][0])
        cells(ctx, [fitted])
    result = train(ctx, name, fitted, ctx.params.value(name), 2)
    tested = evaluate(ctx, name, fitted, result["content_hash"])
    return ctx, load_model(ctx.store, f"models/{name}", Model, result["content_hash"]), result, tested


@pytest.mark.parametrize(
    ("name", "kind", "classes"),
    [
        *((name, "dense", 3) for name in OF_CLASSES),
        *((name, "sparse", 2) for name in OF_CLASSES if LEARNERS[name].about.on == "rows"),
        ("svm", "sparse", 2),
        ("svm", "dense", 2),
    ],
)
def test_every_learner_learns_the_same_however_rows_are_stored(
    name: str, kind: str, classes: int, tmp_path: Path
) -> None:
    # A run chooses le by cross-validation, which there is none of here.
    own: dict[str, Any] = {"le": 1.0} if name == "two-stage-gmm" else {}
    _, model, result, tested = learned(tmp_path / "a", name, kind=kind, classes=classes, **own)
    _, again, _, same = learned(tmp_path / "b", name, kind=kind, classes=classes, part_rows=113, **own)
    assert model.content_hash == again.content_hash == result["content_hash"]
    assert tested == same
    assert model.classes == list(range(classes))
    assert np.array(tested["confusion"]).shape == (classes, classes)
    least = 0.5 if classes == 3 else 0.75 if kind == "dense" else 0.6
    assert tested["accuracy"] > (0.3 if name in SLOW else least)


@pytest.mark.parametrize("order", ["file", "shuffled"])
def test_an_online_learner_takes_rows_in_the_order_that_is_asked_for(order: str, tmp_path: Path) -> None:
    ctx, model, _, _ = learned(tmp_path, "kernel-ogd", order=order)
    X, y, *_ = PreparedRows(ctx.store, "train").read(0, 240)
    assert isinstance(X, np.ndarray)
    sample = Sample(240, X.shape[1], CLASSIFICATION.of([0, 1]), lambda numbers: X[numbers], ctx.params.seed)
    state = ctx.params.learner_as(StreamLearner, "kernel-ogd", PSI).start(sample)
    rows = np.arange(240)
    if order == "shuffled":
        rows = generator(ctx.params.seed, PASSES, 0).permutation(rows.astype(np.int32))
    state.partial_fit(X[rows], y[rows])
    assert state.model([0, 1]).coef.tobytes() == model.coef.tobytes()


def test_an_interrupted_pass_goes_on_from_its_checkpoint(tmp_path: Path, small_sizes: SmallSizes) -> None:
    small_sizes.learning_blocks(60, 1)
    uninterrupted, whole, _, _ = learned(tmp_path / "whole", "kernel-ogd")
    with killed_at(write_arrays, 2, end=True):  # a checkpoint
        learned(tmp_path / "killed", "kernel-ogd")
    (checkpoint,) = (tmp_path / "killed").rglob("checkpoint.npz")
    arrays, spent = without_spent(read_arrays(checkpoint))
    write_arrays(checkpoint, with_spent(arrays, {**spent, "seconds": 1000.0}))
    ctx = context(tmp_path / "killed", params_for(t=10, psi=PSI, C=1.0))
    result = train(ctx, "kernel-ogd", None, ctx.params.value("kernel-ogd"))
    assert result["content_hash"] == whole.content_hash
    records = [entries(each.run.stage("train:kernel-ogd"))["record"] for each in (uninterrupted, ctx)]
    assert records[1]["bytes_read"] >= records[0]["bytes_read"] > 0
    assert [record["workers"][0]["seconds_busy"] > 1000.0 for record in records] == [False, True]
    assert not list((tmp_path / "killed").rglob("checkpoint.npz"))


@pytest.mark.parametrize("learner", ["kernel-ogd", "kernel-svm"])
def test_pr5_cross_validation_never_builds_on_held_out_rows(learner: str, tmp_path: Path) -> None:
    X, y = points(100)
    seen: list[np.ndarray] = []
    with watched(learner, seen) as name:
        ctx = context(tmp_path, params_for(learners=(name,)))
        store_rows(ctx.store, X, y)
        for k, (_, held_out) in enumerate(folds(100, ctx.params.seed)):
            seen.clear()
            select_rows.score_rows(ctx.store, ctx.params, name, [8], k, 100)
            assert seen
            hidden = {row.tobytes() for row in X[held_out]}
            assert not any(row.tobytes() in hidden for rows in seen for row in rows)


def test_cross_validation_chooses_the_best_value_and_of_equals_the_smallest(tmp_path: Path) -> None:
    from pipeline.stages.select import select

    ctx = context(tmp_path, params_for(t=5, psi="auto", learners=("kernel-ogd", "kernel-svm"), gamma="psi"))
    store_rows(ctx.store, *points(120))
    found = select(ctx)
    assert found["chosen"] == {}
    for name in ("kernel-ogd", "kernel-svm"):
        tuned = found["tuned"][name]
        assert tuned["parameter"] == "psi"
        assert tuned["values"] == [4, 8, 16, 32, 64]
        accuracy = entries(tuned)["accuracy"]
        assert tuned["chosen"] == tuned["values"][accuracy.index(max(accuracy))]


def test_what_is_searched_and_what_is_given() -> None:
    def asked(name: str, given: dict[str, Any]) -> tuple[Method, frozenset[str]]:
        if name not in LEARNERS:
            return configured(name, given)
        params = Params.given(learners=(name,), **given)
        return params.of(name), params.searched(name)

    def searched(name: str, **given: Any) -> str | None:
        search = search_of(*asked(name, given), 1000)
        return None if search is None else search.parameter

    def given(name: str, **given: Any) -> Any:
        return value_of(*asked(name, given))

    assert searched("kernel-svm", gamma="auto") == "gamma"
    assert searched("kernel-svm") == "psi"
    assert searched("anne") == searched("iforest") == "psi"
    assert searched("anne", psi=4) is None
    assert searched("svm") is None
    assert searched("chi2-svm") is None
    assert given("kernel-svm", gamma=0.25) == 0.25
    assert given("kernel-svm", psi=16) == given("anne", psi=16) == 16
    assert parameter_of(*asked("chi2-linear", {})) == ""


def test_negative_values_are_refused_by_chi_square(tmp_path: Path) -> None:
    """By file and row there, whatever the split and the parts."""
    X, y = points(60)
    X[13:, 1] = -0.5
    ctx = context(tmp_path, params_for())
    store_rows(ctx.store, X, y, rule="shuffle", n_train=48, part_rows=7)
    in_training = position_in_shuffle(np.arange(60), 60, 0) < 48
    for side, of_file in (("train", np.flatnonzero(in_training)), ("test", np.flatnonzero(~in_training))):
        rows = PreparedRows(ctx.store, side)
        assert [rows.where(row) for row in range(rows.n_rows)] == [f"{side}: row {number + 1}" for number in of_file]
    number = 1 + next(int(row) for row in np.flatnonzero(in_training) if row >= 13)
    expected = rf"^train: row {number}, feature 2: found -0\.5, expected a value >= 0 .*--scale minmax\)$"
    for name in ("chi2-svm", "chi2-linear"):
        with pytest.raises(InputError, match=expected):
            train(ctx, name, None)


def test_C_is_told_of_each_learner() -> None:
    """Those on cells have another default than all others; chosen ones go first."""
    learners = ("svm", "logistic", "ogd", "chi2-svm", "kernel-svm")
    both = {"svm": 5.0, "logistic": 5.0, "chi2-svm": 1.0, "kernel-svm": 1.0}
    assert weights_of_loss(params_for(learners=learners, psi=8), None) == both
    assert weights_of_loss(params_for(learners=learners, C=3.0), None) == dict.fromkeys(both, 3.0)
    searched: SelectResult = {"rows": 9, "folds": 5, "search": "race", "chosen": {}}
    chosen: SelectResult = {**searched, "chosen_C": {"svm": 2.0, "logistic": 0.5}}
    found = weights_of_loss(params_for(learners=learners, C="auto"), chosen)
    assert found == {**both, "svm": 2.0, "logistic": 0.5}
    assert weights_of_loss(params_for(learners=("ogd", "kernel-ogd")), searched) == {}


@pytest.mark.parametrize(("name", "least"), [("kernel-svm", 8 * 4000**2), ("kernel-ogd", 40_000)])
def test_a_learner_that_cannot_fit_is_refused_by_name(name: str, least: int, tmp_path: Path) -> None:
    sizes = DataSizes(40_000, 10, 500, 4_000_000, 1, dense=False)
    plan = make_plan(params_for(learners=(name,)), 8, sizes, workers=1)
    assert plan.worker_bytes > least
    plan.check(int(plan.worker_bytes / USABLE) + 1, tmp_path)
    with pytest.raises(InputError, match=f"training {name} would need about .* without {name}$"):
        plan.check(int(plan.worker_bytes / USABLE) - 1, tmp_path)


def test_a_kernel_svm_with_too_many_support_vectors_is_refused(tmp_path: Path, small_sizes: SmallSizes) -> None:
    """Their number is not known before, but foreseen from the first few; a limit that suffices changes nothing."""
    from pipeline.running import worker_memory as memory

    small_sizes.working_set(100)
    X, y = points(1000)
    y = np.where(np.arange(1000) % 3 == 0, 1 - y, y)
    ctx = context(tmp_path, params_for())
    store_rows(ctx.store, X, y)
    shape, svm = Shape(1000, X.shape[1], None, 1), ctx.params.learner_as(WholeLearner, "kernel-svm", 16)

    def limit(rows: int) -> int:
        needed = memory.PROCESS_BYTES + svm.memory(shape, rows)
        return int(needed / memory.USABLE) + 1

    assert memory.worker_limit() is None
    fitting = Fitting(ctx.store, ctx.params, "kernel-svm", None, 16, CLASSIFICATION.of([0, 1]))
    without_limit = fit_rows(fitting, 1)
    with on_worker(limit(1000)):
        assert fit_rows(fitting, 1)["content_hash"] == without_limit["content_hash"]
    message = r"^training kernel-svm would need about .* without kernel-svm$"
    with on_worker(limit(150)), pytest.raises(DoesNotFit, match=message):
        fit_rows(fitting, 1)


def test_a_map_of_a_sum_that_is_too_large_is_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ikmap.methods.forest.MOST_BYTES", 1000)
    message = r"^--learner stacking: --partitioner forest: .* give fewer --t or a smaller --psi, or "
    for base_models in ("forest:16:8", "forest:16:8@1"):  # by folds; and each model by a task of its own
        ctx = context(tmp_path / base_models[-1], params_for(learners=("stacking",), t=3, base_models=base_models))
        store_rows(ctx.store, *points(60))
        fitting = Fitting(ctx.store, ctx.params, "stacking", None, None, CLASSIFICATION.of([0, 1]))
        with pytest.raises(DoesNotFit, match=message):
            fit_rows(fitting, 1) if fitting.separate is None else learn_model(fitting, 1, 0)


def test_classes_are_counted_from_labels_alone(tmp_path: Path) -> None:
    X, y = points(100, classes=3)
    ctx = context(tmp_path)
    store_rows(ctx.store, X, y, rule="shuffle", n_train=70, part_rows=33)
    labels = PreparedRows(ctx.store, "train").read(0, 70).y
    assert count_targets(ctx.store)["counted"] == {"class_counts_train": np.bincount(labels, minlength=3).tolist()}


def test_gaussian_kernels_need_a_width_of_their_own() -> None:
    with pytest.raises(InputError, match="--gamma psi: found --kernel gaussian, expected laplacian"):
        BatchOptions(kernel="gaussian", gamma="psi", learner=("kernel-ogd",))
    params = batch_params(BatchOptions(kernel="gaussian", gamma=0.5, learner=("kernel-ogd",)))
    assert params.of("kernel-ogd").value_at("kernel.gamma") == params.methods["gaussian"]["gamma"] == 0.5


def test_a_run_without_cells_end_to_end(tmp_path: Path) -> None:
    """Choosing, training, metrics by the schema, scoring; no partitioning and no cells."""
    X, y = points(400)
    for name, rows in (("train", slice(0, 300)), ("test", slice(300, 400))):
        np.save(tmp_path / f"{name}.npy", np.c_[y[rows], X[rows]])
    client: Any = InProcess()
    asked = params_for(learners=("kernel-ogd", "kernel-svm"), t=10, psi="auto", C=1.0)
    folder = tmp_path / "run"
    data = ResolvedDataset("clouds", str(tmp_path / "train.npy"), str(tmp_path / "test.npy"), label=0)
    directory = RunDirectory(folder, {"params": asked.as_json(), "data": {"label": 0}})
    invocation = Invocation("a command", "", {"kind": "local", "workers": 2, "threads": 2})
    metrics = run_batch(Context(client, directory, asked, QuietProgress()), data, invocation)
    directory.close()
    written = json.loads((folder / "metrics.json").read_text())
    check_metrics(folder)
    assert not {"partition", "cells"} & {stage["name"] for stage in written["stages"]}
    assert written["data"]["class_counts_train"] == np.bincount(y[:300].astype(int)).tolist()
    model = open_run(str(folder), "kernel-svm")
    with Output(str(tmp_path / "scored.parquet")) as output:
        found = score(client, model, open_data(model, str(tmp_path / "test.npy"), label=0), output, QuietProgress())
    assert found["accuracy"] == metrics["learners"]["kernel-svm"]["accuracy"]
    assert (folder / "report.html").stat().st_size > 0
