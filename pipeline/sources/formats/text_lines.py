"""The base of tables of text: records that are cut into byte ranges; and files in which every line is a record."""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import ClassVar

from pipeline.sources.columns.plan import Plan
from pipeline.sources.columns.raw_rows import ColumnBlock, RawRows
from pipeline.sources.columns.rows import Wanted, rows_of, wanted_of
from pipeline.sources.files.limits import MEBIBYTE, longest_row
from pipeline.sources.files.records import LongLine, Quotes, read_record
from pipeline.sources.files.text_ranges import TEXT_FRAGMENT_BYTES, TextRange, range_blocks, record_ranges
from pipeline.sources.formats.base import Fragment
from pipeline.sources.formats.inferred_types import InferredTable
from pipeline.sources.formats.table_file import TableFile


@dataclass(frozen=True)
class TextTable(TableFile):
    """A table of text, whose fragments are byte ranges, and whose records can be parsed as they arrive.

    Attributes
    ----------
    data_start, data_line : int
        Byte and line at which the rows begin.
    """

    knows_rows: ClassVar[bool] = False
    unit: ClassVar[str] = "line"
    FRAGMENT: ClassVar[int] = TEXT_FRAGMENT_BYTES
    BLOCK: ClassVar[int] = 4 * MEBIBYTE
    """A cell takes at least two bytes of text and becomes eight: 16 MiB dense at most."""

    data_start: int
    data_line: int

    @property
    @abstractmethod
    def quotes(self) -> Quotes | None:
        """Which quotes hold line ends; None where every line is a record."""

    @abstractmethod
    def block(self, text: bytes, line: int, wanted: Wanted) -> ColumnBlock:
        """Return the rows of some whole records, of which the first stands in that line.

        Raises
        ------
        InputError
        """

    def fragments(self, plan: Plan) -> list[Fragment]:  # noqa: ARG002
        ranges = record_ranges(
            self.file, self.data_start, self.data_line, self.fragment_bytes, self.block_bytes, quotes=self.quotes
        )
        return [Fragment(k, start, stop, first=line) for k, (start, stop, line) in enumerate(ranges)]

    def blocks(self, fragment: Fragment, wanted: Wanted, skip: int) -> Iterator[ColumnBlock]:
        part = TextRange(fragment.start, fragment.stop, fragment.first)
        blocks = range_blocks(self.file, part, self.data_start, self.block_bytes, quotes=self.quotes)
        for line, text in islice(blocks, skip, None):
            yield self.block(text, line, wanted)

    def parse(self, text: bytes, line: int, plan: Plan) -> RawRows:
        """Return the rows of some whole records, of which the first stands in that line."""
        wanted = wanted_of(self, plan)
        return rows_of(self, self.block(text, line, wanted), wanted, plan)


@dataclass(frozen=True)
class LinesTable(TextTable, InferredTable):
    """A table of text with a record in each line that is not blank.

    Attributes
    ----------
    first_rows : int
        Rows near the start of the file.
    """

    first_rows: int

    @property
    def quotes(self) -> None:
        return None

    def least_rows(self) -> int:
        return self.first_rows


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
        return read_record(stream, text, quotes=None, limit=longest_row())
    except LongLine as error:
        raise error.at(url, line) from None


def line_of_row(lines: Sequence[int], first: int) -> partial[int]:
    """Return the function from a row of a block to its line, by the lines of its rows, counted from the first."""
    return partial(_line, lines, first)


def _line(lines: Sequence[int], first: int, row: int) -> int:
    return first + (lines[row] if row < len(lines) else row)
