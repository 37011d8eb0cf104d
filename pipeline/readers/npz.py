"""NumPy ``.npz`` archives: members ``X`` and ``y``, or the parts of a CSR matrix and ``y``."""

from __future__ import annotations

import io
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import IO, ClassVar

import numpy as np
import scipy.sparse as sp

from pipeline.errors import InputError
from pipeline.readers.base import Block, Piece, Source, check_columns
from pipeline.readers.files import File
from pipeline.readers.npy import Layout, check_matrix, finite, read_layout, rows_per_block

_CSR_PARTS = ("data", "indices", "indptr")


@dataclass(frozen=True)
class NpzSource(Source):
    """Members of an archive, read as streams. One piece: a compressed member has one entry point."""

    format: ClassVar[str] = "npz"

    X: Layout | None  # None: a CSR matrix
    csr: tuple[Layout, ...]  # of data, indices, indptr
    y: Layout | None
    label: str
    n_rows: int

    @property
    def sparse(self) -> bool:
        return self.X is None

    def pieces(self) -> list[Piece]:
        return [Piece(0, 0, self.n_rows)]

    def read(self, piece: Piece, skip: int = 0) -> Iterator[Block]:
        assert piece.stop is not None
        per_block = self._rows_per_block()
        first = piece.start + skip * per_block
        if first >= piece.stop:
            return
        with ExitStack() as stack:
            labels = None if self.y is None else _Member(self.file, stack, self.label, self.y)
            names = _CSR_PARTS if self.X is None else ("X",)
            layouts = self.csr if self.X is None else (self.X,)
            members = [_Member(self.file, stack, *item) for item in zip(names, layouts, strict=True)]
            # Each member is read strictly forwards: a step back would decompress it from its start.
            pointer = members[-1].read(first, first + 1) if self.X is None else None
            for start in range(first, piece.stop, per_block):
                stop = min(start + per_block, piece.stop)
                y = None if labels is None else _labels(labels, start, stop)
                if pointer is not None:
                    indptr = np.concatenate([pointer, members[-1].read(start + 1, stop + 1)])
                    pointer = indptr[-1:]
                    X = self._csr_rows(members, indptr.astype(np.int64), start)
                    yield Block(X, y, start + 1, 12 * X.nnz + 4 * (stop - start))
                else:
                    raw = members[0].read(start, stop)
                    yield Block(finite(raw, self.url, start), y, start + 1, raw.nbytes)

    def _rows_per_block(self) -> int:
        if self.X is not None:
            return rows_per_block(self.block_bytes, self.X.shape[1])
        n_stored = self.csr[0].shape[0]  # a value and its column take 12 bytes
        return max(1, self.block_bytes * self.n_rows // (12 * max(1, n_stored)))

    def _csr_rows(self, members: list[_Member], indptr: np.ndarray, start: int) -> sp.csr_array:
        """Rows from `start` on that `indptr` delimits, indices sorted."""
        assert self.n_columns is not None
        values, columns = members[:2]
        stop = start + indptr.size - 1
        if (np.diff(indptr) < 0).any() or indptr[0] < 0 or indptr[-1] > values.layout.shape[0]:
            raise InputError(
                f"{self.url}: member 'indptr', rows {start + 1} to {stop}: found values that descend or pass "
                "the number of stored values, expected ascending ones"
            )
        indices = columns.read(int(indptr[0]), int(indptr[-1])).astype(np.int64)
        data = values.read(int(indptr[0]), int(indptr[-1])).astype(np.float64)
        indptr = indptr - indptr[0]
        rows = np.repeat(np.arange(stop - start), np.diff(indptr))

        def where(k: int) -> str:
            return f"{self.url}: row {start + rows[k] + 1}, column {indices[k] + 1}"

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

    def __init__(self, file: File, stack: ExitStack, name: str, layout: Layout) -> None:
        self.url, self.name, self.layout = file.url, name, layout
        archive = stack.enter_context(_archive(file.url, stack.enter_context(file.open())))
        self._stream: IO[bytes] = stack.enter_context(archive.open(f"{name}.npy"))
        if layout.fortran and len(layout.shape) > 1:
            # Rows lie apart, and each jump back would decompress everything again: unpack to disk.
            spool: IO[bytes] = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
            shutil.copyfileobj(self._stream, spool)
            self._stream = spool

    def read(self, start: int, stop: int) -> np.ndarray:
        return self.layout.read(self._stream, self.url, start, stop)


def open_npz(
    file: File,
    label: str | int | None,
    n_columns: int | None,
    require_label: bool,
    piece_bytes: int,
    block_bytes: int,
) -> NpzSource:
    """Read the headers of the members of an archive; `label` names the one with the labels (``y``).

    Raises
    ------
    InputError
        If members are missing, of wrong types, or do not fit together.
    """
    url = file.url
    name = "y" if label is None else str(label)
    with file.open() as stream, _archive(url, stream) as archive:
        members = sorted(m.removesuffix(".npy") for m in archive.namelist() if m.endswith(".npy"))
        listed = ", ".join(map(repr, members)) or "none"

        def layout(member: str) -> Layout:
            with archive.open(f"{member}.npy") as opened:
                return read_layout(opened, url, f"member {member!r}: ")

        y = layout(name) if name in members else None
        if y is None and require_label:
            raise InputError(f"{url}: no member {name!r} with the labels; the members are {listed}")
        X: Layout | None = None
        csr: tuple[Layout, ...] = ()
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
    if y is not None and np.dtype(y.dtype).kind not in "biufU":
        raise InputError(f"{url}: member {name!r}: found values of type {y.dtype}, expected numbers or text")
    check_columns(url, width, n_columns, fewer=X is None)
    columns = width if n_columns is None else n_columns
    return NpzSource(file, columns, None, piece_bytes, block_bytes, X, csr, y, name, n_rows)


def _csr_shape(archive: zipfile.ZipFile, url: str, members: list[str]) -> tuple[int, int]:
    """Shape of the CSR matrix in an archive, as ``scipy.sparse.save_npz`` writes it."""

    def small(member: str) -> np.ndarray:
        with archive.open(f"{member}.npy") as opened:
            try:
                return np.load(io.BytesIO(opened.read(4096)), allow_pickle=False)
            except ValueError as error:
                raise InputError(f"{url}: member {member!r}: not a .npy array: {error}") from error

    if "format" in members:
        value = small("format").item()
        kind = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
        if kind != "csr":
            raise InputError(f"{url}: found a sparse matrix of format {kind!r}, expected 'csr'")
    shape = small("shape")
    if shape.shape != (2,) or shape.dtype.kind not in "iu":
        raise InputError(f"{url}: member 'shape': found {shape.tolist()}, expected rows and columns")
    if shape[0] == 0:
        raise InputError(f"{url}: found no rows, expected at least one")
    return int(shape[0]), int(shape[1])


def _csr_layouts(url: str, layout: Callable[[str], Layout], n_rows: int) -> tuple[Layout, ...]:
    parts = {part: layout(part) for part in _CSR_PARTS}
    n_stored = parts["data"].shape[0] if parts["data"].shape else 0
    lengths = {"data": n_stored, "indices": n_stored, "indptr": n_rows + 1}
    for part, found in parts.items():
        kinds = "biuf" if part == "data" else "iu"
        if np.dtype(found.dtype).kind not in kinds or found.shape != (lengths[part],):
            raise InputError(
                f"{url}: member {part!r}: found {found.dtype} values of shape {found.shape}, expected "
                f"{'numbers' if part == 'data' else 'integers'} of shape {(lengths[part],)}"
            )
    return tuple(parts.values())


@contextmanager
def _archive(url: str, stream: IO[bytes]) -> Iterator[zipfile.ZipFile]:
    try:
        with zipfile.ZipFile(stream) as archive:
            yield archive
    except (zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"{url}: not a .npz archive, or a truncated one: {error}") from error


def _labels(member: _Member, start: int, stop: int) -> np.ndarray:
    raw = member.read(start, stop).reshape(-1)
    if raw.dtype.kind == "U":
        return raw.astype(object)
    y = raw.astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(y))
    if bad.size:
        raise InputError(
            f"{member.url}: row {start + bad[0] + 1} of member {member.name!r}: found {y[bad[0]]}, "
            "expected a finite number (the label)"
        )
    return y
