"""Cut a text file into byte ranges that any process can read by itself, in CSV whatever line ends stand in quotes.

Where a record starts depends on all quotes before it. A survey counts the quotes and line ends of each stretch of the
file once; their sums tell whether a stretch begins inside quotes, and in which line. This is exact, not a guess: it
applies the rule by which :func:`~pipeline.sources.files.file.text_blocks` ends records.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from io import FileIO
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np

from pipeline.sources.files.file import File, text_blocks
from pipeline.sources.files.limits import MEBIBYTE
from pipeline.sources.files.read_ahead import read_ahead

TEXT_FRAGMENT_BYTES = 16 * MEBIBYTE
"""Aimed-at bytes of a range: several blocks, and several ranges for each worker even where a file is not very large."""
_PIECE = MEBIBYTE // 4
"""Bytes that are counted at a time: they stay in the cache of a processor."""
_SEARCH = 1 << 14
"""Bytes at a time in which the start of a record is looked for: it is nearly always in the first."""
_THREADS = 2
_QUOTE, _NEWLINE = ord('"'), ord("\n")


class TextRange(NamedTuple):
    """Some consecutive records of a file.

    Attributes
    ----------
    start : int
        Byte at which the first of them starts.
    stop : int or None
        Records that start before this byte belong to the range; None: all up to the end of the file.
    line : int
        1-based line of the first record.
    """

    start: int
    stop: int | None
    line: int


def is_divisible(file: File) -> bool:
    """Return whether ranges of the file can be read by themselves: it is local, and its bytes are those of the text."""
    return file.local and file.compression is None and file.encoding is None


def record_ranges(
    file: File, start: int, line: int, range_bytes: int, block_bytes: int, *, quotes: bool = True
) -> tuple[TextRange, ...]:
    """Cut the records of a text file into ranges of about `range_bytes` bytes.

    A file that is not larger, or not divisible, is one range. The survey is done once in a process for each state of
    the file.

    Parameters
    ----------
    start, line : int
        Byte and line of the first record.
    block_bytes : int
        Ranges end where a block of the whole file would: together they have the blocks of the file read as one.
    quotes : bool
        Whether records may have line ends in quotes, as those of CSV; without, each line is a record.
    """
    stretch = max(1, range_bytes // block_bytes) * block_bytes
    if not is_divisible(file) or file.size - start <= stretch:
        return (TextRange(start, None, line),)
    with file.open() as stream:
        modified = os.fstat(stream.fileno()).st_mtime_ns
    return _survey(file, modified, start, line, stretch, block_bytes, quotes)


def range_blocks(
    file: File, part: TextRange, data_start: int, block_bytes: int, *, quotes: bool = True
) -> Iterator[tuple[int, bytes]]:
    """Yield the line and the text of each block of a range, as :func:`~pipeline.sources.files.file.text_blocks` does.

    Parameters
    ----------
    data_start : int
        Byte of the first record of the file, from where blocks are measured.
    quotes : bool
        As of :func:`record_ranges`.
    """
    begin = part.start - (part.start - data_start) % block_bytes
    with file.open() as stream:
        stream.seek(part.start)
        blocks = text_blocks(stream, file.url, begin, part.stop, block_bytes, line=part.line, quotes=quotes)
        yield from blocks if is_divisible(file) else read_ahead(blocks)


@lru_cache(maxsize=256)
def _survey(
    file: File,
    modified: int,  # noqa: ARG001 - a file that was written anew is another one
    start: int,
    line: int,
    stretch: int,
    block_bytes: int,
    in_quotes: bool,
) -> tuple[TextRange, ...]:
    edges = [*range(start, file.size, stretch), file.size]
    # A failure to read becomes one line in `file.open`.
    with file.open(), open(file.path, "rb", buffering=0) as stream:
        with ThreadPoolExecutor(_THREADS) as pool:
            counts = list(pool.map(lambda begin, end: _count(file, begin, end), edges[:-1], edges[1:]))
        quotes, lines = (list(accumulate(column, initial=0)) for column in zip(*counts, strict=True))
        starts = [(start, line)]
        for k, (begin, end) in enumerate(pairwise(edges[1:]), start=1):
            # A stretch in which no record starts is part of the range before it.
            quoted = quotes[k] % 2 == 1 if in_quotes else None
            if (record := _first_record(stream, begin, end, quoted)) is not None:
                starts.append((record[0], line + lines[k] + record[1]))
    stops = [at - (at - start) % block_bytes for at, _ in starts[1:]]
    stops.append(file.size)
    return tuple(TextRange(at, stop, first) for (at, first), stop in zip(starts, stops, strict=True))


def _count(file: File, begin: int, end: int) -> tuple[int, int]:
    """Return the number of quotes and of line ends in bytes ``begin .. end - 1``."""
    quotes = lines = 0
    buffer = np.empty(min(_PIECE, end - begin), dtype=np.uint8)
    with open(file.path, "rb", buffering=0) as stream:
        stream.seek(begin)
        while begin < end and (n := stream.readinto(memoryview(buffer)[: end - begin])):
            quotes += int(np.count_nonzero(buffer[:n] == _QUOTE))
            lines += int(np.count_nonzero(buffer[:n] == _NEWLINE))
            begin += n
    return quotes, lines


def _first_record(stream: FileIO, begin: int, end: int, quoted: bool | None) -> tuple[int, int] | None:
    """Return the first byte in ``begin .. end - 1`` at which a record starts, and the number of line ends before it.

    `quoted` tells whether byte `begin` stands inside quotes; None: quotes mean nothing.
    """
    stream.seek(begin - 1)
    if stream.read(1) == b"\n" and not quoted:
        return begin, 0
    lines = 0
    # A record starts behind a line end, so that the last byte need not be looked at.
    while begin < end - 1 and (text := stream.read(min(_SEARCH, end - 1 - begin))):
        codes = np.frombuffer(text, dtype=np.uint8)
        quotes, line_ends = np.flatnonzero(codes == _QUOTE), np.flatnonzero(codes == _NEWLINE)
        if quoted is None:
            quotes = quotes[:0]
        outside = np.flatnonzero((np.searchsorted(quotes, line_ends) + bool(quoted)) % 2 == 0)
        if outside.size:
            return begin + int(line_ends[outside[0]]) + 1, lines + int(outside[0]) + 1
        quoted = None if quoted is None else quoted ^ (quotes.size % 2 == 1)
        lines += line_ends.size
        begin += len(text)
    return None
