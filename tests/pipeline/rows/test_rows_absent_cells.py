"""Rows without a cell in some partitionings (-1), from the map through the store to every learner and to scoring."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from ikmap.cells import Cells
from ikmap.learners.dual.linear_svm import SVMParams, fit_linear_svm, svm_model
from ikmap.learners.linear_model import decision_to_index
from ikmap.learners.online.ogd import OGDState
from ikmap.learners.rows import Block
from ikmap.methods import LEARNERS, MapAbout, PsiMap, Sample, StreamLearner
from ikmap.methods.ogd import OnCells
from ikmap.methods.values import cells_of_values
from ikmap.model import Model
from ikmap.model_selection import folds, score_fold
from ikmap.partitioners import Partitions, fit_iforest
from ikmap.racing import Value
from ikmap.rows import Rows, as_csr
from pipeline.params import Params
from pipeline.rows.block_sizes import BlockLayout, learning_blocks, packed_row_bytes
from pipeline.rows.cell_blocks import CellBlocks, SpooledBlocks
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.stream_data import Stream
from pipeline.runs.trained_model import TrainedModel, decisions
from pipeline.stages.cells import cells, create_cells
from pipeline.stages.evaluate import evaluate
from pipeline.stages.partition import partition
from pipeline.stages.select import select
from pipeline.stages.shuffle import shuffle
from pipeline.storage.fitted import Fitted
from pipeline.storage.models import load_model
from pipeline.storage.predictions import PredictionFile
from pipeline.streams.learn_chunks import learn_chunk, learn_initial, save_state
from pipeline.streams.map_chunks import map_chunk
from pipeline.streams.streamed_learner import StreamedLearner
from pipeline.training.dual_tasks import problem_of
from pipeline.training.train import train
from tests.plugins import registered
from tests.support.runs import context, new_store, points, store_rows
from tests.support.sizes import SmallSizes

pytestmark = pytest.mark.slow

T, N = 5, 500
ON_CELLS = {name: kind for name, kind in LEARNERS.items() if kind.about.on == "cells"}
OF_CLASSES = [
    name
    for name, kind in ON_CELLS.items()
    if "classification" in kind.about.tasks and (issubclass(kind, OnCells) or not issubclass(kind, StreamLearner))
]
BLOCK = 20


@dataclass(frozen=True, eq=False)
class Gapped(Partitions):
    """The cells of other partitionings, except where a coordinate of a row is small: there it has none.

    Parameters
    ----------
    full : Partitions
    below : float
        Rows lack the cells of partitioning i where coordinate i (cyclically) is below this; a row of which the first
        is below half of it lacks them all.
    """

    kind: ClassVar[str] = "gapped-of-a-test"

    full: Any
    below: float

    @property
    def n_partitions(self) -> int:
        return int(self.full.n_partitions)

    @property
    def offsets(self) -> np.ndarray:
        return np.asarray(self.full.offsets)

    def cells(self, X: Rows, n_threads: int | None = None) -> Cells:
        found, dense = self.full.cells(X, n_threads), as_csr(X).toarray()
        absent = dense[:, np.arange(self.n_partitions) % dense.shape[1]] < self.below
        absent |= dense[:, :1] < self.below / 2
        return Cells(np.where(absent, -1, found.codes).astype(np.int32), found.offsets)

    def mapper(self, device: Any, budget: int | None = None) -> Any:
        raise NotImplementedError


class GappedTrees(PsiMap):
    """Isolation trees that leave some rows without cells."""

    about: ClassVar[MapAbout] = MapAbout(name="gapped-trees", title="trees with gaps", summary="as a test wants it")

    def partitions(self, points: Rows, draws: Any, seed: int, n_threads: int) -> Partitions:
        return Gapped(fit_iforest(points, draws, seed, max_depth=None, n_threads=n_threads), 0.1)


GAPPED = GappedTrees.about.name


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with registered(GappedTrees):
        yield


def params(**options: Any) -> Params:
    return Params.given(partitioner=GAPPED, **{"learners": ("svm", "ogd"), "t": T, "psi": 8, **options})


def gapped_run(path: Path, params: Params, psi: int, classes: int = 2) -> tuple[Any, Fitted]:
    ctx = context(path, params)
    store_rows(ctx.store, *points(N, classes=classes), rule="first", n_train=400, part_rows=150)
    fitted = Fitted(**partition(ctx, [psi])["fitted"][0])
    cells(ctx, [fitted])
    return ctx, fitted


def in_memory(ctx: Any, fitted: Fitted, side: str) -> tuple[Cells, np.ndarray]:
    rows = PreparedRows(ctx.store, side)
    X, y, *_ = rows.take(np.arange(rows.n_rows))
    return fitted.load(ctx.store).cells(X), y


@pytest.mark.parametrize("psi", [8, 256])
def test_the_store_keeps_rows_without_cells(psi: int, tmp_path: Path) -> None:
    """They are stored as -1, which is no mark of what is absent from the store."""
    ctx, fitted = gapped_run(tmp_path, params(learners=("svm",), shard_rows=90), psi)
    for side in ("train", "test"):
        expected, y = in_memory(ctx, fitted, side)
        arrays = ctx.store.open_arrays(fitted.cells_name(side))
        assert (expected.codes < 0).any()
        assert (expected.codes < 0).all(axis=1).any()
        assert np.array_equal(arrays["codes"][...], expected.codes)
        assert np.array_equal(arrays["labels"][...], y)


@pytest.mark.parametrize(
    ("solver", "classes", "psi"),
    [("memory", 3, 256), ("block", 2, 8), ("distributed", 2, 8), ("distributed", 3, 256)],
)
def test_every_solver_learns_what_the_one_hot_form_says(solver: str, classes: int, psi: int, tmp_path: Path) -> None:
    asked = params(solver=solver, tol=1e-3, learners=("svm",))
    ctx, fitted = gapped_run(tmp_path, asked, psi, classes)
    record = train(ctx, "svm", fitted)
    model: Any = load_model(ctx.store, "models/svm", Model, record["content_hash"])
    found, y = in_memory(ctx, fitted, "train")
    X, outputs = found.to_csr(), range(model.coef.shape[1])
    best = fit_linear_svm([Block(X, y)], classes, replace(problem_of(asked, "svm"), tol=1e-9)).primal
    signs = np.column_stack([np.where(y == (k if classes > 2 else 1), 1.0, -1.0) for k in outputs])
    slack = np.maximum(1.0 - signs * (X @ model.coef), 0.0)
    primal = (model.coef**2).sum(axis=0) / 2 + problem_of(asked, "svm").C * (slack**2).sum(axis=0)
    np.testing.assert_allclose(primal, best, rtol=1.1e-3)


@pytest.mark.parametrize("psi", [8, 256])
@pytest.mark.parametrize("learner", OF_CLASSES)
def test_every_learner_is_trained_and_predicts(learner: str, psi: int, tmp_path: Path) -> None:
    """The stored model predicts the stored cells as it does the one-hot form's cells in memory, and raw rows."""
    ctx, fitted = gapped_run(tmp_path, params(learners=(learner,), order="file"), psi)
    record = train(ctx, learner, fitted)
    model: Any = load_model(ctx.store, f"models/{learner}", Model, record["content_hash"])
    test, y = in_memory(ctx, fitted, "test")
    told = evaluate(ctx, learner, fitted, record["content_hash"])
    predicted = model.predict_index(test)
    assert told["accuracy"] == pytest.approx(float((predicted == y).mean()))
    if learner.startswith("ogd"):
        inside, inside_y = in_memory(ctx, fitted, "train")
        state = OGDState.start(inside.n_columns, 2, 0.5, T)
        state.partial_fit(inside.to_csr(normalize=False), inside_y)
        expected = state.decision_function(test.to_csr(normalize=False))
        np.testing.assert_array_equal(model.decision_function(test), expected)
    X = PreparedRows(ctx.store, "test").take(np.arange(y.size)).rows
    scorer = TrainedModel(ctx.store, learner, record["content_hash"], fitted, None, GAPPED)
    preparation = PreparedRows(ctx.store, "test").preparation
    parts = [part for _, part in decisions(scorer, X, preparation, str)]
    np.testing.assert_array_equal(np.concatenate(parts), model.decision_function(test))


def test_cross_validation_goes_over_rows_without_cells(tmp_path: Path) -> None:
    ctx = context(tmp_path, params(psi="auto", C="auto", learners=("svm", "ogd")))
    store_rows(ctx.store, *points(N), rule="first", n_train=400, part_rows=150)
    told = select(ctx)
    assert set(told["chosen"]) == {"svm", "ogd"}


@pytest.mark.parametrize("psi", [8, 256])
@pytest.mark.parametrize("learner", [name for name in OF_CLASSES if issubclass(LEARNERS[name], OnCells)])
def test_a_stream_goes_over_rows_without_cells(learner: str, psi: int, tmp_path: Path, small_sizes: SmallSizes) -> None:
    """Chunk by chunk, predictions and decisions are those of the one-hot form."""
    small_sizes.stream_bytes(2 * BLOCK * 8 * 4)
    ctx = context(tmp_path, params(learners=(learner,)))
    store_rows(ctx.store, *points(N), rule="first", n_train=400, part_rows=150)
    shuffle(ctx, 300, BLOCK, ctx.params.order)
    fitted = Fitted(**partition(ctx, [psi])["fitted"][0])
    stream = Stream(ctx.store, BLOCK)
    folder = tmp_path / "predictions"
    one = StreamedLearner(learner, fitted, None, str(folder / "x.int32"), str(tmp_path / "x.npz"))
    learn_initial(stream, ctx.params, one)
    chunks = range(ctx.run.stage("shuffle")["result"]["chunks"])  # type: ignore[index]
    for k in chunks:
        map_chunk(stream, [fitted], k)
        learn_chunk(stream, ctx.params, one, k)
    model: Any = load_model(
        ctx.store, f"models/{learner}", Model, save_state(stream, ctx.params, one, len(chunks))["content_hash"]
    )
    X, y, *_ = PreparedRows(ctx.store, "train").take(np.arange(300))
    parts = [fitted.load(ctx.store).cells(rows) for rows in (X, *map(stream.features, chunks))]
    expected = OGDState.start(parts[0].n_columns, 2, 0.5, T)
    expected.partial_fit(parts[0].to_csr(normalize=False), y)
    assert not any(part.complete for part in parts)
    hidden = [stream.labels(k, one.predictions) for k in chunks]
    predicted = []
    for part, labels in zip(parts[1:], hidden, strict=True):
        for start in range(0, len(part), BLOCK):
            rows = part[start : start + BLOCK].to_csr(normalize=False)
            predicted.append(decision_to_index(expected.decision_function(rows)))
            expected.partial_fit(rows, labels.reveal(start, start + rows.shape[0]))
    np.testing.assert_array_equal(PredictionFile(one.predictions, "int32").read(), np.concatenate(predicted))
    for part in parts:
        np.testing.assert_array_equal(
            model.decision_function(part), expected.decision_function(part.to_csr(normalize=False))
        )


def test_a_fold_is_scored_as_in_the_one_hot_form() -> None:
    X, y = points(N)
    y = y.astype(np.int32)
    fit, held_out = folds(N, 0)[0]

    def of(form: Any) -> Any:
        def svm(cells: Cells, y: np.ndarray) -> Any:
            asked = SVMParams(tol=1e-10)
            model = svm_model(fit_linear_svm([Block(form(cells), y)], 2, asked), [0, 1], asked, divisor=np.sqrt(T))
            return lambda rows: model.predict_index(form(rows))

        return svm

    learners: dict[Value, Any] = {
        psi: {"cells": of(lambda rows: rows), "one-hot": of(Cells.to_csr)} for psi in (8, 256)
    }
    inside = X[fit]
    sample = Sample(inside.shape[0], inside.shape[1], None, inside.__getitem__, 0)
    path = cells_of_values(params().map, params().map_searched, [8, 256], sample, [inside, X[held_out]])
    row_scores = {name: np.equal for of in learners.values() for name in of}
    found = score_fold(path, y[fit], y[held_out], learners, row_scores)
    for psi in (8, 256):
        np.testing.assert_array_equal(found["cells"][psi], found["one-hot"][psi])


@pytest.mark.parametrize("psi", [255, 256])
def test_blocks_and_spooled_blocks_keep_rows_without_cells(psi: int, tmp_path: Path) -> None:
    """256 cells take one byte in blocks where no row lacks one, and two in others."""
    store, rng, n = new_store(tmp_path), np.random.default_rng(0), 9000
    codes = rng.integers(psi, size=(n, T), dtype=np.int32)
    codes[:, 0] = psi - 1
    codes[5000, 1:3], codes[5001] = -1, -1
    offsets = np.arange(T + 1, dtype=np.int64) * psi
    create_cells(store, "cells", n, T, BlockLayout(1000, 250), np.dtype(np.int32))
    store.write_shards("cells/codes", 0, codes)
    store.write_shards("cells/labels", 0, np.zeros(n, dtype=np.int32))
    ranges = learning_blocks(n, packed_row_bytes(offsets), 0, shuffled=False, block_bytes=1)
    expected = Cells(codes, offsets).columns()
    blocks = CellBlocks(store, "cells", offsets, ranges)
    one, two = np.dtype(np.uint8), np.dtype(np.uint16)
    for source, rows in (
        (blocks, 4096),
        (SpooledBlocks(blocks, offsets), 1024),
        (SpooledBlocks(blocks, offsets, None), 4096),
    ):
        found = [block.rows for block in source]
        assert all(isinstance(part, Cells) for part in found)
        np.testing.assert_array_equal(np.concatenate([part.columns() for part in found]), expected)  # type: ignore[union-attr]
        assert found[0].n_rows == rows  # type: ignore[union-attr]
        kinds = {part.codes.dtype for part in found}  # type: ignore[union-attr]
        assert kinds == ({one} if psi == 255 else {one, two})
