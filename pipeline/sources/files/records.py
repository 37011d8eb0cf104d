"""Records of text: lines, or those of CSV, in which quoted cells hold line ends; and blocks of whole records."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ikmap.arrays import Bools, Bytes, Int64s
from pipeline.errors import InputError
from pipeline.sources.files.limits import longest_row, reason

PLAIN, QUOTED, CLOSED = STATES = (0, 1, 2)
"""States of a place in CSV text, as the compiled loops number them: outside of quotes; within a quoted cell; right
behind a quote that ends one, unless another quote follows."""
NEWLINE = ord("\n")
_QUOTE = ord('"')


@dataclass(frozen=True)
class Quotes:
    """The rule by which quotes hold line ends in CSV text.

    A quote opens a cell only if the cell begins with it, and two within quotes stand for one, as for
    :func:`csv.reader`. Elsewhere, as in ``27" monitor``, a quote stands for itself.

    Parameters
    ----------
    delimiters : str
        Characters that may stand between columns.
    """

    delimiters: str

    def after(self, text: bytes, before: int = NEWLINE, state: int = PLAIN) -> int:
        """Return the state behind some text that begins in a state, behind a byte."""
        return self.after_each(np.frombuffer(text, dtype=np.uint8), before, (state,))[0]

    def after_each(self, codes: Bytes, before: int, states: Sequence[int]) -> tuple[int, ...]:
        """Return the states behind some text, as a read-only array, that begins in one of several states."""
        if not np.count_nonzero(codes == _QUOTE):
            return tuple(PLAIN if state == CLOSED and codes.size else state for state in states)
        # Numba takes its time to be imported: only quotes are worth it.
        from pipeline.sources.files import _quote_loops as loops

        behind = np.array(states, dtype=np.int64)
        loops.follow(codes, _opens(self.delimiters), before, behind)
        return tuple(behind.tolist())


def record_ends(text: bytes, quotes: Quotes | None, before: int = NEWLINE, state: int = PLAIN) -> Int64s:
    """Return the places behind the line ends of some text that end a record, int64.

    Parameters
    ----------
    quotes : Quotes or None
        Which quotes hold line ends; None: every line is a record.
    before : int
        The byte in front of the text.
    state : int
        State in which the text begins.
    """
    codes = np.frombuffer(text, dtype=np.uint8)
    if quotes is None or (state != QUOTED and b'"' not in text):
        return np.flatnonzero(codes == NEWLINE) + 1
    from pipeline.sources.files import _quote_loops as loops

    ends = np.empty(np.count_nonzero(codes == NEWLINE), dtype=np.int64)
    return ends[: loops.record_ends(codes, _opens(quotes.delimiters), before, state, ends)]


@lru_cache(maxsize=16)
def _opens(delimiters: str) -> Bools:
    """Return for each byte whether a quote behind it opens a cell."""
    opens = np.zeros(256, dtype=np.bool_)
    opens[[ord("\n"), ord("\r"), *(character.encode()[-1] for character in delimiters)]] = True
    return opens


class LongLine(Exception):
    """A line, or quoted text, is longer than a row may be; it begins after so many line ends of what was being read.

    Turned into an `InputError` by those who know the number of the line.

    Parameters
    ----------
    lines : int
    quoted : bool
        Whether a quote is open in it.
    """

    def __init__(self, lines: int, *, quoted: bool = False) -> None:
        super().__init__(lines)
        self.lines, self.quoted = lines, quoted

    def at(self, url: str, line: int) -> InputError:
        """The error, where what was being read begins in that line of the file."""
        where, limit = f"{url}: line {line + self.lines}", f"{longest_row():,} bytes{reason()}"
        if self.quoted:
            return InputError(
                f"{where}: found a quote, here or before, that is not closed within {limit}, expected quotes in pairs; "
                'write a cell that has a quote as "27"" monitor", or leave out all quotes: tr -d \'"\' < FILE > NEW'
            )
        return InputError(f"{where}: found a line longer than {limit}, expected text in lines")


def read_record(stream: io.BufferedReader, chunk: bytes = b"", *, quotes: Quotes | None, limit: int) -> bytes:
    """Return `chunk`, which begins with a record, and what follows it up to the end of the record.

    Parameters
    ----------
    quotes : Quotes or None
        Which quotes hold line ends; None: every line is a record.

    Raises
    ------
    LongLine
        What follows is longer than `limit` bytes.
    """
    parts = [chunk]
    begun = state = PLAIN if quotes is None else quotes.after(chunk)
    length = 0
    while state == QUOTED or not parts[-1].endswith(b"\n"):
        line = stream.readline(limit)
        length += len(line)
        if not line:
            break
        if quotes is not None:
            state = quotes.after(line, parts[-1][-1] if parts[-1] else NEWLINE, state)
        if length >= limit:
            begin = max(0, chunk.rfind(b'"')) if begun == QUOTED else len(chunk)
            raise LongLine(chunk.count(b"\n", 0, begin), quoted=QUOTED in (begun, state))
        parts.append(line)
    return b"".join(parts) if len(parts) > 2 or chunk else parts[-1]


def text_blocks(
    stream: io.BufferedReader,
    url: str,
    start: int,
    stop: int | None,
    size: int,
    *,
    line: int = 1,
    lines_before: Callable[[], int] = int,
    quotes: Quotes | None = None,
) -> Iterator[tuple[int, bytes]]:
    """Cut ``start .. stop - 1`` every `size` bytes; a record goes to the block in which it starts.

    Yields the number of the first line, and the text. Block k holds the whole records that start in bytes
    ``start + k size .. start + (k + 1) size - 1``, and is empty where a long one runs through. `stream` stands at
    `start`, or at the first record after it, whose line is counted as `line`.

    Parameters
    ----------
    lines_before : callable
        Gives the number of lines before those; asked in need only.
    quotes : Quotes or None
        Which quotes hold line ends; None: every line is a record.
    """
    position = stream.tell()
    begin = start
    limit = longest_row()
    while stop is None or begin < stop:
        end = begin + size if stop is None else min(begin + size, stop)
        text = b""
        if end > position:
            text = stream.read(end - position)
            if text:
                try:
                    text = read_record(stream, text, quotes=quotes, limit=limit)
                except LongLine as error:
                    raise error.at(url, line + lines_before()) from None
            elif stop is None and position <= begin:
                return
            position += len(text)
        yield line, text
        line += text.count(b"\n")
        begin = end
