"""CSV and TSV: text is cut into blocks of whole records, and Arrow parses each block.

Cutting it ourselves (not by Arrow's streaming reader) makes blocks depend on the file alone, lets skipped
blocks go unparsed, and keeps the search for a fault, which runs over one block in plain Python, short.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.csv

from pipeline.errors import InputError
from pipeline.readers.base import WIDE, CsvFormat, Piece, RawRows, Source, check_columns, shown
from pipeline.readers.files import MEBIBYTE, File, LongLine, read_record, text_blocks
from pipeline.readers.labels import LABEL_NAMES, check_names, choose_label
from pipeline.readers.limits import MOST_COLUMNS, longest_row
from pipeline.watching.plain_text import not_utf8

# A cell takes at least two bytes of text and becomes eight: 16 MiB dense at most.
TEXT_BLOCK_BYTES = 4 * MEBIBYTE

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
_SURROGATE = re.compile("[\ud800-\udfff]")
_BOM = b"\xef\xbb\xbf"
SAMPLE_BYTES = MEBIBYTE // 4


@dataclass(frozen=True)
class DelimitedSource(Source):
    """A table in text. One piece: where a record starts depends on the quotes before it."""

    format: ClassVar[str] = "csv"

    delimiter: str
    names: tuple[str, ...] | None
    n_total: int
    label: int | None
    text_labels: bool
    data_start: int
    data_line: int

    def least_rows(self) -> int:
        with self.file.open() as stream:
            stream.seek(self.data_start)
            text = stream.read(MEBIBYTE)
        # Blank lines are none, and quoted text may have line ends in it; then it takes longer to say.
        return max(1, sum(1 for _ in _records(text.rpartition(b"\n")[0], self.url, self.delimiter, self.data_line)))

    def pieces(self) -> list[Piece]:
        return [Piece(0, self.data_start, None)]

    def read(self, piece: Piece, skip: int = 0) -> Iterator[RawRows]:
        with self.file.open() as stream:
            stream.seek(piece.start)
            blocks = text_blocks(
                stream, self.url, piece.start, piece.stop, self.block_bytes, line=self.data_line, quotes=True
            )
            for k, (line, text) in enumerate(blocks):
                if k >= skip:
                    yield self.parse(text, line)

    def parse(self, text: bytes, line: int) -> RawRows:
        """Rows of some whole records, of which the first stands in that line."""
        # A block of very many columns has few rows, and Arrow takes time and memory by columns: one by one is faster.
        if self.n_total >= WIDE and (found := self._row_by_row(text, line)) is not None:
            return found
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
        except pa.ArrowInvalid:
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
        for _, row in _records(text, self.url, self.delimiter, line):
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
            if not np.isfinite(rows[-1]).all() or (self.text_labels and (not label or _broken(label))):
                return None
        X = np.stack(rows) if rows else np.empty((0, self.n_total - (self.label is not None)))
        labels = None if self.label is None else _strings(y) if self.text_labels else np.array(y, dtype=np.float64)
        return RawRows(X, labels, line, len(text))

    def _careful(self, text: bytes, line: int) -> list[np.ndarray]:
        """Parse cell by cell: raise for the first fault, or return what Arrow was too strict about."""
        cells: list[list[float | str]] = [[] for _ in range(self.n_total)]
        for at, row in _records(text, self.url, self.delimiter, line):
            if len(row) != self.n_total:
                raise InputError(f"{self.url}: line {at}: found {len(row)} cells, expected {self.n_total}")
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
            if _broken(cell):
                raise InputError(f"{where}: {not_utf8('text')}")
            return cell
        if _NUMBER.fullmatch(cell):
            value = float(cell)
            if np.isfinite(value):
                return value
        elif not _NOT_FINITE.fullmatch(cell):
            if is_label:
                reason = f"a number{kind}, as in the first rows"
            else:
                reason = "a number; code categorical columns as numbers first"
            if _broken(cell):
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
    piece_bytes: int,
    block_bytes: int,
    csv: CsvFormat = CsvFormat(),  # noqa: B008 - immutable
) -> DelimitedSource:
    """Find delimiter, header and label from the name and the first records, unless they are given.

    Raises
    ------
    InputError
        If there are no rows, the delimiter that is given is not in the first, a column name appears twice, no label is
        found, or the number of columns is not `n_columns`.
    """
    url = file.url
    header, delimiter, encoding = csv
    if encoding is not None:
        file = replace(file, encoding=encoding)
    with file.open() as stream:
        data_start, line, first, more = _first_records(stream, url)
    if not first:
        raise InputError(f"{url}: found no rows, expected a table")
    if delimiter is None:
        delimiter = sniff_delimiter(url, first)
    elif delimiter.encode() not in first:
        raise InputError(f"{url}: line {line}: found no {delimiter!r}, the delimiter that is given, expected columns")
    if first.count(delimiter.encode()) >= MOST_COLUMNS:
        raise InputError(
            f"{url}: line {line}: found {first.count(delimiter.encode()) + 1:,} columns, expected at most "
            f"{MOST_COLUMNS:,} in text; give LIBSVM text, .npy or .npz, whose columns need no names"
        )
    records = [row for _, row in _records(first + more, url, delimiter, line)]
    names, data_line = given_names(url, line, header, len(records[0])), line
    if header is None:
        header = _is_header(records[0], records[1] if len(records) > 1 else None, label)
    if header and names is None:
        names = tuple(_checked_names(url, records.pop(0), line))
        data_start, data_line = data_start + len(first), line + first.count(b"\n")
    if not records:
        raise InputError(f"{url}: found a header (line {line}) but no rows, expected at least one")
    n_total = len(names or records[0])
    at = choose_label(url, names, n_total, label, required=require_label, n_columns=n_columns)
    check_columns(url, n_total - (at is not None), n_columns)
    text_labels = at is not None and not all(
        _numeric(row[at]) or not row[at].strip() for row in records if len(row) == n_total
    )
    return DelimitedSource(
        file=file,
        n_columns=n_total - (at is not None),
        column_names=None if names is None else tuple(n for j, n in enumerate(names) if j != at),
        piece_bytes=piece_bytes,
        block_bytes=block_bytes,
        delimiter=delimiter,
        names=names,
        n_total=n_total,
        label=at,
        text_labels=text_labels,
        data_start=data_start,
        data_line=data_line,
    )


def given_names(url: str, line: int, header: bool | Sequence[str] | None, width: int) -> tuple[str, ...] | None:
    """The names of the columns, where they are given because the file has none.

    Raises
    ------
    InputError
        Not as many as the first row has cells, or one twice.
    """
    if header is None or isinstance(header, bool):
        return None
    if len(header) != width:
        raise InputError(
            f"{url}: line {line}: found {width} cells, expected {len(header)} as names are given (--header "
            f"{','.join(header)})"
        )
    check_names("--header", header)
    return tuple(header)


def sniff_delimiter(url: str, first: bytes) -> str:
    """Tab for .tsv; else the most frequent of comma, tab and semicolon in the first record's plain text."""
    if re.search(r"\.tsv(\.\w+)?$", url, re.IGNORECASE):
        return "\t"
    plain = re.sub(rb'"[^"]*"', b"", first)
    return max(",\t;", key=lambda c: plain.count(c.encode()))


def _first_records(stream: io.BufferedReader, url: str) -> tuple[int, int, bytes, bytes]:
    """Offset, line and bytes of the first record that is not blank, and the records behind it, in a sample.

    There are no bytes where the file ends before.
    """
    position, line, limit = 0, 1, longest_row()

    def record() -> bytes:
        try:
            return read_record(stream, limit=limit)
        except LongLine as error:
            raise error.at(url, line, True) from None

    if stream.peek(len(_BOM))[: len(_BOM)] == _BOM:
        position = len(stream.read(len(_BOM)))
    while (first := record()) and not first.strip(b"\r\n"):
        position += len(first)
        line += first.count(b"\n")
    begin = line
    line += first.count(b"\n")
    more: list[bytes] = []
    length = 0
    while length < SAMPLE_BYTES and (following := record()):
        more.append(following)
        length += len(following)
        line += following.count(b"\n")
    return position, begin, first, b"".join(more)


def _records(text: bytes, url: str, delimiter: str, line: int) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of each record that is not blank; bytes that are not UTF-8 become lone surrogates."""
    lines = text.decode(errors="surrogateescape").split("\n")
    reader = csv.reader((part + "\n" for part in lines), delimiter=delimiter)
    at = line
    try:
        for row in reader:
            if row:
                yield at, row
            at = line + reader.line_num
    except csv.Error as error:
        if "new-line character" in str(error):  # which goes on with advice for who calls Python's reader
            raise InputError(
                f"{url}: line {at}: found a carriage return in a cell without quotes, expected lines that end in \\n "
                "or \\r\\n; where lines end in \\r alone: tr '\\r' '\\n' < FILE > NEW"
            ) from error
        raise InputError(f"{url}: line {at}: not CSV: {error}") from error


def _is_header(first: Sequence[str], second: Sequence[str] | None, label: str | int | None) -> bool:
    """Whether the first record names the columns.

    It does if it holds the name of a label column, or text only, or text where the second has a number.
    """
    texts = [bool(cell.strip()) and not _numeric(cell) for cell in first]
    if not any(texts):
        return isinstance(label, str) and label in first and not label.lstrip("-").isdigit()
    named = any(cell.strip().lower() in LABEL_NAMES or cell == label for cell in first)
    differs = second is not None and any(t and _numeric(c) for t, c in zip(texts, second, strict=False))
    return named or all(texts) or differs


def _checked_names(url: str, names: Sequence[str], line: int) -> list[str]:
    names = [name.strip() for name in names]
    for j, name in enumerate(names):
        if _broken(name):
            raise InputError(f"{url}: line {line}, column {j + 1}: {not_utf8('a name')}")
    check_names(f"{url}: line {line}", names)
    return names


def _numeric(cell: str) -> bool:
    cell = cell.strip()
    return bool(_NUMBER.fullmatch(cell) or _NOT_FINITE.fullmatch(cell))


def _broken(text: str) -> bool:
    return bool(_SURROGATE.search(text))


def _good(column: np.ndarray) -> bool:
    if column.dtype == object:
        return all(column)  # no empty label
    return bool(np.isfinite(column).all())


def _strings(values: Sequence[float | str]) -> np.ndarray:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column
