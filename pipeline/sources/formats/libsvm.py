"""LIBSVM text: ``label [qid:N] index:value ... [# comment]``, one row a line."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice, pairwise
from typing import ClassVar

import numpy as np
import scipy.sparse as sp

from pipeline.errors import InputError
from pipeline.sources.columns.plan import Plan
from pipeline.sources.columns.raw_rows import RawRows
from pipeline.sources.columns.read_request import ReadRequest
from pipeline.sources.files import bzip2
from pipeline.sources.files.file import File
from pipeline.sources.files.limits import MEBIBYTE
from pipeline.sources.files.read_ahead import read_ahead
from pipeline.sources.files.records import text_blocks
from pipeline.sources.files.text_ranges import TEXT_FRAGMENT_BYTES, is_divisible
from pipeline.sources.formats import _libsvm_loops as loops
from pipeline.sources.formats.base import Fragment, row_fragments
from pipeline.sources.formats.libsvm_text import first_row
from pipeline.sources.formats.matrix import MatrixFile

_TOKEN = re.compile(rb"[^ \t\r\n#]*")
_NOT_FINITE = re.compile(rb"[+-]?(nan|inf|infinity)", re.IGNORECASE)


@dataclass(frozen=True)
class LibsvmFile(MatrixFile):
    """LIBSVM text: plain or in bzip2, fragments are byte ranges of the file; otherwise compressed, it is one fragment.

    So is bzip2 behind a URL: servers need not serve parts of files, and each fragment would fetch the blocks of others.
    """

    format: ClassVar[str] = "libsvm"
    knows_rows: ClassVar[bool] = False
    unit: ClassVar[str] = "line"
    FRAGMENT: ClassVar[int] = TEXT_FRAGMENT_BYTES
    BLOCK: ClassVar[int] = 8 * MEBIBYTE

    zero_based: bool = False
    data_start: ClassVar[int] = 0
    data_line: ClassVar[int] = 1

    @property
    def sparse(self) -> bool:
        return True

    def least_rows(self) -> int:
        with self.file.open() as stream:
            lines = stream.read(MEBIBYTE).split(b"\n")[:-1]
        return max(1, sum(1 for line in lines if line.strip() and not line.lstrip().startswith(b"#")))

    def fragments(self, plan: Plan) -> list[Fragment]:  # noqa: ARG002
        if self.file.compression == "bz2" and self.file.local:
            starts = bzip2.fragment_starts(self.file.size)
            if len(starts) > 2:
                return [Fragment(k, start, stop) for k, (start, stop) in enumerate(pairwise(starts))]
        if self.file.compression:
            return [Fragment(0, 0, None)]
        return row_fragments(self.file.size, self.fragment_bytes)

    def rows(self, fragment: Fragment, plan: Plan, skip: int = 0) -> Iterator[RawRows]:
        if self.file.compression and fragment.stop is not None:
            with bzip2.lines_of_fragment(self.file, fragment.start, fragment.stop) as stream:
                yield from self._blocks(stream, 0, None, fragment, plan, skip)
            return
        with self.file.open() as stream:
            _seek_line(stream, fragment.start)
            yield from self._blocks(stream, fragment.start, fragment.stop, fragment, plan, skip)

    def _blocks(
        self, stream: io.BufferedReader, start: int, stop: int | None, fragment: Fragment, plan: Plan, skip: int
    ) -> Iterator[RawRows]:
        """Blocks of the text ``start .. stop - 1`` of a stream, which is that of a fragment."""
        before = partial(self._lines_before, fragment)
        blocks = text_blocks(stream, self.file.url, start, stop, self.block_bytes, lines_before=before)
        # Decompression and a network are slow enough to be worth a thread of their own.
        ready = blocks if is_divisible(self.file) else read_ahead(blocks)
        for line, text in islice(ready, skip, None):
            yield self._parse(text, line, fragment, plan)

    def parse(self, text: bytes, line: int, plan: Plan) -> RawRows:
        """Rows of some whole lines, of which the first has that number."""
        return self._parse(text, line, Fragment(0, 0, None), plan)

    def _parse(self, text: bytes, line: int, fragment: Fragment, plan: Plan) -> RawRows:
        n_bytes = len(text)
        if n_bytes < 8 or not text.endswith(b"\n"):
            text = (text + b"\n").ljust(8, b"\n")
        codes = np.frombuffer(text, dtype=np.uint8)
        max_rows, max_pairs = loops.count(codes)
        y, data = np.empty(max_rows), np.empty(max_pairs)
        indptr, indices = np.empty(max_rows + 1, dtype=np.int32), np.empty(max_pairs, dtype=np.int32)
        # Room for every number; the system gives memory only to what is written.
        slow = np.empty((max_rows + max_pairs, 3), dtype=np.int32)
        limit = -1 if plan.n_columns is None else plan.n_columns
        rows, pairs, n_slow, width, fault, position, index = loops.parse(
            codes, self.zero_based, limit, y, indptr, indices, data, slow
        )
        place, starts, stops = slow[:n_slow].T
        values = np.array([float(text[a:b]) for a, b in zip(starts.tolist(), stops.tolist(), strict=True)])
        infinite = np.flatnonzero(~np.isfinite(values))
        if infinite.size:  # such as 1e400; it stands before whatever stopped the parser
            k = infinite[0]
            self._refuse(text, starts[k], line, fragment, plan, loops.BAD_LABEL if place[k] < 0 else loops.BAD_VALUE)
        if fault != loops.OK:
            self._refuse(text, position, line, fragment, plan, fault, index)
        data[place[place >= 0]] = values[place >= 0]
        y[-1 - place[place < 0]] = values[place < 0]
        shape = (rows, width if plan.n_columns is None else plan.n_columns)
        X = sp.csr_array((data[:pairs], indices[:pairs], indptr[: rows + 1]), shape=shape)
        return RawRows(X, y[:rows], line, n_bytes, line_of=partial(self._line_of, text, line, fragment))

    def _line_of(self, text: bytes, line: int, fragment: Fragment, row: int) -> int:
        """Return the line of a row of some text; asked in need only, as it counts the lines before the fragment."""
        rows = (k for k, part in enumerate(text.split(b"\n")) if part.strip() and not part.lstrip().startswith(b"#"))
        return line + self._lines_before(fragment) + next(islice(rows, row, None))

    def _refuse(
        self, text: bytes, position: int, line: int, fragment: Fragment, plan: Plan, fault: int, index: int = 0
    ) -> None:
        """Raise for the token at `position`; only now is it worth counting the lines before the fragment."""
        begin = text.rfind(b"\n", 0, position) + 1
        line += text.count(b"\n", 0, begin) + self._lines_before(fragment)
        match = _TOKEN.match(text, position)
        token = match.group() if match else b""
        shown_token = repr(token[:40] + (b"..." if len(token) > 40 else b""))[1:]
        where = f"{self.file.url}: line {line}, column {position - begin + 1}"
        finite = bool(_NOT_FINITE.fullmatch(token)) or _is_number(token)
        if fault == loops.BAD_LABEL:
            expected = "a finite number (the label)" if finite else "a number (the label)"
            raise InputError(f"{where}: found {shown_token}, expected {expected}")
        if fault == loops.BAD_VALUE:
            pair = text[begin:position].split()[-1].decode()  # "index:"
            expected = "a finite number" if finite else "a number"
            raise InputError(f"{where}: found {shown_token} for index {pair[:-1]}, expected {expected}")
        if fault == loops.BAD_PAIR:
            raise InputError(f"{where}: found {shown_token}, expected index:value")
        if fault == loops.BAD_QID:
            raise InputError(f"{where}: found {shown_token}, expected qid:N with a whole number N")
        if fault == loops.INDEX_ZERO:
            raise InputError(f"{where}: found index 0, expected indices from 1 on")
        if fault == loops.INDEX_ORDER:
            shown_token = token.partition(b":")[0].decode()
            raise InputError(f"{where}: found index {shown_token} after index {index}, expected ascending indices")
        if index > loops.MAX_INDEX:
            shown_token = token.partition(b":")[0].decode()[:40]
            raise InputError(f"{where}: found index {shown_token}, expected at most {loops.MAX_INDEX}")
        column = index + 1 if self.zero_based else index
        raise InputError(
            f"{self.file.url}: line {line}: column {column}, but the training data has {plan.n_columns} columns; "
            "give data with the same columns"
        )

    def _lines_before(self, fragment: Fragment) -> int:
        if fragment.start == 0:
            return 0
        lines = 1  # the one that runs into the fragment, or ends where it starts
        if self.file.compression:
            return lines + sum(text.count(b"\n") for text in bzip2.text_before(self.file, fragment.start))
        left = fragment.start - 1
        with self.file.open() as stream:
            while left and (chunk := stream.read(min(left, MEBIBYTE))):
                lines += chunk.count(b"\n")
                left -= len(chunk)
        return lines


def _seek_line(stream: io.BufferedReader, start: int) -> None:
    """Go to the first line that starts at `start` or after it."""
    if start:
        stream.seek(start - 1)
        while (part := stream.readline(MEBIBYTE)) and not part.endswith(b"\n"):
            pass


def _is_number(token: bytes) -> bool:
    """Return whether the token is a number too large for float64 (the only valid numbers that get here)."""
    try:
        return math.isinf(float(token))
    except ValueError:
        return False


def open_libsvm(file: File, request: ReadRequest) -> LibsvmFile:
    """Check that there is at least one row.

    Raises
    ------
    InputError
        If the text has blank and comment lines only.
    """
    if not first_row(file):
        raise InputError(f"{file.url}: found no rows, expected LIBSVM text")
    return LibsvmFile(file, request.sizes, request.n_columns, request.zero_based)
