"""A stream: predicted before it is learned from, the same bits however it is cut, resumed where it was killed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow.parquet as pq
import pytest
from jsonschema import Draft202012Validator

from cluster import ClusterHandle
from flows.options.online import OnlineOptions
from ikmap.learners.linear_model import decision_to_index
from ikmap.methods import LEARNERS as ALL_LEARNERS
from ikmap.methods import LearnerAbout, Sample, Shape, StreamLearner
from ikmap.methods.kernel_ogd import KernelOGD
from ikmap.partitioners import draw_subsamples, fit_partitions
from ikmap.tasks import CLASSIFICATION
from pipeline.errors import InputError
from pipeline.monitoring.events import QuietProgress
from pipeline.params import Params
from pipeline.rows.permutation import position_in_shuffle
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.stream_data import Stream
from pipeline.running.stage import Context
from pipeline.runs.metrics import Invocation
from pipeline.runs.new_data import open_data
from pipeline.runs.online import OnlineParams, run_online
from pipeline.runs.score import score
from pipeline.runs.score_output import Output
from pipeline.runs.trained_model import open_run
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.stages.shuffle import chunk_rows_of, shuffle
from pipeline.storage.durable import read_json, write_json
from pipeline.storage.fitted import Fitted
from pipeline.storage.lru_cache import PROCESS
from pipeline.storage.predictions import PredictionFile
from pipeline.storage.rundir import RunDirectory
from pipeline.storage.store import Store
from pipeline.streams.advance import Live, go_through
from pipeline.streams.learn_chunks import learn_chunk, learn_initial, standing_before
from pipeline.streams.map_chunks import map_chunk
from pipeline.streams.participant import Standing, StreamBlock
from pipeline.streams.predictions import Predictions
from pipeline.streams.streamed_learner import StreamedLearner
from tests import ROOT
from tests.plugins import registered
from tests.support.narrow import csr
from tests.support.params_for import params_for
from tests.support.runs import context, points, sparse, store_rows
from tests.support.sizes import SmallSizes

pytestmark = pytest.mark.system

N, INITIAL, BLOCK = 700, 200, 30
LEARNERS = ("ogd", "kernel-ogd")
ON_CELLS = {name: learner.about.on == "cells" for name, learner in ALL_LEARNERS.items()}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    X, y = points(N, seed=3)
    path: Path = tmp_path_factory.mktemp("stream") / "rows.npy"
    np.save(path, np.c_[y, X])
    return path


def run(
    cluster: ClusterHandle,
    folder: Path,
    file: Path,
    params: Params,
    *,
    memory_limit: int | None = None,
    told: list[str] | None = None,
    **online: Any,
) -> dict[str, Any]:
    """A run; where `told` is a list, with ``--explain``, and what it says is put there."""
    data = ResolvedDataset("clouds", str(file), None, label=0)
    directory = RunDirectory(folder, {"params": params.as_json(), "online": online, "data": {"label": 0}})
    invocation = Invocation(
        *("a command", "", {"kind": "local", "workers": 2, "threads": 2}),
        memory_limit=memory_limit,
        explain=told is not None,
    )
    events = QuietProgress()
    if told is not None:
        events.message = told.append  # type: ignore[assignment, method-assign]
    asked = OnlineParams(**{"initial": INITIAL, "block_rows": BLOCK, **online})
    try:
        return run_online(Context(cluster.client, directory, params, events), data, invocation, asked)
    finally:
        directory.close()


type Runs = Callable[[str, str], Path]


@pytest.fixture(scope="module")
def runs(two_workers: ClusterHandle, file: Path, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Finished runs by their order and scale, which tests read only: each is made once."""

    @cache
    def of(order: str, scale: str) -> Path:
        folder: Path = tmp_path_factory.mktemp("finished") / "run"
        run(two_workers, folder, file, of_both(order, scale))
        return folder

    return of


def of_both(order: str = "shuffled", scale: str = "none") -> Params:
    return params_for(t=10, psi=8, learners=LEARNERS, order=order, partitioner="anne", scale=scale)


def in_order(file: Path, params: Params) -> tuple[np.ndarray, np.ndarray]:
    """The stream with its initial rows, from the definition."""
    rows = np.load(file)
    if params.order == "shuffled":
        rows = rows[np.argsort(position_in_shuffle(np.arange(N), N, params.seed))]
    return rows[:, 1:], rows[:, 0].astype(np.int32)


def begun(folder: Path, X: np.ndarray, params: Params, name: str, value: float | None) -> tuple[Any, Any]:
    """What a learner sees of the rows, and its state before the first."""
    rows: Any = X
    offsets = None
    if ON_CELLS[name]:
        manifest = json.loads((folder / "manifest.json").read_text())
        model = Fitted(**manifest["stages"]["partition"]["result"]["fitted"][0]).load(Store(folder / "store.zarr"))
        rows, offsets = model.cells(X), model.offsets
    sample = Sample(
        INITIAL, X.shape[1], CLASSIFICATION.of([0, 1]), lambda numbers: X[:INITIAL][numbers], params.seed, offsets
    )
    return rows, params.learner_as(StreamLearner, name, value).start(sample)


def by_hand(folder: Path, file: Path, params: Params, name: str, value: float | None, block: int) -> Any:
    """Predictions of the stream and the final state, block after block in memory."""
    X, y = in_order(file, params)
    rows, state = begun(folder, X, params, name, value)
    state.partial_fit(rows[:INITIAL], y[:INITIAL])
    predicted = []
    for start in range(INITIAL, N, block):
        now = slice(start, min(start + block, N))
        predicted.append(decision_to_index(state.decision_function(rows[now])))
        state.partial_fit(rows[now], y[now])
    return np.concatenate(predicted), state


@pytest.mark.parametrize("order", ["shuffled", "file"])
def test_the_pipeline_is_the_protocol(order: str, runs: Runs, file: Path) -> None:
    """PR4 as well: the accuracy at the end is what was right of the whole stream."""
    params, folder = of_both(order), runs(order, "none")
    schema = json.loads((ROOT / "docs" / "metrics.schema.json").read_text())
    metrics = json.loads((folder / "metrics.json").read_text())
    Draft202012Validator(schema).validate(metrics)
    _, y = in_order(file, params)
    for name in LEARNERS:
        found = metrics["learners"][name]
        expected, state = by_hand(folder, file, params, name, None if name == "ogd" else 8, BLOCK)
        assert np.array_equal(PredictionFile(str(folder / "predictions" / f"{name}.int32"), "int32").read(), expected)
        right = expected == y[INITIAL:]
        assert found["accuracy"] == right.mean()
        assert found["n_support"] == state.n_support
        ends = [*range(BLOCK, N - INITIAL, BLOCK), N - INITIAL]
        assert found["curve"]["rows"] == ends
        assert found["curve"]["accuracy"] == [round(right[:end].mean(), 6) for end in ends]
        assert np.diff([0, *found["curve"]["seconds"]]).min() > 0
        assert not found["stopped_early"]
        # A learner's state is in the memory of one worker, to which all its tasks go.
        records = [json.loads(path.read_text()) for path in (folder / "records" / "stream").glob(f"{name}-*.json")]
        assert len(records) >= 3
        assert len({record["worker"] for record in records}) == 1
    assert not (folder / "checkpoints").exists()
    report = (folder / "report.html").read_text()
    assert "Accuracy so far" in report
    assert all(name in report for name in LEARNERS)


def test_pr3_blocks_change_predictions_but_not_what_is_learned(
    two_workers: ClusterHandle, file: Path, tmp_path: Path
) -> None:
    params = params_for(t=10, psi=8, learners=("ogd",))
    support = set()
    for block in (1, 30, 500):
        folder = tmp_path / str(block)
        support.add(run(two_workers, folder, file, params, block_rows=block)["learners"]["ogd"]["n_support"])
    assert len(support) == 1
    finals = [by_hand(folder, file, params, "ogd", None, block)[1].weights for block in (1, 500)]
    assert np.array_equal(finals[0], finals[1])


def test_pr2_the_map_stays_as_it_is(runs: Runs, file: Path) -> None:
    params, folder = of_both(), runs("shuffled", "none")
    store = Store(folder / "store.zarr")
    fitted = json.loads((folder / "manifest.json").read_text())["stages"]["partition"]["result"]["fitted"][0]
    before = Fitted(**fitted).load(store)
    X, _ = in_order(file, params)
    initial = PreparedRows(store, "train").read(0, INITIAL).rows
    assert isinstance(initial, np.ndarray)
    assert np.array_equal(initial, X[:INITIAL])
    assert before.content_hash == fitted["content_hash"]
    # It is what the initial rows alone give.
    assert np.array_equal(before.cells(initial).codes, fit_partitions(
        initial, draw_subsamples(INITIAL, 10, 8, params.seed), method="anne", seed=params.seed
    ).cells(initial).codes)  # fmt: skip


def test_pr1_labels_are_given_in_exchange_for_stored_predictions(tmp_path: Path, small_sizes: SmallSizes) -> None:
    small_sizes.stream_bytes(2 * BLOCK * 8 * 4)
    ctx = streamed(tmp_path)
    stream = Stream(ctx.store, BLOCK)
    path = str(tmp_path / "predictions" / "x.int32")
    labels = stream.labels(1, path)
    assert not [name for name in dir(labels) if not name.startswith("_") and name != "reveal"]
    predictions = Predictions(path, "int32", 1, late=False, checkpoint="")
    for wrong in (np.zeros(BLOCK - 1, np.int32), np.zeros((BLOCK, 1), np.int32)):
        with pytest.raises(ValueError, match="predictions have shape"):
            predictions.write(stream.first_of(1), BLOCK, wrong, np.zeros((BLOCK, 1)))
    with pytest.raises(ValueError, match=f"rows 0 to {BLOCK - 1} of the chunk have no predictions yet"):
        labels.reveal(0, BLOCK)
    predictions.write(stream.first_of(1), BLOCK, np.zeros(BLOCK, np.int32), np.zeros((BLOCK, 1)))
    assert labels.reveal(0, BLOCK).shape == (BLOCK,)
    with pytest.raises(ValueError, match="have no predictions yet"):
        labels.reveal(BLOCK, 2 * BLOCK)


class Forgetful(Live):
    """A witness that does not write down what it is told."""

    def predict(self, standing: Standing, block: StreamBlock) -> None:
        block.decision = standing.learner.decision_function(block.rows)
        block.predicted = standing.task.decisions.predict(block.decision)


def test_pr1_a_witness_that_does_not_write_shows_no_labels(tmp_path: Path) -> None:
    ctx = streamed(tmp_path)
    stream = Stream(ctx.store, BLOCK)
    learner = StreamedLearner("kernel-ogd", None, 8, str(tmp_path / "x.int32"), str(tmp_path / "x.npz"))
    standing = standing_before(stream, ctx.params, learner, 1)
    with pytest.raises(ValueError, match="have no predictions yet"):
        go_through(standing, 0, Forgetful("kernel-ogd", [], []))
    assert standing.learner.n_seen == 0


def streamed(path: Path, kind: str = "dense", **params: Any) -> Context:
    """A run up to its shuffled stream."""
    ctx = context(path, params_for(t=10, psi=8, **params))
    X, y = points(N, seed=3)
    store_rows(ctx.store, X if kind == "dense" else sparse(X), y, rule="first", n_train=500, part_rows=90)
    shuffle(ctx, INITIAL, BLOCK, ctx.params.order)
    return ctx


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_stream_has_every_row_once(kind: str, tmp_path: Path, small_sizes: SmallSizes) -> None:
    small_sizes.stream_bytes(2 * BLOCK * 8 * 4, 5 * BLOCK * 8 * 4)
    ctx = streamed(tmp_path, kind)
    result = ctx.run.stage("shuffle")["result"]  # type: ignore[index]
    stream = Stream(ctx.store, BLOCK)
    assert result["chunk_rows"] == 2 * BLOCK
    assert result["chunks"] == -(-(N - INITIAL) // (2 * BLOCK))
    initial = PreparedRows(ctx.store, "train").read(0, INITIAL).rows
    parts = [initial, *(stream.features(k) for k in range(result["chunks"]))]
    found = np.concatenate([part if isinstance(part, np.ndarray) else csr(part).toarray() for part in parts])
    X = points(N, seed=3)[0]
    X = X if kind == "dense" else sparse(X).toarray()
    order = np.argsort(position_in_shuffle(np.arange(N), N, 0))
    assert np.array_equal(found, X[order])


def test_columns_are_scaled_by_the_initial_rows(runs: Runs, file: Path) -> None:
    X, _ = in_order(file, of_both(scale="minmax"))
    low, high = X[:INITIAL].min(axis=0), X[:INITIAL].max(axis=0)
    assert (low > X).any() or (high < X).any()
    stream = Stream(Store(runs("shuffled", "minmax") / "store.zarr"), BLOCK)
    expected = np.clip((X[INITIAL:] - low) / (high - low), 0.0, 1.0)
    np.testing.assert_array_equal(stream.features(0), expected)


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("saved", [True, False])
def test_a_learner_that_moves_to_another_process_goes_on_where_it_was(
    name: str, saved: bool, tmp_path: Path, small_sizes: SmallSizes
) -> None:
    small_sizes.stream_chunks(2)
    small_sizes.checkpoints(always=saved)
    supports = []
    for folder, forgets in (("stays", False), ("moves", True)):
        ctx = streamed(tmp_path / folder)
        result = ctx.run.stage("shuffle")["result"]  # type: ignore[index]
        stream = Stream(ctx.store, BLOCK)
        fitted = None
        if name == "ogd":
            from pipeline.stages.partition import partition

            fitted = Fitted(**partition(ctx, [8])["fitted"][0])
            for k in range(result["chunks"]):
                map_chunk(stream, [fitted], k)
        files = (str(tmp_path / folder / "predicted.int32"), str(tmp_path / folder / "state.npz"))
        participant = StreamedLearner(name, fitted, None if fitted else 8, *files)
        learn_initial(stream, ctx.params, participant)
        for k in range(result["chunks"]):
            if forgets and k in (1, 2, 5):
                PROCESS.forget()
            record = learn_chunk(stream, ctx.params, participant, k)
            if forgets and k in (0, 3, 4):  # its record gets lost: the same task is done again, elsewhere
                PROCESS.forget()
                again = learn_chunk(stream, ctx.params, participant, k)
                assert [[b[0], b[1], b[4]] for b in again["blocks"]] == [[b[0], b[1], b[4]] for b in record["blocks"]]
        supports.append((record["blocks"][-1][4], Path(files[0]).read_bytes()))
    assert supports[0] == supports[1]


def test_a_learner_is_stopped_at_its_limit(two_workers: ClusterHandle, file: Path, tmp_path: Path) -> None:
    params = params_for(t=10, psi=8, learners=("kernel-ogd", "ogd"))
    told: list[str] = []
    metrics = run(two_workers, tmp_path, file, params, told=told, limit_seconds=1e-9)
    assert any(line.startswith("plan: memory: ") for line in told)
    assert any(line.startswith("cells, psi 8: ") for line in told)
    for name in params.learners:
        assert metrics["learners"][name]["stopped_early"]
        assert metrics["learners"][name]["rows"] == 0
        assert metrics["learners"][name]["accuracy"] is None
    schema = json.loads((ROOT / "docs" / "metrics.schema.json").read_text())
    Draft202012Validator(schema).validate(json.loads((tmp_path / "metrics.json").read_text()))


def test_psi_chosen_by_cross_validation_stands_in_the_metrics(
    two_workers: ClusterHandle, file: Path, tmp_path: Path
) -> None:
    params = params_for(t=5, psi="auto", learners=("ogd", "kernel-ogd"))
    metrics = run(two_workers, tmp_path, file, params)
    schema = json.loads((ROOT / "docs" / "metrics.schema.json").read_text())
    Draft202012Validator(schema).validate(json.loads((tmp_path / "metrics.json").read_text()))
    assert metrics["params"]["psi"] == metrics["learners"]["ogd"]["psi"] == metrics["selection"]["chosen"]["ogd"]
    assert metrics["learners"]["kernel-ogd"]["value"] == metrics["selection"]["tuned"]["kernel-ogd"]["chosen"]


def test_a_learner_whose_predictions_are_gone_starts_again(
    two_workers: ClusterHandle, file: Path, tmp_path: Path
) -> None:
    params = params_for(t=10, psi=8, learners=("ogd", "kernel-ogd"))
    whole = run(two_workers, tmp_path / "run", file, params)["learners"]
    manifest = tmp_path / "run" / "manifest.json"
    kept = read_json(manifest)
    del kept["stages"]["stream"]  # as if killed just before the end
    write_json(manifest, {**kept, "status": "running"})
    (tmp_path / "run" / "predictions" / "ogd.int32").unlink()
    again = run(two_workers, tmp_path / "run", file, params)["learners"]
    for name in params.learners:
        assert again[name]["curve"]["accuracy"] == whole[name]["curve"]["accuracy"]
    assert (tmp_path / "run" / "predictions" / "ogd.int32").stat().st_size == 4 * (N - INITIAL)


class Huge(KernelOGD):
    """A learner that needs more memory than there is."""

    about: ClassVar[LearnerAbout] = replace(KernelOGD.about, name="huge")

    def memory(self, shape: Shape, rows: int | None = None) -> int:  # noqa: ARG002
        return 10**11


def test_a_stream_that_cannot_fit_is_refused(two_workers: ClusterHandle, file: Path, tmp_path: Path) -> None:
    refused = pytest.raises(InputError, match="training huge would need about")
    with registered(Huge), refused:
        params = params_for(learners=("huge",), gamma=1.0)
        run(two_workers, tmp_path, file, params, memory_limit=10**9)


def test_more_initial_rows_than_there_are_is_refused(two_workers: ClusterHandle, file: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"--initial {N}: found {N} rows in all"):
        run(two_workers, tmp_path, file, params_for(t=5, psi=4, learners=("ogd",)), initial=N)


def test_sparse_data_to_be_scaled_is_refused_before_the_shuffle(two_workers: ClusterHandle, tmp_path: Path) -> None:
    (tmp_path / "rows.svm").write_text("".join(f"{k % 2} {k % 90 + 1}:1\n" for k in range(300)))
    params = params_for(t=5, psi=4, learners=("ogd",), scale="minmax")
    with pytest.raises(InputError, match="--scale minmax: found sparse data"):
        run(two_workers, tmp_path / "run", tmp_path / "rows.svm", params, initial=100)
    assert list(json.loads((tmp_path / "run" / "manifest.json").read_text())["stages"]) == ["ingest"]


@pytest.mark.parametrize("scale", ["none", "minmax"])
def test_what_was_learned_is_a_model_to_score_with(
    scale: str, two_workers: ClusterHandle, runs: Runs, file: Path, tmp_path: Path
) -> None:
    params, folder = of_both(scale=scale), runs("shuffled", scale)
    X, y = in_order(file, params)
    given = np.load(file)[:, 1:]
    if scale == "minmax":
        low, high = X[:INITIAL].min(axis=0), X[:INITIAL].max(axis=0)
        X, given = (np.clip((part - low) / (high - low), 0.0, 1.0) for part in (X, given))
    for name in params.learners:
        model = open_run(str(folder), name)
        with Output(str(tmp_path / "scored.parquet")) as output:
            score(two_workers.client, model, open_data(model, str(file), label=0), output, QuietProgress())
        rows, state = begun(folder, np.concatenate([X, given]), params, name, None if ON_CELLS[name] else 8)
        state.partial_fit(rows[:N], y)
        expected = decision_to_index(state.decision_function(rows[N:]))
        assert np.array_equal(pq.read_table(tmp_path / "scored.parquet")["prediction"], expected)


def test_chunks_are_not_tiny() -> None:
    assert [chunk_rows_of(block, 80) for block in (1, 30, 1000)] == [4096, 4110, 16_000]
    assert chunk_rows_of(30, 1 << 20) == 30
    assert chunk_rows_of(1, 1 << 20) == 16


def test_batch_learners_are_refused_on_a_stream() -> None:
    with pytest.raises(InputError, match="--learner"):
        OnlineOptions(learner=("svm",))
