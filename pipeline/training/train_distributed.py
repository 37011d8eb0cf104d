"""Train SVM, logistic regression and SVR by CoCoA+: workers keep parts of the rows, and only weight vectors travel.

A round is a task per part. It reads the weights that the round starts from, and answers with the change that its part
makes. The state of the solver is in the run directory: the weights, the dual variables of each part, and the state of
the coordinator, after the last two rounds. So a task can be done anywhere and again, and a run that was killed goes on
with the round it was in. The parts that a worker holds in memory (their cells above all) only save reading.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import cast

import numpy as np

from ikmap.cells import packed_dtype
from ikmap.learners.dual import cocoa
from ikmap.learners.dual.block_reader import BlockReader
from ikmap.learners.dual.cocoa import Coordinator, CoordinatorState, Order, Report
from pipeline.errors import Damaged
from pipeline.params import Params
from pipeline.record_types import SolutionRecord, TaskRecord
from pipeline.rows.block_sizes import BLOCK_BYTES, learning_parts
from pipeline.rows.cell_blocks import CellBlocks, SpooledBlocks
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.row_weights import weight_rule
from pipeline.running import stage as engine
from pipeline.running.dispatch import Task, worker_addresses
from pipeline.running.stage import Stage
from pipeline.storage.durable import read_arrays, read_json, write_arrays, write_json
from pipeline.storage.fitted import Fitted
from pipeline.storage.lru_cache import PROCESS, LRUCache
from pipeline.storage.store import Store
from pipeline.training.train_batch import problem_of, store_solution

PROBLEMS_AT_ONCE = 8
"""Number of one-vs-rest problems that share the pass over the rows; the others wait, to bound memory."""
HELD_BYTES = 64 << 20
"""Bytes of packed cells that a process holds in memory; the other parts that it works on are in temporary files."""
STATE = "state.json"


class CountedPart(TaskRecord):
    """The record of a task that counts a part."""

    survey: list[float]
    columns: int


class ImprovedPart(TaskRecord):
    """The record of a task that has improved the solution on a part; never written to disk."""

    report: Report


def solve_distributed(
    stage: Stage, learner: str, fitted: Fitted, n_classes: int, groups: Sequence[list[int]], n_parts: int
) -> list[SolutionRecord]:
    """Solve groups of one-vs-rest problems, one group after the other; store their solutions and return the records."""
    team, records = _Team(stage, learner, fitted, n_classes, n_parts), []
    for i, group in enumerate(groups):
        folder = stage.context.run.task_record(stage.name, f"solving-{i:03d}").with_suffix("")
        records.append(stage.once(f"classes-{i:03d}", partial(_solve_group, team, group, i, folder)))
        shutil.rmtree(folder, ignore_errors=True)
    team.dismiss()
    return records


@dataclass(frozen=True)
class Part:
    """A part of the training rows: small enough to travel with every task."""

    path: str
    learner: str
    fitted: Fitted
    n_classes: int
    n_parts: int
    number: int
    params: Params = field(compare=False)  # those of the run, which the path stands for

    @property
    def training(self) -> tuple[str, str, Fitted]:
        """The training that the part belongs to: store, learner and cells."""
        return self.path, self.learner, self.fitted


@dataclass
class _Team:
    """The parts, and the worker of each."""

    stage: Stage
    learner: str
    fitted: Fitted
    n_classes: int
    n_parts: int
    homes: dict[int, str] = field(default_factory=dict)

    def part(self, number: int) -> Part:
        """Return a part by its number."""
        context = self.stage.context
        sizes = self.n_classes, self.n_parts
        return Part(context.store.path, self.learner, self.fitted, *sizes, number, context.params)

    def each[R: TaskRecord](self, name: str, function: Callable[..., R], *args: object) -> Iterator[R]:
        """Do ``function(part, *args)`` for every part; yield the records in the order of the parts."""
        self._assign()
        tasks = [Task(f"{name}-part-{k:03d}", (self.part(k), *args), self.homes.get(k)) for k in range(self.n_parts)]
        early: dict[str, R] = {}
        following = iter(tasks)
        expected = next(following, None)
        for task, record in engine.run_tasks(self.stage.context.client, self.stage.key, function, tasks):
            self.stage.note_compiling(record)
            early[task.name] = record
            while expected is not None and expected.name in early:
                yield early.pop(expected.name)
                expected = next(following, None)

    def _assign(self) -> None:
        """Leave each part with the worker that has it; share out the parts of workers that are gone."""
        workers = worker_addresses(self.stage.context.client)
        self.homes = {k: worker for k, worker in self.homes.items() if worker in workers}
        count = {worker: sum(home == worker for home in self.homes.values()) for worker in workers}
        for k in range(self.n_parts):
            if k not in self.homes and count:
                least = min(count, key=lambda worker: (count[worker], worker))
                self.homes[k] = least
                count[least] += 1

    def dismiss(self) -> None:
        """Let workers forget the parts."""
        self.stage.context.client.run(let_go, on_error="ignore")
        let_go()


def _solve_group(team: _Team, group: list[int], number: int, folder: Path) -> SolutionRecord:
    """Solve some of the one-vs-rest problems, from where an interrupted run stopped; store their solutions."""
    stage, context = team.stage, team.stage.context
    params = problem_of(context.params, team.learner)
    folder.mkdir(parents=True, exist_ok=True)
    totals = _Totals()
    surveys, rows, columns = [], 0, 0
    for record in team.each("count", count_part):
        surveys.append(record["survey"])
        rows += record["rows"]
        columns = record["columns"]
        totals.add(record)
    rounds = cocoa.Rounds.of(params, team.n_classes, tuple(group), surveys)
    coordinator = _restore(folder, rounds) or Coordinator(rounds, columns)
    while (order := coordinator.order) is not None:
        _save(folder, coordinator)
        coordinator.absorb(order, _reports(team, str(folder), rounds, order, totals))
        stage.say({})
    return {
        **store_solution(context.store, team.learner, number, coordinator.fit()),
        "rows": rows,
        "bytes_read": totals.bytes_read,
        "busy": totals.busy,
        "peak_rss_bytes": totals.peak_rss_bytes,
    }


def _reports(team: _Team, folder: str, rounds: cocoa.Rounds, order: Order, totals: _Totals) -> Iterator[Report]:
    for record in team.each(f"round-{order.round:04d}", improve_part, folder, rounds, order):
        totals.add(record)
        yield record["report"]


@dataclass
class _Totals:
    """Sums over the tasks of all rounds, for the record of the stage."""

    bytes_read: int = 0
    peak_rss_bytes: int = 0
    busy: dict[str, float] = field(default_factory=dict)

    def add(self, record: TaskRecord) -> None:
        """Add the measures of a task."""
        self.bytes_read += record["bytes_read"]
        self.peak_rss_bytes = max(self.peak_rss_bytes, record["peak_rss_bytes"])
        self.busy[record["worker"]] = self.busy.get(record["worker"], 0.0) + record["seconds"]


def _save(folder: Path, coordinator: Coordinator) -> None:
    """Write the state that the next round starts from; the state before it stays valid until the last step."""
    if coordinator.round == 0:
        return
    _write_array(folder / f"w-{coordinator.round}.npz", coordinator.w)
    write_json(folder / STATE, coordinator.state())
    (folder / f"w-{coordinator.round - 2}.npz").unlink(missing_ok=True)


def _restore(folder: Path, rounds: cocoa.Rounds) -> Coordinator | None:
    """Take up the rounds of an interrupted run."""
    if not (folder / STATE).exists():
        return None
    try:
        state = read_json(folder / STATE)
    except Damaged as damaged:
        raise Damaged(damaged.path, damaged.why, str(folder)) from None
    done = int(state["round"])
    w = _read_array(folder / f"w-{done}.npz")
    before = _read_array(folder / f"w-{done - 1}.npz") if done > 1 else np.zeros_like(w)
    return Coordinator.restore(rounds, cast("CoordinatorState", state), w, before)


# ---------------------------------------------------------------------------------------------------- on the workers


@dataclass
class _Held:
    """A part as a process keeps it from round to round: the rows, packed, and the latest dual variables."""

    reader: BlockReader
    blocks: CellBlocks | SpooledBlocks
    bytes_in_memory: int
    alphas: LRUCache[str, np.ndarray] = field(default_factory=lambda: LRUCache(2))


_held: LRUCache[Part, _Held] = PROCESS.keeps(None)
_weights: LRUCache[str, np.ndarray] = PROCESS.keeps(2)
"""Weights by file: the two states that the next round starts from."""


def let_go() -> None:
    """Let go of all parts: the learner is done."""
    _held.forget()
    _weights.forget()


def count_part(part: Part) -> CountedPart:
    """Task: take hold of a part, and count its rows and their classes."""
    held, read = _hold(part)
    survey = cocoa.survey(held.reader, part.n_classes)
    rows = sum(held.reader.rows_of_blocks())
    assert held.reader.columns is not None
    _rest(held)
    return {"survey": survey, "rows": rows, "columns": held.reader.columns, "bytes_read": read}


def improve_part(part: Part, folder: str, rounds: cocoa.Rounds, order: Order) -> ImprovedPart:
    """Task: do the work of one round on a part."""
    held, read = _hold(part)
    read_before, done = held.blocks.bytes_read, order.round - 1
    shape = (len(rounds.problems), sum(held.reader.rows_of_blocks()))
    assert held.reader.columns is not None
    stem = f"{folder}/alpha-{part.number:03d}"
    alpha, alpha_before = (_array(held.alphas, f"{stem}-{k}.npz", shape, k) for k in (done, done - 1))
    shape = (shape[0], held.reader.columns + 1)
    w, w_before = (_array(_weights, f"{folder}/w-{k}.npz", shape, k) for k in (done, done - 1))
    new, report = cocoa.improve(rounds, part.number, held.reader, order, alpha, alpha_before, w, w_before)
    path = Path(f"{stem}-{order.round}.npz")
    _write_array(path, new)
    held.alphas.put(str(path), new)
    _rest(held)
    # The coordinator has written down its state after `done` rounds, and will not need earlier ones.
    Path(f"{stem}-{done - 2}.npz").unlink(missing_ok=True)
    return {"report": report, "bytes_read": read + held.blocks.bytes_read - read_before}


def _hold(part: Part) -> tuple[_Held, int]:
    """Return a part, and the bytes that had to be read for it."""
    with _held.lock:
        for other in _held:
            if other.training != part.training:
                _held.take(other)  # of a learner that is done
        if (held_part := _held.get(part)) is not None:
            return held_part, 0
        used = sum(held.bytes_in_memory for held in _held.values())
    store = Store(part.path)
    offsets = part.fitted.offsets(store)
    train = PreparedRows(store, "train")
    ranges = learning_parts(train.n_rows, part.n_parts, part.params.seed)[part.number]
    row_bytes = (offsets.size - 1) * packed_dtype(offsets).itemsize
    size = row_bytes * sum(stop - start for start, stop in ranges)
    # A part no larger than a block is visited as a whole, a larger one in small blocks; the result is the same whether
    # it is held in memory or in a file.
    n_blocks = -(-size // BLOCK_BYTES)
    visited_ranges = [ranges[k::n_blocks] for k in range(n_blocks)]
    weight_of = weight_rule(train.preparation.task)
    stored = CellBlocks(store, part.fitted.cells_name("train"), offsets, visited_ranges, weight_of)
    in_memory = n_blocks == 1 and used + size <= HELD_BYTES
    visits = {"visit_rows": None} if n_blocks == 1 else {}
    blocks = stored if in_memory else SpooledBlocks(stored, offsets, **visits)
    held = _Held(BlockReader(blocks, part.n_classes, None, True), blocks, size if in_memory else 0)
    _held.put(part, held)
    return held, stored.bytes_read


def _rest(held: _Held) -> None:
    """Release the memory of a part that is in a file, until the next round."""
    if not held.bytes_in_memory:
        held.reader.release()
        held.alphas.forget()


def _array(kept: LRUCache[str, np.ndarray], path: str, shape: tuple[int, int], done: int) -> np.ndarray:
    """Return the state after `done` rounds, from memory or its file; zeros before the first."""
    if done <= 0:
        return np.zeros(shape)
    array = kept.get(path)
    if array is None:
        array = _read_array(Path(path))
        kept.put(path, array)
    return array


def _write_array(path: Path, array: np.ndarray) -> None:
    write_arrays(path, {"array": array})


def _read_array(path: Path) -> np.ndarray:
    """Read a part of the solver's state; if it is damaged, so is the whole state."""
    try:
        return read_arrays(path)["array"]
    except FileNotFoundError:
        raise Damaged(str(path), "it is missing", str(path.parent)) from None
    except Damaged as damaged:
        raise Damaged(damaged.path, damaged.why, str(path.parent)) from None
