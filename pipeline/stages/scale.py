"""Scale, the last step of ingest: find the range of every column over the training rows."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import numpy as np

from ikmap.rows import Rows
from pipeline.errors import InputError
from pipeline.record_types import RangesRecord
from pipeline.rows.description import RowsDescription
from pipeline.rows.preparation import Preparation
from pipeline.rows.prepared import SCALE, PreparedRows
from pipeline.running.dispatch import Task
from pipeline.running.stage import Stage
from pipeline.storage.store import Store

SCALE_ROWS = 1 << 18


def scale(stage: Stage, description: RowsDescription) -> RowsDescription:
    """Fit the scaling that the run asks for to the training rows; return the description of the scaled rows.

    Raises
    ------
    InputError
        The data is sparse, and scaling would make it dense.
    """
    if stage.context.params.scale != "minmax":
        return description
    fit_scaling(stage, description.preparation)
    scaled = replace(description.preparation, scale="minmax")
    return description.with_preparation(scaled).write(stage.context.store)


def fit_scaling(stage: Stage, preparation: Preparation) -> None:
    """Find the range of every column over the training rows."""
    refuse_sparse_scaling(preparation)
    store = stage.context.store
    n = PreparedRows(store, "train").n_rows
    tasks = [
        Task(f"scale-{start // SCALE_ROWS:05d}", (store, start, min(start + SCALE_ROWS, n)))
        for start in range(0, n, SCALE_ROWS)
    ]
    records = stage.run(column_ranges, tasks)
    low = np.min([record["low"] for record in records], axis=0)
    high = np.max([record["high"] for record in records], axis=0)
    store.write_group(SCALE, {"low": low, "high": high}, {})


def refuse_sparse_scaling(preparation: Preparation) -> None:
    """Refuse sparse data, which scaling would make dense.

    Raises
    ------
    InputError
    """
    if not preparation.dense:
        raise InputError(
            "--scale minmax: found sparse data, which it would fill, expected dense data; "
            "leave it out, or scale the file beforehand"
        )


def column_ranges(store: Store, start: int, stop: int) -> RangesRecord:
    """Task: find the lowest and highest value of each column over some training rows."""
    low, high = [], []
    for _, block in PreparedRows(store, "train").blocks(start, stop):
        X = cast("Rows", block.rows)
        low.append(X.min(axis=0))
        high.append(X.max(axis=0))
    return {"low": np.min(low, axis=0).tolist(), "high": np.max(high, axis=0).tolist()}
