"""Shuffle: store the rows of all files as a stream, in a seeded order or that of the files, in chunks."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Floats
from ikmap.rows import Rows, nbytes_of
from ikmap.tasks.capabilities import settled, stored_targets
from pipeline.errors import InputError
from pipeline.record_types import ShuffleResult, SideRecord, TaskRecord
from pipeline.rows.description import RowsDescription
from pipeline.rows.parts import WEIGHTS, write_part
from pipeline.rows.permutation import position_in_shuffle
from pipeline.rows.prepared import DATA, SCALE, STREAM_DATA, PreparedRows
from pipeline.rows.stream_data import chunk_name
from pipeline.running.dispatch import Task
from pipeline.running.stage import Context, Stage
from pipeline.sources.datasets.registry import ResolvedDataset
from pipeline.stages.scale import scale
from pipeline.stages.split import leave_out_rows
from pipeline.storage.store import Store

CHUNK_BYTES = 16 << 20
CHUNK_BLOCKS = 16
CHUNK_ROWS = 4096
TASK_BYTES = 128 << 20
"""Most bytes of rows that a task puts in order; it looks through all files for them."""


def chunk_rows_of(block_rows: int, row_bytes: int) -> int:
    """Return the rows of a chunk: whole blocks, 16 of them or 4096 rows, of about 16 MiB unless one block has more."""
    blocks = max(CHUNK_BLOCKS, -(-CHUNK_ROWS // block_rows))
    return block_rows * int(np.clip(CHUNK_BYTES // (block_rows * row_bytes), 1, blocks))


def shuffle(
    context: Context, n_initial: int, block_rows: int, order: str, data: ResolvedDataset | None = None
) -> ShuffleResult:
    """Write the stream; its first rows are from now on the training rows of the run.

    Parameters
    ----------
    n_initial : int
        Number of rows of the initial set.
    order : {"shuffled", "file"}
        "file": training file before test file.
    data : ResolvedDataset, optional
        Data set, which may name the labels whose rows are learned from.

    Returns
    -------
    dict
        rows_initial, rows_stream, block_rows, chunk_rows, chunks.
    """
    store, seed = context.store, context.params.seed
    sides = [PreparedRows(store, initial_side, DATA) for initial_side in ("train", "test")]
    n = sum(initial_side.n_rows for initial_side in sides)
    if not 0 < n_initial < n:
        raise InputError(f"--initial {n_initial}: found {n} rows in all, expected some of them, not all")
    chunk_rows = chunk_rows_of(block_rows, sides[0].row_bytes)
    initial_parts = [(f"stream/initial/{k:06d}", start, min(start + chunk_rows, n_initial))
              for k, start in enumerate(range(0, n_initial, chunk_rows))]  # fmt: skip
    chunks = [(chunk_name(k), start, min(start + chunk_rows, n))
              for k, start in enumerate(range(n_initial, n, chunk_rows))]  # fmt: skip
    all_parts = initial_parts + chunks
    together = max(1, TASK_BYTES // (chunk_rows * sides[0].row_bytes))
    tasks = [
        Task(
            f"parts-{k:06d}", (store, all_parts[k : k + together], n, n_initial, seed if order == "shuffled" else None)
        )
        for k in range(0, len(all_parts), together)
    ]
    stage = Stage(context, "shuffle", None)
    stage.run(write_parts, tasks)
    found_preparation = sides[0].preparation
    preparation = replace(
        found_preparation, task=settled(found_preparation.task), divide=1.0, scale="none", encoded=False
    )
    rows = [stop - start for _, start, stop in initial_parts]
    initial_side: SideRecord = {
        "parts": [{"name": name, "rows": count} for (name, _, _), count in zip(initial_parts, rows, strict=True)],
        "counts": rows,
        "split": {"rule": "all", "n_rows": n_initial},
    }
    if data is not None and data.inliers is not None:
        initial_side = leave_out_rows(stage, initial_side, preparation, data)
    scale(stage, RowsDescription(preparation, {"train": initial_side}, (STREAM_DATA,)).write(store))
    result: ShuffleResult = {
        "rows_initial": n_initial,
        "rows_stream": n - n_initial,
        "block_rows": block_rows,
        "chunk_rows": chunk_rows,
        "chunks": len(chunks),
    }
    return stage.finish(result, [STREAM_DATA, *([SCALE] if context.params.scale == "minmax" else [])])


def write_parts(
    store: Store, parts: list[tuple[str, int, int]], n: int, n_initial: int, seed: int | None
) -> TaskRecord:
    """Task: write some neighbouring parts of all rows, by name, first row and end."""
    sides = [PreparedRows(store, side, DATA) for side in ("train", "test")]
    first, end = parts[0][1], parts[-1][2]
    numbers = np.arange(n, dtype=np.int64)
    place = numbers if seed is None else position_in_shuffle(numbers, n, seed)
    wanted = np.flatnonzero((place >= first) & (place < end))
    cut = np.searchsorted(wanted, sides[0].n_rows)
    read = [side.take(rows) for side, rows in zip(sides, (wanted[:cut], wanted[cut:] - sides[0].n_rows), strict=True)]
    rows_of_sides = [cast("Rows", block.rows) for block in read]
    X: Rows = (
        np.concatenate(cast("list[Floats]", rows_of_sides))
        if isinstance(rows_of_sides[0], np.ndarray)
        else sp.csr_array(sp.vstack(rows_of_sides, format="csr"))
    )
    y = np.concatenate([block.y for block in read])
    weights = None
    if sides[0].preparation.weighted:
        weights = np.concatenate([cast("Floats", block.sample_weight) for block in read])
    order = np.argsort(place[wanted])
    task = sides[0].preparation.task
    written = 0
    for name, start, stop in parts:
        rows = order[start - first : stop - first]
        attributes = {"rows": stop - start, "first": start - n_initial}
        beside = {} if weights is None else {WEIGHTS: weights[rows]}
        written += write_part(store, name, X[rows], *stored_targets(task, y[rows]), attributes, beside)
    return {
        "rows": end - first,
        "bytes_read": nbytes_of(X),
        "bytes_written": written,
        "outputs": [name for name, _, _ in parts],
    }
