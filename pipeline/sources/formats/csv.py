"""CSV and TSV as a table: delimiter, quotes, header and encoding are found, and said."""

from __future__ import annotations

import csv
import os
import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import dropwhile, islice
from operator import itemgetter
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.csv

from ikmap.arrays import Floats
from ikmap.tables import CATEGORY, NUMBER, ColumnPlan
from pipeline.errors import InputError
from pipeline.monitoring.plain_text import not_utf8, shown
from pipeline.sources.columns.cells import LABEL, arrow_floats, boolean_columns, float_values, number_of_word
from pipeline.sources.columns.kinds import MANY, are_faults, few, plan_of_cells
from pipeline.sources.columns.missing import is_numeric, numbers_among
from pipeline.sources.columns.number_formats import (
    formatted_number,
    has_decimal_commas,
    refuse_formatted_numbers,
    with_point,
    without_thousands,
)
from pipeline.sources.columns.raw_rows import ColumnBlock
from pipeline.sources.columns.read_request import ReadRequest
from pipeline.sources.columns.request import TableRequest, as_typed
from pipeline.sources.columns.rows import Wanted
from pipeline.sources.files.file import File
from pipeline.sources.files.limits import MEBIBYTE, longest_row
from pipeline.sources.files.recoded import encoding_of
from pipeline.sources.files.records import Quotes
from pipeline.sources.files.sample import SAMPLE_ROWS, stretches
from pipeline.sources.formats.arrow_checks import ARROW_FAILURES
from pipeline.sources.formats.csv_text import (
    DELIMITERS,
    SAMPLE_BYTES,
    find_layout,
    first_records,
    is_broken,
    least_records,
    records,
    rows_of_width,
)
from pipeline.sources.formats.text_lines import TextTable
from pipeline.sources.formats.typed import columns_of_folders


@dataclass
class _Sample:
    """Some rows of a file: the first of them, with their lines, and others from further down."""

    file: File
    lines: list[int]
    rows: list[list[str]]
    further: list[list[str]] = field(default_factory=list)
    places: list[tuple[int, int]] = field(default_factory=list)
    """First byte of the stretch of each row from further down, and the line of the row from there."""

    def add(self, start: int, rows: Sequence[tuple[int, list[str]]]) -> None:
        """Add the rows of a stretch that begins at a byte of the file."""
        self.further += [row for _, row in rows]
        self.places += [(start, line) for line, _ in rows]

    def line(self, row: int) -> int:
        """Return the line of a row; rows from further down follow the first, and the text before them is read."""
        if row < len(self.lines):
            return self.lines[row]
        start, line = self.places[row - len(self.lines)]
        with self.file.open() as stream:
            while (rest := start - stream.tell()) > 0:
                line += stream.read(min(rest, MEBIBYTE)).count(b"\n")
        return line + 1


@dataclass(frozen=True)
class CsvTable(TextTable):
    """One CSV file."""

    format: ClassVar[str] = "csv"

    delimiter: str
    header: tuple[str, ...] | None
    width: int
    decimal: str = "."
    booleans: frozenset[int] = frozenset()
    """Places of the columns among whose first cells is true or false: their numbers are read as words, which is quicker
    than to fall back for each block."""
    given: bool = False
    """True if the names of the columns were given, as the file has none."""

    @property
    def own_names(self) -> tuple[str, ...]:
        return self.header or tuple(str(j) for j in range(self.width))

    @property
    def quotes(self) -> Quotes:
        return Quotes(self.delimiter)

    @property
    def has_names(self) -> bool:
        return self.header is not None

    def said(self) -> str:
        delimiter = {"\t": "a tab", ",": "a comma", ";": "a semicolon"}.get(self.delimiter, repr(self.delimiter))
        header = f"names in line {self.data_line - 1}" if self.header else "no names in the first line"
        header = "names as given" if self.given else header
        encoding = f", in {self.file.encoding}" if self.file.encoding else ""
        decimal = ", numbers with a decimal comma" if self.decimal == "," else ""
        return f"read as CSV, columns divided by {delimiter}, {header}{encoding}{decimal}"

    def kinds(self, names: Sequence[str], request: TableRequest) -> list[ColumnPlan]:
        sample, at = self._sample(), self._places(names)

        def chosen(rows: Sequence[Sequence[str]]) -> list[list[str]]:
            cells = [[row[j] if j < len(row) else "" for j in at] for row in rows]
            return [[with_point(cell) for cell in row] for row in cells] if self.decimal == "," else cells

        first, further = chosen(sample.rows), chosen(sample.further)
        plan = plan_of_cells(names, first, request, further)
        for rows in (first, [*first, *further]):
            refuse_formatted_numbers(self.file.url, plan, sample.line, rows, request)
        return plan

    def are_numbers(self, names: Sequence[str], request: TableRequest) -> bool:
        sample, at = self._sample(), self._places(names)
        missing = request.missing_cells
        rows = [row for row in (*sample.rows, *sample.further) if len(row) == self.width]
        return self.decimal == "." and bool(rows) and all(numbers_in(row, at, missing) is not None for row in rows)

    def label_is_text(self, name: str, missing: Collection[str] = ()) -> bool:
        (at,), sample = self._places([name]), self._sample()

        def labels(rows: Sequence[Sequence[str]]) -> list[str]:
            cells = [row[at].strip() if len(row) == self.width else "" for row in rows]
            return [with_point(cell) for cell in cells] if self.decimal == "," else cells

        def counted(rows: Sequence[Sequence[str]]) -> tuple[Counter[str], list[str]]:
            cells = Counter(cell for cell in labels(rows) if cell and cell not in missing)
            return cells, [cell for cell in cells if not is_numeric(cell)]

        (first, words), (further, strange) = counted(sample.rows), counted(sample.further)
        if are_faults(words, first):
            return not few(strange, further)
        if len(first) >= MANY and (found := formatted_number(first)) is not None:
            word, expected = found
            raise InputError(
                f"{self.file.url}: line {sample.line(labels(sample.rows).index(word))}, column {shown(name)} (the "
                f"label): found {shown(word)}, expected {expected}; if labels are words, train with "
                f"{as_typed('--category', name)}"
            )
        return True

    def _places(self, names: Sequence[str]) -> list[int]:
        """Return the places of columns."""
        places = {name: j for j, name in enumerate(self.own_names)}
        return [places[name] for name in names]

    def _sample(self) -> _Sample:
        """Return the first rows, and some from further down; they are read once for each state of a local file."""
        if not self.file.local:
            return _sample_of(self)
        with self.file.open_compressed() as stream:
            modified = os.fstat(stream.fileno()).st_mtime_ns
        return _last_sample(self, modified)

    def least_rows(self) -> int:
        return least_records(self.file, self.file.url, self.delimiter, self.data_start, self.data_line)

    def block(self, text: bytes, line: int, wanted: Wanted) -> ColumnBlock:
        at = self._places(wanted.names)
        # A block of very many columns has few rows, and Arrow takes time and memory by columns: by rows is faster.
        if wanted.numbers:
            block = self._at_once(text, line, at, wanted) or self._by_rows(text, line, at, wanted)
            if block is not None:
                return block
        columns = self._columns(text, line, at, wanted)
        return ColumnBlock(columns, line, len(text), len(columns[0]), line_of=partial(self._line_of, text, line))

    def _line_of(self, text: bytes, line: int, row: int) -> int:
        """Return the line of a row of some text that begins with `line`; asked in need only."""
        rows = records(text, self.file.url, self.delimiter, line)
        return next((at for at, _ in islice(rows, row, None)), line + row)

    def _at_once(self, text: bytes, line: int, at: Sequence[int], wanted: Wanted) -> ColumnBlock | None:
        """Return a block of a table of numbers alone, whose cells Arrow parses as one column; None where it cannot."""
        if b'"' in text or any(kind != NUMBER for kind in wanted.kinds) or self.decimal != ".":
            return None
        if self._has_blanks_beside(numbers_among(wanted.missing), text):
            return None
        lines = text.replace(b"\r\n", b"\n").removesuffix(b"\n")
        codes, delimiter = np.frombuffer(lines, dtype=np.uint8), self.delimiter.encode()
        ends = np.append(np.flatnonzero(codes == ord("\n")), codes.size)
        before = np.searchsorted(np.flatnonzero(codes == ord(delimiter)), ends)
        if (before != (self.width - 1) * np.arange(1, ends.size + 1)).any():  # blank lines, or rows of another width
            return None
        cells = lines.replace(delimiter, b"\n") + b"\n"
        try:
            (column,) = pa.csv.read_csv(
                pa.BufferReader(cells),
                read_options=pa.csv.ReadOptions(column_names=["0"], use_threads=False, block_size=len(cells) + 1),
                parse_options=pa.csv.ParseOptions(ignore_empty_lines=False),
                convert_options=pa.csv.ConvertOptions(
                    column_types={"0": pa.float64()}, null_values=sorted(wanted.missing)
                ),
            ).columns
        except ARROW_FAILURES:
            return None
        values = float_values(column)
        if values.size != ends.size * self.width or np.isinf(values).any():
            return None
        X, n = values.reshape(ends.size, self.width), wanted.numbers
        others = [arrow_floats(X[:, j]) for j in at[n:]]
        return ColumnBlock(others, line, len(text), ends.size, X[:, at[:n]], partial(self._line_of, text, line))

    def _by_rows(self, text: bytes, line: int, at: Sequence[int], wanted: Wanted) -> ColumnBlock | None:
        """Return a block of a table of numbers, parsed row by row; None where a cell is none, or some row is amiss."""
        n = wanted.numbers
        X: list[Floats] = []
        others: list[list[str | None]] = [[] for _ in at[n:]]
        for _, row in records(text, self.file.url, self.delimiter, line):
            if len(row) != self.width or (values := numbers_in(row, at[:n], wanted.missing)) is None:
                return None
            X.append(values)
            for cells, j, kind in zip(others, at[n:], wanted.kinds[n:], strict=True):
                word = row[j] if kind == LABEL else row[j].strip()
                cells.append(None if kind == NUMBER and word in wanted.missing else word)
        numbers = np.stack(X) if X else np.empty((0, n))
        columns = []
        for cells, kind in zip(others, wanted.kinds[n:], strict=True):
            if any(cell is not None and is_broken(cell) for cell in cells):
                return None
            column = pa.array(cells, pa.string())
            columns.append(pa.chunked_array([column if kind != NUMBER or cells else column.cast(pa.float64())]))
        return ColumnBlock(columns, line, len(text), len(X), numbers, partial(self._line_of, text, line))

    def _columns(self, text: bytes, line: int, at: Sequence[int], wanted: Wanted) -> list[pa.ChunkedArray]:
        if not text.strip():
            types_of_none = (pa.float64() if kind == NUMBER else pa.string() for kind in wanted.kinds)
            return [pa.chunked_array([pa.array([], of_type)]) for of_type in types_of_none]
        if self._has_blanks_beside(numbers_among(wanted.missing), text):
            return self._careful(text, line, at, wanted)
        names, kinds = [str(j) for j in range(self.width)], self._read_as(at, wanted.kinds)
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
                    null_values=sorted(wanted.missing),
                    decimal_point=self.decimal,
                    strings_can_be_null=False,
                ),
            )
        except ARROW_FAILURES:
            return self._careful(text, line, at, wanted)
        columns: list[pa.ChunkedArray] = table.columns
        return columns

    def _has_blanks_beside(self, numbers: Collection[str], text: bytes) -> bool:
        """Return whether one of some cells may stand in a text with blanks beside it.

        Arrow compares a cell with those that are missing before it leaves out blanks, and reads a number then.
        """
        words, delimiter = [number.encode() for number in numbers], self.delimiter.encode()
        blanks = [blank for blank in (b" ", b"\t") if blank != delimiter]
        if not any(blank + word in text or word + blank in text for word in words for blank in blanks):
            return False  # that is found out at once
        word, blank = b"|".join(map(re.escape, words)), b"[%b]" % b"".join(blanks)
        inside = rb'[^ \t\r\n"%b]' % re.escape(delimiter)
        pattern = rb"%b(?:%b)(?!%b)|(?<!%b)(?:%b)%b" % (blank, word, inside, inside, word, blank)
        return re.search(pattern, text) is not None

    def _read_as(self, at: Sequence[int], kinds: Sequence[str]) -> list[str]:
        """Return the kinds as which columns are read: booleans are words, also where they are to become numbers."""
        return [CATEGORY if kind == NUMBER and j in self.booleans else kind for j, kind in zip(at, kinds, strict=True)]

    def _careful(self, text: bytes, line: int, at: Sequence[int], wanted: Wanted) -> list[pa.ChunkedArray]:
        """Parse cell by cell: raise for the first fault, or return what Arrow was too strict about."""
        url, wanted_columns = self.file.url, wanted.columns
        columns: list[list[float | str | None]] = [[] for _ in at]
        for row_line, row in rows_of_width(text, url, self.delimiter, line, self.width):
            for cells, j, column in zip(columns, at, wanted_columns, strict=True):
                cell = row[j].strip()
                if is_broken(cell):
                    raise InputError(
                        f"{url}: line {row_line}, column {shown(column.name)}: {not_utf8('text')}, or train with "
                        "--encoding cp1252"
                    )
                if column.kind != NUMBER:
                    cells.append(row[j] if column.kind == LABEL else cell)
                    continue
                if cell in wanted.missing:
                    cells.append(None)
                    continue
                if self.decimal == "," and (plain := without_thousands(cell)) != cell:
                    raise InputError(
                        f"{url}: line {row_line}, column {shown(column.name)}: found {shown(cell)}, expected {plain} "
                        "or a decimal comma, as the numbers of the first rows have"
                    )
                value = number_of_word(with_point(cell) if self.decimal == "," else cell)
                if value is None:
                    raise InputError(
                        f"{url}: line {row_line}, column {shown(column.name)}: found {shown(cell)}, expected "
                        f"{column.expected(cell, wanted.missing)}"
                    )
                cells.append(value)
        return [
            pa.chunked_array([pa.array(cells, pa.float64() if kind == NUMBER else pa.string())])
            for cells, kind in zip(columns, wanted.kinds, strict=True)
        ]


@lru_cache(maxsize=1)
def _last_sample(table: CsvTable, modified: int) -> _Sample:  # noqa: ARG001 - a file that was written anew is another
    return _sample_of(table)


def _sample_of(table: CsvTable) -> _Sample:
    """Return the first rows of a file, and some from places further down where that is nearly free."""
    file = table.file
    with file.open() as stream:
        stream.seek(table.data_start)
        _, _, first, more = first_records(stream, file.url, table.delimiter)
    head = list(islice(records(first + more, file.url, table.delimiter, table.data_line), SAMPLE_ROWS))
    sample = _Sample(file, [line for line, _ in head], [row for _, row in head])
    for start, text in stretches(file, table.data_start + len(first) + len(more)):
        sample.add(start, _rows_of_stretch(text, table.delimiter, table.width))
    return sample


def _rows_of_stretch(text: bytes, delimiter: str, width: int) -> list[tuple[int, list[str]]]:
    """Return rows of some text, with their lines from 0; none where no row seems to begin at its start.

    It may begin within quotes: then a quote ends in mid-cell, or rows behind the first are of another width.
    """
    lines = text.decode(errors="surrogateescape").split("\n")
    csv.field_size_limit(longest_row())
    reader = csv.reader((line + "\n" for line in lines), delimiter=delimiter, strict=True)
    rows: list[tuple[int, list[str]]] = []
    at = 0
    try:
        for row in reader:
            if row:
                rows.append((at, row))
            at = reader.line_num
    except csv.Error as error:
        if "unexpected end" not in str(error):  # as where the text ends within quotes
            return []
    rows = list(dropwhile(lambda row: len(row[1]) != width, rows))
    return rows if all(len(row) == width for _, row in rows) else []


def numbers_in(row: Sequence[str], at: Sequence[int], missing: frozenset[str]) -> Floats | None:
    """Return the finite numbers that some cells of a row are, NaN where one is missing; None where one is neither."""
    cells = itemgetter(*at)(row) if len(at) > 1 else (row[at[0]],)
    text = "".join(cells)
    if not text.isascii() or "_" in text:  # what float() takes beside plain numbers
        return None
    values = None if numbers_among(missing) else _floats(cells)
    if values is None:  # a cell is missing, or is no number
        values = _floats(["nan" if cell in missing or cell.strip() in missing else cell for cell in cells])
    return None if values is None or np.isinf(values).any() else values


def _floats(cells: Sequence[str]) -> Floats | None:
    """Return the numbers that some cells are; None where one is none."""
    try:
        return np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        return None


def open_csv(file: File, request: ReadRequest) -> CsvTable:
    """Find encoding, delimiter and header from the first records, unless they are known.

    Raises
    ------
    InputError
        The file has no rows, or its first records are no table of named columns.
    """
    known = request.csv
    if known.encoding is None:
        with file.open() as stream:
            known = known._replace(encoding=encoding_of(stream.read(SAMPLE_BYTES)))
    names, missing = request.header_names, request.table.missing_cells
    layout = find_layout(file, request.label, known, DELIMITERS, names, missing, request.csv_of_training)
    decimal = "," if layout.delimiter != "," and has_decimal_commas(layout.rows) else "."
    return CsvTable(
        layout.file,
        request.sizes,
        columns_of_folders(request.partition, layout.names or ()),
        layout.start,
        layout.line,
        layout.delimiter,
        layout.names,
        layout.width,
        decimal,
        boolean_columns(layout.rows) if decimal == "." else frozenset(),
        layout.given,
    )
