"""The files of a table, opened: by their format, and of several only those that have rows."""

from __future__ import annotations

from pipeline.errors import InputError, NoRows
from pipeline.sources.files.file import find_file
from pipeline.sources.files.named import Named, named_files
from pipeline.sources.formats.arrow import open_arrow_table
from pipeline.sources.formats.csv import open_text_table
from pipeline.sources.formats.csv_text import CsvFormat
from pipeline.sources.formats.parquet_table import open_parquet_table
from pipeline.sources.formats.table_file import TableFile
from pipeline.sources.open import format_of

TABLES = ("csv", "parquet", "arrow")
"""Formats of tables with columns of any kind."""


def files_with_rows(given: str, format: str, label: str | int | None, csv: CsvFormat) -> tuple[TableFile, ...]:
    """The files, opened; of several those that have rows."""
    files, empty = [], None
    for url in named_files(given):
        try:
            files.append(_opened(url, format, label, csv))
        except NoRows as error:
            empty = empty or error
    if empty is not None and not files:
        raise empty
    return tuple(files)


def _opened(named: Named, format: str, label: str | int | None, csv: CsvFormat) -> TableFile:
    file = find_file(named.url)
    kind = format_of(file, format)
    if kind not in TABLES:
        raise InputError(
            f"{named.url}: found a file of format {kind}, expected CSV, Parquet or Arrow; a single file of another "
            "format can be given"
        )
    if file.compression and kind != "csv":
        raise InputError(f"{named.url}: found a compressed .{kind} file, expected it uncompressed; decompress it first")
    if kind == "parquet":
        return open_parquet_table(file, named.partition)
    if kind == "arrow":
        return open_arrow_table(file, named.partition)
    return open_text_table(file, named.partition, label, csv)
