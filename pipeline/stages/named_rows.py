"""Ids (``--id``) of the rows that a report shows one by one.

Ids are not in the store: those of a few rows are read again from their file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ikmap.json_values import Json, whole_number
from pipeline.record_types import IdsRecord
from pipeline.rows.prepared import PreparedRows
from pipeline.running.dispatch import Task
from pipeline.running.stage import Stage
from pipeline.sources import Source
from pipeline.storage.store import Store


def name_rows(stage: Stage, source: Source | None, metrics: Mapping[str, Json]) -> None:
    """Add an ``id`` to each row in lists of single rows, where the file of the test rows has ids."""
    if source is None or source.id_column is None:
        return
    numbers = listed_rows(metrics)
    if not numbers:
        return
    (record,) = stage.run(ids_of_rows, [Task("ids", (stage.context.store, source, numbers))])
    give_ids(metrics, dict(record["ids"]))


def listed_rows(metrics: Mapping[str, Json]) -> list[int]:
    """Return the numbers of the rows in lists of single rows."""
    return sorted({whole_number(row["row"]) for rows in metrics.values() for row in _single(rows)})


def give_ids(metrics: Mapping[str, Json], ids: Mapping[int, Json]) -> None:
    """Add an ``id`` to each row in lists of single rows that has one."""
    for row in [row for rows in metrics.values() for row in _single(rows)]:
        if (row_id := ids.get(whole_number(row["row"]))) is not None:
            row["id"] = row_id


def _single(rows: object) -> Iterable[dict[str, Json]]:
    """Return the rows of a list of single rows; other values have none."""
    return [row for row in rows if isinstance(row, dict) and "row" in row] if isinstance(rows, list) else []


def ids_of_rows(store: Store, source: Source, numbers: list[int]) -> IdsRecord:
    """Task: read the ids of some test rows, by their numbers in their file."""
    wanted: dict[int, dict[int, list[tuple[int, int]]]] = {}
    for number, (part, row) in zip(numbers, PreparedRows(store, "test").places(numbers), strict=True):
        at, block = map(int, part.rpartition("/")[2].split("-"))  # as ingest calls its parts
        wanted.setdefault(at, {}).setdefault(block, []).append((number, row))
    ids: list[tuple[int, float | str | None]] = []
    read = 0
    for fragment in source.fragments():
        blocks = wanted.get(fragment.number)
        if not blocks:
            continue
        first, last = min(blocks), max(blocks)
        for k, rows in zip(range(first, last + 1), source.read(fragment, skip=first), strict=False):
            read += rows.n_bytes
            assert rows.ids is not None
            ids += [(number, plain_id(rows.ids[row].as_py())) for number, row in blocks.get(k, ())]
    return {"rows": 0, "bytes_read": read, "ids": ids}


def plain_id(value: object) -> float | str | None:
    """Return an id as JSON: a number as a number."""
    return value if value is None or isinstance(value, int | float | str) else str(value)
