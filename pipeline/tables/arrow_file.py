"""An Arrow file (IPC, also called Feather) as a table: its groups of rows are record batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa

from pipeline.errors import InputError
from pipeline.readers.files import File
from pipeline.tables.typed_file import TypedTable, checked_fields, kept_of


@dataclass(frozen=True)
class ArrowTable(TypedTable):
    """One Arrow file."""

    format: ClassVar[str] = "arrow"

    def batches(
        self,
        groups: range,
        names: Sequence[str],
        kinds: Sequence[str],  # noqa: ARG002
        rows: int,  # noqa: ARG002
    ) -> Iterator[pa.RecordBatch]:
        own = [self.own_names.index(name) for name in names]
        with self.file.open(scattered=True) as stream:
            reader = _reader(self.file, stream, own)
            for k in groups:
                yield _batch(self.file.url, reader, k).select(list(names))


def _reader(file: File, stream: Any, columns: Sequence[int] | None = None) -> Any:
    """Of the columns of these numbers, so that the others are not read; None: of all."""
    options = None if columns is None else pa.ipc.IpcReadOptions(included_fields=list(columns))
    try:
        return pa.ipc.open_file(pa.PythonFile(stream, mode="r"), options=options)
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"{file.url}: not an Arrow file, or a truncated one: {' '.join(str(error).split())[:200]} (Arrow "
            "streams have to be written as files)"
        ) from error


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
    with file.open(scattered=True) as stream:
        schema = _reader(file, stream).schema
        # Only who reads a batch learns how many rows it has: one column, the narrowest, is enough.
        widths = [getattr(kind, "bit_width", 64) if pa.types.is_primitive(kind) else 1 << 16 for kind in schema.types]
        narrowest = [widths.index(min(widths))] if widths else None
        reader = _reader(file, stream, narrowest)
        rows = tuple(_batch(file.url, reader, k).num_rows for k in range(reader.num_record_batches))
    fields = checked_fields(file, schema.names, schema.types, sum(rows))
    return ArrowTable(file, kept_of(partition, schema.names), fields, rows)
