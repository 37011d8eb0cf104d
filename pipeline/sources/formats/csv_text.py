"""CSV text: its records, and what the first of them tell - delimiter, names, where rows begin."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from pipeline.errors import InputError, NoRows
from pipeline.monitoring.plain_text import not_utf8
from pipeline.sources.columns.labels import LABEL_NAMES, check_names
from pipeline.sources.columns.missing import is_numeric
from pipeline.sources.columns.number_formats import with_point
from pipeline.sources.columns.read_request import CsvFormat
from pipeline.sources.files.compression import without_ending
from pipeline.sources.files.file import File
from pipeline.sources.files.limits import MEBIBYTE, MOST_COLUMNS, longest_row
from pipeline.sources.files.records import LongLine, Quotes, record_ends

_SURROGATE = re.compile("[\ud800-\udfff]")
BOM = b"\xef\xbb\xbf"
SAMPLE_BYTES = MEBIBYTE // 4
DELIMITERS = ",\t;|"
"""Characters that divide the columns of a file where nothing is said of it."""


@dataclass(frozen=True)
class CsvLayout:
    """The layout of a file of CSV, as its first records show it.

    Attributes
    ----------
    file : File
        With its encoding, where one was given.
    delimiter : str
    names : tuple of str or None
        Of the columns, where the first record names them or they were given.
    given : bool
        Whether they were given.
    width : int
        Columns.
    start, line : int
        Byte and line at which the rows begin.
    rows : list of list of str
        The first of them.
    """

    file: File
    delimiter: str
    names: tuple[str, ...] | None
    given: bool
    width: int
    start: int
    line: int
    rows: list[list[str]]


def find_layout(
    file: File,
    label: str | int | None,
    known: CsvFormat,
    delimiters: str,
    names: Collection[str] = (),
    missing: Collection[str] = (),
    of_training: bool = False,
) -> CsvLayout:
    """Find delimiter and header from the name and the first records, unless they are known.

    Parameters
    ----------
    label : str or int, optional
        A name that tells a header.
    delimiters : str
        Characters to choose the delimiter from.
    names : collection of str
        Names of columns, such as those of the training data: a first record that has them all is a header.
    missing : collection of str
        Cells that stand for nothing, and tell nothing of a header.
    of_training : bool
        Whether names that are given are those of the training data: a file may name its columns itself all the same,
        or have the features alone.

    Raises
    ------
    NoRows
    InputError
        The delimiter that is given is not in the first record, there are too many columns, or a name appears twice.
    """
    url = file.url
    if known.encoding is not None:
        file = replace(file, encoding=known.encoding)
    with file.open() as stream:
        start, line, first, more = first_records(stream, url, known.delimiter or delimiters)
    if not first:
        raise NoRows(f"{url}: found no rows, expected a table")
    delimiter = known.delimiter or _sniffed(url, line, first, more, delimiters)
    if known.delimiter and delimiter.encode() not in first:
        raise InputError(f"{url}: line {line}: found no {delimiter!r}, the delimiter that is given, expected columns")
    text = first + more
    first = _first_of(text, delimiter)
    if first.count(delimiter.encode()) >= MOST_COLUMNS:
        raise InputError(
            f"{url}: line {line}: found {first.count(delimiter.encode()) + 1:,} columns, expected at most "
            f"{MOST_COLUMNS:,} in text; give LIBSVM text, .npy or .npz, whose columns need no names"
        )
    rows = [row for _, row in records(text, url, delimiter, line)]
    has_all = bool(names) and {*names} <= {cell.strip() for cell in rows[0]}
    header = True if has_all and of_training and not isinstance(known.header, bool) else known.header
    features = names if of_training else ()
    own_names, data_line = _given_names(url, line, header, len(rows[0]), features), line
    given = own_names is not None
    if header is None:
        header = has_all or _is_header(rows[0], rows[1] if len(rows) > 1 else (), label, missing, delimiter)
    if header and own_names is None:
        own_names = tuple(_checked_names(url, rows.pop(0), line))
        start, data_line = start + len(first), line + first.count(b"\n")
    if not rows:
        raise NoRows(f"{url}: found a header (line {line}) but no rows, expected at least one")
    return CsvLayout(file, delimiter, own_names, given, len(own_names or rows[0]), start, data_line, rows)


def least_records(file: File, url: str, delimiter: str, start: int, line: int) -> int:
    """Rows near the start of a file, which are there at least; one, if nothing is known."""
    with file.open() as stream:
        stream.seek(start)
        text = stream.read(MEBIBYTE)
    # Blank lines are none, and quoted text may have line ends in it; then it takes longer to say.
    return max(1, sum(1 for _ in records(text.rpartition(b"\n")[0], url, delimiter, line)))


def rows_of_width(text: bytes, url: str, delimiter: str, line: int, width: int) -> Iterator[tuple[int, list[str]]]:
    """Yield records as :func:`records` does, each of so many cells.

    Raises
    ------
    InputError
        For the first that has more or fewer.
    """
    for at, row in records(text, url, delimiter, line):
        if len(row) != width:
            raise InputError(f"{url}: line {at}: found {len(row)} cells, expected {width}")
        yield at, row


def _given_names(
    url: str, line: int, header: bool | Sequence[str] | None, width: int, features: Collection[str]
) -> tuple[str, ...] | None:
    """The names of the columns, where they are given because the file has none.

    Of a file with as many columns as there are features these are the names, in the order in which they are given.

    Raises
    ------
    InputError
        Not as many as the first row has cells, or one twice.
    """
    if header is None or isinstance(header, bool):
        return None
    known = set(features)
    own_names = tuple(name for name in header if name in known)
    if own_names and len(own_names) == width:
        return own_names
    if len(header) != width and features:
        raise InputError(
            f"{url}: line {line}: found {width} cells, expected {len(header)} as in the training data "
            f"({','.join(header)}), or its {len(own_names)} features alone; or give a first line with names"
        )
    if len(header) != width:
        raise InputError(
            f"{url}: line {line}: found {width} cells, expected {len(header)} as names are given (--header "
            f"{','.join(header)})"
        )
    check_names("--header", header)
    return tuple(header)


def _sniffed(url: str, line: int, first: bytes, more: bytes, delimiters: str) -> str:
    """Return the delimiter: tab for .tsv; else the most frequent of some characters in the first record's plain text.

    Commas that would be it belong to numbers or names if there is another of the characters which leaves only numbers
    between, some with a decimal comma (``1,5;2,5;3``), or which is there as often, but has no blank behind it where all
    commas have one (``size, cm;price, EUR;y``). Then that is the delimiter, unless it gives fewer records of the width
    of the first than the comma does.
    """
    if without_ending(url).lower().endswith(".tsv"):
        return "\t"
    plain = re.sub(rb'"[^"]*"', b"", first)
    counts = {delimiter: plain.count(delimiter.encode()) for delimiter in delimiters}
    most = max(delimiters, key=lambda delimiter: counts[delimiter])
    others = [other for other in delimiters if other != most and counts[other]] if most == "," else []
    for other in others:
        cells = plain.decode(errors="replace").split(other)
        numbers = [with_point(cell) for cell in cells]
        of_numbers = numbers != cells and all(map(is_numeric, numbers))
        blanks = re.search(rb",(?! )|%b(?= )" % re.escape(other.encode()), plain) is None
        if of_numbers or (blanks and counts[other] == counts[most]):
            alike, alike_by_commas = (_alike(first + more, url, delimiter, line) for delimiter in (other, most))
            if alike >= alike_by_commas:
                return other
    return most


def _alike(text: bytes, url: str, delimiter: str, line: int) -> int:
    """Return how many records have as many cells as the first; 0 where they cannot be read."""
    try:
        widths = [len(row) for _, row in records(text, url, delimiter, line)]
    except InputError:
        return 0
    return widths.count(widths[0])


def _first_of(text: bytes, delimiter: str) -> bytes:
    """Return the first record of a text.

    A quote within a cell that has none around it, such as a name ``size 15"``, stands for itself.
    """
    ends = record_ends(text, Quotes(delimiter))
    return text[: ends[0]] if ends.size else text


def first_records(stream: io.BufferedReader, url: str, delimiters: str) -> tuple[int, int, bytes, bytes]:
    """Offset, line and bytes of the first record that is not blank, and the records behind it, in a sample.

    There are no bytes where the file ends before. As for :func:`records`, a quote within a cell that has none around it
    holds back no line end.

    Parameters
    ----------
    delimiters : str
        Characters that may stand between columns.

    Raises
    ------
    InputError
        A record is longer than a row may be.
    """
    quotes, limit = Quotes(delimiters), longest_row()
    position, line = 0, 1
    if stream.peek(len(BOM))[: len(BOM)] == BOM:
        position = len(stream.read(len(BOM)))
    text, ends = b"", record_ends(b"", quotes)
    end = stop = rest = 0  # behind the first record, behind the sample; bytes of a record whose end is still to come
    while not stop and rest <= limit and (piece := stream.read(max(SAMPLE_BYTES, min(len(text), limit - rest + 1)))):
        text += piece
        blank = text.rfind(b"\n", 0, len(text) - len(text.lstrip(b"\r\n"))) + 1
        position, line = position + blank, line + text.count(b"\n", 0, blank)
        text = text[blank:]
        ends = record_ends(text, quotes)
        end = int(ends[0]) if ends.size else 0
        stop = next(iter(ends[ends >= end + SAMPLE_BYTES].tolist()), 0)
        rest = len(text) - int(ends[-1]) if ends.size else len(text)
    edges = [0, *ends[ends <= (stop or len(text))].tolist(), *([] if stop else [len(text)])]
    for at, behind in pairwise(edges):
        record = text[at:behind].removesuffix(b"\n")
        if len(record) >= limit:
            raise LongLine(text.count(b"\n", 0, at), quoted=b"\n" in record).at(url, line)
    if not text.strip(b"\r\n"):
        return position, line, b"", b""
    return position, line, text[: end or None], text[end : stop or None] if end else b""


def records(text: bytes, url: str, delimiter: str, line: int) -> Iterator[tuple[int, list[str]]]:
    """(line, cells) of each record that is not blank; bytes that are not UTF-8 become lone surrogates."""
    lines = text.decode(errors="surrogateescape").split("\n")
    csv.field_size_limit(longest_row())
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


def _is_header(
    first: Sequence[str], second: Sequence[str], label: str | int | None, missing: Collection[str], delimiter: str
) -> bool:
    """Return whether the first record names the columns.

    It does if it holds the name of a label column, or text only, or text where the second has a number, or text beside
    one empty cell where the second has a number, as an index has no name. Numbers may have a decimal comma where the
    comma divides no columns.
    """

    def is_number(cell: str) -> bool:
        return is_numeric(cell if delimiter == "," else with_point(cell))

    texts = [bool(cell.strip()) and cell.strip() not in missing and not is_number(cell) for cell in first]
    if not any(texts):
        return isinstance(label, str) and label in first and not label.lstrip("-").isdigit()
    named = any(cell.strip().lower() in LABEL_NAMES or cell == label for cell in first)
    numbers = [is_number(cell) for cell in second]
    differs = any(text and number for text, number in zip(texts, numbers, strict=False))
    unnamed = [not cell.strip() and number for cell, number in zip(first, numbers, strict=False)]
    return named or differs or sum(texts) + (sum(unnamed) == 1) == len(first)


def _checked_names(url: str, names: Sequence[str], line: int) -> list[str]:
    names = [name.strip() for name in names]
    for j, name in enumerate(names):
        if is_broken(name):
            raise InputError(f"{url}: line {line}, column {j + 1}: {not_utf8('a name')}")
    check_names(f"{url}: line {line}", names)
    return names


def is_broken(text: str) -> bool:
    """Return whether the text contains bytes that could not be decoded."""
    return bool(_SURROGATE.search(text))
