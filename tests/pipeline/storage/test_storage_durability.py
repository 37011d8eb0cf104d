"""Whole or redone: damage and power cuts cost time, and never change a result."""

from __future__ import annotations

import errno
import os
import pickle
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.options.score import ScoreOptions
from pipeline.errors import Damaged, InputError
from pipeline.record_types import Result, TaskRecord
from pipeline.running.dispatch import Task
from pipeline.running.repair import until_verified
from pipeline.running.stage import Stage
from pipeline.runs.metrics import Invocation
from pipeline.runs.new_data import open_data
from pipeline.runs.online import OnlineParams, run_online
from pipeline.runs.score import score as score_all
from pipeline.runs.score_output import Output
from pipeline.runs.trained_model import open_run
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.sources.feeds.feed import Arrival, Feed
from pipeline.storage import durable
from pipeline.storage.arrays import ABSENT, read
from pipeline.storage.durable import read_arrays, read_json, write_arrays, write_json
from pipeline.storage.store import Store
from tests.soaks.power_cut import VARIANTS, Disk
from tests.support.calls import counted
from tests.support.damage import Object, flip, objects, runs, some_damage, unnoticed, zero_page
from tests.support.in_process import InProcess
from tests.support.one_process import Heard, Snapshots, commands, forget, one_process, results, write_rows
from tests.support.params_for import params_for
from tests.support.runs import context, new_store

pytestmark = pytest.mark.slow

FLIPS = 120
"""Damages that are tried; ``python -m tests.soaks.bit_flips`` tries as many as one likes."""
EVERY = 12
"""Number of records from one power cut to the next."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Snapshots]:
    """Small runs, and what they were after every stage."""
    return runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(autouse=True)
def _here() -> Iterator[None]:
    with one_process():
        yield


def test_flipped_bits_and_zeroed_pages_are_never_read_as_something_else(
    made: dict[str, Snapshots],
) -> None:
    """Spread evenly over the kinds of stored objects, as they are after every stage."""
    kinds = objects(made)
    assert {kind.partition(":")[0] for kind in kinds} == {
        "data", "stream", "partitions", "cells", "models", "record", "manifest.json", ".manifest.copy", "metrics.json",
        "checkpoints", "predictions", "solver",
    }  # fmt: skip
    rng = np.random.default_rng(0)
    expected: dict[Object, Any] = {}
    missed = []
    for k in range(FLIPS):
        things = kinds[sorted(kinds)[k % len(kinds)]]
        thing = things[rng.integers(len(things))]
        if thing not in expected:
            expected[thing] = thing.read()
        if unnoticed(thing, expected[thing], some_damage(rng, thing)):
            missed.append((k, thing.kind, thing.file))
    assert missed == []


def test_what_is_not_damaged_is_read_and_what_is_is_noticed(made: dict[str, Snapshots]) -> None:
    """The test before this one can fail."""
    for things in objects(made).values():
        expected = things[0].read()
        assert not unnoticed(things[0], expected, lambda path: None)  # noqa: ARG005
        assert unnoticed(things[0], "something else", lambda path: None)  # noqa: ARG005


# --- whole runs

DAMAGE = {
    "a part of the rows": ("batch", "ingest", "store.zarr/data/train/*/values/c/0"),
    "what the rows are": ("batch", "ingest", "store.zarr/data/zarr.json"),
    "partitionings": ("batch", "partition", "store.zarr/partitions/anne-psi-8/members/c/0/0"),
    "a shard of cells": ("batch", "cells", "store.zarr/cells/anne-psi-8/train/codes/c/1/0"),
    "a shard of labels": ("batch", "cells", "store.zarr/cells/anne-psi-8/train/labels/c/2"),
    "how cells are laid out": ("batch", "cells", "store.zarr/cells/anne-psi-8/train/codes/zarr.json"),
    "a record": ("batch", "cells", "records/cells/train-anne-psi-8-000001.json"),
    "the manifest": ("batch", "cells", "manifest.json"),
    "a model": ("batch", "train:svm", "store.zarr/models/svm/coef/c/0/0"),
    "duals of a round": ("distributed", "round-3", "records/train-logistic/rounds-classes-000/own-001-00004.npz"),
    "duals before it": ("distributed", "round-3", "records/train-logistic/rounds-classes-000/own-001-00003.npz"),
    "state of a round": ("distributed", "round-3", "records/train-logistic/rounds-classes-000/state-00004.npz"),
    "a chunk of a stream": ("stream", "shuffle", "store.zarr/stream/chunks/000000/labels/c/0"),
    "what a stream is": ("stream", "shuffle", "store.zarr/stream/zarr.json"),
    "predictions": ("stream", "stream", "predictions/ogd.int32"),
    "a learner's checkpoint": ("stream", "learning", "checkpoints/kernel-ogd.npz"),
    "metrics": ("batch", "finished", "metrics.json"),
}


def damaged(run: Path, pattern: str) -> Path:
    """Damage the first file that matches: a flipped bit in its middle."""
    path = sorted(run.glob(pattern))[0]
    flip(path, 8 * (path.stat().st_size // 2))
    return path


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_object_is_made_again(what: str, made: dict[str, Snapshots], tmp_path: Path) -> None:
    name, when, pattern = DAMAGE[what]
    run, heard = tmp_path / "run", Heard()
    if when == "learning":
        when = "stream"
    shutil.copytree(made[name].taken[when], run)
    if "checkpoints" in pattern:  # as if killed before the stream ended
        manifest = read_json(run / "manifest.json")
        del manifest["stages"]["stream"]
        write_json(run / "manifest.json", manifest)
        next((run / "records" / "stream").glob("kernel-ogd-model.json")).unlink()
    damaged(run, pattern)
    command = commands(made[name].directory.parent / "rows.libsvm")[name]
    command.run(run, heard=heard)
    assert results(run) == results(made[name].directory)
    if what == "what the rows are":  # which costs none of them
        (record,) = (stage for stage in read_json(run / "metrics.json")["stages"] if stage["name"] == "ingest")
        assert record["tasks_skipped"] == record["tasks"] == 3  # to read, to divide, to look at the first rows
    told = [line for line in heard.lines if "is damaged" in line or "made again" in line]
    assert told, heard.lines
    assert len(told) <= 2


@pytest.mark.parametrize("what", ["a part of the rows", "a shard of cells", "how cells are laid out", "partitionings"])
def test_what_is_damaged_while_a_run_is_at_work_is_made_again_too(
    what: str, made: dict[str, Snapshots], tmp_path: Path
) -> None:
    _, when, pattern = DAMAGE[what]
    run, heard, done = tmp_path / "run", Heard(), []

    def call(name: str, work: Callable[[], Result]) -> Result:
        result = work()
        done.append(name)
        if name == when and done.count(name) == 1:
            damaged(run, pattern)
            forget()
        return result

    commands(made["batch"].directory.parent / "rows.libsvm")["batch"].run(run, call, heard)
    assert results(run) == results(made["batch"].directory)
    assert any("is damaged (" in line and line.endswith("; it is made again") for line in heard.lines)
    assert done.count(when) == 2


def test_a_record_that_is_gone_together_with_its_output_is_noticed(made: dict[str, Snapshots], tmp_path: Path) -> None:
    run, heard = tmp_path / "run", Heard()
    shutil.copytree(made["batch"].taken["cells"], run)
    (run / "records/cells/train-anne-psi-8-000001.json").unlink()
    (run / "store.zarr/cells/anne-psi-8/train/codes/c/1/0").unlink()
    commands(made["batch"].directory.parent / "rows.libsvm")["batch"].run(run, heard=heard)
    assert "cells: some of its output is missing and is made again" in heard.lines
    assert "partition: done before" in heard.lines
    assert results(run) == results(made["batch"].directory)


def test_the_power_is_cut(tmp_path: Path) -> None:
    """At every twelfth record, with three kinds of disks (``python -m tests.soaks.power_cut`` does it at every one)."""
    tried = 0
    for name, command in commands(write_rows(tmp_path)).items():
        disk = Disk(tmp_path / name, tmp_path / f"{name}-cut", every=EVERY)
        with disk.watched():
            command.run(tmp_path / name)
        expected = results(tmp_path / name)
        assert len(disk.moments) > 6
        for moment in disk.moments[1::EVERY]:
            directory = moment / VARIANTS[tried % 3]
            command.run(directory)
            assert results(directory) == expected, directory
            tried += 1
    assert tried > 4


class OfCells(Disk):
    """A disk that is copied once, as the first record of training cells has just been written."""

    def _cut(self, what: str) -> None:
        if not self.moments and "train-anne-psi-8" in what:
            super()._cut(what)


def test_without_flushing_a_power_cut_loses_what_is_promised(tmp_path: Path) -> None:
    """The test before this one can fail: what only seems to be flushed is not on its disks."""
    command = commands(write_rows(tmp_path))["batch"]
    disk = OfCells(tmp_path / "run", tmp_path / "cut", forgets="store.zarr/")
    with disk.watched():
        whole = command.run(tmp_path / "run")
    (moment,) = disk.moments
    assert not list((moment / "lost" / "store.zarr").rglob("codes"))
    again = command.run(moment / "cut")  # but even then it is noticed, and made again
    hashes = [[learner["content_hash"] for learner in run["learners"].values()] for run in (again, whole)]
    assert hashes[0] == hashes[1]


# --- what cannot be made again


@pytest.mark.parametrize("gone", [True, False])
def test_rows_whose_file_is_gone_or_another_cannot_be_made_again(gone: bool, tmp_path: Path) -> None:
    file, run = write_rows(tmp_path), tmp_path / "run"

    def call(name: str, work: Callable[[], Result]) -> Result:
        result = work()
        if name == "ingest":
            damaged(run, DAMAGE["a part of the rows"][2])
            file.unlink() if gone else write_rows(tmp_path, n=241)
            forget()
        return result

    why = "no such file" if gone else "has changed since the run began"
    with pytest.raises(InputError, match=rf"data/train/00000-00000 is damaged .* and cannot be made again: .*{why}"):
        commands(file)["batch"].run(run, call)


@pytest.mark.parametrize(
    ("pattern", "when"),
    [
        *(("models/svm/zarr.json", "finished"), ("models/svm/coef/c/0/0", "finished")),
        *(("partitions/*/members/c/0/0", "finished"), ("data/zarr.json", "finished")),
        *(("models/svm/coef/c/0/0", "evaluate:svm"), ("data/zarr.json", "evaluate:svm")),
    ],
)
def test_a_damaged_model_is_made_again_by_the_same_command_though_no_stage_reads_it(
    pattern: str, when: str, made: dict[str, Snapshots], tmp_path: Path
) -> None:
    run, heard = tmp_path / "run", Heard()
    shutil.copytree(made["batch"].taken[when], run)
    damaged(run, f"store.zarr/{pattern}")
    file = made["batch"].directory.parent / "rows.libsvm"
    commands(file)["batch"].run(run, heard=heard)
    assert results(run) == results(made["batch"].directory)
    (told,) = (line for line in heard.lines if line.endswith("; it is made again"))
    assert "is damaged (" in told
    score(ScoreOptions(model=str(run), input=str(file), output="x"))
    again = Heard()
    commands(file)["batch"].run(run, heard=again)
    assert not again.lines  # finished, and whole


def test_a_finished_model_that_is_damaged_is_named_with_what_to_do(made: dict[str, Snapshots], tmp_path: Path) -> None:
    for pattern in ("store.zarr/models/svm/zarr.json", "store.zarr/models/svm/coef/c/0/0"):
        run = tmp_path / pattern.replace("/", "-")
        shutil.copytree(made["batch"].taken["finished"], run)
        damaged(run, pattern)
        asked = ScoreOptions(model=str(run), input=str(made["batch"].directory.parent / "rows.libsvm"), output="x")
        with pytest.raises(
            InputError,
            match=r"models/svm is damaged .*; restore it .* or make the run again: python -m flows.batch --config",
        ):
            score(asked)


def score(options: ScoreOptions) -> None:
    model = open_run(options.model, options.learner)
    model.load()


class Torn(Output):
    """An output whose first part is damaged before parts are joined."""

    def join(self, parts: Any, *rest: Any) -> int:
        zero_page(Path(parts[0][0].removeprefix("file://")), 0)
        return super().join(parts, *rest)


def test_a_part_of_the_scores_that_is_damaged_is_made_again(made: dict[str, Snapshots], tmp_path: Path) -> None:
    model, found = open_run(str(made["batch"].directory)), []
    data = open_data(model, str(made["batch"].directory.parent / "rows.libsvm"))

    for kind in (Output, Torn):
        heard, path = Heard(), tmp_path / f"{kind.__name__}.parquet"
        with kind(str(path)) as output:
            score_all(InProcess(), model, data, output, heard)
        found.append(path.read_bytes())
    assert found[0] == found[1]
    assert [line.rpartition("parquet")[2] for line in heard.lines if "is damaged" in line] == [
        " is damaged (its SHA-256 is wrong); it is made again"
    ]


def test_an_object_that_is_damaged_again_and_again_ends_in_one_line(tmp_path: Path) -> None:
    ctx, calls = context(tmp_path), 0
    path = tmp_path / "store.zarr" / "x"

    def work() -> None:
        nonlocal calls
        calls += 1
        path.mkdir(exist_ok=True)
        raise Damaged(str(path), "its checksum is wrong")

    with pytest.raises(InputError, match=r"x is damaged .its checksum is wrong., 3 times in a row; check the disk"):
        until_verified(ctx, work)
    assert calls == 3
    assert Damaged("a", "b", "c").withdrawn == pickle.loads(pickle.dumps(Damaged("a", "b", "c"))).withdrawn == ("c",)


def test_a_damaged_record_is_told_and_its_task_done_again(tmp_path: Path) -> None:
    done = []

    def work(k: int) -> TaskRecord:
        done.append(k)
        return {"rows": k}

    for _ in range(2):
        ctx = context(tmp_path)
        events: Any = Heard()
        ctx.events = events
        Stage(ctx, "cells", 2).run(work, [Task(f"k-{k}", (k,)) for k in range(2)])
        path = ctx.run.task_record("cells", "k-1")
        zero_page(path, 0)
    assert done == [0, 1, 1]
    assert events.lines == [f"{path} is damaged (it is not JSON); the task is done again"]


def test_a_directory_in_place_of_a_file_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "x.json").mkdir()
    with pytest.raises(InputError, match=r"x.json: found a directory, expected a file .*; remove it, then give"):
        write_json(tmp_path / "x.json", {})
    assert [entry.name for entry in tmp_path.iterdir()] == ["x.json"]


def test_a_full_disk_leaves_no_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written late may find the disk full only as it is flushed."""
    ctx = context(tmp_path)

    def work(store: Store) -> TaskRecord:
        store.write_group("g", {"x": np.ones(3)}, {})
        return {"outputs": ["g"]}

    def full(handle: int) -> None:  # noqa: ARG001
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match=r"No space left on device: .*store.zarr"):
            Stage(ctx, "cells", 1).run(work, [Task("k", (ctx.store,))])
    assert not ctx.run.task_record("cells", "k").exists()


class Rows(Feed):
    """A feed of rows that come in groups of 50."""

    url = "feed"
    replays = False

    def __init__(self) -> None:
        rng = np.random.default_rng(5)
        self.X = rng.random((300, 3))
        self.y = (self.X[:, 0] > 0.5).astype(float)

    def arrivals(self, taken: Mapping[str, int]) -> Iterator[Arrival]:
        for start in range(taken.get("feed", 0), 300, 50):
            stop = min(start + 50, 300)
            yield Arrival("feed", "feed", start + 1, self.X[start:stop], self.y[start:stop])


def fed(directory: Path) -> dict[str, Any]:
    """A run on a feed, or what is left to do of it."""
    forget()
    params = params_for(t=5, psi=4, learners=("ogd",))
    ctx: Any = context(directory, params, InProcess())
    asked = Invocation("test", "", {"kind": "local", "workers": 1}, dask_report=False)
    data = ResolvedDataset("feed", "feed")
    return run_online(ctx, data, asked, OnlineParams(initial=100, block_rows=25), feed=Rows())


def test_rows_of_a_feed_that_no_record_speaks_of_are_taken_once_more_and_others_are_gone(tmp_path: Path) -> None:
    curve = fed(tmp_path)["learners"]["ogd"]["curve"]["accuracy"]
    chunks = sorted((tmp_path / "store.zarr/stream/chunks").glob("0*"))
    manifest = read_json(tmp_path / "manifest.json")
    del manifest["stages"]["stream"]
    write_json(tmp_path / "manifest.json", {**manifest, "status": "unfinished"})
    shutil.copytree(tmp_path, tmp_path / "other")
    # Before a learner has begun, what was being written as the power failed.
    shutil.rmtree(tmp_path / "records" / "stream")
    zero_page(chunks[-1] / "labels/c/0", 0)
    with counted(Store.keep, note=lambda of: of["name"]) as kept:
        assert fed(tmp_path)["learners"]["ogd"]["curve"]["accuracy"] == curve
    assert kept.notes == [f"stream/chunks/{chunk.name}" for chunk in chunks[:-1]]  # which may not be on the disk yet
    zero_page(tmp_path / "other" / chunks[-1].relative_to(tmp_path) / "labels/c/0", 0)
    shutil.rmtree(tmp_path / "other" / "predictions")  # so that the chunk is learned from once more
    with pytest.raises(InputError, match=r"is damaged .*cannot be made again: its rows came from feed; --fresh, and"):
        fed(tmp_path / "other")


# --- the parts


def test_minus_one_is_a_value_and_what_is_absent_is_none(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    store.create_sharded("g/codes", (8, 2), np.int32, shard_rows=4, chunk_rows=2)
    store.write_shards("g/codes", 0, np.full((4, 2), -1, dtype=np.int32))
    array = store.open_arrays("g")["codes"]
    assert (read(array, slice(0, 4)) == -1).all()
    assert ABSENT == -(2**31)
    with pytest.raises(Damaged, match=r"g/codes/c/1/0 is damaged .some of it is missing"):
        read(array, slice(2, 6))


def test_a_chunk_that_is_gone_is_never_zeros(tmp_path: Path) -> None:
    store = new_store(tmp_path)
    store.write_group("g", {"x": np.zeros(3), "y": np.ones(2)}, {})
    (Path(store.path) / "g/x/c/0").unlink()
    assert not store.holds("g")
    with pytest.raises(Damaged, match=r"store.zarr/g is damaged .some of it is missing"):
        store.read_group("g")


@pytest.mark.parametrize("damage", [lambda b: b[:0], lambda b: b[:-1], lambda b: bytes(len(b)), lambda b: b[:40]])
def test_json_and_arrays_that_are_cut_or_zeros_are_damaged(damage: Any, tmp_path: Path) -> None:
    write_json(tmp_path / "x.json", {"a": [1, None, 0.1], "b": {"c": "é"}})
    assert read_json(tmp_path / "x.json") == {"a": [1, None, 0.1], "b": {"c": "é"}}
    write_arrays(tmp_path / "x.npz", {"a": np.arange(4), "b": np.zeros((0, 2))})
    assert read_arrays(tmp_path / "x.npz")["a"].tolist() == [0, 1, 2, 3]
    for name, reader in (("x.json", read_json), ("x.npz", read_arrays)):
        path = tmp_path / name
        path.write_bytes(damage(path.read_bytes()))
        with pytest.raises(Damaged, match=name):
            reader(path)


def test_a_disk_that_cannot_read_is_damage() -> None:
    with pytest.raises(Damaged, match=r"x is damaged .cannot be read: Input/output error"), durable.reading("x"):
        raise OSError(errno.EIO, "Input/output error")
