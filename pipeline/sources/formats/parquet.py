"""Parquet: tables by runs of row groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq

from ikmap.tables import CATEGORY
from pipeline.errors import InputError
from pipeline.sources.columns.cells import is_text
from pipeline.sources.columns.read_request import ReadRequest
from pipeline.sources.columns.rows import Wanted
from pipeline.sources.files.file import File
from pipeline.sources.files.limits import MEBIBYTE
from pipeline.sources.formats.arrow_checks import arrow_failures, checked_batch
from pipeline.sources.formats.groups import long_texts
from pipeline.sources.formats.typed import TypedTable, checked_fields, columns_of_folders, nameless_index

MOST_COLUMNS = 100_000
"""Arrow holds about 10 kB for each column of a Parquet file, however few the rows."""


PLAIN_WORDS = frozenset({"string", "large_string"})
"""Types of columns that are asked for as codes."""


@dataclass(frozen=True)
class ParquetTable(TypedTable):
    """One Parquet file: its groups of rows are row groups, and words come as codes.

    Attributes
    ----------
    group_bytes : int
        Bytes of the largest row group, not compressed, as the file says.
    """

    format: ClassVar[str] = "parquet"

    group_bytes: int

    def batches(self, groups: range, wanted: Wanted, rows: int) -> Iterator[pa.RecordBatch | pa.Table]:
        types = dict(self.fields)
        words = [name for name, kind in zip(wanted.names, wanted.kinds, strict=True) if kind == CATEGORY]
        coded = [name for name in words if str(types[name]) in PLAIN_WORDS]
        # Thousands of small columns are read sooner each at once, in no more memory than their buffers would take.
        buffered = self.group_bytes > len(self.fields) * _buffer_bytes(self.file)
        with self.file.open(scattered=True) as stream, _opened(self.file, stream, coded, buffered=buffered) as file:
            yield from _batches(self.file.url, file, rows, groups, wanted.names)


def open_parquet(file: File, request: ReadRequest) -> ParquetTable:
    """Read the schema.

    Raises
    ------
    InputError
    """
    with file.open(scattered=True) as stream, _opened(file, stream) as parquet:
        names, types, group_rows = _schema_of(file.url, parquet)
        group_bytes, long = _largest_group(file.url, parquet)
        hidden = nameless_index(parquet.schema_arrow, request)
    if len(names) > MOST_COLUMNS:
        raise InputError(
            f"{file.url}: found {len(names):,} columns, expected at most {MOST_COLUMNS:,} in Parquet, of which each "
            "takes about 10 kB of memory; give CSV, LIBSVM text, .npy or .npz"
        )
    fields = checked_fields(file, names, types, sum(group_rows))
    partition = columns_of_folders(request.partition, names)
    return ParquetTable(file, request.sizes, partition, fields, group_rows, group_bytes, long=long, hidden=hidden)


def _opened(file: File, stream: object, words: Sequence[str] = (), *, buffered: bool = True) -> pq.ParquetFile:
    """A Parquet file, of which these columns of words come as codes.

    Raises
    ------
    InputError
    """
    # Without pre_buffer and with a buffer (one for each column), memory does not grow with the row groups.
    with arrow_failures(file.url, "not a Parquet file, or a truncated one", ""):
        return pq.ParquetFile(
            stream,
            pre_buffer=False,
            buffer_size=_buffer_bytes(file) if buffered else 0,
            read_dictionary=list(words) or None,
            page_checksum_verification=True,
        )


def _buffer_bytes(file: File) -> int:
    """Bytes of the buffer of a column."""
    return MEBIBYTE // 16 if file.local else MEBIBYTE


def _schema_of(url: str, parquet: pq.ParquetFile) -> tuple[tuple[str, ...], list[pa.DataType], tuple[int, ...]]:
    """Names and types of the columns, and the rows of the row groups."""
    with arrow_failures(url):
        schema, metadata = parquet.schema_arrow, parquet.metadata
        group_rows = tuple(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
        names, types = tuple(schema.names), schema.types
    if min(group_rows, default=0) < 0:
        raise InputError(f"{url}: damaged: found a row group of {min(group_rows)} rows; copy or download it again")
    return names, types, group_rows


def _largest_group(url: str, parquet: pq.ParquetFile) -> tuple[int, tuple[tuple[str, int], ...]]:
    """Return the bytes of the largest row group, not compressed, and its columns of long texts.

    Words that stand there again and again are counted as the codes that they are in the file.
    """
    with arrow_failures(url):
        schema, metadata = parquet.schema_arrow, parquet.metadata
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        largest = max(groups, key=lambda group: group.total_byte_size, default=None)
        if largest is None:
            return 0, ()
        texts = {name for name, kind in zip(schema.names, schema.types, strict=True) if is_text(kind)}
        columns = (largest.column(k) for k in range(largest.num_columns if texts else 0))
        sizes = ((one.path_in_schema, one.total_uncompressed_size) for one in columns if one.path_in_schema in texts)
        return largest.total_byte_size, long_texts(sizes, largest.num_rows)


def _batches(
    url: str, file: pq.ParquetFile, rows: int, groups: range, names: Sequence[str]
) -> Iterator[pa.RecordBatch | pa.Table]:
    """Columns of some row groups, so many rows at once.

    Raises
    ------
    InputError
    """
    for group in groups:
        n_rows = file.metadata.row_group(group).num_rows
        batches = _of_group(file, group, n_rows, rows, names)
        read = partial(next, batches, None)
        # With thousands of columns, Arrow takes a third of the time of the rows to say that there are no more.
        while n_rows > 0 and (batch := checked_batch(f"{url}: row group {group + 1}", read)) is not None:
            n_rows -= batch.num_rows
            yield batch


def _of_group(
    file: pq.ParquetFile, group: int, n_rows: int, rows: int, names: Sequence[str]
) -> Iterator[pa.RecordBatch | pa.Table]:
    """Columns of a row group, at once where it has no more rows than are wanted: that is faster where it is wide."""
    if n_rows <= rows:
        yield file.read_row_group(group, columns=list(names), use_threads=False)
    else:
        yield from file.iter_batches(rows, row_groups=[group], columns=list(names), use_threads=False)
