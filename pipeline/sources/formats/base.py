"""The base of all formats of files: an opened file, its fragments, and the rows of a fragment in blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from ikmap.json_values import JsonObject
from pipeline.sources.columns.plan import Plan
from pipeline.sources.columns.raw_rows import RawRows
from pipeline.sources.columns.read_request import ReadRequest, Sizes
from pipeline.sources.files.file import File
from pipeline.sources.files.limits import MEBIBYTE
from pipeline.urls import Location

FRAGMENT_BYTES = 64 * MEBIBYTE
BLOCK_BYTES = 16 * MEBIBYTE


@dataclass(frozen=True)
class Fragment:
    """A unit of parallel work that knows its place, so that reading one does not depend on how many others there are.

    Attributes
    ----------
    number : int
        Of all fragments of the source, from 0.
    start : int
    stop : int or None
        Bytes, rows or groups of rows ``start .. stop - 1`` of the file, by format. None where the end is known only
        when it is reached (compressed text).
    file : int
        Number of its file among those of the source.
    first : int
        1-based line (text) at which it starts, where that is known.
    """

    number: int
    start: int
    stop: int | None
    file: int = 0
    first: int = 1


@dataclass(frozen=True)
class DataFile(ABC):
    """A file, opened: what it holds, how it is cut into fragments, and the rows of each.

    It is small, immutable and picklable: workers are sent it, and import the module of its class.

    Attributes
    ----------
    file : File
    sizes : Sizes
    """

    format: ClassVar[str]
    knows_rows: ClassVar[bool] = True
    """True if the file says how many rows it has."""
    unit: ClassVar[str] = "row"
    """Word for a row in messages: "line" in text, where a cell without a value is an empty one; else "row"."""
    FRAGMENT: ClassVar[int] = FRAGMENT_BYTES
    """Aimed-at bytes of the file in a fragment, where the request names no other number."""
    BLOCK: ClassVar[int] = BLOCK_BYTES
    """Aimed-at bytes of what is parsed at once, where the request names no other number."""

    file: File
    sizes: Sizes

    @property
    def fragment_bytes(self) -> int:
        """Aimed-at bytes of a fragment."""
        return self.sizes.fragment or self.FRAGMENT

    @property
    def block_bytes(self) -> int:
        """Aimed-at bytes of a block."""
        return self.sizes.block or self.BLOCK

    @property
    def url(self) -> Location:
        """Path or URL, as it was given."""
        return self.file.url

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns, where they have names."""
        return ()

    @property
    def sparse(self) -> bool:
        """True if its rows are sparse."""
        return False

    def said(self) -> str:
        """Return how the file is read, for people; empty: nothing had to be found out."""
        return ""

    def identity(self) -> JsonObject:
        """Return size and SHA-256 of a local file; size and version tag of a remote one."""
        return self.file.identity()

    @abstractmethod
    def plan(self, given: str, files: Sequence[DataFile], request: ReadRequest) -> Plan:
        """Return what rows of `files`, of which this is the first, are made of; `given` is what the user has named.

        Raises
        ------
        InputError
            The files lack a column, have one that cannot be read, or do not go together.
        """

    @abstractmethod
    def least_rows(self) -> int:
        """Return how many rows there are at least: all, where the file says how many, else those near its start."""

    @abstractmethod
    def fragments(self, plan: Plan) -> list[Fragment]:
        """Return independent units of work, in order; together they hold every row once."""

    @abstractmethod
    def rows(self, fragment: Fragment, plan: Plan, skip: int = 0) -> Iterator[RawRows]:
        """Yield blocks `skip`, `skip + 1`, ... of a fragment; the skipped ones are not parsed.

        Raises
        ------
        InputError
            On the first fault: file, line or row, column, what was found, what was expected.
        """


class TextFile(Protocol):
    """A file of text that can be parsed as it arrives.

    Attributes
    ----------
    data_start, data_line : int
        Byte and line at which the rows begin.
    """

    @property
    def data_start(self) -> int: ...
    @property
    def data_line(self) -> int: ...
    def parse(self, text: bytes, line: int, plan: Plan) -> RawRows:
        """Return the rows of some whole records, of which the first stands in that line."""


def row_fragments(n_rows: int, rows_per_fragment: int) -> list[Fragment]:
    """Return fragments of `rows_per_fragment` rows each; the last may have fewer."""
    starts = range(0, n_rows, rows_per_fragment)
    return [Fragment(i, start, min(start + rows_per_fragment, n_rows)) for i, start in enumerate(starts)]
