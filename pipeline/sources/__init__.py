"""Rows come in by one door, whatever their format: files, folders, globs, lists and URLs; or as they arrive.

    source = open_source("s3://bucket/train.csv.gz", request=ReadRequest(label="clicked"))
    for fragment in source.fragments():        # independent: any process may read any fragment
        for block in source.read(fragment):
            block.X, block.y

source.py   a source: files that are open, and the plan of their columns
open.py     how it is opened: open_source is where to begin
base.py     what every format offers
formats/    one module a format
columns/    which columns there are, of what kind, and how they become rows
files/      bytes: local or remote, compressed, in another encoding; folders, globs and lists
feeds/      rows that arrive over time
datasets/   data sets that are known by name

A source is small and picklable; its fragments and blocks depend on the files alone, and memory on the size of a block
alone. Whatever is wrong with a file raises `pipeline.errors.InputError` with one line.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipeline.sources.base import Fragment, RawRows, ReadRequest, Sizes
    from pipeline.sources.formats.csv_text import CsvFormat
    from pipeline.sources.open import open_source
    from pipeline.sources.source import Source

__all__ = ["CsvFormat", "Fragment", "RawRows", "ReadRequest", "Sizes", "Source", "open_source"]

_MODULES = {
    **dict.fromkeys(("Fragment", "RawRows", "ReadRequest", "Sizes"), "base"),
    "CsvFormat": "formats.csv_text",
    "open_source": "open",
    "Source": "source",
}
"""Where each name is. It is imported when somebody asks for it: ``--help`` needs the names of the formats alone."""


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
