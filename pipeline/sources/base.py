"""What every format of files offers: an opened file, its fragments, and the rows of a fragment in blocks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
import scipy.sparse as sp

from ikmap.json_values import JsonObject
from ikmap.tables import ColumnPlan
from pipeline.errors import InputError
from pipeline.monitoring.plain_text import shown
from pipeline.sources.columns.plan import Plan
from pipeline.sources.columns.request import TableRequest
from pipeline.sources.files.file import File
from pipeline.sources.files.limits import MEBIBYTE
from pipeline.sources.formats.csv_text import CsvFormat
from pipeline.urls import Location

if TYPE_CHECKING:
    import pyarrow as pa

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


@dataclass(frozen=True, eq=False)
class RawRows:
    """Some consecutive rows.

    Attributes
    ----------
    X : float64 array (m, d) in C order, or csr_array (m, d) with sorted unique int32 column indices
        All values are finite. Where there are levels, X may be in Fortran order. For LIBSVM text without a given number
        of columns, d is that of this block.
        m can be 0 (a stretch of text in which no row starts).
    y : float64 array (m,), object array (m,) of str, or None where the source has no labels
    first_line : int
        1-based line (text) or row (other formats) at which the block starts: in the file, except in a LIBSVM
        fragment, where lines are counted from the start of the fragment.
    n_bytes : int
        Bytes of text after decompression, or of the decoded arrays.
    levels : tuple of (tuple of str or None), or None
        Of a table whose cells may be missing or words (:class:`ikmap.tables.RawTable`): the words of each column. X
        then has NaN and codes.
    url : str or None
        The file, where a source may have several.
    split_values : pair of float64 array (m,) and words or None, or None
        Values of the column by which rows are divided, as a column of a table: codes where there are words.
    ids : object or None
        What stands in the column that tells rows apart, as an Arrow array.
    weights : float64 array (m,), or None
        What stands in the column that says how much rows count: finite numbers >= 0.
    line_of : callable or None
        Function from a row of the block to its line, where rows are not a line each (text with blank lines, or line
        ends in quotes); None: lines follow each other.
    """

    X: np.ndarray | sp.csr_array
    y: np.ndarray | None
    first_line: int
    n_bytes: int
    levels: tuple[tuple[str, ...] | None, ...] | None = None
    url: str | None = None
    ids: pa.Array | None = None
    split_values: tuple[np.ndarray, tuple[str, ...] | None] | None = None
    weights: np.ndarray | None = None
    line_of: Callable[[int], int] | None = None

    def line(self, row: int) -> int:
        """Return the line (text) or row of a row of the block."""
        return self.first_line + row if self.line_of is None else self.line_of(row)


@dataclass(frozen=True)
class Sizes:
    """Aimed-at bytes of what a file is cut into; the cut depends on them and on the file, on nothing else.

    Attributes
    ----------
    fragment : int or None
        Bytes that a task reads; None: as many as suit the format.
    block : int or None
        Bytes that are parsed at once; None: as many as suit the format.
    """

    fragment: int | None = None
    block: int | None = None


@dataclass(frozen=True)
class ReadRequest:
    """What is known and wanted of the rows of files before these are opened.

    Attributes
    ----------
    label : str or int, optional
        Label column of a table by name or position (negative ones count from the end); of .npz the member with the
        labels (default "y"). Without it: the column named label, target, class or y, else - in a table without names -
        the last. LIBSVM text has its label in front, idx files in a file beside them.
    require_label : bool
        If False, files may come without labels; their blocks then have ``y = None``.
    columns : tuple of ColumnPlan, int, or None
        The feature columns that there must be, such as those of the training data: by name, others are left alone; or
        so many numbers (of sparse rows: at most).
    count : int, optional
        How many feature columns there must be, of whatever kind.
    zero_based : bool
        LIBSVM indices count from 0 instead of 1.
    csv : CsvFormat
        What is known of CSV text.
    table : TableRequest
        What is wanted of a table.
    sizes : Sizes
    partition : tuple of (str, str or None)
        Columns that the names of the file's folders give, such as ``year=2001``; None where the value is missing.
    """

    label: str | int | None = None
    require_label: bool = True
    columns: tuple[ColumnPlan, ...] | int | None = None
    count: int | None = None
    zero_based: bool = False
    csv: CsvFormat = field(default_factory=CsvFormat)
    table: TableRequest = field(default_factory=TableRequest)
    sizes: Sizes = field(default_factory=Sizes)
    partition: tuple[tuple[str, str | None], ...] = ()

    @property
    def n_columns(self) -> int | None:
        """How many feature columns there must be."""
        if self.columns is None:
            return self.count
        return self.columns if isinstance(self.columns, int) else len(self.columns)

    def like(self, plan: Plan) -> ReadRequest:
        """Return the request for files that must have the columns of others, such as those of the training data."""
        columns = plan.each if plan.request is not None else plan.n_columns
        table = replace(self.table, plan={}, categories=(), drop=(), split_column=None)
        return replace(self, columns=columns, count=None, table=table)


@dataclass(frozen=True)
class DataFile(ABC):
    """A file, opened: what it holds, how it is cut into fragments, and the rows of each. Small, immutable, picklable.

    Attributes
    ----------
    file : File
    sizes : Sizes
    """

    format: ClassVar[str]
    knows_rows: ClassVar[bool] = True
    """Whether the file says how many rows it has."""
    unit: ClassVar[str] = "row"
    """What a row is called in messages: a line of text, or a row."""
    FRAGMENT: ClassVar[int] = FRAGMENT_BYTES
    BLOCK: ClassVar[int] = BLOCK_BYTES
    """Bytes of a fragment and of a block, where nothing else is wanted."""

    file: File
    sizes: Sizes

    @property
    def fragment_bytes(self) -> int:
        """Bytes of a fragment."""
        return self.sizes.fragment or self.FRAGMENT

    @property
    def block_bytes(self) -> int:
        """Bytes of a block."""
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
        """Whether its rows are sparse."""
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
    """Pieces of `rows_per_fragment` rows; the last may be shorter."""
    starts = range(0, n_rows, rows_per_fragment)
    return [Fragment(i, start, min(start + rows_per_fragment, n_rows)) for i, start in enumerate(starts)]


def check_columns(url: str, found: int, expected: int | None, *, fewer: bool = False) -> None:
    """Refuse a file whose number of feature columns differs; `fewer` lets a sparse file leave some out."""
    if found == 0:
        raise InputError(f"{url}: found no feature columns beside the label, expected at least one")
    if expected is not None and (found > expected or (found < expected and not fewer)):
        raise InputError(
            f"{url}: found {found} feature columns, but the training data has {expected}; give data "
            "with the same columns"
        )


def other_columns(url: str, names: Sequence[str], expected: Sequence[str]) -> str:
    """Say in what the names of columns differ."""
    for number, (name, wanted) in enumerate(zip(names, expected, strict=False), start=1):
        if name != wanted:
            return f"{url}: column {number}: found {shown(name)}, expected {shown(wanted)} as in the training data"
    return f"{url}: found {len(names)} columns, expected {len(expected)} as in the training data"
