"""Train learners in rounds, such as ridge regression: sums over all rows, in one task or in a task for each piece.

The place of the rows changes no bit: pieces depend on sizes only, and their sums are added up in the order of the rows.
The state of the learner is written down as it goes on, so that a run that was killed goes on with it; the pieces that a
worker holds in memory only save reading.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np

from ikmap.json_values import JsonObject
from ikmap.methods import RoundsLearner
from ikmap.methods.learner import RoundState
from pipeline.params import Params
from pipeline.record_types import TaskRecord, TrainedRecord, TrainResult
from pipeline.rows.block_sizes import BLOCK_BYTES, packed_bytes, packed_row_bytes
from pipeline.rows.cell_blocks import CellBlocks, SpooledBlocks
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.row_weights import weight_rule
from pipeline.running import stage as engine
from pipeline.running.dispatch import AnyClient, Task, worker_addresses
from pipeline.running.stage import Stage
from pipeline.running.worker_memory import worker_limit
from pipeline.storage.durable import read_arrays, write_arrays
from pipeline.storage.fitted import Fitted
from pipeline.storage.lru_cache import PROCESS, LRUCache
from pipeline.storage.models import MODELS, save_model
from pipeline.storage.store import Store
from pipeline.training.runner import CellSizes, Runner, TrainingJob

CHECKPOINT_SECONDS = 5.0
"""Seconds between checkpoints of the state, in one task."""
VISIT_ROWS = 8192
"""Number of rows that are read from a file at once."""
HELD_SHARE = 0.5
"""Pieces are held in memory up to this share of a worker's memory; those beyond it are in temporary files."""
MOST_PIECES = 16
"""Number of pieces that a plan reckons with: each has sums over all cells."""


class Sums(Protocol):
    """Sums over the rows of a piece, whatever a learner sums up."""

    def __iadd__(self, other: Sums, /) -> Sums: ...


class SumsRecord(TaskRecord):
    """The record of a task that sums up a piece; never written to disk."""

    sums: Sums


class RoundsRunner(Runner[RoundsLearner]):
    """The runner of each :class:`~ikmap.methods.RoundsLearner`."""

    metrics_schema: ClassVar[Mapping[str, JsonObject]] = {
        "solver": {
            "description": "All rows in one task, blocks of a file in one task, or parts of the rows side by side.",
            "enum": ["memory", "block", "distributed"],
        },
    }

    def train(self, job: TrainingJob) -> TrainResult:
        fitted, context, params = job.fitted, job.context, job.context.params
        assert fitted is not None
        solver = choose(
            solver_of(params.learner_as(RoundsLearner, job.learner)),
            packed_bytes(job.rows.n_rows, fitted.t, fitted.most_cells),
        )
        if solver == "distributed":
            stage = job.stage(None)
            folder = context.run.task_record(stage.name, "rounds").with_suffix("")
            record = stage.once("solve", partial(_solve_in_tasks, job, stage, folder))
            shutil.rmtree(folder, ignore_errors=True)
        else:
            stage = job.stage(1)
            checkpoint = str(context.run.task_record(stage.name, "checkpoint").with_suffix(".npz"))
            task_args = (context.store, params, job.learner, fitted, solver, checkpoint, job.n_threads)
            (record,) = stage.run(solve_in_one, [Task("whole", task_args)])
            Path(checkpoint).unlink(missing_ok=True)
        return stage.finish(job.result(record["content_hash"], {**record["learner"], "solver": solver}))

    def fills_cluster(self, learner: RoundsLearner, cells_bytes: int) -> bool:
        return choose(solver_of(learner), cells_bytes) == "distributed"

    def needs(self, learner: RoundsLearner, sizes: CellSizes) -> tuple[float, str]:
        cells, vectors = sizes.cells_bytes, (8 + MOST_PIECES) * sizes.weights_bytes
        blocks = 4.0 * min(cells, BLOCK_BYTES) + vectors
        solver = choose(solver_of(learner), cells)
        if solver == "memory":
            return max(blocks, 1.25 * cells + 8 * sizes.rows + vectors), "in memory (solver memory)"
        if solver == "distributed":
            return blocks, "in pieces, in the memory of the workers where it suffices (solver distributed)"
        return blocks, "block by block (solver block)"

    def least(self, learner: RoundsLearner) -> JsonObject:
        return {} if solver_of(learner) == "memory" else {"solver": "block"}


def solver_of(learner: RoundsLearner) -> str:
    """Return the option ``solver`` of a learner: all that learn in rounds have it."""
    return str(learner.value_at("solver"))


def choose(requested: str, cells_bytes: int) -> str:
    """Return the solver for cells of `cells_bytes` bytes; the result of training is the same for any solver."""
    if requested != "auto":
        return requested
    return "memory" if cells_bytes <= BLOCK_BYTES else "distributed"


@dataclass(frozen=True)
class Piece:
    """A piece of the training rows: small enough to travel with every task."""

    path: str
    learner: str
    fitted: Fitted
    start: int
    stop: int
    params: Params = field(compare=False)  # those of the run, which the path stands for

    @property
    def training(self) -> tuple[str, str, Fitted]:
        """The training that the piece belongs to: store, learner and cells."""
        return self.path, self.learner, self.fitted

    def open(self, in_memory: bool) -> Held:
        """Read the piece, to be summed up many times."""
        store, method = Store(self.path), self.params.learner_as(RoundsLearner, self.learner)
        offsets = self.fitted.offsets(store)
        weight_of = weight_rule(PreparedRows(store, "train").preparation.task)
        ranges = [[(start, min(start + VISIT_ROWS, self.stop))] for start in range(self.start, self.stop, VISIT_ROWS)]
        blocks = CellBlocks(store, self.fitted.cells_name("train"), offsets, ranges, weight_of)
        if not in_memory:
            spooled = SpooledBlocks(blocks, offsets, visit_rows=None)
            return Held(None, spooled, method, blocks.bytes_read)
        parts = [part for block in blocks for part in method.held(block)]
        return Held(parts, None, method, blocks.bytes_read)


@dataclass
class Held:
    """The rows of a piece, as a process keeps them from round to round: in memory, or in a temporary file."""

    in_memory: list[object] | None
    in_file: SpooledBlocks | None
    method: RoundsLearner
    bytes_read: int

    def parts(self) -> Iterator[object]:
        """Yield the rows as the learner takes them."""
        if self.in_memory is not None:
            yield from self.in_memory
        elif self.in_file is not None:
            for block in self.in_file:
                yield from self.method.held(block)

    def sums(self, order: object) -> Sums:
        """Return the sums over the rows that a round needs."""
        sums: Sums = self.method.sums(order, self.parts())
        return sums


def total(sums: Iterable[Sums]) -> Sums:
    """Return the sum over all pieces, in their order."""
    remaining = iter(sums)
    sum_so_far = next(remaining)
    for other in remaining:
        sum_so_far += other
    return sum_so_far


# ------------------------------------------------------------------------------------------------------- in one task


def solve_in_one(
    store: Store, params: Params, learner: str, fitted: Fitted, solver: str, checkpoint: str, n_threads: int = 1
) -> TrainedRecord:
    """Task: do all rounds, going on from the checkpoint of an interrupted attempt; store the model."""
    method, offsets = params.learner_as(RoundsLearner, learner), fitted.offsets(store)
    n = PreparedRows(store, "train").n_rows
    held = [piece.open(solver == "memory") for piece in _pieces(store.path, params, learner, fitted, n, offsets)]
    state = method.begin(offsets, read_arrays(checkpoint) if Path(checkpoint).exists() else None)
    written = time.monotonic()
    with ThreadPoolExecutor(max(1, min(n_threads, len(held)))) as pool:
        while (order := state.order) is not None:
            state.absorb(total(pool.map(lambda piece_held, order=order: piece_held.sums(order), held)))
            if time.monotonic() - written >= CHECKPOINT_SECONDS:
                write_arrays(checkpoint, state.checkpoint())
                written = time.monotonic()
    read = sum(piece_held.bytes_read for piece_held in held)
    return {**_store(store, params, learner, offsets, state), "rows": n, "bytes_read": read}


def _pieces(path: str, params: Params, learner: str, fitted: Fitted, n_rows: int, offsets: np.ndarray) -> list[Piece]:
    """Cut the training rows into pieces."""
    ranges = params.learner_as(RoundsLearner, learner).pieces(n_rows, offsets)
    return [Piece(path, learner, fitted, start, stop, params) for start, stop in ranges]


def _store(store: Store, params: Params, learner: str, offsets: np.ndarray, state: RoundState) -> TrainedRecord:
    """Store the model; return a record."""
    model, summary = params.learner_as(RoundsLearner, learner).finish(state, offsets)
    output = f"{MODELS}/{learner}"
    return {
        "content_hash": save_model(store, output, model),
        "bytes_written": model.nbytes,
        "outputs": [output],
        "learner": summary,
    }


# ------------------------------------------------------------------------------------------------------- in many tasks


def _solve_in_tasks(job: TrainingJob, stage: Stage, folder: Path) -> TrainedRecord:
    """Do all rounds, with a task for each piece, from where an interrupted run stopped; store the model."""
    context, learner, fitted = job.context, job.learner, job.fitted
    assert fitted is not None
    store, params = context.store, context.params
    method, offsets, n = params.learner_as(RoundsLearner, learner), fitted.offsets(store), job.rows.n_rows
    pieces = _pieces(store.path, params, learner, fitted, n, offsets)
    folder.mkdir(parents=True, exist_ok=True)
    done = max((int(path.stem) for path in folder.glob("*.npz")), default=0)
    state = method.begin(offsets, read_arrays(folder / f"{done}.npz") if done else None)
    bytes_read = peak_rss_bytes = 0
    busy: dict[str, float] = {}
    while state.order is not None:
        path = folder / f"{done}.npz"
        write_arrays(path, state.checkpoint())
        (folder / f"{done - 2}.npz").unlink(missing_ok=True)
        homes = _homes(context.client, len(pieces))
        tasks = [Task(f"{done:05d}-{k:03d}", (piece, str(path)), homes.get(k)) for k, piece in enumerate(pieces)]
        piece_sums: dict[str, Sums] = {}
        for task, record in engine.run_tasks(context.client, stage.key, sum_piece, tasks):
            stage.note_compiling(record)
            piece_sums[task.name] = record["sums"]
            bytes_read += record["bytes_read"]
            peak_rss_bytes = max(peak_rss_bytes, record["peak_rss_bytes"])
            busy[record["worker"]] = busy.get(record["worker"], 0.0) + record["seconds"]
        state.absorb(total(piece_sums[task.name] for task in tasks))
        done += 1
        stage.say({})
    context.client.run(let_go, on_error="ignore")
    let_go()
    return {
        **_store(store, params, learner, offsets, state),
        "rows": n,
        "bytes_read": bytes_read,
        "peak_rss_bytes": peak_rss_bytes,
        "busy": busy,
    }


def _homes(client: AnyClient, n_pieces: int) -> dict[int, str]:
    """Return the worker for each piece: always the same one, as long as the workers are the same."""
    workers = worker_addresses(client)
    return {k: workers[k * len(workers) // n_pieces] for k in range(n_pieces)} if workers else {}


_held: LRUCache[Piece, Held] = PROCESS.keeps(None)
_orders: LRUCache[str, object] = PROCESS.keeps(1)
"""Orders of a round, by the file that describes it."""


def let_go() -> None:
    """Let go of all pieces: the learner is done."""
    _held.forget()
    _orders.forget()


def sum_piece(piece: Piece, path: str) -> SumsRecord:
    """Task: sum up the rows of a piece for the round that a file describes."""
    order = _orders.get(path)
    if order is None:
        offsets = piece.fitted.offsets(Store(piece.path))
        order = piece.params.learner_as(RoundsLearner, piece.learner).begin(offsets, read_arrays(path)).order
        _orders.put(path, order)
    held, read = _hold(piece)
    return {"sums": held.sums(order), "bytes_read": read, "rows": piece.stop - piece.start}


def _hold(piece: Piece) -> tuple[Held, int]:
    """Return a piece, and the bytes that had to be read for it."""
    with _held.lock:
        for other in _held:
            if other.training != piece.training:
                _held.take(other)  # of a learner that is done
        if (held_piece := _held.get(piece)) is not None:
            return held_piece, 0
        rows = chain([piece.stop - piece.start], (o.stop - o.start for o in _held if _in_memory(o)))
        limit = worker_limit()
        row_bytes = packed_row_bytes(piece.fitted.offsets(Store(piece.path))) + 16
        fits = limit is None or sum(rows) * row_bytes <= HELD_SHARE * limit
    held = piece.open(fits)
    _held.put(piece, held)
    return held, held.bytes_read


def _in_memory(piece: Piece) -> bool:
    held = _held.get(piece)
    return held is not None and held.in_memory is not None
