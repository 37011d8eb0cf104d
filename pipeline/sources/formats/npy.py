"""NumPy ``.npy`` files: a matrix with the label in one of its columns."""

from __future__ import annotations

import io
import math
import struct
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, ClassVar

import numpy as np

from ikmap.arrays import Floats
from pipeline.errors import InputError, in_one_line
from pipeline.sources.columns.checks import check_columns
from pipeline.sources.columns.labels import choose_label
from pipeline.sources.columns.plan import Plan
from pipeline.sources.columns.raw_rows import RawRows
from pipeline.sources.columns.read_request import ReadRequest
from pipeline.sources.files.file import File
from pipeline.sources.files.limits import check_row
from pipeline.sources.formats.base import Fragment, row_fragments
from pipeline.sources.formats.matrix import MatrixFile

LONGEST_HEADER = 10_000
"""Bytes of a header; what describes more is no array of numbers."""
_LENGTH = {b"\x01\x00": "<H", b"\x02\x00": "<I", b"\x03\x00": "<I"}
_HEADER = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0,
           3: np.lib.format.read_array_header_2_0}  # fmt: skip


@dataclass(frozen=True)
class NpyLayout:
    """The place of the values of an array in a ``.npy`` stream.

    Attributes
    ----------
    shape : tuple of int
    dtype : str
        As NumPy writes it.
    fortran : bool
    offset : int
        Bytes before the first value.
    kind : str
        One letter, NumPy's, for what the values are.
    item_bytes : int
    """

    shape: tuple[int, ...]
    dtype: str
    fortran: bool
    offset: int
    kind: str
    item_bytes: int

    @property
    def n_bytes(self) -> int:
        """Number of bytes of header and values."""
        return self.offset + math.prod(self.shape) * self.item_bytes

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


def read_layout(stream: IO[bytes], url: str, what: str = "") -> NpyLayout:
    """Read the header of a ``.npy`` stream; `what` names a member in messages.

    Raises
    ------
    InputError
        If it is no ``.npy`` header, or none of an array that there can be.
    """
    start = stream.read(8)
    form = _LENGTH.get(start[6:8])
    if start[:6] != np.lib.format.MAGIC_PREFIX or form is None:
        raise InputError(f"{url}: {what}not a .npy array: it starts with {start!r}")
    start += stream.read(struct.calcsize(form))
    length = struct.unpack(form, start[8:])[0] if len(start) == 8 + struct.calcsize(form) else 0
    if length > LONGEST_HEADER:
        raise InputError(f"{url}: {what}found a header of {length:,} bytes, expected at most {LONGEST_HEADER:,}")
    header = start + stream.read(length)
    offset = len(header)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of headers that Python 2 wrote
            shape, fortran, dtype = _HEADER[header[6]](io.BytesIO(header[8:]))
    except Exception as error:  # whatever NumPy, which evaluates it as Python, says of a text that is no header
        reason = in_one_line(error)
        raise InputError(f"{url}: {what}not a .npy array: {reason}") from error
    if not all(type(n) is int and n >= 0 for n in shape) or math.prod(shape) * dtype.itemsize >= 1 << 62:
        raise InputError(f"{url}: {what}found the shape {_shown(shape)}, expected whole numbers from 0 on")
    name = dtype.str if dtype.names is None else _shown(dtype)
    return NpyLayout(shape, name, fortran, offset, dtype.kind, dtype.itemsize)


def _shown(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:60] + "..."


@dataclass(frozen=True)
class NpyFile(MatrixFile):
    """Rows of a two-dimensional array; the label is one of its columns."""

    format: ClassVar[str] = "npy"

    layout: NpyLayout
    label: int | None

    def least_rows(self) -> int:
        return self.layout.shape[0]

    def fragments(self, plan: Plan) -> list[Fragment]:  # noqa: ARG002
        per_block = rows_per_block(self.block_bytes, self.layout.shape[1])
        return row_fragments(self.layout.shape[0], per_block * max(1, self.fragment_bytes // self.block_bytes))

    def rows(self, fragment: Fragment, plan: Plan, skip: int = 0) -> Iterator[RawRows]:  # noqa: ARG002
        assert fragment.stop is not None
        per_block = rows_per_block(self.block_bytes, self.layout.shape[1])
        with self.file.open() as stream:
            for start in range(fragment.start + skip * per_block, fragment.stop, per_block):
                stop = min(start + per_block, fragment.stop)
                raw = self.layout.read(stream, self.file.url, start, stop)
                rows = finite(raw, self.file.url, start, self.label)
                y = None if self.label is None else rows[:, self.label].copy()
                X = rows if self.label is None else np.delete(rows, self.label, axis=1)
                yield RawRows(np.ascontiguousarray(X), y, start + 1, raw.nbytes)


def open_npy(file: File, request: ReadRequest) -> NpyFile:
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
    n_total = layout.shape[1]
    if file.size < layout.n_bytes:
        raise InputError(
            f"{url}: truncated: found {file.size} bytes, expected {layout.n_bytes} for shape {layout.shape}"
        )
    at = choose_label(
        url,
        None,
        n_total,
        request.label,
        required=request.require_label,
        n_columns=request.n_columns,
        last=request.label_last,
    )
    width = n_total - (at is not None)
    check_columns(url, width, request.n_columns)
    return NpyFile(file, request.sizes, width, layout, at)


def check_matrix(layout: NpyLayout, url: str, what: str) -> None:
    if len(layout.shape) != 2:
        raise InputError(
            f"{url}: {what}found an array of shape {_shown(layout.shape)}, expected two dimensions (rows, columns)"
        )
    if layout.kind not in "biuf":
        raise InputError(f"{url}: {what}found values of type {layout.dtype}, expected numbers")
    if layout.shape[0] == 0:
        raise InputError(f"{url}: {what}found no rows, expected at least one")
    if layout.shape[1] == 0:
        raise InputError(f"{url}: {what}found no columns, expected at least one")
    check_row(url, 8 * layout.shape[1])


def finite(raw: np.ndarray, url: str, start: int, label: int | None = None) -> Floats:
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
