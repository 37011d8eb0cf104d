"""Cells: every training and test row to t integers; one task reads rows and writes one whole shard."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pipeline.device import DeviceMap, evidence_of, explain_cells, record_of, warning_of
from pipeline.engine import Context, Record, Stage, Task
from pipeline.errors import InputError
from pipeline.layout import Layout, cell_layout
from pipeline.prepared import PreparedRows
from pipeline.stages.partition import Fitted
from pipeline.store import Store

SIDES = ("train", "test")


def cells_name(fitted: Fitted, side: str) -> str:
    """Where the cells of training or test rows in some partitionings are stored."""
    return f"cells/{fitted.label}/{side}"


def cells(context: Context, fitted: Sequence[Fitted]) -> dict[str, Any]:
    """Map all rows with each of the stored models.

    Returns
    -------
    dict
        class_counts_train: number of training rows of each class; gpu: where GPUs were used, which, and how their
        cells compared with the processor's.
    """
    store, params = context.store, context.params
    tasks: list[Task] = []
    for side in SIDES:
        n = PreparedRows(store, side).n_rows
        layout = cell_layout(n, params.t, params.shard_rows)
        for model in fitted:
            name = cells_name(model, side)
            create_cells(store, name, n, params.t, layout)
            tasks += [
                Task(
                    f"{side}-{model.label}-{start // layout.shard_rows:06d}",
                    (store, model, side, start, min(start + layout.shard_rows, n), context.device),
                )
                for start in range(0, n, layout.shard_rows)
            ]
    stage = Stage(context, "cells", len(tasks))
    records = stage.run(map_shard, tasks)
    counts = [record["class_counts"] for record in records if record["side"] == "train"]
    total = np.sum(counts, axis=0) // len(fitted)
    if np.count_nonzero(total) < 2:
        raise InputError("found training rows of one class only, expected at least two; give another --seed or split")
    gpu = evidence_of(records)
    if warning := warning_of(gpu.get("gpu", {})):
        context.events.message(warning)
    return stage.finish(class_counts_train=total.tolist(), **gpu)


def explain(context: Context, fitted: Iterable[Fitted]) -> None:
    """Say how the cells of stored models will be found, as a worker sees it."""
    for model in fitted:
        for line in context.client.submit(explain_task, context.store, model, context.device, pure=False).result():
            context.events.message(f"cells, {model.parameter} {model.value}: {line}")


def explain_task(store: Store, fitted: Fitted, device: str) -> list[str]:
    """Task: say how this worker would find the cells."""
    return explain_cells(fitted.load(store), device)


def create_cells(store: Store, name: str, n: int, t: int, layout: Layout) -> None:
    """Make the arrays that the tasks fill: cells int32 (n, t), and the class number of each row int32 (n,)."""
    for array, shape in (("codes", (n, t)), ("labels", (n,))):
        store.create_sharded(
            f"{name}/{array}", shape, np.int32, shard_rows=layout.shard_rows, chunk_rows=layout.chunk_rows
        )


def map_shard(store: Store, fitted: Fitted, side: str, start: int, stop: int, device: str = "auto") -> Record:
    """Task: map rows ``start .. stop - 1`` and write their shard."""
    model = fitted.load(store)
    mapping = DeviceMap(model, device)
    rows = PreparedRows(store, side)
    codes = np.empty((stop - start, model.n_partitions), dtype=np.int32)
    labels = np.empty(stop - start, dtype=np.int32)
    read = 0
    for begin, X, y in rows.blocks(start, stop):
        inside = slice(begin - start, begin - start + len(y))
        codes[inside] = mapping.codes(X)
        labels[inside] = y
        read += X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes
    name = cells_name(fitted, side)
    outputs = store.write_shards(f"{name}/codes", start, codes) + store.write_shards(f"{name}/labels", start, labels)
    return {
        **record_of([mapping]),
        "side": side,
        "outputs": outputs,
        "rows": stop - start,
        "bytes_read": int(read),
        "bytes_written": codes.nbytes + labels.nbytes,
        "class_counts": np.bincount(labels, minlength=len(rows.preparation.classes)).tolist(),
    }
