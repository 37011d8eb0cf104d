"""Rows come in by one door, whatever their format: files, folders, globs, lists and URLs; or as they arrive.

    source = open_source("s3://bucket/train.csv.gz", request=ReadRequest(label="clicked"))
    for fragment in source.fragments():        # independent: any process may read any fragment
        for block in source.read(fragment):
            block.X, block.y

files/      bytes: local or remote, compressed, in another encoding
columns/    which columns there are, of what kind, and how they become rows
formats/    one module a format; base.py is what each of them offers
source.py   a source: files that are open, and the plan of their columns
named.py    the files that a user names: one, those of a folder or a glob, or a list
open.py     how a source is opened: open_source is where to begin
feeds/      rows that arrive over time
datasets/   data sets that are known by name

Each of these imports what stands above it, and nothing that stands below.

What goes to workers, pickled, is a `Source` with its opened files (`DataFile`), and a `Fragment`: they are small, and
hold no row. Unpickling them imports the module of the format, so a package that offers a format has to be installed on
every worker. Fragments and blocks depend on the files alone, and memory on the size of a block alone. Whatever is wrong
with a file raises `pipeline.errors.InputError` with one line.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.sources.columns.raw_rows import RawRows
    from pipeline.sources.columns.read_request import CsvFormat, ReadRequest, Sizes
    from pipeline.sources.formats.base import Fragment
    from pipeline.sources.open import open_source
    from pipeline.sources.source import Source

__all__ = ["CsvFormat", "Fragment", "RawRows", "ReadRequest", "Sizes", "Source", "open_source"]

_MODULES = {
    **dict.fromkeys(("CsvFormat", "ReadRequest", "Sizes"), "columns.read_request"),
    "Fragment": "formats.base",
    "RawRows": "columns.raw_rows",
    "open_source": "open",
    "Source": "source",
}
"""Modules of the names, imported when a name is first used, as ``--help`` needs the names of the formats alone."""


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
