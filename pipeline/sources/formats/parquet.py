"""Parquet: numeric columns and a label, by runs of row groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ikmap.arrays import Floats
from pipeline.errors import InputError
from pipeline.sources.base import Fragment, RawRows, Source, check_columns, shown
from pipeline.sources.columns.labels import check_names, choose_label
from pipeline.sources.files.file import File
from pipeline.sources.files.limits import MEBIBYTE, check_row
from pipeline.sources.formats.arrow_checks import ARROW_FAILURES, arrow_failures, checked_batch, reason_of
from pipeline.sources.formats.groups import CELL_BYTES, fragments_of, from_row, in_blocks, refuse_fewer

MOST_COLUMNS = 100_000
"""Arrow holds about 10 kB for each column of a Parquet file, however few the rows."""


@dataclass(frozen=True)
class ParquetSource(Source):
    """One Parquet file; a fragment is a run of row groups of about `fragment_bytes` dense bytes."""

    format: ClassVar[str] = "parquet"
    knows_rows: ClassVar[bool] = True

    names: tuple[str, ...]
    label: int | None
    group_rows: tuple[int, ...]

    def least_rows(self) -> int:
        return sum(self.group_rows)

    def fragments(self) -> list[Fragment]:
        return fragments_of(self.group_rows, max(1, self.fragment_bytes // (CELL_BYTES * len(self.names))))

    def read(self, fragment: Fragment, skip: int = 0) -> Iterator[RawRows]:
        per_block = max(1, self.block_bytes // (CELL_BYTES * len(self.names)))
        row = sum(self.group_rows[: fragment.start]) + skip * per_block
        groups, drop = from_row(self.group_rows, fragment, skip * per_block)
        with self.file.open(scattered=True) as stream, opened(self.file, stream) as file:
            for table in in_blocks(read_batches(self.url, file, per_block, groups, self.names), per_block, drop):
                yield self._block(table, row)
                row += table.num_rows
        refuse_fewer(self.url, row, self.group_rows, fragment)

    def _block(self, table: pa.Table, row: int) -> RawRows:
        y = None
        if self.label is not None:
            y = self._column(table, self.label, row + 1)
        features = [j for j in range(len(self.names)) if j != self.label]
        X = np.empty((table.num_rows, len(features)))
        for k, j in enumerate(features):
            X[:, k] = self._column(table, j, row + 1)
        return RawRows(X, y, row + 1, CELL_BYTES * table.num_rows * len(self.names))

    def _column(self, table: pa.Table, j: int, first_row: int) -> Floats:
        column = table.column(j)
        kind = " (the label)" if j == self.label else ""
        if column.null_count:
            row = first_row + int(np.flatnonzero(column.is_null().to_numpy())[0])
            what = "a label" if kind else "a number"
            raise InputError(f"{self._where(row, j)}: found a missing value, expected {what}")
        if _is_text(column.type):
            return np.array(self._cast(column, pa.string(), j).to_numpy(), dtype=object)
        values: Floats = self._cast(column, pa.float64(), j).to_numpy()
        bad = np.flatnonzero(~np.isfinite(values))
        if bad.size:
            where = self._where(first_row + int(bad[0]), j)
            raise InputError(f"{where}: found {values[bad[0]]}, expected a finite number{kind}")
        return values

    def _cast(self, column: pa.ChunkedArray, kind: pa.DataType, j: int) -> pa.ChunkedArray:
        try:
            cast = column.cast(kind, safe=False)
            if pa.types.is_string(kind):
                cast.validate(full=True)
            return cast
        except ARROW_FAILURES as error:
            raise InputError(
                f"{self.url}: column {shown(self.names[j])}: found values of type {column.type} that cannot be read as "
                f"{'text' if pa.types.is_string(kind) else 'numbers'}: {reason_of(error)}"
            ) from error

    def _where(self, row: int, j: int) -> str:
        return f"{self.url}: row {row}, column {shown(self.names[j])}"


def open_parquet(
    file: File,
    label: str | int | None,
    n_columns: int | None,
    require_label: bool,
    fragment_bytes: int,
    block_bytes: int,
) -> ParquetSource:
    """Read the schema; check label, types and the number of columns.

    Raises
    ------
    InputError
    """
    url = file.url
    with file.open(scattered=True) as stream, opened(file, stream) as parquet:
        names, types, group_rows = schema_of(url, parquet)
        if not names:
            raise InputError(f"{url}: found no columns, expected features and a label")
        if len(names) > MOST_COLUMNS:
            raise InputError(
                f"{url}: found {len(names):,} columns, expected at most {MOST_COLUMNS:,} in Parquet, of which each "
                "takes about 10 kB of memory; give CSV, LIBSVM text, .npy or .npz"
            )
        check_names(url, names)
        check_row(url, CELL_BYTES * len(names))
        if not sum(group_rows):
            raise InputError(f"{url}: found no rows, expected at least one")
        at = choose_label(url, names, len(names), label, required=require_label, n_columns=n_columns)
        for j, kind in enumerate(types):
            if _is_number(kind) or (j == at and _is_text(kind)):
                continue
            group = next(i for i, rows in enumerate(group_rows) if rows)
            raise InputError(
                f"{url}: row 1, column {shown(names[j])}: found {_first_value(url, parquet, group, names[j])}({kind}), "
                + (
                    "expected a number or text (the label)"
                    if j == at
                    else "expected a number; code categorical columns as numbers first"
                )
            )
    check_columns(url, len(names) - (at is not None), n_columns)
    return ParquetSource(
        file=file,
        n_columns=len(names) - (at is not None),
        column_names=tuple(name for j, name in enumerate(names) if j != at),
        fragment_bytes=fragment_bytes,
        block_bytes=block_bytes,
        names=names,
        label=at,
        group_rows=group_rows,
    )


def has_rows(file: File) -> bool:
    """Whether a Parquet file holds any row."""
    with file.open(scattered=True) as stream, opened(file, stream) as parquet:
        return bool(parquet.metadata.num_rows)


def opened(file: File, stream: object, words: Sequence[str] = ()) -> pq.ParquetFile:
    """A Parquet file, of which these columns of words come as codes.

    Raises
    ------
    InputError
    """
    # Without pre_buffer and with a buffer (one for each column), memory does not grow with the row groups.
    buffer_size = MEBIBYTE // 16 if file.local else MEBIBYTE
    with arrow_failures(file.url, "not a Parquet file, or a truncated one", ""):
        return pq.ParquetFile(
            stream,
            pre_buffer=False,
            buffer_size=buffer_size,
            read_dictionary=list(words) or None,
            page_checksum_verification=True,
        )


def schema_of(url: str, parquet: pq.ParquetFile) -> tuple[tuple[str, ...], list[pa.DataType], tuple[int, ...]]:
    """Names and types of the columns, and the rows of the row groups."""
    with arrow_failures(url):
        schema, metadata = parquet.schema_arrow, parquet.metadata
        group_rows = tuple(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
        names, types = tuple(schema.names), schema.types
    if min(group_rows, default=0) < 0:
        raise InputError(f"{url}: damaged: found a row group of {min(group_rows)} rows; copy or download it again")
    return names, types, group_rows


def _first_value(url: str, parquet: pq.ParquetFile, group: int, name: str) -> str:
    """What stands in the first row of a column of any type, quoted; nothing where that cannot be told."""
    batch = next(read_batches(url, parquet, 1, range(group, group + 1), (name,)), None)
    try:
        return "" if batch is None else shown(str(batch.column(0)[0].as_py())) + " "
    except Exception:  # such as dates beyond those of Python, and types that Arrow itself cannot show
        return ""


def read_batches(
    url: str, file: pq.ParquetFile, rows: int, groups: range, names: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Columns of some row groups, so many rows at once.

    Raises
    ------
    InputError
    """
    for group in groups:
        batches = file.iter_batches(rows, row_groups=[group], columns=list(names), use_threads=False)
        read = partial(next, batches, None)
        while (batch := checked_batch(f"{url}: row group {group + 1}", read)) is not None:
            yield batch


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    )


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
