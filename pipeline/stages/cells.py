"""Cells: map every training and test row to t integers. Each task reads rows and writes one whole shard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ikmap.methods.values import shown
from ikmap.rows import nbytes_of
from ikmap.tasks.capabilities import census_of
from pipeline.record_types import CellsRecord, CellsResult
from pipeline.rows.block_sizes import BlockLayout, cell_layout
from pipeline.rows.parts import WEIGHTS
from pipeline.rows.prepared import PreparedRows, counted
from pipeline.running.device import DeviceMap, evidence_of, explain_cells, record_of, warning_of
from pipeline.running.dispatch import Task, result_of
from pipeline.running.stage import Context, Stage
from pipeline.storage.fitted import Fitted
from pipeline.storage.store import Store

SIDES = ("train", "test")


def cells(context: Context, fitted: Sequence[Fitted]) -> CellsResult:
    """Map all rows with each of the stored models.

    Returns
    -------
    dict
        counted: the task's summary of all training rows; gpu: where GPUs were used, which ones, and how their cells
        compared with the processor's.
    """
    store, params = context.store, context.params
    tasks: list[Task] = []
    for side in SIDES:
        rows = PreparedRows(store, side)
        n, dtype = rows.n_rows, np.dtype(rows.preparation.task.codec.dtype)
        for model in fitted:
            name, layout = model.cells_name(side), cell_layout(n, model.t, params.shard_rows)
            create_cells(store, name, n, model.t, layout, dtype, weighted=rows.preparation.weighted)
            tasks += [
                Task(
                    f"{side}-{model.label}-{start // layout.shard_rows:06d}",
                    (store, model, side, start, min(start + layout.shard_rows, n), context.device),
                )
                for start in range(0, n, layout.shard_rows)
            ]
    stage = Stage(context, "cells", len(tasks))
    records = stage.run(map_shard, tasks)
    # Rows are mapped for each of the models, and counted once.
    first = fitted[0].label
    censuses = [record["census"] for record in records if record["side"] == "train" and record["map"] == first]
    counts = counted(PreparedRows(store, "train").preparation.task, censuses)
    for model in fitted:
        absent = sum(record.get("without_cells", 0) for record in records if record["map"] == model.label)
        if absent:
            n = sum(record["rows"] for record in records if record["map"] == model.label)
            context.events.message(
                f"cells: {absent:,} of {n:,} rows have no cell in any partitioning of {model.label}: all of them have "
                "the same prediction"
            )
    gpu = evidence_of(records)
    if warning := warning_of(gpu):
        context.events.message(warning)
    result: CellsResult = {"counted": counts, **gpu}
    return stage.finish(result)


def explain(context: Context, fitted: Iterable[Fitted]) -> None:
    """Say how a worker will find the cells of stored models."""
    for model in fitted:
        for line in result_of(context.client.submit(explain_task, context.store, model, context.device, pure=False)):
            context.events.message(f"cells, {model.parameter} {shown(model.value)}: {line}")


def explain_task(store: Store, fitted: Fitted, device: str) -> list[str]:
    """Task: say how this worker would find the cells."""
    return explain_cells(fitted.load(store), device)


def create_cells(
    store: Store, name: str, n: int, t: int, layout: BlockLayout, dtype: np.dtype[np.generic], *, weighted: bool = False
) -> None:
    """Create the arrays that the tasks fill: cells int32 (n, t), the target of each row (n,), and its weight."""
    per_row = [("labels", (n,), dtype), *([(WEIGHTS, (n,), np.dtype(np.float64))] if weighted else [])]
    for array, shape, kind in (("codes", (n, t), np.dtype(np.int32)), *per_row):
        store.create_sharded(f"{name}/{array}", shape, kind, shard_rows=layout.shard_rows, chunk_rows=layout.chunk_rows)


def map_shard(store: Store, fitted: Fitted, side: str, start: int, stop: int, device: str = "auto") -> CellsRecord:
    """Task: map rows ``start .. stop - 1`` and write their shard."""
    model = fitted.load(store)
    device_map = DeviceMap(model, device)
    rows = PreparedRows(store, side)
    codes = np.empty((stop - start, model.n_partitions), dtype=np.int32)
    task = rows.preparation.task
    labels = np.empty(stop - start, dtype=task.codec.dtype)
    weights = np.empty(stop - start) if rows.preparation.weighted else None
    read = 0
    for begin, block in rows.blocks(start, stop):
        X = block.rows
        inside = slice(begin - start, begin - start + block.y.size)
        codes[inside] = device_map.codes(X)
        labels[inside] = block.y
        if weights is not None:
            weights[inside] = block.sample_weight
        read += nbytes_of(X)
    name = fitted.cells_name(side)
    outputs = write_cells(store, name, start, codes, labels, weights)
    return {
        **record_of([device_map]),
        "side": side,
        "outputs": outputs,
        "rows": stop - start,
        "bytes_read": int(read),
        "bytes_written": codes.nbytes + labels.nbytes,
        "map": fitted.label,
        "without_cells": int(np.count_nonzero((codes < 0).all(axis=1))),
        "census": census_of(task, labels) if side == "train" else None,
    }


def write_cells(
    store: Store, name: str, start: int, codes: np.ndarray, labels: np.ndarray, weights: np.ndarray | None
) -> list[str]:
    """Write cells, targets and weights of the rows from `start` on; return the names of the stored objects."""
    arrays = {"codes": codes, "labels": labels, **({} if weights is None else {WEIGHTS: weights})}
    return [shard for key, array in arrays.items() for shard in store.write_shards(f"{name}/{key}", start, array)]
