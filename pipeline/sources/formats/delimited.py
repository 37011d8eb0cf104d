"""CSV and TSV: text is cut into blocks of whole records, and Arrow parses each block.

Cutting it ourselves (not by Arrow's streaming reader) makes blocks depend on the file alone, lets skipped
blocks go unparsed, and keeps the search for a fault, which runs over one block in plain Python, short.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.csv

from pipeline.errors import InputError
from pipeline.monitoring.plain_text import not_utf8
from pipeline.sources.base import WIDE, Fragment, RawRows, Source, check_columns, shown
from pipeline.sources.columns.labels import choose_label
from pipeline.sources.files.file import File, text_blocks
from pipeline.sources.files.limits import MEBIBYTE
from pipeline.sources.formats.arrow_checks import ARROW_FAILURES
from pipeline.sources.formats.csv_text import (
    NOT_FINITE,
    NUMBER,
    CsvFormat,
    find_layout,
    is_broken,
    is_numeric,
    least_records,
    records,
    rows_of_width,
)

# A cell takes at least two bytes of text and becomes eight: 16 MiB dense at most.
TEXT_BLOCK_BYTES = 4 * MEBIBYTE


@dataclass(frozen=True)
class DelimitedSource(Source):
    """A table in text. One fragment: where a record starts depends on the quotes before it."""

    format: ClassVar[str] = "csv"
    unit: ClassVar[str] = "line"

    delimiter: str
    names: tuple[str, ...] | None
    n_total: int
    label: int | None
    text_labels: bool
    data_start: int
    data_line: int

    def least_rows(self) -> int:
        return least_records(self.file, self.url, self.delimiter, self.data_start, self.data_line)

    def fragments(self) -> list[Fragment]:
        return [Fragment(0, self.data_start, None)]

    def read(self, fragment: Fragment, skip: int = 0) -> Iterator[RawRows]:
        with self.file.open() as stream:
            stream.seek(fragment.start)
            blocks = text_blocks(
                stream, self.url, fragment.start, fragment.stop, self.block_bytes, line=self.data_line, quotes=True
            )
            for k, (line, text) in enumerate(blocks):
                if k >= skip:
                    yield self.parse(text, line)

    def parse(self, text: bytes, line: int) -> RawRows:
        """Rows of some whole records, of which the first stands in that line."""
        # A block of very many columns has few rows, and Arrow takes time and memory by columns: one by one is faster.
        if self.n_total >= WIDE and (rows := self._row_by_row(text, line)) is not None:
            return rows
        columns = self._arrow(text) if text.strip() else [np.empty(0) for _ in range(self.n_total)]
        if columns is None or not all(_good(column) for column in columns):
            columns = self._careful(text, line)
        y = None if self.label is None else columns.pop(self.label)
        if y is not None and self.text_labels and y.dtype != object:
            y = y.astype(object)  # an empty block
        X = np.empty((columns[0].size, len(columns)))
        for j, column in enumerate(columns):
            X[:, j] = column
        return RawRows(X, y, line, len(text))

    def _arrow(self, text: bytes) -> list[np.ndarray] | None:
        """All columns; None where Arrow finds a fault, whose words are not ours."""
        names = [str(j) for j in range(self.n_total)]
        types = dict.fromkeys(names, pa.float64())
        if self.label is not None and self.text_labels:
            types[names[self.label]] = pa.string()
        try:
            table = pa.csv.read_csv(
                pa.BufferReader(text),
                read_options=pa.csv.ReadOptions(column_names=names, use_threads=False, block_size=len(text) + 1),
                parse_options=pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                convert_options=pa.csv.ConvertOptions(column_types=types, null_values=[], strings_can_be_null=False),
            )
        except ARROW_FAILURES:
            return None
        columns = [column.to_numpy() for column in table.columns]
        if self.label is not None and self.text_labels:
            stripped = [str(label).strip() for label in columns[self.label]]
            columns[self.label] = _strings(stripped)
        return columns

    def _row_by_row(self, text: bytes, line: int) -> RawRows | None:
        """As :meth:`parse`; None where a cell is not plainly a number, or there is another fault."""
        rows: list[np.ndarray] = []
        y: list[float | str] = []
        for _, row in records(text, self.url, self.delimiter, line):
            if len(row) != self.n_total:
                return None
            label = None if self.label is None else row.pop(self.label).strip()
            cells = "".join(row)
            if not cells.isascii() or "_" in cells:  # what float() takes beside plain numbers
                return None
            try:
                rows.append(np.fromiter(map(float, row), np.float64, len(row)))
                if label is not None:
                    y.append(label if self.text_labels else float(self._cell(label, line, self.label or 0)))
            except (ValueError, InputError):
                return None
            if not np.isfinite(rows[-1]).all() or (self.text_labels and (not label or is_broken(label))):
                return None
        X = np.stack(rows) if rows else np.empty((0, self.n_total - (self.label is not None)))
        labels = None if self.label is None else _strings(y) if self.text_labels else np.array(y, dtype=np.float64)
        return RawRows(X, labels, line, len(text))

    def _careful(self, text: bytes, line: int) -> list[np.ndarray]:
        """Parse cell by cell: raise for the first fault, or return what Arrow was too strict about."""
        cells: list[list[float | str]] = [[] for _ in range(self.n_total)]
        for at, row in rows_of_width(text, self.url, self.delimiter, line, self.n_total):
            for j, cell in enumerate(row):
                cells[j].append(self._cell(cell.strip(), at, j))
        return [
            _strings(column) if j == self.label and self.text_labels else np.array(column, dtype=np.float64)
            for j, column in enumerate(cells)
        ]

    def _cell(self, cell: str, line: int, j: int) -> float | str:
        where = f"{self.url}: line {line}, column {self._name(j)}"
        is_label = j == self.label
        kind = " (the label)" if is_label else ""
        if not cell:
            expected = "a label" if is_label else "a number"
            raise InputError(f"{where}: found an empty cell, expected {expected}")
        if is_label and self.text_labels:
            if is_broken(cell):
                raise InputError(f"{where}: {not_utf8('text')}")
            return cell
        if NUMBER.fullmatch(cell):
            value = float(cell)
            if np.isfinite(value):
                return value
        elif not NOT_FINITE.fullmatch(cell):
            if is_label:
                reason = f"a number{kind}, as in the first rows"
            else:
                reason = "a number; code categorical columns as numbers first"
            if is_broken(cell):
                raise InputError(f"{where}: {not_utf8('a number')}")
            raise InputError(f"{where}: found {shown(cell)}, expected {reason}")
        raise InputError(f"{where}: found {cell}, expected a finite number{kind}")

    def _name(self, j: int) -> str:
        return shown(self.names[j]) if self.names is not None else str(j + 1)


def open_delimited(
    file: File,
    label: str | int | None,
    n_columns: int | None,
    require_label: bool,
    fragment_bytes: int,
    block_bytes: int,
    known: CsvFormat = CsvFormat(),  # noqa: B008 - immutable
) -> DelimitedSource:
    """Find delimiter, header and label from the name and the first records, unless they are known.

    Raises
    ------
    InputError
        If there are no rows, the delimiter that is given is not in the first, a column name appears twice, no label is
        found, or the number of columns is not `n_columns`.
    """
    url, layout = file.url, find_layout(file, label, known, ",\t;")
    names = layout.names
    at = choose_label(url, names, layout.width, label, required=require_label, n_columns=n_columns)
    check_columns(url, layout.width - (at is not None), n_columns)
    text_labels = at is not None and not all(
        is_numeric(row[at]) or not row[at].strip() for row in layout.rows if len(row) == layout.width
    )
    return DelimitedSource(
        file=layout.file,
        n_columns=layout.width - (at is not None),
        column_names=None if names is None else tuple(n for j, n in enumerate(names) if j != at),
        fragment_bytes=fragment_bytes,
        block_bytes=block_bytes,
        delimiter=layout.delimiter,
        names=names,
        n_total=layout.width,
        label=at,
        text_labels=text_labels,
        data_start=layout.start,
        data_line=layout.line,
    )


def _good(column: np.ndarray) -> bool:
    if column.dtype == object:
        return all(column)  # no empty label
    return bool(np.isfinite(column).all())


def _strings(values: Sequence[float | str]) -> np.ndarray:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column
