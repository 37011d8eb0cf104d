"""An Arrow file (IPC, also called Feather) as a table: its groups of rows are record batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, ClassVar

import pyarrow as pa

from pipeline.sources.base import ReadRequest
from pipeline.sources.columns.rows import Wanted
from pipeline.sources.files.file import File
from pipeline.sources.formats.arrow_checks import arrow_failures, checked_batch
from pipeline.sources.formats.typed import TypedTable, checked_fields, kept_of


@dataclass(frozen=True)
class ArrowTable(TypedTable):
    """One Arrow file."""

    format: ClassVar[str] = "arrow"

    def batches(self, groups: range, wanted: Wanted, rows: int) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        places = {name: k for k, name in enumerate(self.own_names)}
        with self.file.open(scattered=True) as stream:
            reader = _reader(self.file, stream, [places[name] for name in wanted.names])
            for k in groups:
                yield _batch(self.file.url, reader, k).select(wanted.names)


def _reader(file: File, stream: BinaryIO, columns: Sequence[int] | None = None) -> pa.RecordBatchFileReader:
    """Open the file for the columns of these numbers, so that the others are not read; None: for all."""
    options = None if columns is None else pa.ipc.IpcReadOptions(included_fields=list(columns))
    hint = " (Arrow streams have to be written as files)"
    with arrow_failures(file.url, "not an Arrow file, or a truncated one", hint):
        return pa.ipc.open_file(pa.PythonFile(stream, mode="r"), options=options)


def _batch(url: str, reader: pa.RecordBatchFileReader, k: int) -> pa.RecordBatch:
    return checked_batch(f"{url}: record batch {k + 1}", partial(reader.get_batch, k))


def open_arrow(file: File, request: ReadRequest) -> ArrowTable:
    """Read the schema, and how many rows its batches have.

    Raises
    ------
    InputError
    """
    with file.open(scattered=True) as stream:
        with arrow_failures(file.url):
            schema = _reader(file, stream).schema
            names, types = schema.names, schema.types
        # Only who reads a batch learns how many rows it has: one column, the narrowest, is enough.
        widths = [getattr(kind, "bit_width", 64) if pa.types.is_primitive(kind) else 1 << 16 for kind in types]
        narrowest = [widths.index(min(widths))] if widths else None
        reader = _reader(file, stream, narrowest)
        rows = tuple(_batch(file.url, reader, k).num_rows for k in range(reader.num_record_batches))
    fields = checked_fields(file, names, types, sum(rows))
    return ArrowTable(file, request.sizes, kept_of(request.partition, names), fields, rows)
