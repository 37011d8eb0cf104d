"""ARFF, the format of Weka and OpenML: a header that declares the columns, and a row in each line behind it.

Arrow parses blocks of rows. A block that it does not take as it is - with quotes of both kinds, or a fault - is parsed
again line by line.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa
import pyarrow.csv

from ikmap.tables import NUMBER, TIME, ColumnPlan
from pipeline.errors import InputError, NoRows
from pipeline.monitoring.plain_text import not_utf8, shown
from pipeline.sources.columns.cells import is_text, number_in
from pipeline.sources.columns.raw_rows import ColumnBlock
from pipeline.sources.columns.read_request import ReadRequest
from pipeline.sources.columns.rows import Wanted
from pipeline.sources.files.file import File
from pipeline.sources.files.limits import MOST_COLUMNS, longest_row
from pipeline.sources.files.recoded import encoding_of
from pipeline.sources.files.records import LongLine, read_record
from pipeline.sources.formats.arrow_checks import ARROW_FAILURES
from pipeline.sources.formats.csv_text import SAMPLE_BYTES
from pipeline.sources.formats.text_lines import LinesTable, first_lines, line_of_row
from pipeline.sources.formats.typed import checked_fields, columns_of_folders

_WORD = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_ATTRIBUTE = re.compile(rf"@attribute\s+({_WORD}|[^\s'\"{{]+)(?:\s+|(?={{))(\S.*)", re.IGNORECASE)
_CELL = re.compile(rf"[ \t]*(?:({_WORD})[ \t]*|([^,]*))(,|$)")
_ESCAPED = re.compile(r"\\(.)")
_AROUND = re.compile(rb"[ \t\r]*,[ \t]*")
_PADDED = re.compile(rb"[ \t]'|'[ \t]|, |,\t|[ \t],")
_NUMBERS = frozenset({"numeric", "real", "integer"})


@dataclass(frozen=True)
class ArffTable(LinesTable):
    """One ARFF file: nominal attributes and strings are words.

    Attributes
    ----------
    nominal : tuple of (str, frozenset of str)
        Names of the nominal attributes, and the values that they are declared to have.
    """

    format: ClassVar[str] = "arff"

    nominal: tuple[tuple[str, frozenset[str]], ...]

    def block(self, text: bytes, line: int, wanted: Wanted) -> ColumnBlock:
        parts = text.split(b"\n")
        lines = [k for k, part in enumerate(parts) if part.strip() and not part.lstrip().startswith(b"%")]
        rows = [parts[k].strip() for k in lines]
        types = dict(self.fields)
        read_as = [
            pa.float64() if kind == NUMBER and not is_text(types[name]) else pa.string()
            for name, kind in zip(wanted.names, wanted.kinds, strict=True)
        ]
        columns = self._parsed(rows, wanted.names, read_as)
        if columns is None:
            columns = self._careful(rows, [line + k for k in lines], wanted, read_as)
        self._refuse_undeclared(columns, wanted.names, [line + k for k in lines])
        return ColumnBlock(columns, line, len(text), len(rows), line_of=line_of_row(lines, line))

    def _parsed(
        self, rows: Sequence[bytes], names: Sequence[str], types: Sequence[pa.DataType]
    ) -> list[pa.ChunkedArray] | None:
        """Return the columns of some rows; None where Arrow does not take them as they are."""
        body = b"\n".join(rows)
        if not rows or b'"' in body or b"\\" in body or any(row.startswith(b"{") for row in rows):
            return None
        if b"'" not in body:
            body = _AROUND.sub(b",", body)
        elif _PADDED.search(body):
            return None
        places = {name: str(j) for j, name in enumerate(self.own_names)}
        at = [places[name] for name in names]
        try:
            table = pa.csv.read_csv(
                pa.BufferReader(body),
                read_options=pa.csv.ReadOptions(
                    column_names=list(places.values()), use_threads=False, block_size=len(body) + 1
                ),
                parse_options=pa.csv.ParseOptions(quote_char="'", double_quote=False),
                convert_options=pa.csv.ConvertOptions(
                    column_types=dict(zip(at, types, strict=True)),
                    include_columns=at,
                    null_values=["?"],
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=False,
                ),
            )
        except ARROW_FAILURES:
            return None
        columns: list[pa.ChunkedArray] = table.columns
        return columns if table.num_rows == len(rows) else None

    def _careful(
        self, rows: Sequence[bytes], lines: Sequence[int], wanted: Wanted, types: Sequence[pa.DataType]
    ) -> list[pa.ChunkedArray]:
        """Parse line by line: raise for the first fault, or return what Arrow was too strict about."""
        url, places = self.file.url, {name: j for j, name in enumerate(self.own_names)}
        columns: list[list[float | str | None]] = [[] for _ in types]
        for line, row in zip(lines, rows, strict=True):
            cells = _cells_of(row, f"{url}: line {line}")
            if len(cells) != len(places):
                raise InputError(f"{url}: line {line}: found {len(cells)} cells, expected {len(places)}")
            for values, column, kind in zip(columns, wanted.columns, types, strict=True):
                cell: float | str | None = cells[places[column.name]]
                if kind == pa.float64() and isinstance(cell, str):
                    word, cell = cell, number_in(cell)
                    if cell is None:
                        raise InputError(
                            f"{url}: line {line}, column {shown(column.name)}: found {shown(word)}, expected "
                            f"{column.expected(word, wanted.missing)}"
                        )
                values.append(cell)
        return [pa.chunked_array([pa.array(cells, kind)]) for cells, kind in zip(columns, types, strict=True)]

    def _refuse_undeclared(
        self, columns: Sequence[pa.ChunkedArray], names: Sequence[str], lines: Sequence[int]
    ) -> None:
        """Refuse a value of a nominal attribute that is not one of those that are declared."""
        nominal = dict(self.nominal)
        for name, column in zip(names, columns, strict=True):
            if name not in nominal or not is_text(column.type):
                continue
            strange = [word for word in column.unique().to_pylist() if word is not None and word not in nominal[name]]
            if strange:
                row = column.to_pylist().index(strange[0])
                raise InputError(
                    f"{self.file.url}: line {lines[row]}, column {shown(name)}: found {shown(strange[0])}, expected "
                    "one of the values that its @attribute line has"
                )


def _cells_of(row: bytes, where: str) -> list[str | None]:
    """Return the cells of a row; None where one is missing.

    Raises
    ------
    InputError
    """
    try:
        text = row.decode()
    except UnicodeDecodeError:
        raise InputError(f"{where}: {not_utf8('text')}") from None
    if text.startswith("{"):
        raise InputError(
            f"{where}: found a sparse row, expected a value for each attribute; write it so: java -cp weka.jar "
            "weka.filters.unsupervised.instance.SparseToNonSparse -i FILE -o NEW.arff"
        )
    cells: list[str | None] = []
    at, comma = 0, ","
    while comma:
        match = _CELL.match(text, at)
        assert match is not None  # as it takes any text up to the next comma
        quoted, plain, comma = match.groups()
        if quoted is not None:
            cells.append(_plain(quoted))
        elif plain.startswith(("'", '"')):
            raise InputError(f"{where}: found {shown(plain)}, a quote that does not end where its cell does")
        else:
            word = plain.strip()
            cells.append(None if word == "?" else word)
        at = match.end()
    return cells


def _plain(word: str) -> str:
    """Return a word without the quotes around it."""
    return _ESCAPED.sub(r"\1", word[1:-1]) if word[:1] in ("'", '"') else word


def open_arff(file: File, request: ReadRequest) -> ArffTable:
    """Read the header.

    Raises
    ------
    InputError
    """
    url = file.url
    with file.open() as stream:
        encoding = encoding_of(stream.read(SAMPLE_BYTES))
    file = replace(file, encoding=encoding)
    with file.open() as stream:
        header = _Header(url)
        while header.takes(_line(stream, url, header.line)):
            pass
        sample = [part for part in first_lines(stream, url, header.line).split(b"\n") if part.strip()]
    rows = sum(not part.lstrip().startswith(b"%") for part in sample)
    fields = checked_fields(file, header.names, header.types, rows)
    return ArffTable(
        file,
        request.sizes,
        columns_of_folders(request.partition, header.names),
        fields,
        tuple(header.plans),
        header.start,
        header.line,
        rows,
        tuple(header.nominal),
    )


def _line(stream: io.BufferedReader, url: str, number: int) -> bytes:
    try:
        return read_record(stream, quotes=None, limit=longest_row())
    except LongLine as error:
        raise error.at(url, number) from None


class _Header:
    """The declarations in the lines before the rows."""

    def __init__(self, url: str) -> None:
        self.url, self.start, self.line = url, 0, 1
        self.names: list[str] = []
        self.types: list[pa.DataType] = []
        self.plans: list[ColumnPlan] = []
        self.nominal: list[tuple[str, frozenset[str]]] = []

    def takes(self, raw: bytes) -> bool:
        """Take in the next line, and return whether another one belongs to the header.

        Raises
        ------
        InputError
        """
        where = f"{self.url}: line {self.line}"
        if not raw:
            raise NoRows(f"{where}: found no @data line, expected an ARFF file")
        self.start, self.line = self.start + len(raw), self.line + 1
        try:
            text = raw.decode("utf-8-sig").strip()
        except UnicodeDecodeError:
            raise InputError(f"{where}: {not_utf8('text')}") from None
        word = text.partition(" ")[0].partition("\t")[0].lower()
        if word == "@data":
            return False
        if word == "@attribute":
            self._declare(where, text)
        elif text and not text.startswith("%") and word != "@relation":
            raise InputError(f"{where}: found {shown(text[:40])}, expected @relation, @attribute or @data")
        return True

    def _declare(self, where: str, text: str) -> None:
        if (match := _ATTRIBUTE.fullmatch(text)) is None:
            raise InputError(f"{where}: found {shown(text[:80])}, expected @attribute, a name and a type")
        name, declared = _plain(match[1]), match[2].strip()
        kind = declared.split()[0].lower()
        if len(self.names) >= MOST_COLUMNS:
            raise InputError(f"{where}: found more than {MOST_COLUMNS:,} attributes")
        if kind in _NUMBERS:
            self.types.append(pa.float64())
        elif kind in ("string", "date") or declared.startswith("{"):
            self.types.append(pa.string())
        else:
            raise InputError(
                f"{where}: found an attribute of type {shown(kind[:40])}, expected numeric, real, integer, string, "
                "date, or values in braces"
            )
        self.names.append(name)
        if kind == "date":
            self.plans.append(ColumnPlan(name, TIME, why="declared as date"))
        if declared.startswith("{"):
            values = _cells_of(declared[1:].rstrip().removesuffix("}").encode(), where)
            self.nominal.append((name, frozenset(value for value in values if value is not None)))
