"""The file that scoring writes: each piece of the input gives a part, and the parts are joined in order."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import BinaryIO, Self
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from fsspec import AbstractFileSystem

from pipeline.errors import InputError
from pipeline.running.repair import ATTEMPTS
from pipeline.sources.files.remote import filesystem
from pipeline.storage.durable import flush
from pipeline.urls import Location

ROW_GROUP = 1 << 17
"""Number of rows of a row group of the output, unless so many rows have more bytes than :data:`ROW_GROUP_BYTES`."""
ROW_GROUP_BYTES = 1 << 26
TEXT_BYTES = 16
"""Bytes that a text, or another value without a fixed size, counts for."""
COPIED_ROWS = 1 << 16
HASHED_BYTES = 1 << 20
CSV = ".csv"


@dataclass
class Output:
    """A file that appears whole or not at all, or a folder of parts. A context manager, with a folder for parts.

    Parameters
    ----------
    url : str
        Local path, or a URL that fsspec can write; the workers must see it too.

    Raises
    ------
    InputError
        On entering, if the URL cannot be written.
    """

    url: str
    folder: str = field(init=False, default="")

    def __enter__(self) -> Self:
        with _writing(self.url):
            self._fs, self.path = filesystem(self.url)
            self.path = self.path.rstrip("/")
            parent, _, name = self.path.rpartition("/")
            if self.in_parts and self._fs.exists(self.path) and not self._is_empty():
                raise InputError(f"--output {self.url}: is there already, expected a new or an empty folder")
            if self._fs.isdir(self.path) and not self.in_parts:
                raise InputError(f"--output {self.url}: is a directory, expected a file; a folder of parts ends in /")
            if self.is_local and not self.in_parts and self._is_special(name):
                raise InputError(f"--output {self.url}: is no file, expected the name of one, such as scores.csv")
            if self.is_local and not self._fs.isdir(parent or "/"):
                raise InputError(f"--output {self.url}: no such directory {parent}")
            folder = f"{parent}/.{name}.parts-{uuid4().hex[:8]}"
            if self.is_local:
                os.mkdir(folder, 0o700)
            else:
                self._fs.makedirs(folder)
            self.folder = folder
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Tasks that were cancelled may still be writing: files that they add meanwhile are removed the next time.
        for _ in range(5):
            with suppress(OSError):
                if not self._fs.exists(self.folder):
                    return
                self._fs.rm(self.folder, recursive=True)

    def _is_special(self, name: str) -> bool:
        return name == "-" or (os.path.exists(self.path) and not os.path.isfile(self.path))

    def _is_empty(self) -> bool:
        return bool(self._fs.isdir(self.path)) and not self._fs.ls(self.path)

    @property
    def in_parts(self) -> bool:
        """True if the output is a folder with a file for each piece of the input."""
        return self.url.endswith("/")

    @property
    def is_local(self) -> bool:
        """True if the output is on a disk of this machine."""
        return "file" in self._fs.protocol

    def part(self, index: int) -> str:
        """Return the address of the part of a piece, for any process."""
        return str(self._fs.unstrip_protocol(f"{self.folder}/{index:06d}.parquet"))

    def join(self, parts: Sequence[tuple[str, str]], schema: pa.Schema, again: Callable[[int], str]) -> int:
        """Join the parts in order in one file, with numbered rows; then give it its name. Return its bytes.

        Parameters
        ----------
        parts : sequence of (address, SHA-256)
        again : callable
            Function that makes a damaged part again, given its number, and returns its SHA-256.
        """
        if self.in_parts:
            return self._keep_parts(parts, again)
        joined = f"{self.folder}/joined"
        writing_as = csv_writer if self.path.lower().endswith(CSV) else parquet_writer
        with _writing(self.url):
            with self._fs.open(joined, "wb") as stream, writing_as(stream, schema) as writer:
                row, row_group = 0, rows_of_group(schema)
                for table in _in_row_groups(self._tables(parts, again, row_group), row_group):
                    numbers = np.arange(row, row + table.num_rows, dtype=np.int64)
                    numbered = table.add_column(0, "row", pa.array(numbers)).select(schema.names)
                    # Parquet has no times in seconds: those of an id come back from the parts in milliseconds.
                    writer.write_table(numbered.cast(schema), row_group_size=row_group)
                    row += table.num_rows
            size = int(self._fs.size(joined))
            if self.is_local:
                flush({joined})
            self._fs.mv(joined, self.path)  # within one directory: another file of that name is replaced in one step
            if self.is_local:
                flush({os.path.dirname(self.path)})
        return size

    def _keep_parts(self, parts: Sequence[tuple[str, str]], again: Callable[[int], str]) -> int:
        """Give the parts their names in the folder, in order; return their bytes."""
        size = 0
        with _writing(self.url):
            self._fs.makedirs(self.path, exist_ok=True)
            paths = []
            for k, (url, sha256) in enumerate(parts):
                path = self._whole(k, url, sha256, again)
                size += int(self._fs.size(path))
                paths.append(f"{self.path}/part-{k:06d}.parquet")
                if self.is_local:
                    flush({path})
                self._fs.mv(path, paths[-1])
            if self.is_local:
                flush({self.path, os.path.dirname(self.path)})
        return size

    def _whole(self, k: int, url: str, sha256: str, again: Callable[[int], str]) -> str:
        """Return the path of a part, which is made again as long as it is damaged."""
        path = str(self._fs._strip_protocol(url))
        for _ in range(ATTEMPTS):
            if sha256_of(self._fs, path) == sha256:
                return path
            sha256 = again(k)
        raise InputError(f"{path} is damaged {ATTEMPTS} times in a row; check the disk and the memory")

    def _tables(
        self, parts: Sequence[tuple[str, str]], again: Callable[[int], str], row_group: int
    ) -> Iterator[pa.Table]:
        for k, (url, sha256) in enumerate(parts):
            path = self._whole(k, url, sha256, again)
            with self._fs.open(path, "rb") as stream, pq.ParquetFile(stream) as part:
                for batch in part.iter_batches(min(COPIED_ROWS, row_group)):
                    yield pa.Table.from_batches([batch])
            self._fs.rm_file(path)


@contextmanager
def _writing(url: str) -> Iterator[None]:
    """Turn the errors of writing into one line."""
    try:
        yield
    except InputError:
        raise
    except NotImplementedError as error:  # such as that of the web
        raise InputError(f"--output {url}: cannot be written: files can only be read there") from error
    except (OSError, ImportError, ValueError) as error:
        # fsspec raises ValueError for an unknown protocol; our own errors must not look like the user's.
        if isinstance(error, ValueError) and "protocol" not in str(error).lower():
            raise
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise InputError(f"--output {url}: cannot be written: {reason}") from error
    except Exception as error:
        if Location(url).is_local:
            raise
        # Clients of remote file systems have errors of their own.
        raise InputError(f"--output {url}: cannot be written: {' '.join(str(error).split())}") from error


def rows_of_group(schema: pa.Schema) -> int:
    """Return the number of rows of a row group: it follows from the types of the columns alone."""
    return min(ROW_GROUP, max(1, ROW_GROUP_BYTES // sum(map(_bytes_of, schema.types))))


def _bytes_of(kind: pa.DataType) -> int:
    """Return the bytes of a value of a type."""
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return TEXT_BYTES


def _in_row_groups(tables: Iterator[pa.Table], row_group: int) -> Iterator[pa.Table]:
    """Cut tables into row groups, so that the file does not depend on how its input was cut."""
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += table.num_rows
        while rows >= row_group:
            joined = pa.concat_tables(waiting)
            yield joined.slice(0, row_group).combine_chunks()
            waiting = [joined.slice(row_group)]
            rows -= row_group
    if rows:
        yield pa.concat_tables(waiting).combine_chunks()


def parquet_writer(stream: BinaryIO, schema: pa.Schema) -> pq.ParquetWriter:
    """Return a writer of a Parquet file whose pages have checksums."""
    return pq.ParquetWriter(stream, schema, write_page_checksum=True)


class _Csv:
    """A writer of tables as CSV, with the interface of the Parquet writer."""

    def __init__(self, stream: BinaryIO, schema: pa.Schema) -> None:
        self._writer = pa.csv.CSVWriter(stream, schema)

    def write_table(self, table: pa.Table, row_group_size: int) -> None:
        self._writer.write_table(table, max_chunksize=row_group_size)


@contextmanager
def csv_writer(stream: BinaryIO, schema: pa.Schema) -> Iterator[_Csv]:
    """Open a writer of a CSV file with the names of the columns in its first line."""
    writer = _Csv(stream, schema)
    try:
        yield writer
    finally:
        writer._writer.close()


def sha256_of(fs: AbstractFileSystem, path: str) -> str:
    """Return the SHA-256 of the file, or an empty string if it does not exist."""
    digest = hashlib.sha256()
    try:
        with fs.open(path, "rb") as stream:
            while block := stream.read(HASHED_BYTES):
                digest.update(block)
    except FileNotFoundError:
        return ""
    return digest.hexdigest()
