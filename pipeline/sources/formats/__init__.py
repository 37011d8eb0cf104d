"""Formats of data files, one module each: how a file is opened, cut into fragments, and read.

A new format is one module and one name: an entry of :data:`FORMATS`, or in another package an entry point of the group
``ikmap.formats`` whose object is a :class:`Format`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from pipeline.sources.base import DataFile, ReadRequest
    from pipeline.sources.files.file import File

GROUP = "ikmap.formats"
"""Group of the entry points of formats."""


@dataclass(frozen=True)
class Format:
    """A format of files: how it is recognised, and what opens it.

    Attributes
    ----------
    name : str
    opener : str
        The function ``open(file, request)`` that returns a :class:`~pipeline.sources.base.DataFile`, as
        ``package.module:function``; it is imported when the first file is opened.
    endings : str
        Regular expression of the ends of its files' names, behind which there may be an ending of compression.
    starts : tuple of bytes
        How the content of its files begins.
    compressed : bool
        Whether its files may be compressed (bz2, gz, xz, zst).
    shown : str
        What it is called in messages; empty: it is not named among those that are expected.
    """

    name: str
    opener: str
    endings: str
    starts: tuple[bytes, ...] = ()
    compressed: bool = False
    shown: str = ""

    def open(self, file: File, request: ReadRequest) -> DataFile:
        """Open a file of this format.

        Raises
        ------
        InputError
            It cannot be read, or holds no rows.
        """
        module, _, function = self.opener.partition(":")
        opener = cast("Callable[[File, ReadRequest], DataFile]", getattr(import_module(module), function))
        return opener(file, request)

    def has_name(self, name: str) -> bool:
        """Return whether files of such a name are of this format, by its ending."""
        return re.search(rf"({self.endings})$", name, re.IGNORECASE) is not None


_HERE = "pipeline.sources.formats"
_IDX_TYPES = (8, 9, 11, 12, 13, 14)
OURS = (
    Format("csv", f"{_HERE}.csv:open_csv", r"\.(csv|tsv)", compressed=True, shown="CSV"),
    Format("parquet", f"{_HERE}.parquet:open_parquet", r"\.(parquet|pq)", (b"PAR1",), shown="Parquet"),
    Format("arrow", f"{_HERE}.arrow:open_arrow", r"\.(arrow|feather|ipc)", (b"ARROW1",), shown="Arrow"),
    Format("libsvm", f"{_HERE}.libsvm:open_libsvm", r"\.(libsvm|svm|svmlight)", compressed=True, shown="LIBSVM text"),
    Format("npy", f"{_HERE}.npy:open_npy", r"\.npy", (b"\x93NUMPY",), shown="NumPy"),
    Format("npz", f"{_HERE}.npz:open_npz", r"\.npz", (b"PK\x03\x04",)),
    Format(
        "idx",
        f"{_HERE}.idx:open_idx",
        r"[-._]idx\d?(-u?byte|-short|-int|-float|-double)?",
        tuple(bytes([0, 0, code]) for code in _IDX_TYPES),
        compressed=True,
        shown="idx",
    ),
)
"""The formats of this package, in the order in which they are named."""


@cache
def known_formats() -> dict[str, Format]:
    """Return all formats by their names: those of this package, and those of others that are installed."""
    from ikmap.methods.registry import offered

    formats = {one.name: one for one in OURS}
    for point in sorted(offered(GROUP), key=lambda point: point.name):
        theirs = point.load()
        formats.setdefault(theirs.name, theirs)
    return formats
