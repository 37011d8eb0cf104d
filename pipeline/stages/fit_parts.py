"""Fit a map part by part on all workers, where its partitionings are fitted on all rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ikmap.learners.sweeps.memory import followed_bytes
from ikmap.methods import FitsByPartitioning, capability
from ikmap.methods.values import Value
from ikmap.partitioners import Partitions
from ikmap.rows import Rows
from ikmap.tasks import Task as LearningTask
from pipeline.params import Params
from pipeline.record_types import FittedRecord, TaskRecord
from pipeline.resolve import worded
from pipeline.rows.prepared import PreparedRows
from pipeline.running.dispatch import Task
from pipeline.running.worker_memory import room, worker_limit
from pipeline.stages.select_rows import swept_rows
from pipeline.storage.models import load_model, save_model
from pipeline.storage.store import Store

MANY_ROWS = 100_000
"""Most rows on which a map is fitted in one task."""
TOGETHER = 8
"""Number of partitionings of a part."""
PARTS = "parts"
"""Group of the store with the parts, until they are put together."""


def is_in_parts(params: Params, n_rows: int) -> bool:
    """Return whether the map of a run is fitted in parts on `n_rows` rows; the workers do not matter."""
    return n_rows > MANY_ROWS and capability(params.map, FitsByPartitioning) is not None


def part_tasks(store: Store, params: Params, name: str, value: Value, swept: int | None = None) -> list[Task]:
    """Return the tasks of :func:`fit_part` for all partitionings of the model `name`.

    Parameters
    ----------
    swept : int, optional
        Number of rows of a sweep: fit on those of them that it learns from; default: on all training rows.
    """
    t = params.t
    return [
        Task(f"{name.replace('/', '-')}-trees-{a:06d}", (store, params, name, value, a, min(a + TOGETHER, t), swept))
        for a in range(0, t, TOGETHER)
    ]


def fit_part(
    store: Store, params: Params, name: str, value: Value, start: int, stop: int, swept: int | None
) -> TaskRecord:
    """Task: fit some partitionings, and store them for :func:`join_parts`."""
    train = PreparedRows(store, "train")
    numbers = np.arange(train.n_rows) if swept is None else swept_rows(train, params, swept)[0]
    rows: Rows = train.take(numbers).rows
    refuse_too_large(params, value, rows, None if swept is None else train.preparation.task)
    model = _in_parts(params, value).fit_part(rows, params.seed, start, stop)
    del rows
    save_model(store, part_name(name, start), model)
    return {
        "bytes_written": model.nbytes,
        "outputs": [part_name(name, start)],
        "temporary": True,
    }


def refuse_too_large(params: Params, value: Value, rows: Rows, swept: LearningTask | None = None) -> None:
    """Refuse a value whose model does not fit into the memory of this worker.

    Parameters
    ----------
    swept : LearningTask, optional
        Task of a sweep up to this value, whose weights have to fit too.

    Raises
    ------
    DoesNotFit
    """
    in_parts = capability(params.map_at(value), FitsByPartitioning)
    if in_parts is None or worker_limit() is None:
        return
    cell_bytes = 0 if swept is None else followed_bytes(swept.decisions.outputs if swept.codec.classes else 1)
    with worded():
        in_parts.check_size(rows, params.seed, room(), cell_bytes)


def _in_parts(params: Params, value: Value | None) -> FitsByPartitioning:
    in_parts = capability(params.map_at(value), FitsByPartitioning)
    assert in_parts is not None
    return in_parts


def part_name(name: str, start: int) -> str:
    """Return the name in the store of the part that begins with partitioning `start`."""
    return f"{PARTS}/{name}/{start:06d}"


def join_parts(store: Store, params: Params, name: str, temporary: bool = False) -> FittedRecord:
    """Task: put the parts of a model together, and store it under its name."""
    parts: Sequence[Partitions] = [
        load_model(store, part_name(name, start), Partitions) for start in range(0, params.t, TOGETHER)
    ]
    model = _in_parts(params, None).joined(parts)
    content_hash = save_model(store, name, model, offsets=model.offsets.tolist())
    record: TaskRecord = {"temporary": True} if temporary else {"rows": PreparedRows(store, "train").n_rows}
    return {
        **record,
        "bytes_written": model.nbytes,
        "outputs": [name],
        "most_cells": int(np.diff(model.offsets).max()),
        "t": model.n_partitions,
        "content_hash": content_hash,
    }
