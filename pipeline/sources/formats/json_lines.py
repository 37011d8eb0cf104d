"""JSON lines as a table: an object in each line, whose keys are the columns.

Columns and their types are those of the first MiB and of some stretches further down. Arrow parses blocks with these
types; a block in which a cell is of another type is parsed again, cell by cell, to convert it or to say where it is.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import pyarrow as pa
import pyarrow.json

from ikmap.tables import NUMBER
from pipeline.errors import InputError, NoRows
from pipeline.monitoring.plain_text import not_utf8, shown
from pipeline.sources.columns.cells import is_text
from pipeline.sources.columns.raw_rows import ColumnBlock
from pipeline.sources.columns.read_request import ReadRequest
from pipeline.sources.columns.rows import Wanted
from pipeline.sources.files.file import File
from pipeline.sources.files.limits import MOST_COLUMNS
from pipeline.sources.files.sample import SAMPLE_ROWS, stretches
from pipeline.sources.formats.arrow_checks import ARROW_FAILURES
from pipeline.sources.formats.inferred_types import Cell, Digits, column_of, types_of
from pipeline.sources.formats.text_lines import LinesTable, first_lines, line_of_row
from pipeline.sources.formats.typed import checked_fields, columns_of_folders

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class JsonLines(LinesTable):
    """One file of JSON lines."""

    format: ClassVar[str] = "jsonl"

    def block(self, text: bytes, line: int, wanted: Wanted) -> ColumnBlock:
        parts = text.split(b"\n")
        lines = [k for k, part in enumerate(parts) if part.strip()]
        types = dict(self.fields)
        read_as = [_read_as(types[name], kind) for name, kind in zip(wanted.names, wanted.kinds, strict=True)]
        columns = None
        if lines and None not in read_as:
            columns = _parsed(text, pa.schema(list(zip(wanted.names, read_as, strict=True))), len(lines))
        if columns is None:
            columns = self._careful(parts, lines, line, wanted)
        return ColumnBlock(columns, line, len(text), len(lines), line_of=line_of_row(lines, line))

    def _careful(
        self, parts: Sequence[bytes], lines: Sequence[int], first: int, wanted: Wanted
    ) -> list[pa.ChunkedArray]:
        """Parse line by line: raise for the first fault, or convert what is of another type than the first cells."""
        url, types = self.file.url, dict(self.fields)
        rows = [record_in(parts[k], url, first + k) for k in lines]

        def where(name: str, row: int) -> str:
            return f"{url}: line {first + lines[row]}, column {shown(name)}"

        columns = []
        for column in wanted.columns:
            cells = [row.get(column.name) for row in rows]
            columns.append(column_of(cells, column, types[column.name], wanted.missing, partial(where, column.name)))
        return columns


def _read_as(of_type: pa.DataType, kind: str) -> pa.DataType | None:
    """Return the type with which Arrow reads a column of a type; None where its numbers are wanted as words."""
    if is_text(of_type) or pa.types.is_boolean(of_type):
        return of_type
    if kind == NUMBER:
        return pa.float64()
    if pa.types.is_null(of_type):
        return pa.string()
    return of_type if pa.types.is_integer(of_type) else None


def _parsed(text: bytes, schema: pa.Schema, n_rows: int) -> list[pa.ChunkedArray] | None:
    """Return the columns of some lines; None where Arrow does not take them as they are."""
    try:
        table = pa.json.read_json(
            pa.BufferReader(text),
            read_options=pa.json.ReadOptions(use_threads=False, block_size=len(text) + 1),
            parse_options=pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        ).select(schema.names)
        table.validate(full=True)
    except ARROW_FAILURES:
        return None
    columns: list[pa.ChunkedArray] = table.columns
    return columns if table.num_rows == n_rows else None


def record_in(line: bytes, url: str, number: int) -> dict[str, Cell]:
    """Return the object that a line is; its numbers are :class:`~pipeline.sources.formats.inferred_types.Digits`.

    Raises
    ------
    InputError
        The line is no JSON object, or a key appears twice.
    """
    where = f"{url}: line {number}"
    try:
        record = json.loads(
            line.decode(),
            parse_int=Digits,
            parse_float=Digits,
            parse_constant=_constant,
            object_pairs_hook=_object,
        )
    except UnicodeDecodeError:
        raise InputError(f"{where}: {not_utf8('text')}") from None
    except RecursionError:
        raise InputError(f"{where}: found lists in lists, too many of them, expected a JSON object") from None
    except ValueError as error:
        what = str(error).partition(": line ")[0]
        goes_on = line.strip() == b"{" or line.strip().startswith(b"[")
        hint = "; make them so: jq -c 'if type == \"array\" then .[] else . end' FILE > NEW.jsonl" if goes_on else ""
        raise InputError(f"{where}: not JSON: {what}, expected an object in each line{hint}") from None
    if not isinstance(record, dict):
        kind = "a list" if isinstance(record, list) else "a value"
        hint = "; make them so: jq -c '.[]' FILE > NEW.jsonl" if kind == "a list" else ""
        raise InputError(f"{where}: found {kind}, expected an object in each line{hint}")
    return record


def _constant(word: str) -> Cell:
    """NaN is a missing value; infinity is a number that is refused."""
    return None if word == "NaN" else Digits(word)


def _object(pairs: list[tuple[str, Cell]]) -> dict[str, Cell]:
    record = dict(pairs)
    if len(record) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {shown(twice)} appears twice")
    return record


def open_json_lines(file: File, request: ReadRequest) -> JsonLines:
    """Find the columns and their types.

    Raises
    ------
    InputError
        The file has no rows, one of the first lines is no record, or there are too many keys.
    """
    url = file.url
    with file.open() as stream:
        start = len(_BOM) if stream.peek(len(_BOM))[: len(_BOM)] == _BOM else 0
        stream.read(start)
        text = first_lines(stream, url, 1)
    parts = [(k, part) for k, part in enumerate(text.split(b"\n"), start=1) if part.strip()]
    if not parts:
        raise NoRows(f"{url}: found no rows, expected at least one")
    rows = [record_in(part, url, k) for k, part in parts[:SAMPLE_ROWS]]
    first_rows = len(parts)
    further = _further(file, start + len(text))
    names = list(dict.fromkeys(name for row in (*rows, *further) for name in row))
    if len(names) > MOST_COLUMNS:
        raise InputError(f"{url}: found {len(names):,} keys, expected at most {MOST_COLUMNS:,}")
    first_cells, further_cells = ([[row.get(name) for name in names] for row in part] for part in (rows, further))
    types, plans = types_of(names, first_cells, further_cells, request.table)
    # Ids are told apart by how they are written, not by numbers that may be rounded.
    types = [
        pa.string() if name == request.table.id and kind == pa.float64() else kind
        for name, kind in zip(names, types, strict=True)
    ]
    fields = checked_fields(file, names, types, len(rows))
    return JsonLines(
        file, request.sizes, columns_of_folders(request.partition, names), fields, plans, start, 1, first_rows
    )


def _further(file: File, behind: int) -> list[dict[str, Cell]]:
    """Return records from places further down, without lines that are no records."""
    rows: list[dict[str, Cell]] = []
    for _, text in stretches(file, behind):
        for part in text.split(b"\n"):
            try:
                rows += [record_in(part, file.url, 0)] if part.strip() else []
            except InputError:
                continue
    return rows
