"""NumPy ``.npy`` files: a matrix with the label in one of its columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, ClassVar

import numpy as np

from pipeline.errors import InputError
from pipeline.readers.base import Block, Piece, Source, check_columns, row_pieces
from pipeline.readers.files import File
from pipeline.readers.labels import choose_label


@dataclass(frozen=True)
class Layout:
    """Where the values of an array lie in a ``.npy`` stream."""

    shape: tuple[int, ...]
    dtype: str
    fortran: bool
    offset: int

    def read(self, stream: IO[bytes], url: str, start: int, stop: int) -> np.ndarray:
        """Rows ``start .. stop - 1``: one read in C order, one per column in Fortran order."""
        item = np.dtype(self.dtype)
        n_rows, width = self.shape[0], int(np.prod(self.shape[1:]))
        if not self.fortran or width == 1:
            values = self._values(stream, url, start * width, (stop - start) * width)
            return values.reshape((stop - start, *self.shape[1:]))
        out = np.empty((stop - start, width), dtype=item)
        for j in range(width):
            out[:, j] = self._values(stream, url, j * n_rows + start, stop - start)
        return out

    def _values(self, stream: IO[bytes], url: str, first: int, count: int) -> np.ndarray:
        item = np.dtype(self.dtype)
        stream.seek(self.offset + first * item.itemsize)
        data = stream.read(count * item.itemsize)
        if len(data) < count * item.itemsize:
            raise InputError(f"{url}: truncated: found fewer values than the shape {self.shape} in its header")
        return np.frombuffer(data, dtype=item)


def read_layout(stream: IO[bytes], url: str, what: str = "") -> Layout:
    """Read the header of a ``.npy`` stream; `what` names a member in messages.

    Raises
    ------
    InputError
        If it is no ``.npy`` header, or one of Python objects.
    """
    try:
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
        else:
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(stream)
    except ValueError as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{url}: {what}not a .npy array: {reason}") from error
    return Layout(tuple(shape), dtype.str if dtype.names is None else str(dtype), fortran, stream.tell())


@dataclass(frozen=True)
class NpySource(Source):
    """Rows of a two-dimensional array; the label is one of its columns."""

    format: ClassVar[str] = "npy"

    layout: Layout
    label: int | None

    def pieces(self) -> list[Piece]:
        per_block = rows_per_block(self.block_bytes, self.layout.shape[1])
        return row_pieces(self.layout.shape[0], per_block * max(1, self.piece_bytes // self.block_bytes))

    def read(self, piece: Piece, skip: int = 0) -> Iterator[Block]:
        assert piece.stop is not None
        per_block = rows_per_block(self.block_bytes, self.layout.shape[1])
        with self.file.open() as stream:
            for start in range(piece.start + skip * per_block, piece.stop, per_block):
                stop = min(start + per_block, piece.stop)
                raw = self.layout.read(stream, self.url, start, stop)
                rows = finite(raw, self.url, start, self.label)
                y = None if self.label is None else rows[:, self.label].copy()
                X = rows if self.label is None else np.delete(rows, self.label, axis=1)
                yield Block(np.ascontiguousarray(X), y, start + 1, raw.nbytes)


def open_npy(
    file: File,
    label: str | int | None,
    n_columns: int | None,
    require_label: bool,
    piece_bytes: int,
    block_bytes: int,
) -> NpySource:
    """Read the header of a ``.npy`` file.

    Raises
    ------
    InputError
        If the array is not two-dimensional and numeric, is truncated, or lacks the label or columns.
    """
    url = file.url
    with file.open() as stream:
        layout = read_layout(stream, url)
    check_matrix(layout, url, "")
    n_rows, n_total = layout.shape
    expected = layout.offset + n_rows * n_total * np.dtype(layout.dtype).itemsize
    if file.size < expected:
        raise InputError(f"{url}: truncated: found {file.size} bytes, expected {expected} for shape {layout.shape}")
    at = choose_label(url, None, n_total, label, required=require_label, n_columns=n_columns)
    check_columns(url, n_total - (at is not None), n_columns)
    return NpySource(file, n_total - (at is not None), None, piece_bytes, block_bytes, layout, at)


def check_matrix(layout: Layout, url: str, what: str) -> None:
    if len(layout.shape) != 2:
        raise InputError(
            f"{url}: {what}found an array of shape {layout.shape}, expected two dimensions (rows, columns)"
        )
    if not layout.dtype.startswith(("<", ">", "|")) or np.dtype(layout.dtype).kind not in "biuf":
        raise InputError(f"{url}: {what}found values of type {layout.dtype}, expected numbers")
    if layout.shape[0] == 0:
        raise InputError(f"{url}: {what}found no rows, expected at least one")


def finite(raw: np.ndarray, url: str, start: int, label: int | None = None) -> np.ndarray:
    """The rows as float64, all values finite."""
    rows = raw.astype(np.float64, order="C")
    if not np.isfinite(rows).all():
        i, j = np.argwhere(~np.isfinite(rows))[0]
        kind = " (the label)" if j == label else ""
        raise InputError(
            f"{url}: row {start + i + 1}, column {j + 1}: found {rows[i, j]}, expected a finite number{kind}"
        )
    return rows


def rows_per_block(block_bytes: int, n_columns: int) -> int:
    return max(1, block_bytes // (8 * n_columns))
