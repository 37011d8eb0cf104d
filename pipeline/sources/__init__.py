"""Streaming readers: LIBSVM text, CSV, Parquet, NumPy and idx files, local or on any fsspec URL.

    source = open_source("s3://bucket/train.csv.gz", label="clicked")
    for fragment in source.fragments():        # independent: any process may read any fragment
        for block in source.read(fragment):
            block.X, block.y

A source is small and picklable; its fragments and blocks depend on the file alone, and memory on the size of a
block alone. Whatever is wrong with a file raises `pipeline.errors.InputError` with one line.
"""

from pipeline.sources.base import Fragment, RawRows, Source
from pipeline.sources.dropped import without
from pipeline.sources.formats.csv_text import CsvFormat
from pipeline.sources.open import FORMATS, Sizes, open_source

__all__ = ["FORMATS", "CsvFormat", "Fragment", "RawRows", "Sizes", "Source", "open_source", "without"]
