"""The base of files of typed columns, such as Parquet: kinds by type, and fragments of whole groups of rows."""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from ikmap.json_values import Json, list_of, mapping_of
from ikmap.tables import ColumnPlan
from pipeline.errors import InputError, NoRows
from pipeline.sources.columns.cells import is_number, is_text, numbers_together, text_labels
from pipeline.sources.columns.kinds import plan_of_types
from pipeline.sources.columns.labels import check_names
from pipeline.sources.columns.plan import Plan
from pipeline.sources.columns.raw_rows import ColumnBlock
from pipeline.sources.columns.read_request import ReadRequest
from pipeline.sources.columns.request import TableRequest
from pipeline.sources.columns.rows import Wanted
from pipeline.sources.files.file import File
from pipeline.sources.files.limits import MEBIBYTE, check_row
from pipeline.sources.formats.base import Fragment
from pipeline.sources.formats.groups import (
    CELL_BYTES,
    even_block,
    fragments_of,
    from_row,
    in_blocks,
    long_texts,
    refuse_fewer,
)
from pipeline.sources.formats.table_file import TableFile

MOST_LOOKED_AT = 64 * MEBIBYTE
"""Bytes of a batch or stripe, about, that are read only to see how long texts are."""
FRAGMENT_ROWS = 1 << 19
"""Rows of a fragment of a narrow table: few enough for every worker to have some."""
_NAMELESS = re.compile(r"__index_level_\d+__")


@dataclass(frozen=True)
class TypedColumns(TableFile):
    """A file whose columns have types.

    Attributes
    ----------
    fields : tuple of (str, pa.DataType)
        Names and types of its columns.
    long : tuple of (str, int)
        Columns of long texts and the mean bytes of their cells, as far as the file tells.
    hidden : tuple of str
        Its columns that are left out: see :func:`nameless_index`.
    """

    fields: tuple[tuple[str, pa.DataType], ...]
    long: tuple[tuple[str, int], ...] = field(default=(), kw_only=True)
    hidden: tuple[str, ...] = field(default=(), kw_only=True)

    @property
    def own_names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.fields if name not in self.hidden)

    def said(self) -> str:
        if not self.hidden:
            return ""
        return f"read as {self.format.capitalize()} without the index that pandas wrote ({', '.join(self.hidden)})"

    def type_of(self, name: str) -> pa.DataType | None:
        kind = dict(self.fields).get(name)
        return kind.value_type if kind is not None and pa.types.is_dictionary(kind) else kind

    def kinds(self, names: Sequence[str], request: TableRequest) -> list[ColumnPlan]:
        types = dict(self.fields)
        return plan_of_types(self.file.url, names, [types[name] for name in names], request)

    def are_numbers(self, names: Sequence[str], request: TableRequest) -> bool:  # noqa: ARG002
        types = dict(self.fields)
        return all(is_number(types[name]) for name in names)

    def label_is_text(self, name: str, missing: Collection[str] = ()) -> bool:  # noqa: ARG002
        return text_labels(self.file.url, name, dict(self.fields)[name])

    def rows_of_block(self, names: Sequence[str]) -> int:
        """Return how many rows of some columns a block usually has; cells other than long texts count as numbers."""
        long = dict(self.long)
        return max(1, self.block_bytes // sum(long.get(name, CELL_BYTES) for name in names))


@dataclass(frozen=True)
class TypedTable(TypedColumns):
    """A file whose columns have types and whose rows come in groups.

    Attributes
    ----------
    group_rows : tuple of int
        Rows of each group.
    """

    group_rows: tuple[int, ...]

    def least_rows(self) -> int:
        return sum(self.group_rows)

    def fragments(self, plan: Plan) -> list[Fragment]:
        columns = (plan.n_columns or 0) + 1
        limit = max(1, min(FRAGMENT_ROWS, self.fragment_bytes // (CELL_BYTES * columns)))
        return fragments_of(self.group_rows, limit)

    def blocks(self, fragment: Fragment, wanted: Wanted, skip: int) -> Iterator[ColumnBlock]:
        rows = sum(self.group_rows[fragment.start : fragment.stop])
        per_block = even_block(rows, self.rows_of_block(wanted.names))
        row = sum(self.group_rows[: fragment.start]) + skip * per_block
        groups, drop = from_row(self.group_rows, fragment, skip * per_block)
        for table in in_blocks(self.batches(groups, wanted, per_block), per_block, drop):
            numbers = numbers_together(table, wanted.numbers)
            columns = [table.column(k) for k in range(0 if numbers is None else wanted.numbers, table.num_columns)]
            n_bytes = sum(column.nbytes for column in columns)
            if numbers is not None:  # without what says which cells are missing: to ask thousands of columns is slow
                n_bytes += numbers.size * table.schema.types[0].bit_width // 8
            yield ColumnBlock(columns, row + 1, n_bytes, table.num_rows, numbers)
            row += table.num_rows
        refuse_fewer(self.file.url, row, self.group_rows, fragment)

    @abstractmethod
    def batches(self, groups: range, wanted: Wanted, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the wanted columns of some groups, at most about `rows` rows at once where the format can."""


def checked_fields(
    file: File, names: Sequence[str], types: Sequence[pa.DataType], rows: int
) -> tuple[tuple[str, pa.DataType], ...]:
    """Names and types of the columns of a file of so many rows.

    Raises
    ------
    InputError
        There are no columns or rows, or too many columns, or two of the same name.
    """
    if not names:
        raise InputError(f"{file.url}: found no columns, expected features and a label")
    check_names(file.url, names)
    check_row(file.url, CELL_BYTES * len(names))
    if not rows:
        raise NoRows(f"{file.url}: found no rows, expected at least one")
    known: dict[pa.DataType, pa.DataType] = {}  # equal types are one object: thousands of columns are sent to workers
    return tuple((name, known.setdefault(kind, kind)) for name, kind in zip(names, types, strict=True))


def plain_texts(names: Sequence[str], types: Sequence[pa.DataType]) -> list[str]:
    """Return the names of the columns of text. Of words that come as codes, a few rows may have all that a file has."""
    return [name for name, kind in zip(names, types, strict=True) if is_text(kind) and not pa.types.is_dictionary(kind)]


def long_texts_of(
    file: File, texts: Sequence[str], rows: Sequence[int], read: Callable[[int], pa.RecordBatch]
) -> tuple[tuple[str, int], ...]:
    """Return which of some columns of text have long cells, and the mean bytes of these, by the first rows of a file.

    Parameters
    ----------
    rows : sequence of int
        Rows of each of its batches or stripes.
    read : callable
        Reads these columns of one of them. Where they are large that is not done only to look: then the bytes of the
        whole file are taken for those of these columns.
    """
    if not texts:
        return ()
    if file.size > MOST_LOOKED_AT * len(rows):
        return long_texts([(name, file.size // len(texts)) for name in texts], sum(rows))
    return long_texts_in(read(next(k for k, count in enumerate(rows) if count)), texts)


def long_texts_in(batch: pa.RecordBatch, names: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """Return which of some columns of text have long cells, and the mean bytes of these, by a batch of a file."""
    return long_texts(((name, batch.column(name).nbytes) for name in names), batch.num_rows)


def columns_of_folders(
    partition: tuple[tuple[str, str | None], ...], names: Sequence[str]
) -> tuple[tuple[str, str | None], ...]:
    """Return the columns that the names of folders give and the file does not have."""
    return tuple(pair for pair in partition if pair[0] not in names)


def nameless_index(schema: pa.Schema, request: ReadRequest) -> tuple[str, ...]:
    """Return the columns that are the index of a DataFrame without a name, which pandas does not read as columns.

    One that is asked for by name, such as by a model that was trained with it, is none of them.
    """
    names = [name for name in schema.names if _NAMELESS.fullmatch(name) and name not in request.named]
    try:
        written: Json = json.loads((schema.metadata or {}).get(b"pandas", b"null")) if names else None
    except (ValueError, RecursionError):  # not as pandas writes it
        return ()
    index = list_of(mapping_of(written).get("index_columns"))
    return tuple(name for name in names if name in index)
