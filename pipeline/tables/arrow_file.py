"""An Arrow file (IPC, also called Feather) as a table."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from ikmap.tables import ColumnPlan
from pipeline.errors import InputError, NoRows
from pipeline.readers.base import Piece
from pipeline.readers.files import File
from pipeline.readers.labels import check_names
from pipeline.tables.columns import text_labels
from pipeline.tables.kinds import plan_of_types
from pipeline.tables.parquet_file import CELL_BYTES, in_blocks
from pipeline.tables.spec import TableAsked
from pipeline.tables.table_file import Block, TableFile


@dataclass(frozen=True)
class ArrowTable(TableFile):
    """One Arrow file; a piece is a run of its record batches."""

    format: ClassVar[str] = "arrow"

    fields: tuple[tuple[str, Any], ...]
    batch_rows: tuple[int, ...]

    @property
    def own_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.fields)

    def plan(self, names: Sequence[str], asked: TableAsked) -> list[ColumnPlan]:
        types = dict(self.fields)
        return plan_of_types(self.file.url, names, [types[name] for name in names], asked)

    def label_is_text(self, name: str, missing: Collection[str] = ()) -> bool:  # noqa: ARG002
        return text_labels(self.file.url, name, dict(self.fields)[name])

    def least_rows(self) -> int:
        return sum(self.batch_rows)

    def pieces(self, piece_bytes: int, columns: int) -> list[Piece]:
        limit = max(1, piece_bytes // (CELL_BYTES * columns))
        pieces: list[Piece] = []
        start = rows = 0
        for batch, n_rows in enumerate(self.batch_rows, start=1):
            rows += n_rows
            if rows >= limit or batch == len(self.batch_rows):
                pieces.append(Piece(len(pieces), start, batch))
                start, rows = batch, 0
        return pieces

    def blocks(
        self,
        piece: Piece,
        skip: int,
        names: Sequence[str],
        kinds: Sequence[str],  # noqa: ARG002
        missing: frozenset[str],  # noqa: ARG002
        size: int,
    ) -> Iterator[Block]:
        assert piece.stop is not None
        per_block = max(1, size // (CELL_BYTES * len(names)))
        row = sum(self.batch_rows[: piece.start]) + skip * per_block
        with _reading(self.file) as reader:
            batches = (_batch(self.file.url, reader, k).select(list(names)) for k in range(piece.start, piece.stop))
            for columns in in_blocks(batches, per_block, skip * per_block):
                yield Block(columns, row + 1, sum(column.nbytes for column in columns))
                row += len(columns[0])


@contextmanager
def _reading(file: File) -> Iterator[Any]:
    with file.open(scattered=True) as stream:
        try:
            reader = pa.ipc.open_file(pa.PythonFile(stream, mode="r"))
        except (pa.ArrowException, OSError) as error:
            raise InputError(
                f"{file.url}: not an Arrow file, or a truncated one: {' '.join(str(error).split())[:200]} (Arrow "
                "streams have to be written as files)"
            ) from error
        yield reader


def _batch(url: str, reader: Any, k: int) -> pa.RecordBatch:
    try:
        return reader.get_batch(k)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{url}: damaged: {' '.join(str(error).split())[:200]}; copy or download it again") from error


def open_arrow_table(file: File, partition: tuple[tuple[str, str | None], ...]) -> ArrowTable:
    """Read the schema, and how many rows its batches have.

    Raises
    ------
    InputError
    """
    with _reading(file) as reader:
        schema = reader.schema
        rows = tuple(_batch(file.url, reader, k).num_rows for k in range(reader.num_record_batches))
    check_names(file.url, schema.names)
    if not sum(rows):
        raise NoRows(f"{file.url}: found no rows, expected at least one")
    kept = tuple(pair for pair in partition if pair[0] not in schema.names)
    return ArrowTable(file, kept, tuple(zip(schema.names, schema.types, strict=True)), rows)
