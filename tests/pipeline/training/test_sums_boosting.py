"""Boosting in a run: the same bits however its rows are held and wherever its pieces are, killed or not."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cluster import connect
from ikmap.learners.boosting import piece
from ikmap.learners.boosting.bins import n_edge_rows
from ikmap.learners.boosting.boosting import Boosting as State
from ikmap.learners.boosting.piece import Piece
from ikmap.methods import Shape
from ikmap.methods.boosting import Boosting
from ikmap.methods.fields import FieldError
from pipeline.errors import InputError
from pipeline.running.stage import Context
from pipeline.runs.plan import DataSizes, make_plan
from pipeline.storage.durable import write_arrays
from pipeline.storage.lru_cache import PROCESS
from pipeline.storage.mapped import MappedArrays
from pipeline.training import engine
from pipeline.training.sums import SumsRounds
from pipeline.training.train import train
from tests import ROOT
from tests.support.calls import counted, killed_at
from tests.support.in_process import InProcess
from tests.support.params_for import params_for
from tests.support.runs import context, points, sparse, store_rows
from tests.support.sizes import SmallSizes

ROWS = 700
SETTINGS: dict[str, Any] = {"rounds": 8, "shrinkage": 0.5, "max_leaves": 6, "min_leaf": 4, "held_out": 0.2}


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    PROCESS.forget()
    monkeypatch.setattr(piece, "SUM_ROWS", 32)


class Many(InProcess):
    """A cluster of some threads, of which each worker has one."""

    def __init__(self, threads: int) -> None:
        super().__init__(1 << 30)
        self.threads = threads

    async def identity(self, n_workers: int) -> Any:  # noqa: ARG002
        return {"workers": {f"w{k}": {"host": "one", "nthreads": 1} for k in range(self.threads)}}


def run_of(path: Path, *, threads: int = 1, kind: str = "dense", part_rows: int = 300, **options: Any) -> Context:
    X, y = points(ROWS, classes=options.pop("classes", 2))
    params = params_for(learners=("boosting",), **{**SETTINGS, **options})
    ctx = context(path, params, client=Many(threads))
    store_rows(ctx.store, X if kind == "dense" else sparse(X), y, rule="first", n_train=600, part_rows=part_rows)
    return ctx


def content_hash(ctx: Context, n_threads: int = 1) -> str:
    return str(train(ctx, "boosting", None, n_threads=n_threads)["content_hash"])


@pytest.fixture(scope="module")
def in_memory(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The hash of the model that is learned from all rows in memory."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(piece, "SUM_ROWS", 32)
        return content_hash(run_of(tmp_path_factory.mktemp("memory") / "run", solver="memory"))


@pytest.mark.parametrize(("kind", "classes"), [("dense", 3), ("sparse", 2)])
def test_the_model_has_the_same_bits_however_rows_are_held(kind: str, classes: int, tmp_path: Path) -> None:
    ways: list[tuple[int, dict[str, Any]]] = [
        (1, {"solver": "memory"}),
        (2, {"solver": "auto", "part_rows": 90}),
        (1, {"solver": "block", "threads": 3}),
        (1, {"solver": "distributed", "part_rows": 40}),
        (1, {"solver": "distributed", "threads": 5}),
        (1, {"solver": "distributed", "threads": 100}),
    ]
    hashes = set()
    for k, (n_threads, options) in enumerate(ways):
        ctx = run_of(tmp_path / str(k), kind=kind, classes=classes, rounds=4, **options)
        hashes.add(content_hash(ctx, n_threads))
    assert len(hashes) == 1


def test_the_model_of_pieces_is_that_of_rows_in_memory(tmp_path: Path) -> None:
    from pipeline.rows.prepared import PreparedRows
    from pipeline.training.in_memory import train_in_memory

    ctx = run_of(tmp_path / "run", solver="distributed", threads=3, row_share=0.7, column_share=0.5)
    rows = PreparedRows(ctx.store, "train")
    expected: Any = train_in_memory(ctx.params, "boosting", None, rows.preparation.task, rows.read(0, 600))
    assert content_hash(ctx) == expected.content_hash


def test_pieces_that_do_not_fit_into_memory_are_in_files(
    in_memory: str, tmp_path: Path, small_sizes: SmallSizes
) -> None:
    small_sizes.sums_in_files()
    with counted(MappedArrays.zeros, note=lambda given: tuple(given["shape"])) as made:
        ctx = run_of(tmp_path / "files", solver="distributed", threads=3)
        assert content_hash(ctx) == in_memory
    assert {shape[0] for shape in made.notes if len(shape) == 2 and shape[1] == 4} == {216, 192}  # all three pieces


def test_arrays_in_files_keep_their_values_at_rest() -> None:
    arrays = MappedArrays()
    some, none = arrays.zeros((1000, 3), np.int64), arrays.zeros((0,), np.float64)
    some[:] = np.arange(3000).reshape(1000, 3)
    arrays.rest()
    assert some.ravel().tolist() == list(range(3000))
    assert none.size == 0


@pytest.mark.parametrize(
    ("solver", "seconds", "forgets"),
    # Any two of the three meet.
    [
        *(("memory", 0.0, True), ("memory", 1e9, False), ("block", 0.0, False), ("block", 1e9, True)),
        *(("distributed", 0.0, True), ("distributed", 1e9, False), ("distributed", 1e9, True)),
    ],
)
def test_a_killed_run_goes_on_to_the_same_bits(
    solver: str, seconds: float, forgets: bool, in_memory: str, tmp_path: Path, small_sizes: SmallSizes
) -> None:
    """Killed in one round after the other, with checkpoints of every round or none, and workers that go or stay."""
    small_sizes.rounds_checkpoints(seconds)
    ctx, kills = run_of(tmp_path / "killed", solver=solver, threads=2), 0

    def kill(number: int) -> None:
        if number % 5 == 0 and kills < 4:
            raise KeyboardInterrupt

    with counted(SumsRounds.work, kill):
        while True:
            try:
                found = content_hash(context(tmp_path / "killed", ctx.params, client=Many(2)))
                break
            except KeyboardInterrupt:
                kills += 1
                if forgets:
                    PROCESS.forget()
    assert found == in_memory
    assert kills >= 3


def test_a_run_that_is_killed_before_values_are_estimated_anew_estimates_them(
    tmp_path: Path, small_sizes: SmallSizes
) -> None:
    small_sizes.rounds_checkpoints()
    whole, again = (run_of(tmp_path / name, solver="memory", backfit=2) for name in ("whole", "killed"))
    expected = content_hash(whole)
    with killed_at(Piece._backfit):
        content_hash(again)
    assert content_hash(context(tmp_path / "killed", again.params, client=Many(1))) == expected


def test_a_worker_that_loses_its_piece_gets_all_trees(in_memory: str, tmp_path: Path) -> None:
    def lose(number: int) -> None:
        if number % 25 == 0:
            PROCESS.forget()

    with counted(SumsRounds.work, lose, note=lambda given: given["order"]) as calls:
        assert content_hash(run_of(tmp_path / "lossy", solver="distributed", threads=3)) == in_memory
    whole = [order for order in calls.notes if getattr(order, "basis", None) is not None and order.trees]
    assert len(whole) > 6


@pytest.mark.system
def test_the_same_bits_on_workers_of_which_one_dies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piece, "SUM_ROWS", 4096)  # as in the workers
    monkeypatch.setattr(engine, "MOST_LEGS_LOST", -1)  # a task for each piece and round
    here, there = (tmp_path / name for name in ("here", "there"))
    X, y = points(10_000, classes=3)
    params = params_for(learners=("boosting",), **SETTINGS, solver="distributed")
    for path in (here, there):
        store_rows(context(path, params).store, X, y, rule="first", n_train=9000, part_rows=2000)
    expected = train(context(here, params), "boosting", None)

    def kill_one(number: int) -> None:
        if number in (9, 40):
            pids = cluster.client.run(os.getpid)
            os.kill(pids[min(pids)], signal.SIGKILL)

    with connect("local", workers=2, memory_limit="1GB") as cluster, counted(State.absorb, kill_one) as rounds:
        assert train(context(there, params, client=cluster.client), "boosting", None) == expected
    assert rounds.number > 60


def test_orders_are_sent_and_the_state_is_written_now_and_then(tmp_path: Path) -> None:
    with counted(write_arrays) as written:
        content_hash(run_of(tmp_path / "run", solver="distributed", threads=2))
    assert not written.number  # it took less than `CHECKPOINT_SECONDS`


def test_a_class_without_training_rows_is_refused(tmp_path: Path) -> None:
    ctx = context(tmp_path / "run", params_for(learners=("boosting",), **SETTINGS), client=Many(1))
    X, y = points(ROWS, classes=3)
    order = np.argsort(y, kind="stable")
    store_rows(ctx.store, X[order], y[order], rule="first", n_train=200, part_rows=100)
    with pytest.raises(InputError, match=r"boosting: found no training row of .*; give another --seed or split"):
        train(ctx, "boosting", None)


def test_quantiles_have_all_rows_in_memory() -> None:
    assert Boosting(quantile_level=0.9).choose_solver(1 << 60) == "memory"
    assert Boosting().choose_solver(1 << 60) == "distributed"
    assert Boosting().choose_solver(1 << 20) == "memory"
    with pytest.raises(FieldError) as error:
        Boosting(quantile_level=0.9, solver="distributed")
    assert error.value.worded("--{}".format) == (
        "--quantile_level 0.9: found --solver distributed, expected memory; the quantile of a leaf is found among all "
        "of its rows; leave --solver out or give --solver memory"
    )


def test_the_plan_reckons_with_bins_and_not_with_all_rows() -> None:
    learner, shape = Boosting(rounds=100), Shape(3_000_000, 20, None, 1)
    in_memory, in_pieces = (learner.at({"solver": name}).memory(shape) for name in ("memory", "distributed"))
    bins_and_margins = 3_000_000 * (20 + 64)
    assert bins_and_margins < in_memory < bins_and_margins + (100 << 20)
    assert in_memory < shape.rows_bytes
    ten_times = Shape(30_000_000, 20, None, 1)
    assert learner.at({"solver": "distributed"}).memory(ten_times) < in_pieces + (100 << 20)
    assert learner.memory(ten_times) == learner.at({"solver": "distributed"}).memory(ten_times)
    sizes = DataSizes(30_000_000, 1000, 20, 0, 1, dense=True)
    assert make_plan(params_for(learners=("boosting",)), 0, sizes, 2).worker_bytes < 2 << 30
    assert learner.memory(ten_times) >= learner.piece_bytes


MEASURE = """
import os
import sys
from pathlib import Path
import distributed  # as every worker has
from ikmap.methods import boosting
from pipeline.running.measured import peak_rss_bytes
from pipeline.runs.plan import DataSizes, make_plan
from pipeline.training.train import train
from tests.support.params_for import params_for
from tests.support.runs import context

# What is imported is so once, and each solver is measured in a process of its own.
for folder in map(Path, sys.argv[3:]):
    if not os.fork():
        break
    assert os.wait()[1] == 0
else:
    sys.exit()
n, d, solver = int(sys.argv[1]), int(sys.argv[2]), folder.name
boosting.Boosting.piece_bytes = 8 << 20
params = params_for(learners=("boosting",), solver=solver, rounds=2)
plan = make_plan(params, 0, DataSizes(n, 0, d, n * d, 1, dense=True), workers=1)
before = peak_rss_bytes()
train(context(folder, params), "boosting", None)
print(plan.worker_bytes, peak_rss_bytes(), before)
"""


@pytest.mark.slow
def test_the_estimate_is_not_below_the_truth(tmp_path: Path) -> None:
    n, d, truths, estimates = 900_000, 8, {}, {}
    folders = [tmp_path / solver for solver in ("memory", "block")]
    store_rows(context(folders[0]).store, *points(n, d), part_rows=20_000)
    shutil.copytree(folders[0], folders[1])
    words = [sys.executable, "-c", MEASURE, str(n), str(d), *map(str, folders)]
    measured = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert measured.returncode == 0, measured.stderr
    for solver, line in zip(("memory", "block"), measured.stdout.splitlines(), strict=True):
        estimate, truth, before = map(int, line.split())
        print(f"{solver}: estimated {estimate / 1e6:.0f} MB, found {truth / 1e6:.0f} MB, {before / 1e6:.0f} MB before")
        assert truth <= 1.1 * estimate
        assert estimate <= 2.5 * truth
        truths[solver], estimates[solver] = truth, estimate
    held = n * Boosting().row_bytes(d, 1)
    # In files, the rows that edges of bins are taken from, and their copy, are the most at a time.
    edges = 2 * n_edge_rows(n, d) * 8 * d
    assert estimates["memory"] - estimates["block"] == pytest.approx(held - edges, abs=2 << 20)
    assert truths["memory"] - truths["block"] > held / 2  # which is in files
