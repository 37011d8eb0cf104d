"""Sweeps over more rows than fit in memory: trees and cells by all workers, then each sweep block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np

from ikmap.learners.rows import Block
from ikmap.learners.rows import Rows as LearnerRows
from ikmap.learners.sweeps.stored import StoredRows
from ikmap.methods import Splitting, Training
from ikmap.methods.values import Value
from ikmap.partitioners import Partitions
from ikmap.rows import Rows, nbytes_of
from ikmap.splits import CellSplit
from pipeline.params import Params
from pipeline.record_types import TaskRecord
from pipeline.rows.block_sizes import cell_layout, learning_blocks, packed_row_bytes
from pipeline.rows.cell_blocks import CellBlocks, SpooledBlocks
from pipeline.rows.prepared import READ_BYTES, PreparedRows
from pipeline.rows.row_weights import weight_rule
from pipeline.running.dispatch import Task
from pipeline.running.stage import Stage
from pipeline.stages.cells import create_cells, write_cells
from pipeline.stages.fit_parts import PARTS, fit_part, is_in_parts, join_parts, part_tasks
from pipeline.stages.select_rows import some_of, swept_rows
from pipeline.storage.models import load_model
from pipeline.storage.store import Store

HELD_OUT = 50_000
"""Most rows on which values are compared: they are in memory."""
FOLDER = "sweep"
MODEL, CELLS = f"{FOLDER}/model", f"{FOLDER}/cells"
SWEPT = (FOLDER, f"{PARTS}/{FOLDER}")
"""Groups of the store that only sweeps need."""


def prepare(stage: Stage, limit: Value, n_rows: int) -> None:
    """Fit the map up to the last value of the sweeps, and map the rows to learn from, for all sweeps together.

    Sweeps over fewer rows have all of it in memory: nothing is done.
    """
    context = stage.context
    store, params = context.store, context.params
    if not is_in_parts(params, n_rows):
        return
    stage.run(fit_part, part_tasks(store, params, MODEL, limit, n_rows))
    (model,) = stage.run(join_parts, [Task("sweep-model", (store, params, MODEL, True))])
    train = PreparedRows(store, "train")
    n = swept_rows(train, params, n_rows)[0].size
    layout = cell_layout(n, params.t, params.shard_rows)
    preparation = train.preparation
    create_cells(
        store, CELLS, n, params.t, layout, np.dtype(preparation.task.codec.dtype), weighted=preparation.weighted
    )
    tasks = [
        Task(
            f"sweep-cells-{start // layout.shard_rows:06d}",
            (store, params, model["content_hash"], start, min(start + layout.shard_rows, n), n_rows),
        )
        for start in range(0, n, layout.shard_rows)
    ]
    stage.run(map_swept, tasks)


def map_swept(store: Store, params: Params, content_hash: str, start: int, stop: int, n_rows: int) -> TaskRecord:
    """Task: map some of the rows that sweeps learn from, and write their shard."""
    train = PreparedRows(store, "train")
    model = load_model(store, MODEL, Partitions, content_hash)
    numbers = swept_rows(train, params, n_rows)[0][start:stop]
    codes = np.empty((stop - start, model.n_partitions), dtype=np.int32)
    labels = np.empty(stop - start, dtype=train.preparation.task.codec.dtype)
    weights = np.empty(stop - start) if train.preparation.weighted else None
    step, bytes_read = max(1, READ_BYTES // train.row_bytes), 0
    for begin in range(0, numbers.size, step):
        block = train.take(numbers[begin : begin + step])
        X = cast("Rows", block.rows)
        codes[begin : begin + step] = model.cells(X, 1).codes
        labels[begin : begin + step] = block.y
        if weights is not None:
            weights[begin : begin + step] = block.sample_weight
        bytes_read += nbytes_of(X)
    outputs = write_cells(store, CELLS, start, codes, labels, weights)
    return {
        "outputs": outputs,
        "temporary": True,
        "bytes_read": int(bytes_read),
        "bytes_written": codes.nbytes + labels.nbytes,
    }


def stored_sweep(store: Store, params: Params, n_rows: int) -> tuple[Training, Block, Iterator[CellSplit]]:
    """Return the arguments of a sweep: rows to learn from, which are read as it goes on, rows held out, and splits."""
    train = PreparedRows(store, "train")
    task = train.preparation.task
    fit, outside = swept_rows(train, params, n_rows)
    held_out = train.take(some_of(outside, HELD_OUT))
    tested = cast("Rows", held_out.rows)
    model = load_model(store, MODEL, Partitions, store.need(MODEL)["content_hash"])
    no_rows = tested[:0]
    offsets = model.offsets
    blocks = learning_blocks(fit.size, packed_row_bytes(offsets), params.seed)
    spooled = SpooledBlocks(CellBlocks(store, CELLS, offsets, blocks, weight_rule(task)), offsets, visit_rows=None)
    splitting = cast("Splitting", model)  # a map that is sweepable and fits in parts makes such models
    sets, splits = splitting.splits([no_rows, tested])
    stored_rows = StoredRows(spooled, fit.size, sets[0], *splitting.lineage)
    block = Block(cast("LearnerRows", stored_rows), held_out.y[:0])
    training = Training(block, task.codec.classes, params.seed, task=task)
    return training, Block(sets[1], held_out.y), splits
