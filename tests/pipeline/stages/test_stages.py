"""The stages one by one: exact cells, the same model however the work is cut, interrupted or spooled."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from ikmap.cells import Cells
from ikmap.learners.dual.linear_svm import fit_linear_svm
from ikmap.learners.linear_model import LinearModel
from ikmap.learners.online.ogd import OGDState
from ikmap.learners.rows import Block
from ikmap.methods.ogd import OGD
from ikmap.model_selection import CS, FOLDS
from ikmap.racing import Value
from ikmap.seed_paths import PASSES
from ikmap.seeds import generator
from pipeline.errors import Damaged, InputError
from pipeline.rows.block_sizes import PIECE_ROWS, learning_blocks, packed_row_bytes
from pipeline.rows.prepared import PreparedRows
from pipeline.running.stage import Context
from pipeline.stages.cells import cells, map_shard
from pipeline.stages.evaluate import evaluate
from pipeline.stages.partition import partition
from pipeline.stages.select import searches, select
from pipeline.stages.select_cells import score_cells
from pipeline.stages.select_rows import unpacked_rows
from pipeline.storage.durable import write_arrays
from pipeline.storage.fitted import Fitted
from pipeline.storage.lru_cache import PROCESS
from pipeline.storage.models import load_model, save_model
from pipeline.training import stream_runner
from pipeline.training.dual import DualRounds
from pipeline.training.dual_tasks import problem_of
from pipeline.training.rounds_runner import RoundsRunner
from pipeline.training.runner import TrainingJob
from pipeline.training.train import train
from tests.support.calls import counted, killed_at
from tests.support.in_process import InProcess
from tests.support.narrow import entries, number
from tests.support.params_for import params_for
from tests.support.runs import context, mapped, points, sparse, store_rows, training_cells
from tests.support.sizes import SmallSizes

pytestmark = pytest.mark.slow

ROWS = 5 * PIECE_ROWS // 2
"""Two and a half pieces of training rows: several blocks, where a block holds one piece."""


@pytest.fixture
def _small_blocks(small_sizes: SmallSizes) -> None:
    """One piece a block, as if cells were larger than memory."""
    small_sizes.learning_blocks(block_bytes=1)


def learner(ctx: Context, name: str, content_hash: str) -> LinearModel:
    return load_model(ctx.store, f"models/{name}", LinearModel, content_hash)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("partitioner", ["anne", "iforest"])
def test_cells_are_those_of_the_model_in_memory(partitioner: str, kind: str, tmp_path: Path) -> None:
    X, y = points(300, d=5, classes=3)
    rows = X if kind == "dense" else sparse(X)
    ctx = context(tmp_path, params_for(t=6, partitioner=partitioner, shard_rows=37))
    store_rows(ctx.store, rows, y, rule="shuffle", n_train=200, part_rows=90)
    found = partition(ctx, [16, 4, 16])["fitted"]
    assert [model["value"] for model in found] == [4, 16]
    fitted = [Fitted(**model) for model in found]
    result = cells(ctx, fitted)
    for side in ("train", "test"):
        features, labels, *_ = PreparedRows(ctx.store, side).read(0, PreparedRows(ctx.store, side).n_rows)
        for model in fitted:
            arrays = ctx.store.open_arrays(model.cells_name(side))
            expected = model.load(ctx.store).cells(features)
            assert np.array_equal(arrays["codes"][...], expected.codes)
            assert np.array_equal(arrays["labels"][...], labels)
        if side == "train":
            assert result["counted"]["class_counts_train"] == np.bincount(labels, minlength=3).tolist()


def test_a_shard_written_again_is_the_same(tmp_path: Path) -> None:
    ctx, fitted = mapped(tmp_path, 400, params_for(t=5, shard_rows=100))
    array = ctx.store.open_arrays(fitted.cells_name("train"))["codes"]
    before = np.array(array[...])
    map_shard(ctx.store, fitted, "train", 100, 200)
    assert np.array_equal(array[...], before)


def test_the_draw_does_not_depend_on_parts(tmp_path: Path) -> None:
    hashes = set()
    for part_rows in (10, 33, 500):
        ctx = context(tmp_path / str(part_rows), params_for(t=5))
        store_rows(ctx.store, *points(200), part_rows=part_rows)
        hashes.add(partition(ctx, [16])["fitted"][0]["content_hash"])
    assert len(hashes) == 1


def test_more_cells_than_rows_are_refused(tmp_path: Path) -> None:
    ctx = context(tmp_path, params_for(t=2))
    store_rows(ctx.store, *points(10))
    with pytest.raises(InputError, match="--psi 11: found 10 training rows"):
        partition(ctx, [4, 11])


def test_training_rows_of_one_class_are_refused(tmp_path: Path) -> None:
    X, y = points(40)
    ctx = context(tmp_path, params_for(t=2))
    store_rows(ctx.store, X, np.sort(y), rule="first", n_train=int((y == 0).sum()))
    fitted = [Fitted(**model) for model in partition(ctx, [4])["fitted"]]
    with pytest.raises(InputError, match="one class only"):
        cells(ctx, fitted)


@pytest.mark.parametrize("partitioner", ["anne", "iforest"])
def test_learners_do_without_the_partitionings(partitioner: str, tmp_path: Path) -> None:
    """They may be a gigabyte, and the workers that learn and evaluate need to know how many cells there are, only."""
    ctx, fitted = mapped(tmp_path, 100, params_for(t=3, partitioner=partitioner, C=1.0))
    assert np.array_equal(fitted.offsets(ctx.store), fitted.load(ctx.store).offsets)
    with pytest.raises(Damaged, match="not the model other"):
        replace(fitted, content_hash="other").offsets(ctx.store)

    for array in (tmp_path / "store.zarr" / fitted.name).iterdir():
        if array.is_dir():
            shutil.rmtree(array)
    PROCESS.forget()
    for name in ("svm", "ogd", "isolation-svm"):
        trained = train(ctx, name, fitted)
        assert number(evaluate(ctx, name, fitted, trained["content_hash"])["accuracy"]) > 0.5
    with pytest.raises(Damaged):
        map_shard(ctx.store, fitted, "train", 0, 10)


def reference_pass(ctx: Context, fitted: Fitted, classes: int) -> OGDState:
    """OGD block by block in memory, in the order that the stage documents."""
    codes, y = training_cells(ctx, fitted)
    offsets = fitted.load(ctx.store).offsets
    params = ctx.params
    state = OGDState.start(
        int(offsets[-1]), classes, eta=params.learner_as(OGD, "ogd", None).eta, divisor=float(params.t)
    )
    shuffled = params.order == "shuffled"
    for k, ranges in enumerate(learning_blocks(y.size, packed_row_bytes(offsets), params.seed, shuffled=shuffled)):
        rows = np.concatenate([np.arange(start, stop) for start, stop in ranges])
        if shuffled:
            rows = rows[generator(params.seed, PASSES, k).permutation(rows.size)]
        state.partial_fit(Cells(codes[rows], offsets), y[rows])
    return state


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("order", ["shuffled", "file"])
@pytest.mark.usefixtures("_small_blocks")
def test_ogd_visits_rows_in_the_order_it_says(
    order: str, classes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream_runner, "AT_ONCE", 1000)
    ctx, fitted = mapped(tmp_path, ROWS, params_for(t=7, order=order, seed=3), classes=classes)
    found = learner(ctx, "ogd", train(ctx, "ogd", fitted)["content_hash"])
    assert np.array_equal(found.coef, reference_pass(ctx, fitted, classes).weights)


@pytest.mark.usefixtures("_small_blocks")
def test_order_file_is_the_order_of_the_file(tmp_path: Path) -> None:
    """One pass over all rows in one go: blocks leave no trace."""
    ctx, fitted = mapped(tmp_path, ROWS, params_for(t=7, order="file"))
    result = entries(train(ctx, "ogd", fitted))
    codes, y = training_cells(ctx, fitted)
    offsets = fitted.load(ctx.store).offsets
    state = OGDState.start(int(offsets[-1]), 2, eta=0.5, divisor=7.0)
    predicted = state.partial_fit(Cells(codes, offsets), y).predicted
    assert np.array_equal(learner(ctx, "ogd", result["content_hash"]).coef, state.weights)
    assert result["updates"] == int(state.n_updates.sum())
    assert result["n_support"] == state.n_support
    rows = result["curve"]["rows"]
    assert rows[-1] == y.size
    right = np.cumsum(predicted == y)
    assert result["curve"]["accuracy"] == [round(right[end - 1] / end, 6) for end in rows]


class Killed(BaseException):
    """As sudden as a kill, but leaves the test alive."""


@pytest.mark.parametrize(
    ("moment", "order"),
    [
        *(("in block 0", "shuffled"), ("in block 1", "file")),
        *(("in the last block", "shuffled"), ("before the model is stored", "file")),
    ],
)
@pytest.mark.usefixtures("_small_blocks")
def test_ogd_goes_on_after_a_kill_to_the_same_bits(moment: str, order: str, tmp_path: Path) -> None:
    params = params_for(t=7, order=order, seed=1)
    whole, fitted = mapped(tmp_path / "whole", ROWS, params, classes=3)
    shutil.copytree(tmp_path / "whole", tmp_path / "killed")
    expected = train(whole, "ogd", fitted)
    ctx = context(tmp_path / "killed", params)
    last = (
        len(
            learning_blocks(
                PreparedRows(ctx.store, "train").n_rows, packed_row_bytes(fitted.load(ctx.store).offsets), 0
            )
        )
        - 1
    )
    assert last >= 1
    deadly = {"in block 0": 0, "in block 1": 1, "in the last block": last}.get(moment)
    with killed_at(save_model) if deadly is None else killed_at(OGDState.partial_fit, deadly + 1):
        train(ctx, "ogd", fitted)
    with counted(OGDState.partial_fit) as calls:
        found = train(ctx, "ogd", fitted)
    assert calls.number == last + 1 - (last if deadly is None else deadly)
    assert found == expected
    assert np.array_equal(
        learner(ctx, "ogd", found["content_hash"]).coef, learner(whole, "ogd", expected["content_hash"]).coef
    )
    assert not list((tmp_path / "killed" / "records").rglob("*checkpoint*"))


def test_a_checkpoint_is_replaced_in_one_step(tmp_path: Path) -> None:
    path = str(tmp_path / "checkpoint.npz")
    write_arrays(path, {"x": np.arange(3)})
    with killed_at(np.lib.format.write_array, 2):  # the first is in the new file
        write_arrays(path, {"x": np.arange(4), "y": np.arange(5)})
    with np.load(path) as saved:
        assert saved["x"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("loss", ["squared_hinge", "hinge", "logistic"])
@pytest.mark.usefixtures("_small_blocks")
def test_training_by_blocks_reaches_the_same_objective_and_the_same_bits_in_memory_and_from_a_file(
    loss: str, tmp_path: Path, small_sizes: SmallSizes
) -> None:
    name = "logistic" if loss == "logistic" else "svm"
    params = params_for(t=7, loss="squared_hinge" if loss == "logistic" else loss, C=1.0, tol=1e-3, solver="block")
    ctx, fitted = mapped(tmp_path / "mapped", ROWS, params)
    codes, y = training_cells(ctx, fitted)
    at_once = fit_linear_svm([Block(Cells(codes, fitted.load(ctx.store).offsets), y)], 2, problem_of(params, name))

    def trained(folder: str, client: Any) -> tuple[Mapping[str, Any], int]:
        shutil.copytree(tmp_path / "mapped", tmp_path / folder)
        ctx = context(tmp_path / folder, params, client=client)
        found = entries(train(ctx, name, fitted))
        assert found["converged"]
        assert found["duality_gap"] <= 1e-3
        assert found["objective"] == pytest.approx(float(at_once.primal[0]), rel=1e-3)
        stage = ctx.run.stage(f"train:{name}")
        assert stage is not None
        return found, stage["record"]["bytes_read"]

    large, _ = trained("large", InProcess())
    small_sizes.solver_blocks(visit=1000)
    in_memory, read = trained("memory", InProcess())
    in_file, read_again = trained("file", InProcess(memory_limit=1))
    assert in_memory["content_hash"] == in_file["content_hash"] != large["content_hash"]
    assert read < read_again  # the file too


@pytest.mark.parametrize("groups", [1, 2, 16])
def test_groups_of_classes_give_what_all_at_once_give(groups: int, tmp_path: Path) -> None:
    class InGroups(DualRounds):
        most_tasks: ClassVar[int] = groups
        lanes: ClassVar[int] = 2

    params = params_for(t=9, class_weight="balanced")
    ctx, fitted = mapped(tmp_path, 600, params, classes=5)
    result = entries(RoundsRunner(InGroups).train(TrainingJob(ctx, "svm", fitted)))
    found = learner(ctx, "svm", result["content_hash"])
    codes, y = training_cells(ctx, fitted)
    fit = fit_linear_svm(
        [Block(Cells(codes, fitted.load(ctx.store).offsets).packed(), y)], 5, problem_of(params, "svm")
    )
    assert np.array_equal(found.coef, fit.coef)
    assert np.array_equal(found.intercept, fit.intercept)
    assert result["objective"] == pytest.approx(float(fit.primal.sum()), rel=1e-12)
    assert result["duality_gap"] == fit.gap.max()
    assert result["iterations"] == fit.n_iter.max()
    # The solutions of the groups are not kept.
    assert ctx.store.attributes("models/svm-solved/000") is None
    assert not list((tmp_path / "store.zarr" / "models" / "svm-solved").glob("*/coef"))


def test_a_learner_that_does_not_converge_says_so(tmp_path: Path) -> None:
    said: list[str] = []
    ctx, fitted = mapped(tmp_path, 400, params_for(t=5, C=1e4, tol=1e-13))
    ctx.events.message = said.append  # type: ignore[assignment, method-assign]
    result = train(ctx, "svm", fitted)
    assert not result["converged"]
    assert len(said) == 1
    assert said[0].startswith("svm: duality gap")


@pytest.mark.parametrize("name", ["svm", "ogd", "logistic"])
def test_evaluation_counts_every_test_row(name: str, tmp_path: Path) -> None:
    ctx, fitted = mapped(tmp_path, 500, params_for(t=9, shard_rows=37), classes=3)
    trained = train(ctx, name, fitted)
    found = evaluate(ctx, name, fitted, trained["content_hash"])
    rows = PreparedRows(ctx.store, "test")
    X, y, *_ = rows.read(0, rows.n_rows)
    model = learner(ctx, name, trained["content_hash"])
    predicted = model.predict_index(fitted.load(ctx.store).cells(X))
    confusion = np.zeros((3, 3), dtype=int)
    np.add.at(confusion, (y, predicted), 1)
    assert found["confusion"] == confusion.tolist()
    assert found["accuracy"] == (predicted == y).mean()
    assert found["labels"] == [0, 1, 2]


@pytest.mark.parametrize("partitioner", ["anne", "iforest"])
def test_selection_takes_the_best_and_the_smaller_of_equals(partitioner: str, tmp_path: Path) -> None:
    params = params_for(t=7, partitioner=partitioner, cv_rows=100, learners=("svm", "ogd"), search="full")
    ctx = context(tmp_path, params)
    store_rows(ctx.store, *points(300, classes=3))
    found = select(ctx)
    assert found["rows"] == 100
    assert found["psi"] == [4, 8, 16, 32, 64]
    for name in ("svm", "ogd"):
        accuracy = entries(found)["accuracy"][name]
        assert all(0.3 < value <= 1 for value in accuracy)
        assert all(abs(value * 100 - round(value * 100)) < 1e-9 for value in accuracy)
        assert found["chosen"][name] == found["psi"][accuracy.index(max(accuracy))]


@pytest.mark.parametrize(("partitioner", "psi"), [("anne", "auto"), ("anne", 90), ("iforest", 8)])
def test_C_is_chosen_with_psi(partitioner: str, psi: int | str, tmp_path: Path) -> None:
    learners = ("svm", "ogd", "logistic")
    asked: dict[str, Any] = {"partitioner": partitioner, "cv_rows": 100, "learners": learners, "search": "full"}
    params = params_for(t=7, psi=psi, C="auto", **asked)
    ctx = context(tmp_path, params)
    store_rows(ctx.store, *points(300, classes=3))
    found = select(ctx)
    assert found["psi"] == ([4, 8, 16, 32, 64] if psi == "auto" else [min(int(psi), 80)])
    assert found["C"] == list(CS)
    accuracy_by_C = entries(found)["accuracy_by_C"]
    assert set(found["chosen_C"]) == set(accuracy_by_C) == {"svm", "logistic"}
    for name, rows in accuracy_by_C.items():
        assert all(3 <= len(row) <= len(CS) for row in rows)
        assert entries(found)["accuracy"][name] == [max(row) for row in rows]
        flat = [
            (value, p, C) for row, p in zip(rows, found["psi"], strict=True) for value, C in zip(row, CS, strict=False)
        ]
        best = max(value for value, _, _ in flat)
        smallest = next((p, C) for value, p, C in flat if value == best)
        assert (found["chosen"][name], found["chosen_C"][name]) == (smallest[0] if psi == "auto" else psi, smallest[1])
        assert psi == 90 or len({value for value, _, _ in flat}) > 1  # with psi all rows, C makes no difference
    # Each value is what a fit of its own gives, up to the looser gap of a comparison.
    k, name = len(found["psi"]) - 1, "svm"
    C = CS[2]
    ctx = context(tmp_path / "alone", params_for(**{**asked, "t": 7, "psi": found["psi"][k], "C": C, "tol": 1e-2}))
    store_rows(ctx.store, *points(300, classes=3))
    psi = found["psi"][k]
    counts: dict[Value, dict[str, int]] = {found["psi"][k]: {name: 1}}
    records = [score_cells(ctx.store, ctx.params, fold, counts, 100) for fold in range(FOLDS)]
    alone = sum(unpacked_rows(record["scores"][0][2][0], 20).sum() for record in records) / 100
    assert accuracy_by_C[name][k][2] == pytest.approx(alone, abs=0.03)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["psi"]),
        ({"C": "auto"}, ["psi", "C"]),
        ({"psi": 4, "C": "auto"}, ["C"]),
        ({"psi": 4}, []),
        ({"psi": 4, "C": "auto", "learners": ("ogd",)}, []),
    ],
)
def test_what_is_searched(options: dict[str, Any], expected: list[str]) -> None:
    assert searches(params_for(**{"learners": ("svm", "ogd"), **options})) == expected
