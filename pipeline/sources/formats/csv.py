"""CSV and TSV as a table: delimiter, quotes, header and encoding are found, and said."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

import pyarrow as pa
import pyarrow.csv

from ikmap.tables import NUMBER, ColumnPlan
from pipeline.errors import InputError
from pipeline.monitoring.plain_text import not_utf8
from pipeline.sources.base import Fragment, shown
from pipeline.sources.columns.cells import expected, number_in
from pipeline.sources.columns.kinds import plan_of_cells
from pipeline.sources.columns.number_formats import has_decimal_commas, refuse_dressed, with_point
from pipeline.sources.columns.request import TableRequest
from pipeline.sources.files.file import File, text_blocks
from pipeline.sources.files.recoded import encoding_of
from pipeline.sources.formats.arrow_checks import ARROW_FAILURES
from pipeline.sources.formats.csv_text import (
    SAMPLE_BYTES,
    CsvFormat,
    find_layout,
    first_records,
    is_broken,
    is_numeric,
    least_records,
    records,
    rows_of_width,
)
from pipeline.sources.formats.table_file import Block, TableFile

DELIMITERS = ",\t;|"
LABEL = "label"
SAMPLE_ROWS = 10_000


@dataclass(frozen=True)
class TextTable(TableFile):
    """One CSV file. One fragment: where a record starts depends on the quotes before it."""

    format: ClassVar[str] = "csv"
    knows_rows: ClassVar[bool] = False
    unit: ClassVar[str] = "line"

    delimiter: str
    header: tuple[str, ...] | None
    width: int
    data_start: int
    data_line: int
    decimal: str = "."

    @property
    def own_names(self) -> tuple[str, ...]:
        return self.header or tuple(str(j) for j in range(self.width))

    @property
    def has_names(self) -> bool:
        return self.header is not None

    def said(self) -> str:
        delimiter = {"\t": "a tab", ",": "a comma", ";": "a semicolon"}.get(self.delimiter, repr(self.delimiter))
        header = f"names in line {self.data_line - 1}" if self.header else "no names in the first line"
        encoding = f", in {self.file.encoding}" if self.file.encoding else ""
        decimal = ", numbers with a decimal comma" if self.decimal == "," else ""
        return f"read as CSV, columns divided by {delimiter}, {header}{encoding}{decimal}"

    def plan(self, names: Sequence[str], request: TableRequest) -> list[ColumnPlan]:
        lines, rows = self._sample()
        at = [self.own_names.index(name) for name in names]
        cells = [[row[j] if j < len(row) else "" for j in at] for row in rows]
        if self.decimal == ",":
            cells = [[with_point(cell) for cell in row] for row in cells]
        plan = plan_of_cells(names, cells, request)
        refuse_dressed(self.file.url, plan, lines, cells, request)
        return plan

    def label_is_text(self, name: str, missing: Collection[str] = ()) -> bool:
        at = self.own_names.index(name)
        cells = [row[at].strip() for row in self._sample()[1] if len(row) == self.width]
        plain = (with_point(cell) if self.decimal == "," else cell for cell in cells if cell and cell not in missing)
        return not all(map(is_numeric, plain))

    def _sample(self) -> tuple[list[int], list[list[str]]]:
        """The first rows, and the line of each."""
        with self.file.open() as stream:
            stream.seek(self.data_start)
            _, _, first, more = first_records(stream, self.file.url)
        cells = list(islice(records(first + more, self.file.url, self.delimiter, self.data_line), SAMPLE_ROWS))
        return [line for line, _ in cells], [row for _, row in cells]

    def least_rows(self) -> int:
        return least_records(self.file, self.file.url, self.delimiter, self.data_start, self.data_line)

    def fragments(self, fragment_bytes: int, columns: int) -> list[Fragment]:  # noqa: ARG002
        return [Fragment(0, self.data_start, None)]

    def blocks(
        self,
        fragment: Fragment,
        skip: int,
        names: Sequence[str],
        kinds: Sequence[str],
        missing: frozenset[str],
        size: int,
    ) -> Iterator[Block]:
        at = [self.own_names.index(name) for name in names]
        with self.file.open() as stream:
            stream.seek(fragment.start)
            blocks = text_blocks(
                stream, self.file.url, fragment.start, fragment.stop, size, line=self.data_line, quotes=True
            )
            for k, (line, text) in enumerate(blocks):
                if k >= skip:
                    yield Block(self._columns(text, line, at, kinds, missing), line, len(text))

    def parse(
        self, text: bytes, line: int, names: Sequence[str], kinds: Sequence[str], missing: frozenset[str]
    ) -> Block:
        """Return the columns of some whole records, of which the first stands in that line."""
        at = [self.own_names.index(name) for name in names]
        return Block(self._columns(text, line, at, kinds, missing), line, len(text))

    def _columns(
        self, text: bytes, line: int, at: Sequence[int], kinds: Sequence[str], missing: frozenset[str]
    ) -> list[pa.ChunkedArray]:
        if not text.strip():
            return [pa.chunked_array([pa.array([], pa.float64() if k == NUMBER else pa.string())]) for k in kinds]
        names = [str(j) for j in range(self.width)]
        words = pa.dictionary(pa.int32(), pa.string())
        types = {
            names[j]: pa.float64() if kind == NUMBER else pa.string() if kind == LABEL else words
            for j, kind in zip(at, kinds, strict=True)
        }
        try:
            table = pa.csv.read_csv(
                pa.BufferReader(text),
                read_options=pa.csv.ReadOptions(column_names=names, use_threads=False, block_size=len(text) + 1),
                parse_options=pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                convert_options=pa.csv.ConvertOptions(
                    column_types=types,
                    include_columns=[names[j] for j in at],
                    null_values=sorted(missing | {""}),
                    decimal_point=self.decimal,
                    strings_can_be_null=False,
                ),
            )
        except ARROW_FAILURES:
            return self._careful(text, line, at, kinds, missing)
        columns: list[pa.ChunkedArray] = table.columns
        return columns

    def _careful(
        self, text: bytes, line: int, at: Sequence[int], kinds: Sequence[str], missing: frozenset[str]
    ) -> list[pa.ChunkedArray]:
        """Cell by cell: raise for the first fault, or return what Arrow was too strict about."""
        url = self.file.url
        columns: list[list[float | str | None]] = [[] for _ in at]
        for row_line, row in rows_of_width(text, url, self.delimiter, line, self.width):
            for cells, j, kind in zip(columns, at, kinds, strict=True):
                cell = row[j].strip()
                if is_broken(cell):
                    raise InputError(
                        f"{url}: line {row_line}, column {shown(self.own_names[j])}: {not_utf8('text')}, or give "
                        "--encoding cp1252"
                    )
                if kind != NUMBER:
                    cells.append(cell)
                    continue
                plain = with_point(cell) if self.decimal == "," else cell
                value = None if cell in missing or not cell else number_in(plain)
                if value is None and cell and cell not in missing:
                    wanted = expected(NUMBER).replace("COLUMN", self.own_names[j])
                    raise InputError(
                        f"{url}: line {row_line}, column {shown(self.own_names[j])}: found {shown(cell)}, expected "
                        f"{wanted}"
                    )
                cells.append(value)
        return [
            pa.chunked_array([pa.array(cells, pa.float64() if kind == NUMBER else pa.string())])
            for cells, kind in zip(columns, kinds, strict=True)
        ]


def open_text_table(
    file: File, partition: tuple[tuple[str, str | None], ...], label: str | int | None, known: CsvFormat
) -> TextTable:
    """Find encoding, delimiter and header from the first records, unless they are known.

    Raises
    ------
    InputError
    """
    if known.encoding is None:
        with file.open() as stream:
            known = known._replace(encoding=encoding_of(stream.read(SAMPLE_BYTES)))
    layout = find_layout(file, label, known, DELIMITERS)
    decimal = "," if layout.delimiter != "," and has_decimal_commas(layout.rows) else "."
    return TextTable(
        layout.file, partition, layout.delimiter, layout.names, layout.width, layout.start, layout.line, decimal
    )
