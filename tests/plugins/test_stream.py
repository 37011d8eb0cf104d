"""A map that grows with a stream and a learner that forgets, which nothing but their own files knows."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from ikmap.cells import Cells, in_wider_layout
from ikmap.learners.online.ogd import OGDState
from ikmap.methods import Sample
from ikmap.methods.ogd import OGD
from pipeline.errors import InputError
from pipeline.params import Params
from pipeline.report import render_report
from pipeline.resolve import refuse_growth
from pipeline.running.compiling import needed, words_of
from pipeline.running.foreign import checked_growth
from pipeline.running.stage import Context
from pipeline.runs.batch import Call, call_directly, run_batch
from pipeline.runs.metrics import Invocation
from pipeline.runs.new_data import open_data
from pipeline.runs.online import OnlineParams, run_online
from pipeline.runs.score import score
from pipeline.runs.score_output import Output
from pipeline.runs.trained_model import open_run
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.sources.datasets.spec import Split
from pipeline.storage.durable import read_json, write_arrays
from pipeline.storage.rundir import RunDirectory
from tests import ROOT
from tests.naive import growing as naive
from tests.plugins import choosy, fixed, forgetting, growing_bins, registered
from tests.support.calls import killed_at
from tests.support.in_process import InProcess
from tests.support.kills import Watched
from tests.support.metrics import check_metrics
from tests.support.one_process import Heard, Snapshots, forget, one_process, results
from tests.support.runs import points
from tests.support.sizes import SmallSizes, sizes_made_small

pytestmark = pytest.mark.slow

N, INITIAL, T = 700, 150, 6
FORGETTING, BINS = forgetting.Forgets.about.name, growing_bins.GrowingBins.about.name
CHOOSY = choosy.Choosy.about.name


@pytest.fixture(scope="module", autouse=True)
def _known() -> Iterator[None]:
    with registered(growing_bins.GrowingBins, forgetting.Forgets, choosy.Choosy):
        yield


@pytest.fixture
def here() -> Iterator[None]:
    with one_process():
        yield


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    X, y = points(N, seed=5)
    # New cells come up all along the stream.
    X *= np.linspace(0.3, 1.4, N)[:, None]
    path = tmp_path_factory.mktemp("rows") / "rows.npy"
    np.save(path, np.c_[y, X])
    return path


@pytest.fixture(scope="module")
def plain(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of a stream in one chunk, which several tests read."""
    folder = tmp_path_factory.mktemp("plain") / "run"
    with one_process():
        run(folder, file, block_rows=30)
    return folder


SEARCHED: dict[str, Any] = {"block_rows": 20, "bins": "auto", "cv_rows": 100}


@pytest.fixture(scope="module")
def searched(file: Path, tmp_path_factory: pytest.TempPathFactory) -> Snapshots:
    """A run in chunks with a map that is searched for, and its directory after each stage."""
    folder = tmp_path_factory.mktemp("searched")
    taken = Snapshots(folder / "whole", folder)
    with sizes_made_small() as sizes:
        sizes.stream_chunks(4)
        sizes.checkpoints(always=True)
        run(folder / "whole", file, call=taken, **SEARCHED)
    return taken


def run(
    folder: Path,
    file: Path,
    client: InProcess | None = None,
    *,
    block_rows: int | None = None,
    call: Call = call_directly,
    **options: Any,
) -> dict[str, Any]:
    """A run of both learners in this process: on a stream with `block_rows`, else of a training set."""
    forget()
    asked = {"partitioner": BINS, "learners": (FORGETTING, "ogd"), "t": T, "bins": 4, "order": "file"}
    params = Params.given(**{**asked, **options})
    data = ResolvedDataset("bins", str(file), None, label=0, split=Split(fraction=0.75))
    online = None if block_rows is None else OnlineParams(initial=INITIAL, block_rows=block_rows)
    identity = {"params": params.as_json(), "data": {"label": 0}, **({"online": {}} if online else {})}
    with closing(RunDirectory(folder, identity)) as held:
        context = Context(client or InProcess(), held, params, Heard())
        how = Invocation("test", "", {"kind": "local", "workers": 1, "threads": 1}, dask_report=False)
        if online:
            return run_online(context, data, how, online, call=call)
        return run_batch(context, data, how)


def scored(folder: Path, file: Path, learner: str) -> np.ndarray:
    forget()
    model, client = open_run(str(folder), learner), InProcess()
    with Output(str(folder / "scored.parquet")) as output:
        score(client, model, open_data(model, str(file), label=0), output, Heard())
    return pq.read_table(folder / "scored.parquet")["prediction"].to_numpy()


def comparable(folder: Path) -> dict[str, Any]:
    """What is to be the same for any chunks: all but the chunks themselves."""
    metrics = read_json(folder / "metrics.json")
    learners = {
        name: {key: of[key] for key in ("accuracy", "content_hash", "n_support", "traces") if key in of}
        | {"curve": of["curve"]["accuracy"]}
        for name, of in metrics["learners"].items()
    }
    files = {path.name: path.read_bytes() for path in (folder / "predictions").glob("*")}
    return {"learners": learners, "files": files, "cells": metrics["online"]["cells_grown"]}


def by_hand(file: Path, block: int) -> tuple[list[int], list[float], naive.Forgetting, list[Any]]:
    """Predictions, traces and what there is at the end, by the definitions."""
    rows = np.load(file)
    X, y = rows[:, 1:], rows[:, 0]
    sample = Sample(INITIAL, X.shape[1], None, X[:INITIAL].__getitem__, 0)
    model = growing_bins.GrowingBins(t=T, bins=4).fit(sample)
    known: list[Any] = [[] for _ in range(T)]
    how = (model.columns, model.shifts, model.width)
    naive.growing_bins(X[:5], *how, known)
    learner = naive.Forgetting(0.5, 0.01)
    for x, codes in zip(y[:INITIAL], model.cells(X[:INITIAL]).codes, strict=True):
        learner.learn(codes, 2 * x - 1)
    predicted, norms = [], []
    for start in range(INITIAL, N, block):
        now = slice(start, min(start + block, N))
        codes, _ = naive.growing_bins(X[now], *how, known)
        predicted += [int(learner.decision(row) >= 0) for row in codes]
        for row, x in zip(codes, y[now], strict=True):
            learner.learn(row, 2 * x - 1)
        norms.append(learner.norm())
    return predicted, norms, learner, known


@pytest.mark.usefixtures("here")
def test_a_stream_is_what_the_definitions_say(file: Path, plain: Path, tmp_path: Path) -> None:
    check_metrics(plain)
    metrics = read_json(plain / "metrics.json")
    predicted, norms, learner, known = by_hand(file, 30)
    found = np.fromfile(plain / "predictions" / f"{FORGETTING}.int32", dtype="<i4")
    assert found.tolist() == predicted
    assert metrics["learners"][FORGETTING]["traces"]["norm"] == pytest.approx(norms, rel=1e-9)
    ((before, after),) = metrics["online"]["cells_grown"].values()
    assert after == sum(map(len, known)) > 2 * before
    assert len({len(met) for met in known}) > 1, "partitionings of different sizes"
    # The run scores with the map of the end, new rows with cells that nobody has seen.
    new = np.load(file)[::3] * [1, 1, 1.3, 1, 0.7]
    np.save(tmp_path / "new.npy", new)
    model, _ = open_run(str(plain), FORGETTING).load()
    assert model is not None
    codes = model.cells(new[:, 1:]).codes
    assert (codes < 0).any()
    expected = [int(learner.decision(row) >= 0) for row in codes]
    assert scored(plain, tmp_path / "new.npy", FORGETTING).tolist() == expected
    page = render_report(metrics)
    assert "Norm of the weights" in page
    assert "Rows stepped on" in page
    assert "stay as they are" not in page


@pytest.mark.usefixtures("here")
def test_chunks_are_no_matter(file: Path, plain: Path, tmp_path: Path, small_sizes: SmallSizes) -> None:
    small_sizes.stream_chunks(3)
    run(tmp_path / "many", file, block_rows=30)
    chunks = [read_json(folder / "metrics.json")["online"]["chunks"] for folder in (plain, tmp_path / "many")]
    assert chunks == [1, 7]
    assert comparable(plain) == comparable(tmp_path / "many")


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(("always", "places"), [(True, (3, 24)), (False, (1, 17))], ids=["checkpoints", "none"])
def test_killed_anywhere_the_stream_ends_with_the_same_bits(
    always: bool, places: tuple[int, ...], file: Path, searched: Snapshots, tmp_path: Path, small_sizes: SmallSizes
) -> None:
    """The stages before the stream are done already."""
    small_sizes.stream_chunks(4)
    small_sizes.checkpoints(always=always)
    whole, stages = searched.directory, list(searched.taken)
    expected, before = results(whole), searched.taken[stages[stages.index("stream") - 1]]
    for at in places:
        folder = tmp_path / f"at-{at}"
        shutil.copytree(before, folder, symlinks=True)
        # The task after so many is done, and its record is not written.
        with pytest.raises(KeyboardInterrupt):
            run(folder, file, Watched(stage="stream", after=at + 1), **SEARCHED)
        run(folder, file, **SEARCHED)
        assert results(folder) == expected, at
        # Times, and so the curve's seconds, differ; traces do not.
        assert comparable(folder) == comparable(whole)


class Forgetful(InProcess):
    """A client whose every task is done by another process: what was in memory is gone."""

    def submit(self, func: Callable[..., Any], *args: Any, **more: Any) -> Any:
        forget()
        return super().submit(func, *args, **more)


@pytest.mark.usefixtures("here")
def test_a_learner_that_chooses_its_rows_chooses_the_same_when_it_goes_over_them_again(
    file: Path, tmp_path: Path, small_sizes: SmallSizes
) -> None:
    """Without checkpoints, a process that goes on learns again from all chunks before, by the learner's own task."""
    small_sizes.stream_chunks(4)
    small_sizes.checkpoints(always=False)
    learners: dict[str, Any] = {"learners": (CHOOSY, "ogd"), "partitioner": "anne", "bins": None, "psi": 8}
    metrics = run(tmp_path / "whole", file, block_rows=30, **learners)
    support = {name: metrics["learners"][name]["n_support"] for name in (CHOOSY, "ogd")}
    assert support[CHOOSY] < support["ogd"]
    run(tmp_path / "again", file, Forgetful(), block_rows=30, **learners)
    assert results(tmp_path / "again") == results(tmp_path / "whole")


@pytest.mark.usefixtures("here")
def test_a_pass_over_a_training_set_records_traces_and_is_resumed(
    file: Path, tmp_path: Path, small_sizes: SmallSizes
) -> None:
    """Any shards; stopped between any blocks. The map does not grow."""

    found = []
    for shard_rows in (None, 60):
        metrics = run(tmp_path / f"shards-{shard_rows}", file, shard_rows=shard_rows, order="shuffled")
        found.append(metrics["learners"][FORGETTING])
    assert found[0]["traces"] == found[1]["traces"]
    assert found[0]["content_hash"] == found[1]["content_hash"]
    assert len(found[0]["traces"]["norm"]) == len(found[0]["curve"]["rows"])
    assert found[0]["traces"]["steps"] == sorted(found[0]["traces"]["steps"])
    assert found[0]["traces"]["steps"][-1] == found[0]["n_support"]
    scored(tmp_path / "shards-60", file, FORGETTING)
    small_sizes.learning_blocks(70, 1)
    whole = run(tmp_path / "whole", file)["learners"][FORGETTING]
    for at in (1, 3):
        with killed_at(write_arrays, at, end=True):  # a checkpoint
            run(tmp_path / f"at-{at}", file, learners=(FORGETTING,))
        again = run(tmp_path / f"at-{at}", file, learners=(FORGETTING,))["learners"][FORGETTING]
        assert (again["traces"], again["curve"]) == (whole["traces"], whole["curve"])
        assert "Norm of the weights" in (tmp_path / f"at-{at}" / "report.html").read_text()


def test_a_learner_that_cannot_grow_is_refused() -> None:
    message = r"^--learner fixed: found --partitioner growing-bins, .* one of ogd, norma, (?!.*fixed)"
    with registered(fixed.Fixed), pytest.raises(InputError, match=message):
        refuse_growth((BINS, "norma", "fixed", "kernel-ogd", "laplacian"), {})
    refuse_growth((BINS, "norma", "kernel-ogd", "laplacian"), {})


def test_weights_move_to_a_wider_layout_exactly() -> None:
    old, new = np.array([0, 2, 2, 5]), np.array([0, 3, 4, 7])
    values = np.arange(1.0, 6.0)[:, None]
    assert in_wider_layout(values, old, new)[:, 0].tolist() == [1, 2, 0, 0, 3, 4, 5]
    with pytest.raises(ValueError, match="fewer cells"):
        in_wider_layout(values, new, old)


def test_a_map_that_loses_cells_is_refused() -> None:
    model = growing_bins.Bins(np.zeros((2, 2), int), np.zeros((2, 2)), 1.0, np.zeros((5, 2), int), np.array([0, 2, 5]))
    checked_growth(model, np.array([0, 2, 4]))
    with pytest.raises(InputError, match="2 cells in partitioning 0 after 3"):
        checked_growth(model, np.array([0, 3, 5]))


@pytest.mark.parametrize("classes", [2, 3])
def test_weights_that_grow_are_those_of_the_wide_layout_from_the_start(classes: int) -> None:
    rng = np.random.default_rng(0)
    new, old = np.array([0, 300, 310]), np.array([0, 100, 104])
    y = rng.integers(0, classes, 400)
    codes = rng.integers(0, [100, 4], (400, 2)).astype(np.int32)
    codes[200:] = rng.integers(0, [300, 10], (200, 2))
    grown, wide = (OGD().start(_sample(offsets, classes)) for offsets in (old, new))
    assert isinstance(grown, OGDState)
    assert isinstance(wide, OGDState)
    grown.partial_fit(Cells(codes[:200], old).packed(), y[:200])
    grown.grow(old, new)
    grown.partial_fit(Cells(codes[200:], new).packed(), y[200:])
    wide.partial_fit(Cells(codes, new).packed(), y)
    assert np.array_equal(grown.weights, wide.weights)
    assert (grown.n_support, grown.n_seen) == (wide.n_support, wide.n_seen)


def _sample(offsets: np.ndarray, classes: int) -> Sample:
    from ikmap.tasks import CLASSIFICATION

    return Sample(0, 0, CLASSIFICATION.of(list(range(classes))), lambda rows: rows, 0, offsets)


def test_its_own_loop_is_known_before_it_runs() -> None:
    words = words_of(Params.given(partitioner=BINS, learners=(FORGETTING,), t=T), dense=True, task={"binary"})
    assert {BINS, FORGETTING, "narrow", "wide"} <= words
    names = {job.name for job in needed(words)}
    assert "tests.plugins.forgetting_loops.forgetting_pass" in names
    others = words_of(Params.given(learners=("ogd",)), dense=True, task={"binary"})
    assert "tests.plugins.forgetting_loops.forgetting_pass" not in {job.name for job in needed(others)}


def test_as_packages_on_two_workers(file: Path, plain: Path, tmp_path: Path) -> None:
    """Installed as a stranger's package: the workers know it by its entry points; its loop is compiled beforehand."""
    about = tmp_path / "site" / "throwaway-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: throwaway\nVersion: 1.0\n")
    offered = "bins = tests.plugins.growing_bins:GrowingBins\nforgets = tests.plugins.forgetting:Forgets\n"
    (about / "entry_points.txt").write_text(f"[ikmap.methods]\n{offered}")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "IKMAP_PACKAGES"))}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path / "site"), str(ROOT)])
    words = ["--partitioner", BINS, "--learner", f"{FORGETTING},ogd", "--input", str(file), "--label", "0"]
    words += ["--initial", str(INITIAL), "--block-rows", "30", "--t", str(T), "--bins", "4", "--order", "file"]
    words += ["--workers", "2", "--memory-limit", "1GB", "--no-dask-report", "--run-dir", str(tmp_path / "run")]
    code = f"import sys; from flows.online import main; sys.exit(main({words!r}))"
    program = f"if __name__ == '__main__':\n    {code}\n"
    (tmp_path / "program.py").write_text(program)
    command: Any = {"env": environment, "capture_output": True, "text": True, "timeout": 300}
    done = subprocess.run([sys.executable, str(tmp_path / "program.py")], **command)
    assert done.returncode == 0, done.stderr
    assert comparable(tmp_path / "run") == comparable(plain)
    late = [json.loads(path.read_text()).get("compiled", ()) for path in (tmp_path / "run" / "records").rglob("*.json")]
    assert not any("forgetting_pass" in name for names in late for name in names)
