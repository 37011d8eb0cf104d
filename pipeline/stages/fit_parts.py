"""Fit a map part by part, on as many workers as there are, where its partitionings are fitted on all rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ikmap.learners.sweeps.memory import followed_bytes
from ikmap.methods import DoesNotFit as TooLarge
from ikmap.methods import FitsInParts, capability
from ikmap.methods.fields import with_options
from ikmap.methods.search import Value
from ikmap.partitioners import Partitions
from ikmap.tasks import Task as LearningTask
from pipeline.errors import DoesNotFit
from pipeline.params import Params
from pipeline.record_types import Record
from pipeline.resolve import flag
from pipeline.rows.prepared import PreparedRows
from pipeline.running.dispatch import Task
from pipeline.running.worker_memory import room, worker_limit
from pipeline.stages.select_rows import swept_rows
from pipeline.storage.models import load_model, save_model
from pipeline.storage.store import Store

MANY_ROWS = 100_000
"""From so many rows on, partitionings are fitted in parts."""
TOGETHER = 8
"""Partitionings of a part."""
PARTS = "parts"
"""Where parts stand in the store until they are put together."""


def is_in_parts(params: Params, n_rows: int) -> bool:
    """Whether the map of a run is fitted on so many rows in parts; never by what workers there are."""
    return n_rows > MANY_ROWS and capability(params.map, FitsInParts) is not None


def part_tasks(store: Store, params: Params, name: str, value: Value, swept: int | None = None) -> list[Task]:
    """Tasks of :func:`fit_part` for all partitionings of a model of this name.

    Parameters
    ----------
    swept : int, optional
        Fit on the rows that a sweep over so many learns from; default: on all.
    """
    t = params.t
    return [
        Task(f"{name.replace('/', '-')}-trees-{a:06d}", (store, params, name, value, a, min(a + TOGETHER, t), swept))
        for a in range(0, t, TOGETHER)
    ]


def fit_part(store: Store, params: Params, name: str, value: Value, start: int, stop: int, swept: int | None) -> Record:
    """Task: fit some partitionings, and store them for :func:`join_parts`."""
    train = PreparedRows(store, "train")
    numbers = np.arange(train.n_rows) if swept is None else swept_rows(train, params, swept)[0]
    rows: Any = train.take(numbers).rows
    refuse_too_large(params, value, rows, None if swept is None else train.preparation.task)
    model = _in_parts(params, value).fit_part(rows, params.seed, start, stop)
    del rows
    save_model(store, part_name(name, start), model)
    return {
        "bytes_written": model.nbytes,
        "outputs": [part_name(name, start)],
        "temporary": True,
    }


def refuse_too_large(params: Params, value: Value, rows: Any, swept: LearningTask | None = None) -> None:
    """Refuse a value whose model this worker has no room for.

    Parameters
    ----------
    swept : LearningTask, optional
        What is learned by a sweep up to this value, whose weights have to fit too.

    Raises
    ------
    DoesNotFit
    """
    one = capability(params.map_at(value), FitsInParts)
    if one is None or worker_limit() is None:
        return
    cell_bytes = 0 if swept is None else followed_bytes(swept.decisions.outputs if swept.codec.classes else 1)
    try:
        one.check_size(rows, params.seed, room(), cell_bytes)
    except TooLarge as error:
        raise DoesNotFit(with_options(str(error), flag)) from None


def _in_parts(params: Params, value: Value | None) -> FitsInParts:
    one = capability(params.map_at(value), FitsInParts)
    assert one is not None
    return one


def part_name(name: str, start: int) -> str:
    """Where the part that begins with a partitioning is stored."""
    return f"{PARTS}/{name}/{start:06d}"


def join_parts(store: Store, params: Params, name: str, temporary: bool = False) -> Record:
    """Task: put the parts of a model together, and store it under its name."""
    parts: Sequence[Partitions] = [
        load_model(store, part_name(name, start), Partitions) for start in range(0, params.t, TOGETHER)
    ]
    model = _in_parts(params, None).joined(parts)
    content_hash = save_model(store, name, model, offsets=model.offsets.tolist())
    return {
        **({"temporary": True} if temporary else {"rows": PreparedRows(store, "train").n_rows}),
        "bytes_written": model.nbytes,
        "outputs": [name],
        "most_cells": int(np.diff(model.offsets).max()),
        "t": model.n_partitions,
        "content_hash": content_hash,
    }
