"""ORC as a table: its groups of rows are stripes, each of which is held whole while it is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO, ClassVar

import pyarrow as pa
import pyarrow.orc

from pipeline.errors import InputError
from pipeline.sources.columns.read_request import ReadRequest
from pipeline.sources.columns.rows import Wanted
from pipeline.sources.files.file import File
from pipeline.sources.formats.arrow import narrowest
from pipeline.sources.formats.arrow_checks import arrow_failures, checked_batch
from pipeline.sources.formats.typed import (
    TypedTable,
    checked_fields,
    columns_of_folders,
    long_texts_of,
    plain_texts,
)


@dataclass(frozen=True)
class OrcTable(TypedTable):
    """One ORC file."""

    format: ClassVar[str] = "orc"

    def batches(self, groups: range, wanted: Wanted, rows: int) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        with self.file.open(scattered=True) as stream:
            reader = _reader(self.file, stream)
            for k in groups:
                yield _stripe(self.file.url, reader, k, wanted.names).select(wanted.names)


def _reader(file: File, stream: BinaryIO) -> pa.orc.ORCFile:
    with arrow_failures(file.url, "not an ORC file, or a truncated one", ""):
        return pa.orc.ORCFile(pa.PythonFile(stream, mode="r"))


def _stripe(url: str, reader: pa.orc.ORCFile, k: int, names: list[str]) -> pa.RecordBatch:
    """Read columns of a stripe.

    Raises
    ------
    InputError
    """
    batch = checked_batch(f"{url}: stripe {k + 1}", partial(reader.read_stripe, k, columns=list(names)))
    assert batch is not None
    if set(names) - set(batch.schema.names):
        raise InputError(f"{url}: stripe {k + 1}: damaged: found no column {names[0]!r}; copy or download it again")
    return batch


def open_orc(file: File, request: ReadRequest) -> OrcTable:
    """Read the schema, and how many rows the stripes have.

    Raises
    ------
    InputError
    """
    with file.open(scattered=True) as stream:
        reader = _reader(file, stream)
        with arrow_failures(file.url):
            names, types, stripes = reader.schema.names, reader.schema.types, reader.nstripes
        # Only who reads a stripe learns how many rows it has: one column, the narrowest, is enough.
        columns = [names[k] for k in narrowest(types) or ()]
        rows = tuple(_stripe(file.url, reader, k, columns).num_rows for k in range(stripes)) if columns else ()
        fields = checked_fields(file, names, types, sum(rows))
        texts = plain_texts(names, types)
        long = long_texts_of(file, texts, rows, lambda k: _stripe(file.url, reader, k, texts))
    return OrcTable(file, request.sizes, columns_of_folders(request.partition, names), fields, rows, long=long)
