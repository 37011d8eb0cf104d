"""Cut a text file into byte ranges that any process can read by itself, in CSV whatever line ends stand in quotes.

Where a record starts depends on all quotes before it. A survey looks once at each stretch of the file, for the number
of its line ends, and for the state behind it (:data:`~pipeline.sources.files.records.STATES`) as it depends on the
state in front of it. Together they tell in which line a stretch begins, and whether within quotes. This is exact, not a
guess: it applies the rule by which :func:`~pipeline.sources.files.records.text_blocks` ends records.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache, partial
from io import FileIO
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from pipeline.sources.files.file import File
from pipeline.sources.files.limits import MEBIBYTE
from pipeline.sources.files.read_ahead import read_ahead
from pipeline.sources.files.records import NEWLINE, PLAIN, QUOTED, STATES, Quotes, record_ends, text_blocks

TEXT_FRAGMENT_BYTES = 16 * MEBIBYTE
"""Aimed-at bytes of a range: several blocks, and several ranges for each worker even where a file is not very large."""
_PIECE = MEBIBYTE // 4
"""Bytes that are looked at at a time: they stay in the cache of a processor."""
_SEARCH = 1 << 14
"""Bytes at a time in which the start of a record is looked for: it is nearly always in the first."""
_THREADS = 2


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
    file: File, start: int, line: int, range_bytes: int, block_bytes: int, *, quotes: Quotes | None
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
    quotes : Quotes or None
        Which quotes hold line ends; None: every line is a record.
    """
    stretch = max(1, range_bytes // block_bytes) * block_bytes
    if not is_divisible(file) or file.size - start <= stretch:
        return (TextRange(start, None, line),)
    with file.open() as stream:
        modified = os.fstat(stream.fileno()).st_mtime_ns
    return _survey(file, modified, start, line, stretch, block_bytes, quotes)


def range_blocks(
    file: File, part: TextRange, data_start: int, block_bytes: int, *, quotes: Quotes | None
) -> Iterator[tuple[int, bytes]]:
    """Yield line and text of each block of a range, as :func:`~pipeline.sources.files.records.text_blocks` does.

    Parameters
    ----------
    data_start : int
        Byte of the first record of the file, from where blocks are measured.
    quotes : Quotes or None
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
    quotes: Quotes | None,
) -> tuple[TextRange, ...]:
    edges = [*range(start, file.size, stretch), file.size]
    # A failure to read becomes one line in `file.open`.
    with file.open(), open(file.path, "rb", buffering=0) as stream:
        with ThreadPoolExecutor(_THREADS) as pool:
            looks = list(pool.map(partial(_look, file, quotes, start), edges[:-1], edges[1:]))
        starts, state, lines = [(start, line)], PLAIN, line
        for (begin, end), (behind, n_lines) in zip(pairwise(edges[1:]), looks, strict=False):
            state, lines = behind[state], lines + n_lines
            # A stretch in which no record starts is part of the range before it.
            if (record := _first_record(stream, begin, end, state, quotes)) is not None:
                starts.append((record[0], lines + record[1]))
    stops = [at - (at - start) % block_bytes for at, _ in starts[1:]]
    stops.append(file.size)
    return tuple(TextRange(at, stop, first) for (at, first), stop in zip(starts, stops, strict=True))


def _look(file: File, quotes: Quotes | None, start: int, begin: int, end: int) -> tuple[tuple[int, ...], int]:
    """Return the states behind bytes ``begin .. end - 1``, one for each state in front of them, and their line ends.

    Parameters
    ----------
    start : int
        Byte of the first record, in front of which stands no part of another one.
    """
    states: tuple[int, ...] = STATES
    lines, before = 0, NEWLINE
    buffer = np.empty(min(_PIECE, end - begin), dtype=np.uint8)
    with open(file.path, "rb", buffering=0) as stream:
        stream.seek(max(start, begin - 1))
        if begin > start:
            before = stream.read(1)[0]
        while begin < end and (n := stream.readinto(memoryview(buffer)[: end - begin])):
            piece = buffer[:n]
            piece.flags.writeable = False
            lines += int(np.count_nonzero(piece == NEWLINE))
            if quotes is not None:
                states = quotes.after_each(piece, before, states)
            begin, before = begin + n, int(piece[-1])
    return states, lines


def _first_record(stream: FileIO, begin: int, end: int, state: int, quotes: Quotes | None) -> tuple[int, int] | None:
    """Return the first byte in ``begin .. end - 1`` at which a record starts, and the number of line ends before it.

    Parameters
    ----------
    state : int
        State in front of byte `begin`.
    """
    stream.seek(begin - 1)
    before, lines = stream.read(1)[0], 0
    if before == NEWLINE and state != QUOTED:
        return begin, 0
    # A record starts behind a line end, so that the last byte need not be looked at.
    while begin < end - 1 and (text := stream.read(min(_SEARCH, end - 1 - begin))):
        ends = record_ends(text, quotes, before, state)
        if ends.size:
            return begin + int(ends[0]), lines + text.count(b"\n", 0, int(ends[0]))
        if quotes is not None:
            state = quotes.after(text, before, state)
        lines += text.count(b"\n")
        begin, before = begin + len(text), text[-1]
    return None
