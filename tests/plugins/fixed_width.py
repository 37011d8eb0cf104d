"""A format of another package: numbers in fields of eight characters, with the names of columns in the first line."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import pyarrow as pa

from pipeline.errors import InputError
from pipeline.sources.columns.raw_rows import ColumnBlock
from pipeline.sources.columns.read_request import ReadRequest
from pipeline.sources.columns.rows import Wanted
from pipeline.sources.files.file import File
from pipeline.sources.formats import Format
from pipeline.sources.formats.inferred_types import column_of
from pipeline.sources.formats.text_lines import LinesTable, first_lines
from pipeline.sources.formats.typed import checked_fields, columns_of_folders

FORMAT = Format("fixed", f"{__name__}:open_fixed", r"\.fixed", compressed=True, shown="fixed-width numbers")
WIDTH = 8


def fields_of(line: str) -> list[str]:
    """Return the fields of a line, without the blanks around them."""
    return [line[at : at + WIDTH].strip() for at in range(0, len(line), WIDTH)]


@dataclass(frozen=True)
class FixedTable(LinesTable):
    """One file of numbers in fields of a fixed width; fragments are byte ranges."""

    format: ClassVar[str] = "fixed"

    def block(self, text: bytes, line: int, wanted: Wanted) -> ColumnBlock:
        rows = [fields_of(row) for row in text.decode().splitlines()]
        for k, row in enumerate(rows):
            if len(row) != len(self.own_names):
                raise InputError(
                    f"{self.file.url}: line {line + k}: found {len(row)} fields, expected {len(self.own_names)}"
                )
        columns = []
        for column in wanted.columns:
            place = self.own_names.index(column.name)
            where = partial(self._where, column.name, line)
            columns.append(column_of([row[place] for row in rows], column, pa.float64(), wanted.missing, where))
        return ColumnBlock(columns, line, len(text), len(rows))

    def _where(self, name: str, first: int, row: int) -> str:
        return f"{self.file.url}: line {first + row}, column {name!r}"


def open_fixed(file: File, request: ReadRequest) -> FixedTable:
    """Read the names of the columns."""
    with file.open() as stream:
        head = stream.readline()
        rows = first_lines(stream, file.url, 2).count(b"\n")
    names = fields_of(head.decode().rstrip("\n"))
    fields = checked_fields(file, names, [pa.float64()] * len(names), rows)
    partition = columns_of_folders(request.partition, names)
    return FixedTable(file, request.sizes, partition, fields, (), len(head), 2, rows)
