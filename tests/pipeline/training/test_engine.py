"""The engine of rounds: every executor gives the same bits, and so does one that was killed at any moment."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import numpy as np
import pytest

from pipeline.errors import Damaged
from pipeline.record_types import TaskRecord
from pipeline.running.attempt import with_spent, without_spent
from pipeline.running.measured import measured
from pipeline.running.stage import Stage
from pipeline.storage.durable import write_arrays
from pipeline.storage.lru_cache import PROCESS
from pipeline.training import engine
from pipeline.training.engine import (
    Executor,
    Folder,
    InThreads,
    OnWorkers,
    solve,
    solve_durably,
    solve_in_one,
    work_on_piece,
)
from pipeline.training.rounds import Arrays, Generations, Held, Rounds
from tests.support.calls import counted, kill_at, killed_at
from tests.support.in_process import InProcess
from tests.support.params_for import params_for
from tests.support.runs import context
from tests.support.sizes import SmallSizes

N_PIECES, N_ROUNDS = 4, 6


@dataclass
class Eight:
    bytes_read: int = 8


@dataclass(frozen=True)
class Drifting(Rounds[np.ndarray, float, float, Arrays]):
    """Sums whose bits depend on the order of pieces and rounds, and on the numbers of pieces after both last rounds."""

    owns: ClassVar[bool] = True

    def begin(self) -> np.ndarray:
        return np.array([0.1, 0.0])

    def order(self, state: np.ndarray) -> float | None:
        return None if state[1] == N_ROUNDS else float(state[0])

    def work(self, order: float, piece: int, held: Held[float], own: Generations) -> tuple[Arrays, Arrays]:
        last = own[0].get("x", np.zeros(1))
        before = own[1].get("x", np.zeros(1))
        x = 0.7 * last - 0.3 * before + np.cos(order + held.data) / (piece + 1)
        return {"x": x / 3}, {"x": x}

    def absorb(self, state: np.ndarray, order: float, shares: Iterator[Arrays]) -> np.ndarray:
        value = order / 7
        for share in shares:
            value += float(share["x"][0]) * 1e-3
        return np.array([value, state[1] + 1])

    def checkpoint(self, state: np.ndarray) -> Arrays:
        return {"state": state}

    def restore(self, arrays: Arrays) -> np.ndarray:
        return arrays["state"]

    @property
    def n_pieces(self) -> int:
        return N_PIECES

    def open(self, piece: int, in_memory: bool) -> Held[float]:  # noqa: ARG002
        return Held(1.0 / (piece + 1), 1, (Eight(),))

    def finish(self, state: np.ndarray) -> TaskRecord:
        written = self.store.write_group("solution", {"state": state}, {})
        return {"outputs": ["solution"], "bytes_written": written}


class Settled(Drifting):
    """The same without arrays of the pieces."""

    owns: ClassVar[bool] = False


class Sent(Settled):
    """The same, with orders that are sent with the tasks."""

    @property
    def sends_orders(self) -> bool:
        return True


class Durable(Settled):
    """The same, with shares that are stored."""

    durable: ClassVar[bool] = True


def expected(problem: Drifting) -> bytes:
    state, own = problem.begin(), [cast("Generations", ({}, {}))] * N_PIECES
    while (order := problem.order(state)) is not None:
        shares = []
        for k in range(N_PIECES):
            share, arrays = problem.work(order, k, problem.open(k, True), own[k])
            shares.append(share)
            own[k] = (arrays, own[k][0]) if problem.owns else own[k]
        state = problem.absorb(state, order, iter(shares))
    return state.tobytes()


def problem_in(kind: type[Drifting], path: Path) -> Drifting:
    return kind(str(path / "run" / "store.zarr"), "toy", None, None, params_for())


def executor_of(name: str, path: Path) -> Executor:
    if name == "threads":
        return InThreads(in_memory=True, n_threads=3)
    return OnWorkers(Stage(context(path / "run"), "train:toy", None))


@pytest.mark.parametrize(
    ("name", "kind"), [("threads", Settled), ("workers", Settled), ("workers", Sent), ("workers", Drifting)]
)
def test_every_executor_gives_the_same_bits_and_so_does_one_that_is_killed(
    name: str, kind: type[Drifting], tmp_path: Path, small_sizes: SmallSizes
) -> None:
    """Killed before every call in which something is written or worked on, once each, until nothing is left to do."""
    small_sizes.rounds_checkpoints()
    problem = problem_in(kind, tmp_path)
    for where, call in ((kind.work, 7), (write_arrays, 20 if kind.owns else 3)):
        folder, done, kills = Folder(tmp_path / where.__name__), [], 0
        while True:
            PROCESS.forget()  # another process
            try:
                with counted(where, kill_at(call)), executor_of(name, tmp_path) as executor:
                    state: Any = solve(problem, executor, folder)
                break
            except KeyboardInterrupt:
                kills += 1
                assert kills < 20  # else it does not get on
                done.append(folder.begin())
        assert kills
        assert done == sorted(done)
        assert done[-1] > 1
        assert state.tobytes() == expected(problem)


def test_a_checkpoint_in_one_task_is_written_now_and_then(tmp_path: Path) -> None:
    with InThreads(in_memory=True) as executor:
        solve(problem_in(Settled, tmp_path), executor, Folder(tmp_path / "folder"))
    assert not list((tmp_path / "folder").iterdir())  # it took less than `CHECKPOINT_SECONDS`
    with executor_of("workers", tmp_path) as workers:
        state: Any = solve(problem_in(Sent, tmp_path), workers, Folder(tmp_path / "sent"))
    assert state.tobytes() == expected(problem_in(Settled, tmp_path))
    assert not list((tmp_path / "sent").iterdir())


class Resting(Sent):
    """The same, where the arrays of every other state lack what it knows."""

    def rests(self, state: np.ndarray) -> bool:
        return bool(state[1] % 2 == 0)

    def checkpoint(self, state: np.ndarray) -> Arrays:
        return {"state": state if self.rests(state) else np.zeros(2)}


@pytest.mark.parametrize("name", ["threads", "workers"])
def test_a_state_is_written_only_where_its_arrays_have_all_that_it_knows(
    name: str, tmp_path: Path, small_sizes: SmallSizes
) -> None:
    """It is killed in the fourth round, and goes on after the second."""
    small_sizes.rounds_checkpoints()
    problem, folder = problem_in(Resting, tmp_path), Folder(tmp_path / "folder")
    with killed_at(Resting.absorb, 4), executor_of(name, tmp_path) as executor:
        solve(problem, executor, folder)
    assert folder.begin() == 2
    PROCESS.forget()
    with executor_of(name, tmp_path) as executor:
        state: Any = solve(problem, executor, folder)
    assert state.tobytes() == expected(problem)


def test_files_of_the_last_two_rounds_are_kept(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "folder")
    solve(problem_in(Drifting, tmp_path), executor_of("workers", tmp_path), folder)
    own = {f"own-00{k}-0000{n}" for n in (4, 5, 6) for k in range(N_PIECES)}
    assert {path.stem for path in folder.path.iterdir()} == {"state-00004", "state-00005"} | own


def test_files_without_a_state_and_of_other_layouts_are_removed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name in ("own-000-00001.npz", "alpha-000-3.npz", "17.npz", "state.json"):
        (tmp_path / "folder" / name).touch()
    assert Folder(tmp_path / "folder").begin() == 0
    assert not list((tmp_path / "folder").iterdir())


@pytest.mark.parametrize("lost", ["state-00003.npz", "own-002-00003.npz", "own-001-00002.npz"])
def test_a_damaged_or_missing_file_withdraws_the_whole_folder(lost: str, tmp_path: Path) -> None:
    problem, folder = problem_in(Drifting, tmp_path), Folder(tmp_path / "folder")
    with killed_at(Drifting.absorb, 4):
        solve(problem, executor_of("workers", tmp_path), folder)
    PROCESS.forget()
    (folder.path / lost).write_bytes(b"nothing")
    with pytest.raises(Damaged) as error:
        solve(problem, executor_of("workers", tmp_path), folder)
    assert error.value.path == str(folder.path / lost)
    assert error.value.withdrawn == (str(folder.path),)


def test_files_of_another_run_are_refused(tmp_path: Path) -> None:
    """Files of earlier versions, which name no run, are gone on from."""
    problem, path = problem_in(Drifting, tmp_path), tmp_path / "folder"
    for run in ("", "one"):
        shutil.rmtree(path, ignore_errors=True)
        with killed_at(Drifting.absorb, 4):
            solve(problem, executor_of("workers", tmp_path), Folder(path, run))
        PROCESS.forget()
        executor, folder = executor_of("workers", tmp_path), Folder(path, "two")
        if not run:
            state: Any = solve(problem, executor, folder)
            assert state.tobytes() == expected(problem)
            continue
        with pytest.raises(Damaged, match="it is of another run, one") as error:
            solve(problem, executor, folder)
        assert error.value.withdrawn == (str(path),)


def test_stored_shares_are_not_worked_on_again(tmp_path: Path) -> None:
    problem, done = problem_in(Durable, tmp_path), 0
    for at in (6, 7, 9):
        with killed_at(Durable.work, at):
            solve_durably(problem, Stage(context(tmp_path / "run"), "train:toy", None))
        done += at - 1
    with counted(Durable.work) as calls:
        record = solve_durably(problem, Stage(context(tmp_path / "run"), "train:toy", None))
    assert done + calls.number == N_PIECES * N_ROUNDS
    assert record["outputs"] == ["solution"]
    (state,) = problem.store.read_group("solution")[1].values()
    assert state.tobytes() == expected(problem_in(Settled, tmp_path))


class Compiling(InProcess):
    """Every task compiles for a quarter of a second."""

    def submit(self, func: Callable[..., Any], *args: Any, **options: Any) -> Any:
        def compiled(*args: Any) -> Any:
            return {**func(*args), "compile_seconds": 0.25, "worker": "one"}

        return super().submit(compiled, *args, **options)


def test_compiling_in_a_piece_is_counted_once(tmp_path: Path) -> None:
    ctx, now = context(tmp_path / "run", client=Compiling()), [0.0]
    ctx.clock, ctx._started = (lambda: now[0]), 0.0
    stage = Stage(ctx, "train:toy", None)
    with OnWorkers(stage) as executor:
        record = executor.solve(problem_in(Drifting, tmp_path), Folder(tmp_path / "folder"))
    now[0] = 9.0
    stage.finish({})
    seconds = 0.25 * N_PIECES * N_ROUNDS
    assert record["bytes_read"] == 8 * N_PIECES
    assert record["busy"].keys() == {"one"}
    assert ctx.run.manifest["compile_seconds"] == seconds
    assert ctx.run.manifest["stages"]["train:toy"]["record"]["seconds"] == 9.0 - seconds


class Second(InProcess):
    """A client whose tasks take a second each, on a worker of that name."""

    def __init__(self, worker: str) -> None:
        super().__init__()
        self.worker = worker

    def submit(self, func: Callable[..., Any], *args: Any, **options: Any) -> Any:
        def timed(*args: Any) -> Any:
            return {**func(*args), "seconds": 1.0, "worker": self.worker}

        return super().submit(timed, *args, **options)


@pytest.mark.parametrize("kind", [Drifting, Sent])
def test_a_record_of_workers_counts_processes_that_were_killed(
    kind: type[Drifting], tmp_path: Path, small_sizes: SmallSizes
) -> None:
    """It is killed in the fourth round, and each process reads all pieces."""
    small_sizes.rounds_checkpoints()
    problem, folder = problem_in(kind, tmp_path), Folder(tmp_path / "folder")

    def solved_on(worker: str) -> TaskRecord:
        with OnWorkers(Stage(context(tmp_path / worker, client=Second(worker)), "train:toy", None)) as executor:
            return executor.solve(problem, folder)

    with killed_at(kind.absorb, 4):
        solved_on("one")
    PROCESS.forget()
    record = solved_on("two")
    assert record["busy"] == {"one": 3.0 * N_PIECES, "two": 3.0 * N_PIECES}
    assert record["bytes_read"] == 2 * 8 * N_PIECES


def test_a_record_of_one_task_counts_attempts_that_were_killed(tmp_path: Path, small_sizes: SmallSizes) -> None:
    """The first attempt has read all pieces, and taken long; a checkpoint of an earlier version does not say so."""
    small_sizes.rounds_checkpoints()
    problem, folder = problem_in(Settled, tmp_path), Folder(tmp_path / "folder")
    args = problem, folder, True, 1
    with killed_at(Settled.absorb, 4):
        measured(solve_in_one, args)
    arrays, spent = without_spent(folder.read(engine.STATE, 3))
    assert arrays.keys() == {"state"}
    assert spent["bytes_read"] == 8 * N_PIECES
    for before, n_read in (({**spent, "seconds": 1000.0, "peak_rss_bytes": 1 << 60}, 2), (None, 1)):
        shutil.rmtree(folder.path)
        folder.begin()
        folder.write(engine.STATE, 3, arrays if before is None else with_spent(arrays, cast("TaskRecord", before)))
        record = measured(solve_in_one, args)
        assert record["bytes_read"] == n_read * 8 * N_PIECES
        assert (record["seconds"] > 1000.0) == (before is not None)
        assert (record["peak_rss_bytes"] == 1 << 60) == (before is not None)


class Coming(InProcess):
    """Workers that come and go."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.homes: list[str | None] = []

    async def identity(self, n_workers: int) -> Any:  # noqa: ARG002
        return {"workers": {address: {} for address in self.addresses}}

    def submit(self, func: Callable[..., Any], *args: Any, **options: Any) -> Any:
        self.homes += options.get("workers", [None])
        return super().submit(func, *args, **options)


def test_a_piece_stays_with_its_worker(tmp_path: Path) -> None:
    client = Coming()
    executor = OnWorkers(Stage(context(tmp_path / "run", client=client), "train:toy", None))
    problem, folder = problem_in(Settled, tmp_path), Folder(tmp_path / "folder")
    folder.begin()
    executor.begin(problem, folder, 0, {})
    homes = []
    for addresses in (["a", "b"], ["a", "b", "c"], ["b", "c"], [], ["c"]):
        client.addresses, client.homes = addresses, []
        list(executor.shares(0, None))
        homes.append(client.homes)
    assert homes == [["a", "b", "a", "b"], ["a", "b", "a", "b"], ["c", "b", "c", "b"], [None] * 4, ["c"] * 4]


def test_pieces_that_a_stopped_client_has_left_are_let_go_before_the_next_learner() -> None:
    """Their key has the folder of the run, in which a run with --fresh has other rows."""
    stage = cast("Stage", SimpleNamespace(context=SimpleNamespace(client=InProcess())))
    left = engine._HeldPiece(Held(object(), 3, ()), 100)
    engine._pieces.put((("runs/a/store.zarr", "svm", None), 0), left)
    with OnWorkers(stage):
        assert len(engine._pieces) == 0


@dataclass(frozen=True)
class Tight(Settled):
    """The same, with room for one piece; pieces are read at the same time."""

    met: ClassVar[Barrier] = Barrier(2)

    def size(self, piece: int) -> int:  # noqa: ARG002
        return 100

    def room(self) -> float:
        return 150.0

    def open(self, piece: int, in_memory: bool) -> Held[float]:
        self.met.wait(timeout=60)
        return super().open(piece, in_memory)


def test_threads_that_read_pieces_at_the_same_time_share_the_room(tmp_path: Path) -> None:
    problem, folder = problem_in(Tight, tmp_path), Folder(tmp_path / "folder")
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda piece: work_on_piece(problem, piece, folder, 0), range(2)))
    held = [engine._pieces.take((problem.rows_key, piece)) for piece in range(2)]
    assert sorted(kept.bytes_in_memory for kept in held if kept is not None) == [0, 100]
