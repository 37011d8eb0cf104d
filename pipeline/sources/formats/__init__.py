"""Formats of data files, one module each: how a file is opened, cut into fragments, and read.

A new format is one module and one name: an entry of :data:`OURS`, or in another package an entry point of the group
``ikmap.formats`` with the name of the format, whose object is a :class:`Format`. Nothing heavy is imported here, as
``--help`` names the formats; packages are imported when the first file is opened.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, cast

from pipeline.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from pipeline.sources.columns.read_request import ReadRequest
    from pipeline.sources.files.file import File
    from pipeline.sources.formats.base import DataFile

GROUP = "ikmap.formats"
"""Group of the entry points of formats."""
FAULTS: list[str] = []
"""Faults of packages that offer formats, each a line with advice on what to type."""


@dataclass(frozen=True)
class Format:
    """A format of files: how it is recognised, and what opens it.

    Attributes
    ----------
    name : str
    opener : str
        The function ``open(file, request)`` that returns a :class:`~pipeline.sources.formats.base.DataFile`, as
        ``package.module:function``; it is imported when the first file is opened.
    endings : str
        Regular expression of the ends of its files' names, behind which there may be an ending of compression.
    starts : tuple of bytes
        How the content of its files begins.
    compressed : bool
        Whether its files may be compressed (bz2, gz, xz, zst).
    shown : str
        What it is called in messages; empty: it is not named among those that are expected.
    table : bool
        Whether its rows are a table: columns have names and kinds, and several files make one table.
    parts : bool
        Whether its files hold several tables, of which one is named behind a ``#``: ``file.sqlite#table``.
    streams : bool
        Whether it can be read as it arrives: its files are :class:`~pipeline.sources.base.TextFile`, their columns are
        found by the first rows, and each line is a record (of CSV, save in quotes).
    """

    name: str
    opener: str
    endings: str
    starts: tuple[bytes, ...] = ()
    compressed: bool = False
    shown: str = ""
    table: bool = True
    parts: bool = False
    streams: bool = False

    def open(self, file: File, request: ReadRequest) -> DataFile:
        """Open a file of this format.

        Raises
        ------
        InputError
            It cannot be read, or holds no rows; or the package of the format is faulty.
        """
        return self._opener()(file, request)

    def _opener(self) -> Callable[[File, ReadRequest], DataFile]:
        """Import and return the function that opens a file."""
        module, _, function = self.opener.partition(":")
        try:
            return cast("Callable[[File, ReadRequest], DataFile]", getattr(import_module(module), function))
        except Exception as error:  # a package can do anything wrong
            from ikmap.methods.registry import MODULES

            if (package := MODULES.get(module.partition(".")[0])) is None:
                raise
            raise InputError(_cannot_be_imported(package, self.name, error)) from error

    def has_name(self, name: str) -> bool:
        """Return whether files of such a name are of this format, by its ending."""
        return re.search(rf"({self.endings})$", name, re.IGNORECASE) is not None


_HERE = "pipeline.sources.formats"
_IDX_TYPES = (8, 9, 11, 12, 13, 14)
OURS = (
    Format("csv", f"{_HERE}.csv:open_csv", r"\.(csv|tsv)", compressed=True, shown="CSV", streams=True),
    Format("parquet", f"{_HERE}.parquet:open_parquet", r"\.(parquet|pq)", (b"PAR1",), shown="Parquet"),
    Format(
        "arrow",
        f"{_HERE}.arrow:open_arrow",
        r"\.(arrow|arrows|feather|ipc)",
        (b"ARROW1", b"FEA1", b"\xff\xff\xff\xff"),
        shown="Arrow",
    ),
    Format("orc", f"{_HERE}.orc:open_orc", r"\.orc", (b"ORC",), shown="ORC"),
    Format(
        "jsonl",
        f"{_HERE}.json_lines:open_json_lines",
        r"\.(jsonl|ndjson|json)",
        (b"{",),
        compressed=True,
        shown="JSON lines",
        streams=True,
    ),
    Format("arff", f"{_HERE}.arff:open_arff", r"\.arff", (b"@relatio", b"@RELATIO"), compressed=True, shown="ARFF"),
    Format(
        "sqlite",
        f"{_HERE}.sqlite:open_sqlite",
        r"\.(sqlite3?|db3?)",
        (b"SQLite f",),
        shown="SQLite",
        parts=True,
    ),
    Format(
        "libsvm",
        f"{_HERE}.libsvm:open_libsvm",
        r"\.(libsvm|svm|svmlight)",
        compressed=True,
        shown="LIBSVM text",
        table=False,
        streams=True,
    ),
    Format("npy", f"{_HERE}.npy:open_npy", r"\.npy", (b"\x93NUMPY",), shown="NumPy", table=False),
    Format("npz", f"{_HERE}.npz:open_npz", r"\.npz", (b"PK\x03\x04",), table=False),
    Format(
        "idx",
        f"{_HERE}.idx:open_idx",
        r"[-._]idx\d?(-u?byte|-short|-int|-float|-double)?",
        tuple(bytes([0, 0, code]) for code in _IDX_TYPES),
        compressed=True,
        shown="idx",
        table=False,
    ),
)
"""The formats of this package, in the order in which they are named."""


@cache
def format_names() -> tuple[str, ...]:
    """Return the names of all formats: those of this package, and those that installed packages offer."""
    ours = [one.name for one in OURS]
    return tuple(dict.fromkeys([*ours, *(point.name for point in _offered())]))


@cache
def known_formats() -> dict[str, Format]:
    """Return all formats by their names, with those of installed packages, which are imported.

    A faulty package stops no command: its fault goes to :data:`FAULTS`.
    """
    formats = {one.name: one for one in OURS}
    for point in _offered():
        if (theirs := _loaded(point, formats)) is not None:
            formats[theirs.name] = theirs
    return formats


def shown_formats(*, tables: bool = False, streams: bool = False) -> str:
    """Return what formats are called in messages, as what is expected: all, those of tables, or those of streams."""
    wanted = [one for one in known_formats().values() if (one.table or not tables) and (one.streams or not streams)]
    *names, last = [one.shown for one in wanted if one.shown]
    return f"{', '.join(names)} or {last}" if names else last


def _offered() -> list[EntryPoint]:
    from ikmap.methods.registry import offered

    return sorted(offered(GROUP), key=lambda point: (point.name, point.value))


def with_faults(error: InputError) -> InputError:
    """Return an error about an unknown format with the faults of packages, one of which may be the reason."""
    known_formats()
    return InputError("; ".join((str(error), *FAULTS))) if FAULTS else error


def _loaded(point: EntryPoint, known: dict[str, Format]) -> Format | None:
    """Return the format of an entry point; None if its package is faulty."""
    from ikmap.methods.registry import MODULES

    module = point.value.partition(":")[0]
    package = point.dist.name if point.dist is not None else module
    MODULES[module.partition(".")[0]] = package  # its errors are told as those of the package
    try:
        theirs = point.load()
    except Exception as error:  # a package can do anything wrong
        FAULTS.append(_cannot_be_imported(package, point.name, error))
        return None
    if not isinstance(theirs, Format):
        FAULTS.append(
            f"package {package}: found {type(theirs).__name__} in its entry point {point.name!r}, expected a Format of "
            f"pipeline.sources.formats; pip uninstall {package}, or mend it"
        )
    elif theirs.name != point.name:
        FAULTS.append(
            f"package {package}: its format {theirs.name!r} has the entry point {point.name!r}, expected one of the "
            f"same name; pip uninstall {package}, or mend it"
        )
    elif theirs.name in known:
        FAULTS.append(
            f"package {package}: its format {theirs.name!r} has a name that is taken; pip uninstall {package}, or give "
            "the format another name there"
        )
    else:
        return theirs
    return None


def _cannot_be_imported(package: str, name: str, error: Exception) -> str:
    reason = f"{type(error).__name__}: {error}".splitlines()[0]
    return (
        f"package {package}: its format {name!r} cannot be imported ({reason}); pip install --upgrade {package}, or "
        f"pip uninstall {package}"
    )
