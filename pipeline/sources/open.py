"""Open a data file: find it, tell its format by its name, then by its content."""

from __future__ import annotations

import re
from typing import NamedTuple

from pipeline.errors import InputError
from pipeline.sources.base import BLOCK_BYTES, FRAGMENT_BYTES, Source, shown
from pipeline.sources.files.file import File, find_file
from pipeline.sources.files.text_ranges import TEXT_FRAGMENT_BYTES
from pipeline.sources.formats import delimited, libsvm
from pipeline.sources.formats.csv_text import CsvFormat
from pipeline.sources.formats.delimited import open_delimited
from pipeline.sources.formats.idx import TYPES, open_idx
from pipeline.sources.formats.libsvm import first_row, looks_like_libsvm, open_libsvm
from pipeline.sources.formats.npy import open_npy
from pipeline.sources.formats.npz import open_npz
from pipeline.sources.formats.parquet import open_parquet

FORMATS = ("auto", "libsvm", "csv", "parquet", "npy", "arrow", "idx")

_BY_NAME = {
    "libsvm": "libsvm", "svm": "libsvm", "svmlight": "libsvm",
    "csv": "csv", "tsv": "csv",
    "parquet": "parquet", "pq": "parquet",
    "npy": "npy", "npz": "npz",
    "arrow": "arrow", "feather": "arrow", "ipc": "arrow",
}  # fmt: skip
_IDX = re.compile(r"[-._]idx\d?(-u?byte|-short|-int|-float|-double)?$", re.IGNORECASE)
_OTHER = re.compile(
    r"\.(xlsx?|xlsm|ods|json|jsonl|ndjson|xml|html?|sqlite3?|db|orc|avro|h5|hdf5?|pkl|pickle|zip|dta|sav|sas7bdat|rds|rda)$",
    re.IGNORECASE,
)
"""Files of other programs."""
_BY_CONTENT = {b"PAR1": "parquet", b"\x93NUMPY": "npy", b"PK\x03\x04": "npz", b"ARROW1": "arrow"}
_BY_CONTENT |= {bytes([0, 0, code]): "idx" for code in TYPES}
_OPEN_TABLE = {"parquet": open_parquet, "npy": open_npy, "npz": open_npz, "idx": open_idx}
_MAY_BE_COMPRESSED = ("libsvm", "csv", "idx")


class Sizes(NamedTuple):
    """Aimed-at bytes of what a file is cut into.

    Attributes
    ----------
    fragment : int or None
        What a task reads; default 16 MiB of text, 64 MiB otherwise.
    block : int or None
        What is parsed at once; default 8 MiB of LIBSVM text, 4 MiB of CSV text, 16 MiB of dense float64 rows.
    """

    fragment: int | None = None
    block: int | None = None


def open_source(
    url: str,
    format: str = "auto",
    label: str | int | None = None,
    n_columns: int | None = None,
    zero_based: bool = False,
    *,
    require_label: bool = True,
    csv: CsvFormat = CsvFormat(),  # noqa: B008 - immutable
    sizes: Sizes = Sizes(),  # noqa: B008
) -> Source:
    """Open a data file. Cheap: reads a header or the first rows.

    Parameters
    ----------
    url : str
        Path or fsspec URL. Text and idx files may be compressed (.bz2, .gz, .xz, .zst).
    format : {"auto", "libsvm", "csv", "parquet", "npy", "idx"}
        "auto" goes by the ending of the name, then by the content. "csv" finds its delimiter (comma, tab,
        semicolon); "npy" covers .npz.
    label : str or int, optional
        Label column of a table by name or position (negative ones count from the end); for .npz the member
        with the labels (default "y"). Without it: the column named label, target, class or y, else - in a
        table without names - the last. LIBSVM text has its label in front, idx files in a file beside them.
    n_columns : int, optional
        Feature columns that there must be (LIBSVM and sparse .npz: at most).
    zero_based : bool
        LIBSVM indices count from 0 instead of 1.
    require_label : bool
        If False, a table may come without the label column; its blocks then have ``y = None``.
    csv : CsvFormat
        What is known of CSV text.
    sizes : Sizes
        Into what the file is cut.

    Raises
    ------
    InputError
        If the file does not exist, is empty, or its header is not as expected.
    """
    if format not in FORMATS:
        raise InputError(f"{url}: unknown format {format!r}, expected one of {', '.join(FORMATS)}")
    file = find_file(url)
    kind = format_of(file, format)
    if file.compression and kind not in _MAY_BE_COMPRESSED:
        raise InputError(f"{url}: found a compressed .{kind} file, expected it uncompressed; decompress it first")
    if kind == "arrow":
        raise InputError(f"{url}: found an Arrow file, expected Parquet, CSV, LIBSVM text, NumPy or idx here")
    if kind == "libsvm":
        text_sizes = sizes.fragment or TEXT_FRAGMENT_BYTES, sizes.block or libsvm.TEXT_BLOCK_BYTES
        return open_libsvm(file, n_columns, zero_based, *text_sizes)
    fragment_bytes, block_bytes = sizes.fragment or FRAGMENT_BYTES, sizes.block
    if kind == "csv":
        size = block_bytes or delimited.TEXT_BLOCK_BYTES
        return open_delimited(file, label, n_columns, require_label, fragment_bytes, size, csv)
    return _OPEN_TABLE[kind](file, label, n_columns, require_label, fragment_bytes, block_bytes or BLOCK_BYTES)


def format_of(file: File, requested: str = "auto") -> str:
    """Format of a file: as asked for, else by its name, else by its content."""
    start = b""
    if requested in ("auto", "npy"):
        with file.open() as stream:
            start = stream.read(8)
    by_content = next((kind for magic, kind in _BY_CONTENT.items() if start.startswith(magic)), None)
    if requested == "npy":
        return "npz" if by_content == "npz" else "npy"
    if requested != "auto":
        return requested
    if (format := _by_name(file)) is None and (other := _OTHER.search(file.url.name)):
        raise InputError(
            f"{file.url}: found a .{other[1].lower()} file by its name, expected CSV, Parquet, Arrow, LIBSVM text, "
            "NumPy or idx; save it as CSV or Parquet (or name its format: --format csv)"
        )
    return format or by_content or _text_format(file)


def _by_name(file: File) -> str | None:
    name = re.sub(r"\.(bz2|gz|xz|zst)$", "", file.url.name, flags=re.IGNORECASE)
    return "idx" if _IDX.search(name) else _BY_NAME.get(name.rpartition(".")[2].lower())


def requested_format(file: File, requested: str, csv: CsvFormat) -> str:
    """The format to ask for: of a file whose name says nothing, CSV, if something is known of it as such."""
    return "csv" if requested == "auto" and csv != CsvFormat() and _by_name(file) is None else requested


def _text_format(file: File) -> str:
    first = first_row(file, 64 * 1024)
    if b"\0" in first or (first and not first.isascii() and not _is_utf8(first)):
        raise InputError(
            f"{file.url}: line 1, column 1: found {first[:12]!r}, expected LIBSVM text, CSV, Parquet or .npy"
        )
    if not looks_like_libsvm(first) and any(c in first for c in (b",", b"\t", b";")):
        return "csv"
    if first.lstrip()[:9].lower().startswith((b"<!doctype", b"<html")):
        raise InputError(f"{file.url}: line 1: found a web page, expected a file with data; give its own address")
    if first.strip() and not looks_like_libsvm(first) and b":" not in first:
        raise InputError(
            f"{file.url}: line 1: found {shown(first.decode(errors='replace').strip())}, expected LIBSVM text, CSV, "
            "Parquet or .npy; to read it as a table whose columns are divided by spaces: --delimiter space"
        )
    return "libsvm"


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.start > len(text) - 4  # cut in the middle of a character
    return True
