"""SQLite as a table: the one table of a file, or the one named behind a ``#``; fragments are ranges of row numbers.

The file is opened read-only, and as one that nobody changes. Every value of SQLite has a type of its own: columns are
what their first values are, and one that is something else is refused with its row.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import ClassVar
from urllib.parse import quote

import pyarrow as pa

from pipeline.errors import InputError, NoRows, in_one_line
from pipeline.monitoring.plain_text import shown
from pipeline.sources.columns.cells import is_text
from pipeline.sources.columns.read_request import ReadRequest
from pipeline.sources.columns.rows import Wanted
from pipeline.sources.files.file import File
from pipeline.sources.files.limits import longest_row
from pipeline.sources.files.sample import SAMPLE_ROWS, STRETCHES
from pipeline.sources.formats.groups import long_texts
from pipeline.sources.formats.inferred_types import Cell, InferredTable, column_of, types_of
from pipeline.sources.formats.typed import TypedTable, checked_fields, columns_of_folders

GROUP_ROWS = 1 << 16
STRETCH_ROWS = 200
"""Number of rows that each place behind the first rows gives to tell of what type columns are further down."""
_ROW_NUMBERS = ("rowid", "_rowid_", "oid")
"""Names of the number that rows have, unless a column has the same name."""
_START = b"SQLite format 3\0"
_HEAD_BYTES = 100
_HIDDEN = 1
"""Mark of the columns that a virtual table has for its own use."""


@dataclass(frozen=True)
class SqliteTable(InferredTable, TypedTable):
    """One table of an SQLite file.

    Attributes
    ----------
    table : str
    row_number : str or None
        The column by which ranges of rows are found; None: there is none, and the rows are one group.
    starts : tuple of int
        Number of the first row of each group.
    """

    format: ClassVar[str] = "sqlite"

    table: str
    row_number: str | None
    starts: tuple[int, ...]

    def said(self) -> str:
        return f"read as SQLite, table {shown(self.table)}"

    def batches(self, groups: range, wanted: Wanted, rows: int) -> Iterator[pa.RecordBatch]:
        with _opened(self.file) as connection:
            for k in groups:
                row = sum(self.group_rows[:k])
                for cells in self._rows_of(connection, k, wanted.names, rows):
                    yield self._batch(cells, row, wanted)
                    row += len(cells)

    def _rows_of(
        self, connection: sqlite3.Connection, group: int, names: Sequence[str], rows: int
    ) -> Iterator[list[tuple[Cell, ...]]]:
        """Yield the rows of a group, so many at once."""
        query = f"select {', '.join(map(quoted, names))} from {quoted(self.table)}"
        bounds: tuple[int, ...] = ()
        if self.row_number is not None:
            query += f" where {self.row_number} >= ?"
            bounds = self.starts[group : group + 2]
            query += f" and {self.row_number} < ?" if len(bounds) == 2 else ""
            query += f" order by {self.row_number}"
        left = self.group_rows[group]
        with closing(connection.execute(query, bounds)) as cursor:
            while cells := cursor.fetchmany(min(rows, left + 1)):
                left -= len(cells)
                if left < 0:
                    raise InputError(
                        f"{self.file.url}: damaged: found more rows than table {shown(self.table)} has; copy or "
                        "download it again"
                    )
                yield cells

    def _batch(self, rows: Sequence[tuple[Cell, ...]], first: int, wanted: Wanted) -> pa.RecordBatch:
        types, columns = dict(self.fields), []
        for column, cells in zip(wanted.columns, zip(*rows, strict=True), strict=True):
            where, of_type = partial(self._where, column.name, first), types[column.name]
            if of_type == pa.bool_():
                cells = tuple(bool(cell) if cell in (0, 1) else cell for cell in cells)
            columns.append(column_of(cells, column, of_type, wanted.missing, where).chunk(0))
        return pa.RecordBatch.from_arrays(columns, names=list(wanted.names))

    def _where(self, name: str, first: int, row: int) -> str:
        return f"{self.file.url}: row {first + row + 1}, column {shown(name)}"


def quoted(name: str) -> str:
    """Return a name as it stands in a query."""
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def _opened(file: File) -> Iterator[sqlite3.Connection]:
    """Open a file that nobody changes; what is wrong with it is one line."""
    try:
        with closing(
            sqlite3.connect(f"file:{quote(file.path)}?mode=ro&immutable=1", uri=True, check_same_thread=False)
        ) as connection:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, longest_row())
            connection.execute("pragma trusted_schema = off")
            connection.execute("pragma cell_size_check = on")
            yield connection
    except (sqlite3.Error, UnicodeError, OverflowError, MemoryError, sqlite3.Warning) as error:
        raise InputError(f"{file.url}: damaged: {in_one_line(error)}; copy or download it again") from error


def open_sqlite(file: File, request: ReadRequest) -> SqliteTable:
    """Find the table, its columns and their types, and where its groups of rows begin.

    Raises
    ------
    InputError
        The file is remote, damaged or not written to its end, or it is not plain which of its tables is meant.
    """
    url = file.url
    if not file.local:
        raise InputError(f"{url}: found an SQLite file behind a URL, expected one on this machine; download it first")
    with file.open() as stream:
        head = stream.read(_HEAD_BYTES)
    if not head.startswith(_START):
        raise InputError(f"{url}: not an SQLite file: it starts with {head[:8]!r}")
    if file.size < (expected := _bytes_of(head)):  # of what is missing, SQLite would read zeros
        raise InputError(
            f"{url}: truncated: found {file.size:,} bytes, expected {expected:,}; copy or download it again"
        )
    for beside in (f"{file.path}-wal", f"{file.path}-journal"):
        if os.path.exists(beside) and os.path.getsize(beside):
            raise InputError(
                f"{url}: found changes that are not in the file yet ({os.path.basename(beside)}); close the program "
                "that has it open, or: sqlite3 FILE 'pragma wal_checkpoint(truncate)'"
            )
    with _opened(file) as connection:
        table, is_view = _chosen(file, connection)
        about = connection.execute(f"pragma table_xinfo({quoted(table)})").fetchall()
        columns = [(str(row[1]), str(row[2])) for row in about if row[6] != _HIDDEN]
        names = [name for name, _ in columns]
        number = None if is_view else _row_number(connection, table, names)
        (rows,) = connection.execute(f"select count(*) from {quoted(table)}").fetchone()
        if not rows:
            raise NoRows(f"{url}: found no rows in table {shown(table)}, expected at least one")
        starts = () if number is None else tuple(_starts(connection, table, number))
        first, further = _sample(connection, table, names, number, starts)
    untyped = {name for name, declared in columns if declared.upper() in ("", "ANY", "BLOB")}
    types, plans = types_of(names, first, further, request.table, untyped)
    truth = {name for name, declared in columns if declared.upper().startswith("BOOL")}
    for k, name in enumerate(names):
        if name in truth and types[k] == pa.int64() and {row[k] for row in (*first, *further)} <= {0, 1, None}:
            types[k] = pa.bool_()
    groups = tuple(min(GROUP_ROWS, rows - k) for k in range(0, rows, GROUP_ROWS)) if starts else (rows,)
    if starts and len(groups) != len(starts):
        raise InputError(f"{url}: damaged: found other rows than table {shown(table)} has; copy or download it again")
    fields = checked_fields(file, names, types, rows)
    partition = columns_of_folders(request.partition, names)
    sample = (*first, *further)
    texts = [(k, name) for k, name in enumerate(names) if is_text(types[k])]
    sizes = ((name, sum(len(cell) for row in sample if isinstance(cell := row[k], str))) for k, name in texts)
    long = long_texts(sizes, len(sample))
    return SqliteTable(file, request.sizes, partition, fields, groups, plans, table, number, starts, long=long)


def _bytes_of(head: bytes) -> int:
    """Return how many bytes a file has by its header; 100 where old versions of SQLite have written it."""
    if len(head) < _HEAD_BYTES or head[24:28] != head[92:96]:
        return _HEAD_BYTES
    page, pages = int.from_bytes(head[16:18]), int.from_bytes(head[28:32])
    return pages * (page if page > 1 else 1 << 16)


def _chosen(file: File, connection: sqlite3.Connection) -> tuple[str, bool]:
    """Return the table that is read, and whether it is a view."""
    query = "select name, type from sqlite_master where type in ('table', 'view') and name not like 'sqlite\\_%' escape"
    found = {str(name): kind == "view" for name, kind in connection.execute(f"{query} '\\' order by name")}
    if file.part is not None:
        if file.part in found:
            return file.part, found[file.part]
        what = f"found no table {shown(file.part)}"
    else:
        tables = [name for name, is_view in found.items() if not is_view]
        if len(tables) == 1:
            return tables[0], False
        what = f"found {len(tables) or 'no'} tables"
    place = file.url.removesuffix(f"#{file.part}")
    listed = ", ".join(map(shown, list(found)[:12])) + (", ..." if len(found) > 12 else "")
    example = f"; name one behind a #: {place}#{next(iter(found))}" if found else ""
    raise InputError(f"{file.url}: {what}, expected one of {listed or 'some'}{example}")


def _row_number(connection: sqlite3.Connection, table: str, names: Sequence[str]) -> str | None:
    """Return the name of the numbers that the rows of a table have; None where they have none."""
    taken = {name.lower() for name in names}
    for name in _ROW_NUMBERS:
        if name not in taken:
            try:
                connection.execute(f"select {name} from {quoted(table)} limit 1").fetchone()
            except sqlite3.OperationalError as error:
                if "no such column" in str(error):
                    return None
                raise
            return name
    return None


def _starts(connection: sqlite3.Connection, table: str, number: str) -> Iterator[int]:
    """Yield the number of the first row of each group; numbers may have gaps."""
    query = f"select {number} from {quoted(table)}"
    row = connection.execute(f"{query} order by {number} limit 1").fetchone()
    following = f"{query} where {number} >= ? order by {number} limit 1 offset {GROUP_ROWS}"
    while row is not None:
        yield row[0]
        row = connection.execute(following, row).fetchone()


def _sample(
    connection: sqlite3.Connection, table: str, names: Sequence[str], number: str | None, starts: Sequence[int]
) -> tuple[list[tuple[Cell, ...]], list[tuple[Cell, ...]]]:
    """Return the first rows, and some from further down where rows have numbers."""
    query = f"select {', '.join(map(quoted, names))} from {quoted(table)}"
    if number is None:
        return connection.execute(f"{query} limit {SAMPLE_ROWS}").fetchall(), []
    first = connection.execute(f"{query} order by {number} limit {SAMPLE_ROWS}").fetchall()
    following = f"{query} where {number} >= ? order by {number} limit {STRETCH_ROWS}"
    chosen = starts[1 :: max(1, len(starts) // STRETCHES)]
    return first, [row for start in chosen for row in connection.execute(following, (start,))]
