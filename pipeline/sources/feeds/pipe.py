"""Text on a pipe: rows from standard input, parsed as they arrive."""

from __future__ import annotations

import io
import os
import select
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from ikmap.arrays import Int64s
from pipeline.errors import InputError
from pipeline.sources.columns.read_request import ReadRequest
from pipeline.sources.feeds.feed import TICK_SECONDS, Arrival, Feed
from pipeline.sources.files.compression import compression_of
from pipeline.sources.files.file import File
from pipeline.sources.files.limits import MEBIBYTE, longest_row
from pipeline.sources.files.recoded import as_utf8
from pipeline.sources.files.records import LongLine, Quotes, record_ends
from pipeline.sources.formats import Format, shown_formats
from pipeline.sources.formats.base import TextFile
from pipeline.sources.formats.csv import CsvTable
from pipeline.sources.formats.csv_text import BOM, DELIMITERS, SAMPLE_BYTES
from pipeline.sources.open import AUTO, format_by_content, format_of, requested_format
from pipeline.sources.source import Source
from pipeline.urls import Location

STANDARD_INPUT = "standard input"
TEXT_BYTES = MEBIBYTE
"""Text that is parsed at a time, where it arrives faster than that."""


@dataclass(frozen=True)
class Head(File):
    """The first records of a text that is still arriving, in place of the file that they would begin."""

    text: bytes = b""

    @contextmanager
    def open(self, *, scattered: bool = False) -> Iterator[io.BufferedReader]:  # noqa: ARG002
        stream: io.BufferedReader = io.BufferedReader(io.BytesIO(self.text))
        yield stream if self.encoding is None else as_utf8(stream, self.encoding, self.url)


class PipeFeed(Feed):
    """Rows of text from a file descriptor. Their columns are found from the first records, as with a file.

    Parameters
    ----------
    format : str
        Name of a format that can be read as it arrives, or "auto": by the first rows.
    request : ReadRequest
    head_rows : int
        Number of rows from which, at the latest, the columns are found.
    handle : int
        File descriptor; default: that of standard input.
    """

    replays = True

    def __init__(
        self,
        format: str,
        request: ReadRequest,
        head_rows: int,
        handle: int = 0,
    ) -> None:
        self.url = STANDARD_INPUT
        self._format, self._request = format, request
        self._head_rows, self._handle = head_rows, handle
        # Before the columns are found, any character that may divide them does.
        self._quotes = Quotes(request.csv.delimiter or DELIMITERS) if format in (AUTO, "csv") else None

    def arrivals(self, taken: Mapping[str, int]) -> Iterator[Arrival | None]:  # noqa: ARG002
        """Yield arrivals as :meth:`Feed.arrivals` does, from the first row on, whatever was taken in before."""
        records = self._records()
        head = b""
        for text in records:
            head += text or b""
            if text is None:
                yield None
            elif self._end_of_sample(head) is not None:
                break
        if not head:
            return
        source = self._open(head)
        file = cast("TextFile", source.files[0])
        encoding = source.files[0].file.encoding
        row, line, text = 1, file.data_line, self._as_utf8(head, encoding)[file.data_start :]
        while text != b"":
            if text is None:
                yield None
            else:
                block = file.parse(text, line, source.plan)
                rows = int(block.X.shape[0])
                if rows:
                    yield Arrival.of(source, self.url, row, block)
                row, line = row + rows, line + text.count(b"\n")
            text = next(records, b"")
            text = text and self._as_utf8(text, encoding)

    def _open(self, head: bytes) -> Source:
        """Return what the text holds."""
        text_format = self._format_of(head)
        if text_format.name != "csv":
            self._quotes = None
        sample = head[: self._end_of_sample(head)]
        file = Head(Location(self.url), "", False, len(sample), None, text=sample)
        request = self._request_like_known(self._request)
        opened = text_format.open(file, request)
        if isinstance(opened, CsvTable):
            self._quotes = opened.quotes
        if (encoding := opened.file.encoding) and encoding.lower().replace("_", "-").startswith(("utf-16", "utf-32")):
            raise InputError(
                f"{self.url}: found {encoding} text, expected an encoding in which a line end is one byte; recode it "
                f"on its way: iconv -f {encoding} -t utf-8"
            )
        return self._planned(self.url, opened, request)

    def _format_of(self, head: bytes) -> Format:
        """Return the format of text that begins so.

        Raises
        ------
        InputError
            It cannot be read as it arrives.
        """
        file = Head(Location(self.url), "", False, len(head), None, text=head)
        packed = compression_of(head)
        known = None if packed else format_of(file, requested_format(file, self._format, self._request.csv))
        if known is None or not known.streams:
            what = f"a .{packed} stream; decompress it on its way" if known is None else f"--format {known.name}"
            able = shown_formats(streams=True)
            raise InputError(f"{self.url}: found {what}, expected {able}")
        return known

    def _end_of_sample(self, head: bytes) -> int | None:
        """Return where the records end by which the columns are found; None: there are not yet as many.

        They depend on the text, not on how much of it has come by now.
        """
        ends = self._ends(head)
        ends = ends[ends > len(head) - len(head.lstrip(b"\r\n"))]
        behind = 0
        for k, end in enumerate(ends[: self._head_rows].tolist()):
            if k == 1:
                behind = end  # a header, however long, and a row
            elif k and end - behind >= SAMPLE_BYTES:
                return int(end)
        return int(ends[self._head_rows]) if ends.size > self._head_rows else None

    def _as_utf8(self, text: bytes, encoding: str | None) -> bytes:
        """Return text in an encoding as UTF-8."""
        return text if encoding is None else as_utf8(io.BytesIO(text), encoding, self.url).read()

    def _records(self) -> Iterator[bytes | None]:
        """Yield whole records as they arrive, at most about ``TEXT_BYTES`` at a time; None where there are none yet."""
        waiting = bytearray()
        last = time.monotonic()
        lines, looked = 1, 0  # number of the line that `waiting` begins with; bytes of it without the end of a record
        limit = longest_row()
        while True:
            try:
                ready = select.select([self._handle], [], [], TICK_SECONDS)[0]
                arrived = os.read(self._handle, TEXT_BYTES) if ready else b""
            except OSError as error:
                raise InputError(f"{self.url}: cannot be read: {error.strerror}") from error
            if ready and not arrived:
                break
            waiting += arrived
            if lines == 1 and self._format == AUTO and format_by_content(bytes(waiting[:8])):
                self._quotes = None
            # What was looked through in vain is not looked through again before there is twice as much.
            if len(waiting) < max(TEXT_BYTES, 2 * looked) and time.monotonic() - last < TICK_SECONDS:
                continue
            last = time.monotonic()
            ends = self._ends(bytes(waiting))
            end = int(ends[-1]) if ends.size else 0
            looked = 0 if end else len(waiting)
            if looked > limit:
                raise LongLine(0, quoted=self._quotes is not None and b"\n" in waiting).at(self.url, lines)
            yield bytes(waiting[:end]) or None
            lines += waiting.count(b"\n", 0, end)
            del waiting[:end]
        if waiting:
            yield bytes(waiting)

    def _ends(self, text: bytes) -> Int64s:
        """Return the places behind records, of text that begins with one."""
        mark = len(BOM) if text.startswith(BOM) else 0
        return record_ends(text[mark:], self._quotes) + mark
