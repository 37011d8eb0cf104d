"""Learners in rounds, such as ridge regression: sums over all rows, in one task or in a task for each piece of them.

Where the rows are decides no bit: pieces depend on sizes only, and their sums are added up in the order of the rows.
The state of the learner is written down as it goes on, so that a run that was killed goes on with it; what a worker
holds in memory only saves reading.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from distributed import Client

from ikmap.methods import RoundsLearner
from ikmap.methods.learner import RoundState
from pipeline.params import Params
from pipeline.record_types import Record, RecordView
from pipeline.rows.block_sizes import BLOCK_BYTES, packed_bytes, packed_row_bytes
from pipeline.rows.cell_blocks import CellBlocks, SpooledBlocks
from pipeline.rows.prepared import PreparedRows
from pipeline.rows.row_weights import weight_rule
from pipeline.running import stage as engine
from pipeline.running.dispatch import Task
from pipeline.running.stage import Stage
from pipeline.running.worker_memory import worker_limit
from pipeline.storage.durable import read_arrays, write_arrays
from pipeline.storage.fitted import Fitted
from pipeline.storage.lru_cache import PROCESS, LRUCache
from pipeline.storage.models import MODELS, save_model
from pipeline.storage.store import Store
from pipeline.training.runner import CellSizes, Runner, TrainingJob

CHECKPOINT_SECONDS = 5.0
"""In one task, the state is written down that often."""
VISIT_ROWS = 8192
"""Rows that are read from a file at once."""
HELD_SHARE = 0.5
"""Pieces are held in memory up to this share of a worker's memory; those beyond it are in temporary files."""
MOST_PIECES = 16
"""That a plan counts with: each has sums over all cells."""


class RoundsRunner(Runner[RoundsLearner]):
    """Trains a :class:`~ikmap.methods.RoundsLearner`."""

    told: ClassVar[RecordView] = {
        "solver": {
            "description": "All rows in one task, blocks of a file in one task, or parts of the rows side by side.",
            "enum": ["memory", "block", "distributed"],
        },
    }

    def train(self, lesson: TrainingJob) -> dict[str, Any]:
        fitted, context, params = lesson.fitted, lesson.context, lesson.context.params
        assert fitted is not None
        solver = choose(
            solver_of(params.learner_as(RoundsLearner, lesson.learner)),
            packed_bytes(lesson.rows.n_rows, fitted.t, fitted.most_cells),
        )
        if solver == "distributed":
            stage = lesson.stage(None)
            folder = context.run.task_record(stage.name, "rounds").with_suffix("")
            record = stage.once("solve", partial(_solve_in_tasks, lesson, stage, folder))
            shutil.rmtree(folder, ignore_errors=True)
        else:
            stage = lesson.stage(1)
            checkpoint = str(context.run.task_record(stage.name, "checkpoint").with_suffix(".npz"))
            of = (context.store, params, lesson.learner, fitted, solver, checkpoint, lesson.n_threads)
            (record,) = stage.run(solve_in_one, [Task("whole", of)])
            Path(checkpoint).unlink(missing_ok=True)
        return stage.finish(**lesson.chosen, content_hash=record["content_hash"], **record["learner"], solver=solver)

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

    def least(self, learner: RoundsLearner) -> dict[str, Any]:
        return {} if solver_of(learner) == "memory" else {"solver": "block"}


def solver_of(learner: RoundsLearner) -> str:
    """Return how a learner is asked to go about the rows: all that learn in rounds have the field."""
    return str(learner.value_at("solver"))


def choose(asked: str, cells_bytes: int) -> str:
    """How rows of so many bytes are gone about; the result is the same for any."""
    if asked != "auto":
        return asked
    return "memory" if cells_bytes <= BLOCK_BYTES else "distributed"


@dataclass(frozen=True)
class Piece:
    """Which rows: small enough to travel with every task."""

    path: str
    learner: str
    fitted: Fitted
    start: int
    stop: int
    params: Params = field(compare=False)  # those of the run, which the path stands for

    @property
    def of(self) -> tuple[str, str, Fitted]:
        """What it is a piece of."""
        return self.path, self.learner, self.fitted

    def open(self, in_memory: bool) -> Held:
        """Read it, to be summed up many times."""
        store, method = Store(self.path), self.params.learner_as(RoundsLearner, self.learner)
        offsets = self.fitted.offsets(store)
        weigh = weight_rule(PreparedRows(store, "train").preparation.task)
        ranges = [[(start, min(start + VISIT_ROWS, self.stop))] for start in range(self.start, self.stop, VISIT_ROWS)]
        blocks: Any = CellBlocks(store, self.fitted.cells_name("train"), offsets, ranges, weigh)
        if not in_memory:
            spooled = SpooledBlocks(blocks, offsets, visit_rows=None)
            return Held(None, spooled, method, blocks.bytes_read)
        parts = [part for block in blocks for part in method.held(block)]
        return Held(parts, None, method, blocks.bytes_read)


@dataclass
class Held:
    """The rows of a piece, as a process keeps them from round to round: in memory, or in a temporary file."""

    in_memory: list[Any] | None
    in_file: SpooledBlocks | None
    method: RoundsLearner
    bytes_read: int

    def parts(self) -> Iterator[Any]:
        """The rows as the learner takes them."""
        if self.in_memory is not None:
            yield from self.in_memory
        elif self.in_file is not None:
            for block in self.in_file:
                yield from self.method.held(block)

    def sums(self, order: Any) -> Any:
        """What they add."""
        return self.method.sums(order, self.parts())


def total(sums: Iterable[Any]) -> Any:
    """The sum of what all pieces add, in their order."""
    found = iter(sums)
    first = next(found)
    for other in found:
        first += other
    return first


# ------------------------------------------------------------------------------------------------------- in one task


def solve_in_one(
    store: Store, params: Params, learner: str, fitted: Fitted, solver: str, checkpoint: str, n_threads: int = 1
) -> Record:
    """Task: all rounds, going on from the checkpoint of an interrupted attempt; store the model."""
    method, offsets = params.learner_as(RoundsLearner, learner), fitted.offsets(store)
    n = PreparedRows(store, "train").n_rows
    held = [piece.open(solver == "memory") for piece in _pieces(store.path, params, learner, fitted, n, offsets)]
    state = method.begin(offsets, read_arrays(checkpoint) if Path(checkpoint).exists() else None)
    written = time.monotonic()
    with ThreadPoolExecutor(max(1, min(n_threads, len(held)))) as pool:
        while (order := state.order) is not None:
            state.absorb(total(pool.map(lambda one, order=order: one.sums(order), held)))
            if time.monotonic() - written >= CHECKPOINT_SECONDS:
                write_arrays(checkpoint, state.checkpoint())
                written = time.monotonic()
    read = sum(one.bytes_read for one in held)
    return {"rows": n, "bytes_read": read, **_store(store, params, learner, offsets, state)}


def _pieces(path: str, params: Params, learner: str, fitted: Fitted, n_rows: int, offsets: np.ndarray) -> list[Piece]:
    of = params.learner_as(RoundsLearner, learner).pieces(n_rows, offsets)
    return [Piece(path, learner, fitted, start, stop, params) for start, stop in of]


def _store(store: Store, params: Params, learner: str, offsets: np.ndarray, state: RoundState) -> Record:
    """Store the model; what a record says of it."""
    model, facts = params.learner_as(RoundsLearner, learner).finish(state, offsets)
    output = f"{MODELS}/{learner}"
    return {
        "content_hash": save_model(store, output, model),
        "bytes_written": model.nbytes,
        "outputs": [output],
        "learner": facts,
    }


# ------------------------------------------------------------------------------------------------------- in many tasks


def _solve_in_tasks(lesson: TrainingJob, stage: Stage, folder: Path) -> Record:
    """All rounds, a task for each piece, from where an interrupted run stopped; store the model."""
    context, learner, fitted = lesson.context, lesson.learner, lesson.fitted
    assert fitted is not None
    store, params = context.store, context.params
    method, offsets, n = params.learner_as(RoundsLearner, learner), fitted.offsets(store), lesson.rows.n_rows
    pieces = _pieces(store.path, params, learner, fitted, n, offsets)
    folder.mkdir(parents=True, exist_ok=True)
    done = max((int(path.stem) for path in folder.glob("*.npz")), default=0)
    state = method.begin(offsets, read_arrays(folder / f"{done}.npz") if done else None)
    sums: Record = {"bytes_read": 0, "peak_rss_bytes": 0, "busy": {}}
    while state.order is not None:
        path = folder / f"{done}.npz"
        write_arrays(path, state.checkpoint())
        (folder / f"{done - 2}.npz").unlink(missing_ok=True)
        homes = _homes(context.client, len(pieces))
        tasks = [Task(f"{done:05d}-{k:03d}", (one, str(path)), homes.get(k)) for k, one in enumerate(pieces)]
        found: Record = {}
        for task, record in engine.run_tasks(context.client, stage.key, sum_piece, tasks):
            stage.note_compiling(record)
            found[task.name] = record.pop("sums")
            sums["bytes_read"] += record["bytes_read"]
            sums["peak_rss_bytes"] = max(sums["peak_rss_bytes"], record["peak_rss_bytes"])
            sums["busy"][record["worker"]] = sums["busy"].get(record["worker"], 0.0) + record["seconds"]
        state.absorb(total(found[task.name] for task in tasks))
        done += 1
        stage.say({})
    if context.client is not None:
        context.client.run(let_go, on_error="ignore")
    let_go()
    return {"rows": n, **sums, **_store(store, params, learner, offsets, state)}


def _homes(client: Client | None, n_pieces: int) -> dict[int, str]:
    """The worker for each piece: always the same one, as long as there are the same workers."""
    if client is None:  # in tests: tasks are done here and now
        return {}
    there = sorted(client.scheduler_info(n_workers=-1)["workers"])
    return {k: there[k * len(there) // n_pieces] for k in range(n_pieces)} if there else {}


_held: LRUCache[Piece, Held] = PROCESS.keeps(None)
_orders: LRUCache[str, Any] = PROCESS.keeps(1)
"""By file, what is asked for in a round."""


def let_go() -> None:
    """Hold no piece any more: the learner is done."""
    _held.forget()
    _orders.forget()


def sum_piece(piece: Piece, path: str) -> Record:
    """Task: what the rows of a piece add in the round that a file describes."""
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
            if other.of != piece.of:
                _held.take(other)  # of a learner that is done
        if (found := _held.get(piece)) is not None:
            return found, 0
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
