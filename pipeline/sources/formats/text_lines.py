"""What text has in common whose every line is a record, JSON lines and ARFF: byte ranges as fragments."""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import ClassVar

from pipeline.sources.base import Fragment
from pipeline.sources.columns.plan import Plan
from pipeline.sources.columns.rows import Wanted
from pipeline.sources.files.file import LongLine, read_record
from pipeline.sources.files.limits import MEBIBYTE, longest_row
from pipeline.sources.files.text_ranges import TEXT_FRAGMENT_BYTES, TextRange, range_blocks, record_ranges
from pipeline.sources.formats.inferred_types import InferredTable
from pipeline.sources.formats.table_file import Block


@dataclass(frozen=True)
class LinesTable(InferredTable):
    """A file of text with a record in each line that is not blank.

    Attributes
    ----------
    data_start, data_line : int
        Byte and line at which the rows begin.
    first_rows : int
        Rows near the start of the file.
    """

    knows_rows: ClassVar[bool] = False
    unit: ClassVar[str] = "line"
    FRAGMENT: ClassVar[int] = TEXT_FRAGMENT_BYTES
    BLOCK: ClassVar[int] = 4 * MEBIBYTE

    data_start: int
    data_line: int
    first_rows: int

    @abstractmethod
    def block(self, text: bytes, line: int, wanted: Wanted) -> Block:
        """Return the rows of some whole lines, of which the first has that number.

        Raises
        ------
        InputError
        """

    def least_rows(self) -> int:
        return self.first_rows

    def fragments(self, plan: Plan) -> list[Fragment]:  # noqa: ARG002
        ranges = record_ranges(
            self.file, self.data_start, self.data_line, self.fragment_bytes, self.block_bytes, quotes=False
        )
        return [Fragment(k, start, stop, first=line) for k, (start, stop, line) in enumerate(ranges)]

    def blocks(self, fragment: Fragment, wanted: Wanted, skip: int) -> Iterator[Block]:
        part = TextRange(fragment.start, fragment.stop, fragment.first)
        blocks = range_blocks(self.file, part, self.data_start, self.block_bytes, quotes=False)
        for line, text in islice(blocks, skip, None):
            yield self.block(text, line, wanted)


def first_lines(stream: io.BufferedReader, url: str, line: int) -> bytes:
    """Return the next whole lines of a file, about a MiB, of which the first has that number.

    Raises
    ------
    InputError
        The first line is longer than a row may be.
    """
    text = stream.read(MEBIBYTE)
    if len(text) < MEBIBYTE:
        return text
    if end := text.rfind(b"\n") + 1:
        return text[:end]
    try:
        return read_record(stream, text, quotes=False, limit=longest_row())
    except LongLine as error:
        raise error.at(url, line, False) from None


def line_of_row(lines: Sequence[int], first: int) -> partial[int]:
    """Return the function from a row of a block to its line, by the lines of its rows, counted from the first."""
    return partial(_line, lines, first)


def _line(lines: Sequence[int], first: int, row: int) -> int:
    return first + (lines[row] if row < len(lines) else row)
