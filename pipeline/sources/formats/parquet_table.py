"""A Parquet file as a table: its groups of rows are row groups, and words come as codes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from ikmap.tables import CATEGORY
from pipeline.sources.files.file import File
from pipeline.sources.formats.parquet import opened, read_batches, schema_of
from pipeline.sources.formats.typed import TypedTable, checked_fields, kept_of

PLAIN_WORDS = frozenset({"string", "large_string"})
"""Types of columns that are asked for as codes."""


@dataclass(frozen=True)
class ParquetTable(TypedTable):
    """One Parquet file."""

    format: ClassVar[str] = "parquet"

    def batches(self, groups: range, names: Sequence[str], kinds: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        types = dict(self.fields)
        words = [name for name, kind in zip(names, kinds, strict=True) if kind == CATEGORY]
        coded = [name for name in words if str(types[name]) in PLAIN_WORDS]
        with self.file.open(scattered=True) as stream, opened(self.file, stream, coded) as file:
            yield from read_batches(self.file.url, file, rows, groups, tuple(names))


def open_parquet_table(file: File, partition: tuple[tuple[str, str | None], ...]) -> ParquetTable:
    """Read the schema.

    Raises
    ------
    InputError
    """
    with file.open(scattered=True) as stream, opened(file, stream) as parquet:
        names, types, group_rows = schema_of(file.url, parquet)
    fields = checked_fields(file, names, types, sum(group_rows))
    return ParquetTable(file, kept_of(partition, names), fields, group_rows)
