"""Read bzip2 from the middle of a file: find the marks at which blocks begin, and decompress each block by itself.

Each block has a checksum, which is verified. That of the whole stream is not: no fragment sees it all.
"""

from __future__ import annotations

import bz2
import io
from collections.abc import Iterator

from pipeline.sources.files.file import File
from pipeline.sources.files.limits import MEBIBYTE

LEAST_BYTES, MOST_BYTES = MEBIBYTE // 2, 8 * MEBIBYTE
"""Compressed bytes of a fragment. Each decompresses a block (900 kB of text) more than it has, to end a line."""
FRAGMENTS = 16
"""Number of fragments of a file that is neither small nor large."""

_MARK_BITS = 48
_BLOCK, _END = 0x314159265359, 0x177245385090
_CHAINED = 3
"""Marks in the data of a block are random, one in 2^48 bits: two in one block are not believed."""


def fragment_starts(size: int) -> list[int]:
    """Return the cuts of a file of `size` bytes: the first byte of each fragment, and `size`."""
    n = max(1, min(FRAGMENTS, size // LEAST_BYTES), -(-size // MOST_BYTES))
    return [k * size // n for k in range(n + 1)]


def lines_of_fragment(file: File, start: int, stop: int) -> io.BufferedReader:
    """Text of the lines of a fragment: those that follow the end of a line in its blocks; of the first also the first.

    A block belongs to the fragment in which its mark begins.
    """
    return io.BufferedReader(_Text(_lines(file, start, stop)), MEBIBYTE)


def text_before(file: File, start: int) -> Iterator[bytes]:
    """Text of the blocks that belong to earlier fragments."""
    for at, text in _blocks(file, 0):
        if at >= start:
            return
        yield text


def _lines(file: File, start: int, stop: int) -> Iterator[bytes]:
    begun = start == 0
    for at, text in _blocks(file, start):
        if at >= stop:  # of the next fragment, whose first line it leaves to us
            if not begun:
                return
            end = text.find(b"\n") + 1
            yield text[:end] if end else text
            if end:
                return
        elif begun:
            yield text
        elif end := text.find(b"\n") + 1:
            begun = True
            yield text[end:]


class _Text(io.RawIOBase):
    """A stream of the bytes that a generator yields."""

    def __init__(self, texts: Iterator[bytes]) -> None:
        self._texts, self._left, self._position = texts, memoryview(b""), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._left:
            following = next(self._texts, None)
            if following is None:
                return 0
            self._left = memoryview(following)
        n = min(len(buffer), len(self._left))
        buffer[:n], self._left = self._left[:n], self._left[n:]
        self._position += n
        return n

    def tell(self) -> int:
        return self._position


def _blocks(file: File, start: int) -> Iterator[tuple[int, bytes]]:
    """Byte at which it begins, and text, of every block from byte `start` on.

    Raises
    ------
    EOFError
        If the file stops in the middle.
    OSError
        If the data are damaged.
    """
    with file.open_compressed() as raw:
        raw.seek(start)
        data, offset = b"", start  # `data` begin at byte `offset`
        marks: list[tuple[int, bool]] = []  # bits from there, and whether a block begins
        if start == 0 and raw.peek(10)[4:10] not in (_BLOCK.to_bytes(6), _END.to_bytes(6)):
            raise OSError("Invalid data stream")
        ended = False
        while True:
            while not ended and len(marks) <= _CHAINED:
                more = raw.read(MEBIBYTE)
                ended = not more
                data += more
                marks = _marks(data)
            if not marks:
                return
            if not marks[0][1]:
                del marks[0]
                continue
            if len(marks) == 1:
                raise EOFError("a block without an end")
            text, used = _decompress(data, marks)
            yield offset + marks[0][0] // 8, text
            cut = marks[used][0] // 8
            data, offset = data[cut:], offset + cut
            marks = [(bit - 8 * cut, begins) for bit, begins in marks[used:]]


def _decompress(data: bytes, marks: list[tuple[int, bool]]) -> tuple[bytes, int]:
    """Text of the block at the first mark, and the number of the mark where it ends: nearly always the next."""
    begin = marks[0][0]
    for k in range(1, min(len(marks), _CHAINED)):
        bits = _bits(data, begin, marks[k][0])
        n = marks[k][0] - begin
        crc = bits >> (n - _MARK_BITS - 32) & 0xFFFFFFFF
        # A stream of this block alone: its checksum is the block's.
        stream, n = (bits << 80) | (_END << 32) | crc, n + 80
        padding = -n % 8
        decompressor = bz2.BZ2Decompressor()
        try:
            text = decompressor.decompress(b"BZh9" + (stream << padding).to_bytes((n + padding) // 8))
        except OSError:
            continue
        if decompressor.eof:
            return text, k
    raise OSError("Invalid data stream")


def _bits(data: bytes, begin: int, end: int) -> int:
    """Bits ``begin .. end - 1`` as a number."""
    last = -(-end // 8)
    return (int.from_bytes(data[begin // 8 : last]) >> (8 * last - end)) & ((1 << (end - begin)) - 1)


def _marks(data: bytes) -> list[tuple[int, bool]]:
    """Bits at which marks begin, ascending, and whether that of a block."""
    marks = []
    for mark in (_BLOCK, _END):
        for shift in range(8):
            # The bytes that the mark fills whole when it begins `shift` bits into a byte.
            whole = (mark << (8 - shift)).to_bytes(7)[1:6]
            at = data.find(whole)
            while at >= 0:
                bit = 8 * (at - 1) + shift
                if bit >= 0 and bit + _MARK_BITS <= 8 * len(data) and _bits(data, bit, bit + _MARK_BITS) == mark:
                    marks.append((bit, mark == _BLOCK))
                at = data.find(whole, at + 1)
    return sorted(marks)
