"""Look, once columns are encoded, at the first training rows: which columns look like ids, and how wide they are."""

from __future__ import annotations

from typing import cast

import numpy as np

from ikmap.arrays import Floats
from ikmap.json_values import JsonObject, MutableJsonObject
from ikmap.tables.ids import id_columns
from ikmap.tables.statistics import DRAWN
from pipeline.record_types import FirstRowsRecord
from pipeline.rows.prepared import DATA, READ_BYTES, PreparedRows
from pipeline.rows.ranges import ranges_of
from pipeline.running.dispatch import Task
from pipeline.running.stage import Stage
from pipeline.storage.store import Store


def look_at_first_rows(stage: Stage, *, ids: bool, ranges: bool) -> JsonObject:
    """Return the fields of ``data`` in ``metrics.json`` that describe the first training rows, before they are scaled.

    Parameters
    ----------
    ids : bool
        Whether to look for columns that look like ids: those of a table of numbers alone, which no encoder has seen.
    ranges : bool
        Whether to find the ranges of columns.
    """
    if not ids and not ranges:
        return {}
    (record,) = stage.run(first_rows, [Task("first-rows", (stage.context.store, ids, ranges))])
    return record["fields"]


def first_rows(store: Store, ids: bool, ranges: bool) -> FirstRowsRecord:
    """Task: look at the first training rows."""
    rows = PreparedRows(store, "train", DATA)
    first = first_of_plain(rows) if ids else None
    fields: MutableJsonObject = {}
    if first is not None and (found := ids_of_plain(rows, first)):
        fields["ids"] = list(found)
    if ranges and (widest := ranges_of(rows, first)):
        fields["ranges"] = widest
    return {"fields": fields}


def first_of_plain(rows: PreparedRows) -> Floats | None:
    """Return the first rows of a table of numbers alone; None where it is sparse or has no names."""
    if rows.preparation.column_names is None or not rows.preparation.dense:
        return None
    count = min(rows.n_rows, DRAWN, max(1, READ_BYTES // rows.row_bytes))
    return cast("Floats", rows.take(np.arange(count)).rows)


def ids_of_plain(rows: PreparedRows, first: Floats) -> list[str]:
    """Return the names of the columns that look like ids in the first rows of a table of numbers alone."""
    names = rows.preparation.column_names or []
    return [names[j] for j in id_columns(first)]
