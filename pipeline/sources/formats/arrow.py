"""Arrow's IPC as a table: files (also called Feather), whose groups of rows are record batches, and streams.

Hugging Face's ``save_to_disk`` writes streams. They do not say where their batches are, so that one is read in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, ClassVar

import pyarrow as pa

from pipeline.errors import InputError
from pipeline.sources.columns.plan import Plan
from pipeline.sources.columns.raw_rows import ColumnBlock
from pipeline.sources.columns.read_request import ReadRequest
from pipeline.sources.columns.rows import Wanted
from pipeline.sources.files.file import File
from pipeline.sources.formats.arrow_checks import arrow_failures, checked_batch
from pipeline.sources.formats.base import Fragment
from pipeline.sources.formats.groups import in_blocks
from pipeline.sources.formats.typed import (
    TypedColumns,
    TypedTable,
    checked_fields,
    columns_of_folders,
    long_texts_in,
    long_texts_of,
    nameless_index,
    plain_texts,
)

_FILE, _FIRST_FEATHER = b"ARROW1", b"FEA1"
_STREAM = b"\xff\xff\xff\xff"
"""Bytes before each message of a stream."""


@dataclass(frozen=True)
class ArrowTable(TypedTable):
    """One Arrow file."""

    format: ClassVar[str] = "arrow"

    def batches(self, groups: range, wanted: Wanted, rows: int) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        places = {name: k for k, (name, _) in enumerate(self.fields)}
        with self.file.open(scattered=True) as stream:
            reader = _reader(self.file, stream, [places[name] for name in wanted.names])
            for k in groups:
                yield _batch(self.file.url, reader, k).select(wanted.names)


@dataclass(frozen=True)
class ArrowStream(TypedColumns):
    """One Arrow stream: one fragment.

    Attributes
    ----------
    first_rows : int
        Rows of its first batch that has some.
    """

    format: ClassVar[str] = "arrow"
    knows_rows: ClassVar[bool] = False

    first_rows: int

    def least_rows(self) -> int:
        return self.first_rows

    def fragments(self, plan: Plan) -> list[Fragment]:  # noqa: ARG002
        return [Fragment(0, 0, None)]

    def blocks(self, fragment: Fragment, wanted: Wanted, skip: int) -> Iterator[ColumnBlock]:  # noqa: ARG002
        per_block = self.rows_of_block(wanted.names)
        places = {name: k for k, (name, _) in enumerate(self.fields)}
        row = skip * per_block
        with self.file.open() as stream:
            reader = _stream_reader(self.file, stream, [places[name] for name in wanted.names])
            batches = (batch.select(wanted.names) for batch in _batches_in_order(self.file.url, reader))
            for table in in_blocks(batches, per_block, row):
                yield ColumnBlock(table.columns, row + 1, table.nbytes, table.num_rows)
                row += table.num_rows


def _reader(file: File, stream: BinaryIO, columns: Sequence[int] | None = None) -> pa.RecordBatchFileReader:
    """Open the file for the columns of these numbers, so that the others are not read; None: for all."""
    with arrow_failures(file.url, "not an Arrow file, or a truncated one", ""):
        return pa.ipc.open_file(pa.PythonFile(stream, mode="r"), options=_options(columns))


def _stream_reader(file: File, stream: BinaryIO, columns: Sequence[int] | None = None) -> pa.RecordBatchStreamReader:
    with arrow_failures(file.url, "not an Arrow stream, or a truncated one", ""):
        return pa.ipc.open_stream(pa.PythonFile(stream, mode="r"), options=_options(columns))


def _options(columns: Sequence[int] | None) -> pa.ipc.IpcReadOptions | None:
    return None if columns is None else pa.ipc.IpcReadOptions(included_fields=list(columns))


def _batch(url: str, reader: pa.RecordBatchFileReader, k: int) -> pa.RecordBatch:
    return checked_batch(f"{url}: record batch {k + 1}", partial(reader.get_batch, k))


def _batches_in_order(url: str, reader: pa.RecordBatchStreamReader) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a stream."""
    number, read = 1, partial(_next_batch, reader)
    while (batch := checked_batch(f"{url}: record batch {number}", read)) is not None:
        yield batch
        number += 1


def _next_batch(reader: pa.RecordBatchStreamReader) -> pa.RecordBatch | None:
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None


def open_arrow(file: File, request: ReadRequest) -> ArrowTable | ArrowStream:
    """Read the schema, and how many rows the batches of a file have.

    Raises
    ------
    InputError
    """
    with file.open(scattered=True) as stream:
        start = stream.read(8)
    if start.startswith(_FIRST_FEATHER):
        raise InputError(
            f"{file.url}: found Feather of version 1, which is read as a whole, expected version 2; write it so: "
            "python -c \"import pyarrow.feather as f; f.write_feather(f.read_table('FILE'), 'NEW.feather')\""
        )
    return _opened_stream(file, request) if start.startswith(_STREAM) else _opened_file(file, request)


def _opened_file(file: File, request: ReadRequest) -> ArrowTable:
    with file.open(scattered=True) as stream:
        with arrow_failures(file.url):
            schema = _reader(file, stream).schema
            names, types = schema.names, schema.types
        # Only who reads a batch learns how many rows it has: one column, the narrowest, is enough.
        reader = _reader(file, stream, narrowest(types))
        rows = tuple(_batch(file.url, reader, k).num_rows for k in range(reader.num_record_batches))
        fields = checked_fields(file, names, types, sum(rows))
        texts = plain_texts(names, types)
        reader = _reader(file, stream, [k for k, name in enumerate(names) if name in texts] or narrowest(types))
        long = long_texts_of(file, texts, rows, partial(_batch, file.url, reader))
    partition, hidden = columns_of_folders(request.partition, names), nameless_index(schema, request)
    return ArrowTable(file, request.sizes, partition, fields, rows, long=long, hidden=hidden)


def _opened_stream(file: File, request: ReadRequest) -> ArrowStream:
    with file.open() as stream:
        with arrow_failures(file.url):
            reader = _stream_reader(file, stream)
            schema = reader.schema
            names, types = schema.names, schema.types
        first = next((batch for batch in _batches_in_order(file.url, reader) if batch.num_rows), None)
    fields = checked_fields(file, names, types, 0 if first is None else first.num_rows)
    assert first is not None  # as there are rows
    partition, long = columns_of_folders(request.partition, names), long_texts_in(first, plain_texts(names, types))
    hidden = nameless_index(schema, request)
    return ArrowStream(file, request.sizes, partition, fields, first.num_rows, long=long, hidden=hidden)


def narrowest(types: Sequence[pa.DataType]) -> list[int] | None:
    """Return the place of the column whose values take the fewest bytes; None where there are no columns."""
    widths = [getattr(kind, "bit_width", 64) if pa.types.is_primitive(kind) else 1 << 16 for kind in types]
    return [widths.index(min(widths))] if widths else None
