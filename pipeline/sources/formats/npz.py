"""NumPy ``.npz`` archives: members ``X`` and ``y``, or the parts of a CSR matrix and ``y``."""

from __future__ import annotations

import lzma
import shutil
import struct
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, ClassVar

import numpy as np
import scipy.sparse as sp

from pipeline.errors import InputError, in_one_line, writing
from pipeline.monitoring.plain_text import shown
from pipeline.sources.columns.checks import check_columns
from pipeline.sources.columns.plan import Plan
from pipeline.sources.columns.raw_rows import RawRows
from pipeline.sources.columns.read_request import ReadRequest
from pipeline.sources.files.file import File
from pipeline.sources.files.limits import check_row
from pipeline.sources.formats.base import Fragment
from pipeline.sources.formats.matrix import MatrixFile
from pipeline.sources.formats.npy import NpyLayout, check_matrix, finite, read_layout, rows_per_block

_CSR_PARTS = ("data", "indices", "indptr")
MOST_COLUMNS = (1 << 31) - 2
"""Columns of a CSR matrix: indices are int32."""
LABEL_BYTES = 16 << 20
"""Labels are read so many bytes at a time, whatever the rows are."""
LARGEST_SHAPE = 4096
"""Bytes of the members that describe a sparse matrix."""
_ZIP_FAILURES = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, OverflowError, ValueError,
    RuntimeError, KeyError,
)  # fmt: skip
"""Exceptions of `zipfile` for damaged, encrypted and unknown contents (NotImplementedError is a RuntimeError)."""


@dataclass(frozen=True)
class NpzFile(MatrixFile):
    """Members of an archive, read as streams. One fragment: a compressed member has one entry point."""

    format: ClassVar[str] = "npz"

    X: NpyLayout | None  # None: a CSR matrix
    csr: tuple[NpyLayout, ...]  # of data, indices, indptr
    y: NpyLayout | None
    label: str
    n_rows: int

    @property
    def sparse(self) -> bool:
        return self.X is None

    def least_rows(self) -> int:
        return self.n_rows

    def fragments(self, plan: Plan) -> list[Fragment]:  # noqa: ARG002
        return [Fragment(0, 0, self.n_rows)]

    def rows(self, fragment: Fragment, plan: Plan, skip: int = 0) -> Iterator[RawRows]:  # noqa: ARG002
        assert fragment.stop is not None
        if self.X is None:
            return self._csr_blocks(fragment.stop, skip)
        return self._dense_blocks(self.X, fragment.stop, skip)

    def _dense_blocks(self, layout: NpyLayout, n_rows: int, skip: int) -> Iterator[RawRows]:
        per_block = rows_per_block(self.block_bytes, layout.shape[1])
        with ExitStack() as stack:
            labels = None if self.y is None else _Member(self.file, stack, self.label, self.y)
            member = _Member(self.file, stack, "X", layout)
            # Each member is read strictly forwards: a step back would decompress it from its start.
            for start in range(skip * per_block, n_rows, per_block):
                stop = min(start + per_block, n_rows)
                y = None if labels is None else _labels(labels, start, stop)
                raw = member.read(start, stop)
                yield RawRows(finite(raw, self.file.url, start), y, start + 1, raw.nbytes)

    def _csr_blocks(self, n_rows: int, skip: int) -> Iterator[RawRows]:
        with ExitStack() as stack:
            labels = None if self.y is None else _Member(self.file, stack, self.label, self.y)
            values, columns, pointers = (
                _Member(self.file, stack, *item) for item in zip(_CSR_PARTS, self.csr, strict=True)
            )
            for k, (start, indptr) in enumerate(self._cut(pointers, n_rows)):
                if k >= skip:
                    stop = start + indptr.size - 1
                    y = None if labels is None else _labels(labels, start, stop)
                    X = self._csr_rows(values, columns, indptr, start)
                    yield RawRows(X, y, start + 1, 12 * X.nnz + 4 * (stop - start))

    def _cut(self, pointers: _Member, n_rows: int) -> Iterator[tuple[int, np.ndarray]]:
        """First row of each block, and where its rows begin and end among the stored values: int64.

        Blocks are of as many rows as fit on average; where rows are much longer than that, of fewer.
        """
        n_stored = self.csr[0].shape[0]
        per_block = self.block_bytes * n_rows // (12 * max(1, n_stored))  # a value and its column take 12 bytes
        per_block = max(1, min(per_block, self.block_bytes // 16))  # rows without values take some too
        most = 4 * self.block_bytes // 12
        pointer = pointers.read(0, 1)
        for start in range(0, n_rows, per_block):
            stop = min(start + per_block, n_rows)
            indptr = np.concatenate([pointer, pointers.read(start + 1, stop + 1)])
            pointer = indptr[-1:]
            if (indptr[1:] < indptr[:-1]).any() or indptr[0] < 0 or indptr[-1] > n_stored:
                raise InputError(
                    f"{self.file.url}: member 'indptr', rows {start + 1} to {stop}: found values that descend or pass "
                    "the number of stored values, expected ascending ones"
                )
            indptr = indptr.astype(np.int64)
            begin = 0
            while begin < stop - start:
                end = int(np.searchsorted(indptr, indptr[begin] + most, side="right")) - 1
                end = max(begin + 1, end)
                check_row(f"{self.file.url}: row {start + begin + 1}", 12 * int(indptr[begin + 1] - indptr[begin]))
                yield start + begin, indptr[begin : end + 1]
                begin = end

    def _csr_rows(self, values: _Member, columns: _Member, indptr: np.ndarray, start: int) -> sp.csr_array:
        """Rows from `start` on that `indptr` delimits, indices sorted."""
        assert self.n_columns is not None
        stop = start + indptr.size - 1
        indices = columns.read(int(indptr[0]), int(indptr[-1])).astype(np.int64)
        data = values.read(int(indptr[0]), int(indptr[-1])).astype(np.float64)
        indptr = indptr - indptr[0]
        rows = np.repeat(np.arange(stop - start), np.diff(indptr))

        def where(k: int) -> str:
            return f"{self.file.url}: row {start + rows[k] + 1}, column {indices[k] + 1}"

        bad = np.flatnonzero((indices < 0) | (indices >= self.n_columns))
        if bad.size:
            raise InputError(f"{where(bad[0])}: found a column out of range, expected 1 to {self.n_columns}")
        bad = np.flatnonzero(~np.isfinite(data))
        if bad.size:
            raise InputError(f"{where(bad[0])}: found {data[bad[0]]}, expected a finite number")
        order = np.lexsort((indices, rows))
        indices, data = indices[order], data[order]
        twice = np.flatnonzero((np.diff(indices) == 0) & (np.diff(rows) == 0))
        if twice.size:
            raise InputError(f"{where(twice[0])}: found the column twice, expected each column once in a row")
        parts = (data, indices.astype(np.int32), indptr.astype(np.int32))
        return sp.csr_array(parts, shape=(stop - start, self.n_columns))


class _Member:
    """An array of the archive, open for reading.

    Each has the archive open for itself: in a shared one, a seek in a member can start from where another was
    read (`zipfile` of Python 3.12).
    """

    def __init__(self, file: File, stack: ExitStack, name: str, layout: NpyLayout) -> None:
        self.url, self.name, self.layout = file.url, name, layout
        archive = stack.enter_context(_archive(file.url, stack.enter_context(file.open())))
        with _failures(self.url, name):
            self._stream: IO[bytes] = stack.enter_context(archive.open(f"{name}.npy"))
        if layout.fortran and len(layout.shape) > 1:
            # Rows lie apart, and each jump back would decompress everything again: unpack to disk.
            with writing(tempfile.gettempdir()):
                spool: IO[bytes] = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
                shutil.copyfileobj(_Unpacked(self._stream, self.url, name), spool)
                spool.flush()
            self._stream = spool

    def read(self, start: int, stop: int) -> np.ndarray:
        with _failures(self.url, self.name):
            return self.layout.read(self._stream, self.url, start, stop)


class _Unpacked:
    """A member that is read from its start; what can go wrong is told."""

    def __init__(self, stream: IO[bytes], url: str, name: str) -> None:
        self._stream, self._url, self._name = stream, url, name

    def read(self, n: int = -1) -> bytes:
        with _failures(self._url, self._name):
            return self._stream.read(n)


def open_npz(file: File, request: ReadRequest) -> NpzFile:
    """Read the headers of the members of an archive; `label` names the one with the labels (``y``).

    Raises
    ------
    InputError
        If members are missing, of wrong types, or do not fit together.
    """
    url = file.url
    name = "y" if request.label is None else str(request.label)
    with file.open() as stream, _archive(url, stream) as archive:
        members = sorted(m.removesuffix(".npy") for m in archive.namelist() if m.endswith(".npy"))
        listed = ", ".join(map(shown, members[:12])) + (", ..." if len(members) > 12 else "") if members else "none"

        def layout(member: str) -> NpyLayout:
            return _layout(archive, url, member)[0]

        y = layout(name) if name in members else None
        if y is None and request.require_label:
            raise InputError(f"{url}: no member {shown(name)} with the labels; the members are {listed}")
        X: NpyLayout | None = None
        csr: tuple[NpyLayout, ...] = ()
        if "X" in members:
            X = layout("X")
            check_matrix(X, url, "member 'X': ")
            n_rows, width = X.shape
        elif {*_CSR_PARTS, "shape"} <= set(members):
            n_rows, width = _csr_shape(archive, url, members)
            csr = _csr_layouts(url, layout, n_rows)
        else:
            raise InputError(f"{url}: found members {listed}, expected X and y, or data, indices, indptr, shape and y")
    if y is not None and y.shape not in ((n_rows,), (n_rows, 1)):
        raise InputError(f"{url}: member {name!r}: found shape {y.shape}, expected {(n_rows,)}, a label a row")
    if y is not None and y.kind not in "biufU":
        raise InputError(f"{url}: member {name!r}: found values of type {y.dtype}, expected numbers or text")
    if y is not None:
        check_row(url, y.item_bytes, "a label")
    n_columns = request.n_columns
    check_columns(url, width, n_columns, fewer=X is None)
    return NpzFile(file, request.sizes, width if n_columns is None else n_columns, X, csr, y, name, n_rows)


def _layout(archive: zipfile.ZipFile, url: str, member: str, most: int = 0) -> tuple[NpyLayout, bytes]:
    """Return the place of the values of a member, and the first `most` bytes of the values at most."""
    with _failures(url, member):
        size = archive.getinfo(f"{member}.npy").file_size
        with archive.open(f"{member}.npy") as opened:
            layout = read_layout(opened, url, f"member {member!r}: ")
            values = opened.read(min(most, layout.n_bytes - layout.offset))
    if size < layout.n_bytes or (most and len(values) < min(most, layout.n_bytes - layout.offset)):
        raise InputError(
            f"{url}: member {member!r}: truncated: found {size} bytes, "
            f"expected {layout.n_bytes} for shape {layout.shape}"
        )
    return layout, values


def _csr_shape(archive: zipfile.ZipFile, url: str, members: list[str]) -> tuple[int, int]:
    """Shape of the CSR matrix in an archive, as ``scipy.sparse.save_npz`` writes it."""

    def small(member: str) -> np.ndarray:
        layout, values = _layout(archive, url, member, LARGEST_SHAPE)
        if layout.kind not in "iuUS" or layout.n_bytes - layout.offset > LARGEST_SHAPE:
            raise InputError(
                f"{url}: member {member!r}: found {layout.dtype} values of shape {layout.shape}, expected those of "
                "scipy.sparse.save_npz"
            )
        return np.frombuffer(values, dtype=layout.dtype).reshape(layout.shape) if values else np.empty(0, dtype=int)

    if "format" in members:
        value = small("format").reshape(-1)[:1].tolist() or [""]
        kind = value[0].decode(errors="replace") if isinstance(value[0], bytes) else str(value[0])
        if kind != "csr":
            raise InputError(f"{url}: found a sparse matrix of format {shown(kind)}, expected 'csr'")
    shape = small("shape")
    if shape.shape != (2,) or shape.dtype.kind not in "iu":
        raise InputError(f"{url}: member 'shape': found {shape.tolist()}, expected rows and columns")
    n_rows, width = (int(n) for n in shape)
    if n_rows == 0:
        raise InputError(f"{url}: found no rows, expected at least one")
    if n_rows < 0 or not 0 <= width <= MOST_COLUMNS:
        raise InputError(
            f"{url}: member 'shape': found {n_rows} rows and {width} columns, expected at least one row and at most "
            f"{MOST_COLUMNS} columns"
        )
    return n_rows, width


def _csr_layouts(url: str, layout: Callable[[str], NpyLayout], n_rows: int) -> tuple[NpyLayout, ...]:
    parts = {part: layout(part) for part in _CSR_PARTS}
    n_stored = parts["data"].shape[0] if parts["data"].shape else 0
    lengths = {"data": n_stored, "indices": n_stored, "indptr": n_rows + 1}
    for part, found in parts.items():
        kinds = "biuf" if part == "data" else "iu"
        if found.kind not in kinds or found.shape != (lengths[part],):
            raise InputError(
                f"{url}: member {part!r}: found {found.dtype} values of shape {found.shape}, expected "
                f"{'numbers' if part == 'data' else 'integers'} of shape {(lengths[part],)}"
            )
    return tuple(parts.values())


@contextmanager
def _archive(url: str, stream: IO[bytes]) -> Iterator[zipfile.ZipFile]:
    try:
        archive = zipfile.ZipFile(stream)
    except InputError:
        raise
    except _ZIP_FAILURES as error:
        raise InputError(f"{url}: not a .npz archive, or a truncated one: {in_one_line(error)}") from error
    with archive:
        yield archive


@contextmanager
def _failures(url: str, member: str) -> Iterator[None]:
    """Turn what can go wrong while a member is unpacked into one line."""
    try:
        yield
    except _ZIP_FAILURES as error:
        raise InputError(f"{url}: member {shown(member)}: cannot be read: {in_one_line(error)}") from error


def _labels(member: _Member, start: int, stop: int) -> np.ndarray:
    if member.layout.kind == "U":
        step = max(1, LABEL_BYTES // max(1, member.layout.item_bytes))
        return np.concatenate([_texts(member, k, min(k + step, stop)) for k in range(start, stop, step)])
    y = member.read(start, stop).reshape(-1).astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(y))
    if bad.size:
        raise InputError(
            f"{member.url}: row {start + bad[0] + 1} of member {member.name!r}: found {y[bad[0]]}, "
            "expected a finite number (the label)"
        )
    return y


def _texts(member: _Member, start: int, stop: int) -> np.ndarray:
    """Labels that are text."""
    raw = member.read(start, stop).reshape(-1)
    if not member.layout.item_bytes:
        return np.full(stop - start, "", dtype=object)
    codes = raw.astype(raw.dtype.newbyteorder("=")).view(np.uint32).reshape(stop - start, -1)
    bad = np.argwhere((codes > sys.maxunicode) | ((codes >= 0xD800) & (codes <= 0xDFFF)))
    if bad.size:
        row, place = bad[0]
        raise InputError(
            f"{member.url}: row {start + row + 1} of member {shown(member.name)}: found {codes[row, place]:#x} in the "
            "label, expected characters"
        )
    return raw.astype(object)
