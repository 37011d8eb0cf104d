"""A Parquet file as a table: row groups are read side by side."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from ikmap.tables import CATEGORY, ColumnPlan
from pipeline.errors import InputError, NoRows
from pipeline.readers.base import Piece
from pipeline.readers.files import File
from pipeline.readers.labels import check_names
from pipeline.readers.limits import check_row
from pipeline.readers.parquet import _batches, _parquet, _schema
from pipeline.tables.columns import text_labels
from pipeline.tables.kinds import plan_of_types
from pipeline.tables.spec import TableAsked
from pipeline.tables.table_file import Block, TableFile

CELL_BYTES = 8
PIECE_ROWS = 1 << 19
"""Of narrow tables: enough for every worker to have some."""


@dataclass(frozen=True)
class ParquetTable(TableFile):
    """One Parquet file."""

    format: ClassVar[str] = "parquet"

    fields: tuple[tuple[str, Any], ...]
    group_rows: tuple[int, ...]

    @property
    def own_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.fields)

    def plan(self, names: Sequence[str], asked: TableAsked) -> list[ColumnPlan]:
        types = dict(self.fields)
        return plan_of_types(self.file.url, names, [types[name] for name in names], asked)

    def label_is_text(self, name: str, missing: Collection[str] = ()) -> bool:  # noqa: ARG002
        return text_labels(self.file.url, name, dict(self.fields)[name])

    def least_rows(self) -> int:
        return sum(self.group_rows)

    def pieces(self, piece_bytes: int, columns: int) -> list[Piece]:
        limit = max(1, min(PIECE_ROWS, piece_bytes // (CELL_BYTES * columns)))
        pieces: list[Piece] = []
        start = rows = 0
        for group, n_rows in enumerate(self.group_rows, start=1):
            rows += n_rows
            if rows >= limit or group == len(self.group_rows):
                pieces.append(Piece(len(pieces), start, group))
                start, rows = group, 0
        return pieces

    def blocks(
        self,
        piece: Piece,
        skip: int,
        names: Sequence[str],
        kinds: Sequence[str],
        missing: frozenset[str],  # noqa: ARG002
        size: int,
    ) -> Iterator[Block]:
        assert piece.stop is not None
        per_block = max(1, size // (CELL_BYTES * len(names)))
        row = first = sum(self.group_rows[: piece.start])
        expected = sum(self.group_rows[: piece.stop])
        start, drop = piece.start, skip * per_block
        while start < piece.stop and drop >= self.group_rows[start]:
            drop -= self.group_rows[start]
            start += 1
        row += skip * per_block
        types = dict(self.fields)
        plain = {"string", "large_string"}
        words = [n for n, kind in zip(names, kinds, strict=True) if kind == CATEGORY and str(types[n]) in plain]
        with self.file.open(scattered=True) as stream, _parquet(self.file, stream, words) as file:
            batches = _batches(self.file.url, file, per_block, range(start, piece.stop), tuple(names))
            for columns in in_blocks(batches, per_block, drop):
                yield Block(columns, row + 1, sum(column.nbytes for column in columns))
                row += len(columns[0])
        if row < expected:
            raise InputError(
                f"{self.file.url}: damaged: found {row - first} rows, expected {expected - first} as in its footer; "
                "copy or download it again"
            )


def in_blocks(batches: Iterator[pa.RecordBatch], per_block: int, drop: int) -> Iterator[list[pa.ChunkedArray]]:
    """Cut batches anew, so that blocks depend on the file alone; the first `drop` rows are left out."""
    waiting: list[pa.RecordBatch] = []
    n_waiting = 0
    for batch in batches:
        gone = min(drop, batch.num_rows)
        drop -= gone
        batch = batch.slice(gone)
        while n_waiting + batch.num_rows >= per_block:
            rest = per_block - n_waiting
            yield pa.Table.from_batches([*waiting, batch.slice(0, rest)]).columns
            waiting, n_waiting, batch = [], 0, batch.slice(rest)
        if batch.num_rows:
            waiting.append(batch)
            n_waiting += batch.num_rows
    if waiting:
        yield pa.Table.from_batches(waiting).columns


def open_parquet_table(file: File, partition: tuple[tuple[str, str | None], ...]) -> ParquetTable:
    """Read the schema.

    Raises
    ------
    InputError
    """
    with file.open(scattered=True) as stream, _parquet(file, stream) as parquet:
        names, types, group_rows = _schema(file.url, parquet)
    if not names:
        raise InputError(f"{file.url}: found no columns, expected features and a label")
    check_names(file.url, names)
    check_row(file.url, CELL_BYTES * len(names))
    if not sum(group_rows):
        raise NoRows(f"{file.url}: found no rows, expected at least one")
    kept = tuple(pair for pair in partition if pair[0] not in names)
    return ParquetTable(file, kept, tuple(zip(names, types, strict=True)), group_rows)
