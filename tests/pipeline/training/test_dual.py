"""The distributed solver: the same bits for any number of workers, after any death of any of them, and after a kill."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import Client

from benchmarks.cocoa import fit_cocoa
from cluster import connect
from ikmap.cells import Cells
from ikmap.learners.dual import cocoa
from ikmap.learners.dual.linear_svm import fit_linear_svm
from ikmap.learners.linear_model import LinearModel
from ikmap.learners.rows import Block
from pipeline.monitoring.events import QuietProgress
from pipeline.params import Params
from pipeline.record_types import TaskProgress, TrainResult
from pipeline.rows.block_sizes import learning_parts
from pipeline.running.stage import Context
from pipeline.storage.durable import write_arrays
from pipeline.storage.fitted import Fitted
from pipeline.storage.lru_cache import PROCESS
from pipeline.storage.models import load_model
from pipeline.training.dual_tasks import problem_of, store_solution
from pipeline.training.engine import let_go
from pipeline.training.train import train
from tests.support.calls import counted, killed_at
from tests.support.narrow import entries
from tests.support.params_for import params_for
from tests.support.runs import context, mapped, training_cells
from tests.support.sizes import SmallSizes

SOLVERS = ("memory", "block", "distributed")

pytestmark = pytest.mark.system

PARAMS: dict[str, Any] = {"t": 9, "solver": "distributed", "parts": 3, "C": 1.0}


@pytest.fixture(autouse=True)
def _nothing_held() -> None:
    PROCESS.forget()


type Mapped = Callable[[Path, Params], tuple[Context, Fitted]]


@pytest.fixture(scope="module")
def mapped_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Mapped]:
    """Runs up to their cells, mapped once each: ``mapped_once(n, classes)(path, params)`` gives a copy of one."""

    @cache
    def of(n: int, classes: int = 2) -> Mapped:
        made = tmp_path_factory.mktemp("mapped") / "run"
        fitted = mapped(made, n, params_for(t=PARAMS["t"]), classes=classes)[1]

        def copied(path: Path, params: Params) -> tuple[Context, Fitted]:
            shutil.copytree(made, path)
            return context(path, params), fitted

        return copied

    return of


def learner(ctx: Context, name: str, content_hash: str) -> LinearModel:
    return load_model(ctx.store, f"models/{name}", LinearModel, content_hash)


def parts_in_memory(ctx: Context, fitted: Fitted) -> list[list[Block]]:
    codes, y = training_cells(ctx, fitted)
    offsets = fitted.load(ctx.store).offsets
    svm: Any = ctx.params.of("svm")
    ranges = learning_parts(y.size, svm.parts or 0, ctx.params.seed)
    rows = [np.concatenate([np.arange(start, stop) for start, stop in part]) for part in ranges]
    return [[Block(Cells(codes[part], offsets), y[part])] for part in rows]


BALANCED = params_for(**PARAMS, class_weight="balanced")
GROUPS = {2: [[0]], 10: [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]}


@pytest.fixture(scope="module")
def fits_of(mapped_once: Callable[..., Mapped], tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[Any]]:
    """What one process finds in memory, each once."""

    @cache
    def of(classes: int, name: str) -> list[Any]:
        ctx, fitted = mapped_once(500, classes)(tmp_path_factory.mktemp("in-memory") / "run", BALANCED)
        parts, asked = parts_in_memory(ctx, fitted), problem_of(ctx.params, name)
        return [fit_cocoa(parts, classes, asked, classes_subset=group) for group in GROUPS[classes]]

    return of


@pytest.mark.parametrize(
    ("classes", "name", "held_bytes"),
    [(2, "svm", 0), (2, "logistic", 1 << 30), (10, "svm", 1 << 30), (10, "logistic", 0)],
)
def test_the_stage_solves_as_one_process_does(
    classes: int,
    name: str,
    held_bytes: int,
    mapped_once: Callable[..., Mapped],
    fits_of: Callable[..., list[Any]],
    tmp_path: Path,
    small_sizes: SmallSizes,
) -> None:
    """Whether parts are held in memory or in files; ten classes are solved in two groups."""
    small_sizes.solver_blocks(held=held_bytes)
    ctx, fitted = mapped_once(500, classes)(tmp_path / "run", BALANCED)
    result = entries(train(ctx, name, fitted))
    found = learner(ctx, name, result["content_hash"])
    fits = fits_of(classes, name)
    assert np.array_equal(found.coef, np.column_stack([fit.coef for fit in fits]))
    assert result["solver"] == "distributed"
    assert result["parts"] == 3
    assert result["rounds"] == result["iterations"] == max(fit.n_iter.max() for fit in fits)
    assert result["duality_gap"] == max(fit.gap.max() for fit in fits) <= 1e-3
    assert ("n_support" in result) == (classes == 2)
    assert not list((tmp_path / "run" / "records").rglob("*.npz"))
    assert not list((tmp_path / "run" / "store.zarr" / "models").glob("*-solved/*"))


@pytest.mark.parametrize(("loss", "C"), [("hinge", 5.0), ("squared_hinge", 0.01)])
def test_the_three_solvers_reach_the_same_objective(
    loss: str, C: float, mapped_once: Callable[..., Mapped], tmp_path: Path
) -> None:
    objectives = {}
    for solver in SOLVERS:
        ctx, fitted = mapped_once(1000)(tmp_path / solver, params_for(t=9, solver=solver, C=C, loss=loss))
        result = entries(train(ctx, "svm", fitted))
        assert result["solver"] == solver
        assert result["duality_gap"] <= 1e-3
        assert ("parts" in result) == ("rounds" in result) == (solver == "distributed")
        objectives[solver] = result["objective"]
    for solver in SOLVERS:
        assert objectives[solver] == pytest.approx(objectives["memory"], rel=1e-3)


def test_parts_larger_than_a_block_are_visited_in_small_blocks(tmp_path: Path, small_sizes: SmallSizes) -> None:
    small_sizes.solver_blocks(block=4000, held=4000)
    ctx, fitted = mapped(tmp_path, 3000, params_for(**PARAMS))
    result = entries(train(ctx, "svm", fitted))
    codes, y = training_cells(ctx, fitted)
    offsets = fitted.load(ctx.store).offsets
    expected = fit_linear_svm([Block(Cells(codes, offsets), y)], 2, problem_of(ctx.params, "svm"))
    assert result["duality_gap"] <= 1e-3
    assert result["objective"] == pytest.approx(expected.primal[0], rel=1e-3)
    small_sizes.solver_blocks(block=1 << 30)
    whole, fitted = mapped(tmp_path / "whole", 3000, params_for(**PARAMS))
    assert train(whole, "svm", fitted)["content_hash"] != result["content_hash"]  # else the cut was not made


KILLED = params_for(**{**PARAMS, "C": 0.1})


@pytest.fixture(scope="module")
def undisturbed(
    mapped_once: Callable[..., Mapped], tmp_path_factory: pytest.TempPathFactory
) -> tuple[TrainResult, int]:
    """The result of a solve that nobody kills, and how often it improves a part."""
    PROCESS.forget()
    ctx, fitted = mapped_once(300, 10)(tmp_path_factory.mktemp("whole") / "run", KILLED)
    with counted(cocoa.improve) as calls:
        return train(ctx, "svm", fitted), calls.number


@pytest.mark.parametrize(
    ("where", "call"),
    [
        (write_arrays, 1), (write_arrays, 9), (write_arrays, 12), (write_arrays, 16),
        (cocoa.improve, 1), (cocoa.improve, 8), (store_solution, 1), (store_solution, 2), (let_go, 1),
    ],
)  # fmt: skip
def test_a_killed_solve_goes_on_to_the_same_bits(
    where: Callable[..., Any],
    call: int,
    mapped_once: Callable[..., Mapped],
    undisturbed: tuple[TrainResult, int],
    tmp_path: Path,
) -> None:
    expected, total = undisturbed
    ctx, fitted = mapped_once(300, 10)(tmp_path / "killed", KILLED)
    PROCESS.forget()
    with killed_at(where, call):
        train(ctx, "svm", fitted)
    PROCESS.forget()  # another process
    with counted(cocoa.improve) as calls:
        assert train(ctx, "svm", fitted) == expected
    # Three parts write in each round, and the coordinator before the next; the first round counts classes.
    done_before = {(cocoa.improve, 8): 6, (write_arrays, 9): 3, (write_arrays, 12): 3, (write_arrays, 16): 6}
    if (where, call) in done_before:
        assert calls.number == total - done_before[where, call]
    assert calls.number < total or call == 1
    assert not list((tmp_path / "killed" / "records").rglob("*.npz"))


class Deadly(QuietProgress):
    """Events of a run of which a worker is killed after three rounds."""

    def __init__(self, client: Client) -> None:
        self.client, self.rounds = client, 0

    def task_done(self, name: str, record: TaskProgress) -> None:  # noqa: ARG002
        self.rounds += 1
        if self.rounds == 3:
            pid, other = set(self.client.run(os.getpid).values())
            assert pid != other
            os.kill(pid, signal.SIGKILL)


def test_the_same_bits_on_workers_of_which_one_dies(tmp_path: Path) -> None:
    params = KILLED
    here, fitted = mapped(tmp_path / "here", 4000, params, classes=3)
    shutil.copytree(tmp_path / "here", tmp_path / "there")
    expected = train(here, "svm", fitted)
    with connect("local", workers=2, memory_limit="1GB") as cluster:
        deadly = Deadly(cluster.client)
        ctx = replace(context(tmp_path / "there", params, client=cluster.client), events=deadly)
        assert train(ctx, "svm", fitted) == expected
    assert deadly.rounds > 6
    assert np.array_equal(
        learner(ctx, "svm", expected["content_hash"]).coef, learner(here, "svm", expected["content_hash"]).coef
    )


def test_what_an_earlier_version_left_is_not_read_and_goes(
    mapped_once: Callable[..., Mapped], undisturbed: tuple[TrainResult, int], tmp_path: Path
) -> None:
    ctx, fitted = mapped_once(300, 10)(tmp_path / "run", KILLED)
    PROCESS.forget()
    records = ctx.run.task_record("train:svm", "any").parent
    left = ("solving-000/state.json", "rounds-classes-000/own-000-00001.npz", "checkpoint.npz")
    for name in left:
        (records / name).parent.mkdir(parents=True, exist_ok=True)
        (records / name).write_bytes(b"not of this version")
    assert train(ctx, "svm", fitted) == undisturbed[0]
    assert not any((records / name).exists() for name in left)
    assert not list((tmp_path / "run" / "records").rglob("*.npz"))
