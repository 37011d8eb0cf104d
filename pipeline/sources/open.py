"""Open what a user has named: find its files, tell their format by name, then by content, and plan their columns."""

from __future__ import annotations

import re
from dataclasses import replace

from pipeline.errors import InputError, NoRows
from pipeline.monitoring.plain_text import shown
from pipeline.sources.columns.read_request import CsvFormat, ReadRequest
from pipeline.sources.files.compression import without_ending
from pipeline.sources.files.file import File, find_file
from pipeline.sources.files.recoded import encoding_of
from pipeline.sources.formats import Format, known_formats, shown_formats, with_faults
from pipeline.sources.formats.base import DataFile
from pipeline.sources.formats.csv_text import DELIMITERS, SAMPLE_BYTES
from pipeline.sources.formats.libsvm_text import first_row, looks_like_libsvm
from pipeline.sources.named import Named, named_files
from pipeline.sources.source import Source

AUTO = "auto"
_OTHER = re.compile(
    r"\.(xlsx?|xlsm|ods|xml|html?|avro|h5|hdf5?|pkl|pickle|zip|dta|sav|sas7bdat|rds|rda|mat|duckdb|ddb)$",
    re.IGNORECASE,
)
"""Files of other programs."""
_WRITTEN_BY = {"duckdb": "duckdb FILE -c \"copy TABLE to 'TABLE.parquet'\""}
_WRITTEN_BY["ddb"] = _WRITTEN_BY["duckdb"]
"""Commands that write a table of such a file as Parquet, by the ending of the file."""


def open_source(given: str, format: str = AUTO, request: ReadRequest = ReadRequest()) -> Source:  # noqa: B008 - immutable
    """Open files. Cheap: reads heads, footers and first rows.

    Parameters
    ----------
    given : str
        A file, a folder, a glob or a list of files; paths or fsspec URLs. Text and idx files may be compressed (.bz2,
        .gz, .xz, .zst). A table of an SQLite file: ``file.sqlite#table``.
    format : str
        Name of a format, or "auto": by the ending of the name, then by the content. "csv" finds its delimiter; "npy"
        covers .npz.
    request : ReadRequest

    Raises
    ------
    InputError
        A file does not exist, is empty, is of no known format, or its header is not as expected.
    """
    if format != AUTO and format not in known_formats():
        expected = ", ".join((AUTO, *known_formats()))
        raise with_faults(InputError(f"{given}: unknown format {format!r}, expected one of {expected}"))
    files, empty = [], None
    for named in named_files(given):
        try:
            files.append(opened_file(named, format, request))
        except NoRows as error:
            empty = empty or error
    if empty is not None and not files:
        raise empty
    return planned(given, tuple(files), request)


def planned(given: str, files: tuple[DataFile, ...], request: ReadRequest) -> Source:
    """Return the rows of files that are open.

    Raises
    ------
    InputError
        The files do not go together, or do not have the columns that there must be.
    """
    first = files[0]
    if others := [file for file in files if file.format != first.format]:
        raise InputError(
            f"{others[0].url}: found a file of format {others[0].format}, expected {first.format} as {first.url} is; "
            "give files of one format"
        )
    if request.csv != CsvFormat() and first.format != "csv" and not request.csv_of_training:
        raise NotCsv(given, first.format, request.csv)
    return Source(given, files, first.plan(given, files, request))


class NotCsv(InputError):
    """An error for options about CSV text that are given with a file of another format."""

    def __init__(self, given: str, format: str, csv: CsvFormat) -> None:
        option = next(name for name, value in zip(CsvFormat._fields, csv, strict=True) if value is not None)
        super().__init__(f"{given}: read as {format}, but --{option} is for CSV; leave it out")
        self.format = format


def opened_file(named: Named, format: str, request: ReadRequest) -> DataFile:
    """Open one file.

    Raises
    ------
    InputError
        It does not exist, or its header is not as expected. NoRows: it has no rows.
    """
    file = find_file(named.url)
    try:
        known = format_of(file, requested_format(file, format, request.csv))
    except InputError as error:
        raise with_faults(error) from None
    if file.part is not None and not known.parts:
        raise InputError(f"{file.url}: no such file")
    if file.compression and not known.compressed:
        raise InputError(
            f"{file.url}: found a compressed .{known.name} file, expected it uncompressed; decompress it first"
        )
    return known.open(file, replace(request, partition=named.partition))


def format_of(file: File, requested: str = AUTO) -> Format:
    """Return the format of a file: as requested, else by its name, else by its content.

    Raises
    ------
    InputError
        It is of none.
    """
    formats = known_formats()
    if requested not in (AUTO, "npy"):
        return formats[requested]
    with file.open() as stream:
        content = format_by_content(stream.read(8))
    if requested == "npy":
        return formats["npz" if content is formats["npz"] else "npy"]
    if (by_name := _by_name(file)) is None and (other := _OTHER.search(file.url.name)):
        ending = other[1].lower()
        command = f": {_WRITTEN_BY[ending]}" if ending in _WRITTEN_BY else ""
        raise InputError(
            f"{file.url}: found a .{ending} file by its name, expected {shown_formats()}; save it as CSV or "
            f"Parquet{command} (or name its format: --format csv)"
        )
    return by_name or content or formats[_text_format(file)]


def format_by_content(start: bytes) -> Format | None:
    """Return the format whose files begin so; None: there is none, as of most text."""
    return next((one for one in known_formats().values() if start.startswith(one.starts)), None)


def requested_format(file: File, requested: str, csv: CsvFormat) -> str:
    """Return the format to ask for: CSV, where something is known of a file as such that does not say what it is."""
    if requested != AUTO or csv == CsvFormat() or _by_name(file) is not None:
        return requested
    with file.open() as stream:
        return "csv" if format_by_content(stream.read(8)) is None else AUTO


def _by_name(file: File) -> Format | None:
    name = file.url.name if file.part is None else file.url.name.removesuffix(f"#{file.part}")
    return next((one for one in known_formats().values() if one.has_name(without_ending(name))), None)


def _text_format(file: File) -> str:
    with file.open() as stream:
        recoded = replace(file, encoding=encoding_of(stream.read(SAMPLE_BYTES)))
    first = first_row(recoded, 64 * 1024)
    if b"\0" in first or not _is_utf8(first):
        raise InputError(f"{file.url}: line 1, column 1: found {first[:12]!r}, expected {shown_formats()}")
    if not looks_like_libsvm(first) and any(delimiter.encode() in first for delimiter in DELIMITERS):
        return "csv"
    if first.lstrip()[:9].lower().startswith((b"<!doctype", b"<html")):
        raise InputError(f"{file.url}: line 1: found a web page, expected a file with data; give its own address")
    if first.strip() and not looks_like_libsvm(first) and b":" not in first:
        raise InputError(
            f"{file.url}: line 1: found {shown(first.decode(errors='replace').strip())}, expected {shown_formats()}; "
            "to read it as a table whose columns are divided by spaces: --delimiter space"
        )
    return "libsvm"


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.start > len(text) - 4  # cut in the middle of a character
    return True
