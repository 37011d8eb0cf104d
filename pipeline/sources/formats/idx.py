"""Idx files, as MNIST and its relatives are distributed: images in one file, their labels in another beside it."""

from __future__ import annotations

import math
import os
import re
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO, ClassVar

import numpy as np

from ikmap.arrays import Floats
from ikmap.json_values import JsonObject
from pipeline.errors import InputError
from pipeline.sources.columns.checks import check_columns
from pipeline.sources.columns.plan import Plan
from pipeline.sources.columns.raw_rows import RawRows
from pipeline.sources.columns.read_request import ReadRequest
from pipeline.sources.files.compression import ENDINGS, without_ending
from pipeline.sources.files.file import File, find_file, joint_identity
from pipeline.sources.formats.base import Fragment, row_fragments
from pipeline.sources.formats.matrix import MatrixFile
from pipeline.sources.formats.npy import NpyLayout, check_matrix, finite, rows_per_block

TYPES = {8: "|u1", 9: "|i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
"""Types of values, by the third byte of a file; the first two are zero, and the fourth counts the dimensions."""
_OWN_ENDING = re.compile(r"[-._]idx\d?(-\w+)?$", re.IGNORECASE)
_LARGEST = 1 << 62


@dataclass(frozen=True)
class IdxFile(MatrixFile):
    """Rows of an array of two or more dimensions, each flattened to columns.

    Attributes
    ----------
    layout : NpyLayout
        Of the flattened array.
    labels : File or None
    label_layout : NpyLayout or None
    """

    format: ClassVar[str] = "idx"

    layout: NpyLayout
    labels: File | None
    label_layout: NpyLayout | None

    def identity(self) -> JsonObject:
        if self.labels is None:
            return self.file.identity()
        return joint_identity([self.file.identity(), self.labels.identity()], self.file.size + self.labels.size)

    def least_rows(self) -> int:
        return self.layout.shape[0]

    def fragments(self, plan: Plan) -> list[Fragment]:  # noqa: ARG002
        n_rows, width = self.layout.shape
        if self.file.compression:
            return [Fragment(0, 0, n_rows)]
        per_block = rows_per_block(self.block_bytes, width)
        return row_fragments(n_rows, per_block * max(1, self.fragment_bytes // self.block_bytes))

    def rows(self, fragment: Fragment, plan: Plan, skip: int = 0) -> Iterator[RawRows]:  # noqa: ARG002
        assert fragment.stop is not None
        per_block = rows_per_block(self.block_bytes, self.layout.shape[1])
        with ExitStack() as stack:
            stream = stack.enter_context(self.file.open())
            labels = None if self.labels is None else stack.enter_context(self.labels.open())
            for start in range(fragment.start + skip * per_block, fragment.stop, per_block):
                stop = min(start + per_block, fragment.stop)
                raw = self.layout.read(stream, self.file.url, start, stop)
                yield RawRows(finite(raw, self.file.url, start), self._y(labels, start, stop), start + 1, raw.nbytes)
            if fragment.stop == self.layout.shape[0]:
                _refuse_more(self.file, self.layout, stream)
                if self.labels is not None and self.label_layout is not None and labels is not None:
                    _refuse_more(self.labels, self.label_layout, labels)

    def _y(self, stream: IO[bytes] | None, start: int, stop: int) -> Floats | None:
        if stream is None or self.labels is None or self.label_layout is None:
            return None
        raw = self.label_layout.read(stream, self.labels.url, start, stop)
        return finite(raw.reshape(-1, 1), self.labels.url, start, 0)[:, 0]


def open_idx(file: File, request: ReadRequest) -> IdxFile:
    """Read the headers of an idx file and of the file with its labels, which is found by its name.

    Raises
    ------
    InputError
        If one is no idx file or has other bytes than its header says, or if labels are missing or do not fit.
    """
    url, names = file.url, label_urls(file.url.place)
    shape, layout = _open_layout(file)
    if len(shape) == 1:
        raise InputError(
            f"{url}: found one number a row, as in a file of labels, expected images; give the file with the "
            "images, and the labels are found beside it"
        )
    layout = NpyLayout(
        (shape[0], math.prod(shape[1:])), layout.dtype, False, layout.offset, layout.kind, layout.item_bytes
    )
    check_matrix(layout, url, "")
    if request.label is not None and request.require_label:
        raise InputError(
            f"{url}: --label {request.label}: the labels of idx files are found in {names[0]}; leave --label out"
        )
    labels = _label_file(names)
    if labels is None and request.require_label:
        raise InputError(f"{url}: found no labels, expected them beside it in {names[0]}, compressed or not")
    of_labels = None
    if labels is not None:
        label_shape, of_labels = _open_layout(labels)
        if math.prod(label_shape[1:]) != 1:
            raise InputError(f"{labels.url}: found the shape {label_shape}, expected one label a row")
        if label_shape[0] != shape[0]:
            raise InputError(
                f"{labels.url}: found {label_shape[0]:,} labels, expected {shape[0]:,}, one for each row of {url}"
            )
    check_columns(url, layout.shape[1], request.n_columns)
    return IdxFile(file, request.sizes, layout.shape[1], layout, labels, of_labels)


def label_urls(url: str) -> list[str]:
    """Return where the labels of a file of images may be: with "labels" for "images" in its name, compressed or not."""
    folder, slash, packed = url.rpartition("/")
    name = without_ending(packed)
    ending = packed[len(name) :]
    own = endings.start() if (endings := _OWN_ENDING.search(name)) else len(name)
    stem = name[:own]
    stem = re.sub("images", "labels", stem) if "images" in stem else f"{stem}-labels"
    plain = folder + slash + stem + re.sub(r"idx\d", "idx1", name[own:])
    return [plain + end for end in dict.fromkeys((ending, "", *ENDINGS))]


def _label_file(urls: list[str]) -> File | None:
    for url in urls:
        if "://" in url:
            try:
                return find_file(url)
            except InputError:
                continue
        if os.path.exists(os.path.expanduser(url)):
            return find_file(url)
    return None


def _open_layout(file: File) -> tuple[tuple[int, ...], NpyLayout]:
    """Read the header of an idx file: the shape, and where its values lie."""
    with file.open() as stream:
        start = stream.read(4)
        dtype = TYPES.get(start[2]) if len(start) == 4 and start[:2] == b"\0\0" else None
        if dtype is None or start[3] == 0:
            raise InputError(
                f"{file.url}: not an idx file: it starts with {start!r}, expected two zeros, a type and the dimensions"
            )
        sizes = stream.read(4 * start[3])
    if len(sizes) < 4 * start[3]:
        raise InputError(f"{file.url}: truncated: found {4 + len(sizes)} bytes, expected {start[3]} dimensions")
    shape = struct.unpack(f">{start[3]}I", sizes)
    kind = np.dtype(dtype)
    if math.prod(shape) * kind.itemsize >= _LARGEST:
        raise InputError(f"{file.url}: found the shape {shape[:6]}, expected an array that a file can hold")
    layout = NpyLayout(shape, dtype, False, 4 + len(sizes), kind.kind, kind.itemsize)
    if file.compression is None and file.size != layout.n_bytes:
        what = "truncated" if file.size < layout.n_bytes else "damaged"
        raise InputError(
            f"{file.url}: {what}: found {file.size} bytes, expected {layout.n_bytes} for the shape {shape}"
        )
    return shape, layout


def _refuse_more(file: File, layout: NpyLayout, stream: IO[bytes]) -> None:
    """Refuse what follows the last value. Of a compressed file this also verifies its checksum, which is at its end."""
    stream.seek(layout.n_bytes)
    if stream.read(1):
        raise InputError(f"{file.url}: damaged: found more bytes than the {layout.n_bytes} of the shape in its header")
