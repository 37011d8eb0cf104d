"""Rows that a report shows one by one carry what stands in the column that tells rows apart (``--id``).

Ids are not in the store: of a few rows they are read again from their file.
"""

from __future__ import annotations

from collections.abc import Iterable

from pipeline.record_types import Record, RecordView
from pipeline.rows.prepared import PreparedRows
from pipeline.running.dispatch import Task
from pipeline.running.stage import Stage
from pipeline.storage.store import Store
from pipeline.tables import TableSource


def name_rows(stage: Stage, source: object, figures: RecordView) -> None:
    """Give an ``id`` to each row in lists of single rows, where the file of the test rows has ids."""
    if not isinstance(source, TableSource) or source.request.id is None:
        return
    listed = [row for rows in figures.values() for row in _single(rows)]
    numbers = sorted({int(row["row"]) for row in listed})
    if not numbers:
        return
    (record,) = stage.run(ids_of_rows, [Task("ids", (stage.context.store, source, numbers))])
    of = dict(record["ids"])
    for row in listed:
        if (found := of.get(int(row["row"]))) is not None:
            row["id"] = found


def _single(rows: object) -> Iterable[Record]:
    return [row for row in rows if isinstance(row, dict) and "row" in row] if isinstance(rows, list) else []


def ids_of_rows(store: Store, source: TableSource, numbers: list[int]) -> Record:
    """Task: read the ids of some test rows, by their numbers in their file."""
    wanted: dict[int, dict[int, list[tuple[int, int]]]] = {}
    for number, (part, row) in zip(numbers, PreparedRows(store, "test").places(numbers), strict=True):
        at, block = map(int, part.rpartition("/")[2].split("-"))  # as ingest calls its parts
        wanted.setdefault(at, {}).setdefault(block, []).append((number, row))
    found: list[tuple[int, float | str | None]] = []
    read = 0
    for piece in source.pieces():
        blocks = wanted.get(piece.index)
        if not blocks:
            continue
        first, last = min(blocks), max(blocks)
        for k, rows in zip(range(first, last + 1), source.read(piece, skip=first), strict=False):
            read += rows.n_bytes
            assert rows.ids is not None
            found += [(number, _plain(rows.ids[row].as_py())) for number, row in blocks.get(k, ())]
    return {"rows": 0, "bytes_read": read, "ids": found}


def _plain(value: object) -> float | str | None:
    """As JSON: a number as a number."""
    return value if value is None or isinstance(value, int | float | str) else str(value)
