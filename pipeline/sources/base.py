"""What every reader offers: a source, its fragments, and the blocks of a fragment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import scipy.sparse as sp

from ikmap.json_values import JsonObject
from ikmap.tables import ColumnPlan
from pipeline.errors import InputError
from pipeline.sources.files.file import File
from pipeline.sources.files.limits import MEBIBYTE

if TYPE_CHECKING:
    import pyarrow as pa

FRAGMENT_BYTES = 64 * MEBIBYTE
BLOCK_BYTES = 16 * MEBIBYTE
WIDE = 8192
"""A table with so many columns is wide: what is done for each column, not for each cell, is what takes long."""


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
        The file, where a source has several.
    kept : pair of float64 array (m,) and words or None, or None
        Values of the column by which rows are divided, as a column of a table: codes where there are words.
    ids : object or None
        What stands in the column that tells rows apart, as an Arrow array.
    weights : float64 array (m,), or None
        What stands in the column that says how much rows count: finite numbers >= 0.
    """

    X: np.ndarray | sp.csr_array
    y: np.ndarray | None
    first_line: int
    n_bytes: int
    levels: tuple[tuple[str, ...] | None, ...] | None = None
    url: str | None = None
    ids: pa.Array | None = None
    kept: tuple[np.ndarray, tuple[str, ...] | None] | None = None
    weights: np.ndarray | None = None


@dataclass(frozen=True)
class Source(ABC):
    """A data file, opened: what it holds and how to cut it up. Small, immutable, picklable.

    Attributes
    ----------
    file : File
    n_columns : int or None
        Feature columns; None for LIBSVM text unless it was given.
    column_names : tuple of str or None
        Names of the feature columns, where the file has names.
    knows_rows : bool
        Whether the file says how many rows it has.
    fragment_bytes, block_bytes : int
        Aimed-at sizes; the cut depends on them and on the file, on nothing else.
    """

    format: ClassVar[str]
    knows_rows: ClassVar[bool] = False
    unit: ClassVar[str] = "row"
    """What a row is in the file: "line" in text, else "row"."""

    file: File
    n_columns: int | None
    column_names: tuple[str, ...] | None
    fragment_bytes: int
    block_bytes: int

    @property
    def url(self) -> str:
        """Path or URL, as it was given."""
        return self.file.url

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return self.file.size

    @property
    def sparse(self) -> bool:
        """Whether blocks hold CSR rows."""
        return False

    @property
    def column_plans(self) -> tuple[ColumnPlan, ...]:
        """Plans of the feature columns; () where the source knows no kinds of columns, but numbers alone."""
        return ()

    @property
    def id_column(self) -> str | None:
        """Name of the column that tells rows apart, if one was named."""
        return None

    @property
    def id_type(self) -> pa.DataType | None:
        """Arrow type of the column that tells rows apart."""
        return None

    def all_files(self) -> list[File]:
        """Return the files that hold the rows."""
        return [self.file]

    def said(self) -> list[str]:
        """Return lines for people that say how the source is read."""
        return []

    def encodes(self, missing: int) -> bool:  # noqa: ARG002
        """Return whether the columns need an encoder, given the number of missing cells."""
        return False

    def place(self, rows: RawRows, row: int) -> str:
        """Return, for people, the file of a row of a block, and its line of text there or its number."""
        return f"{rows.url or self.url}: {self.unit} {rows.first_line + row}"

    def identity(self) -> JsonObject:
        """Size and SHA-256 of a local file; size and version tag of a remote one."""
        return self.file.identity()

    @abstractmethod
    def least_rows(self) -> int:
        """Rows that there are at least: all, where the file says how many it has, else those near its start."""

    @abstractmethod
    def fragments(self) -> list[Fragment]:
        """Independent units of work, in order; together they hold every row once."""

    @abstractmethod
    def read(self, fragment: Fragment, skip: int = 0) -> Iterator[RawRows]:
        """Blocks `skip`, `skip + 1`, ... of a fragment; the skipped ones are not parsed.

        Raises
        ------
        InputError
            On the first fault: file, line or row, column, what was found, what was expected.
        """


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


def is_wide(source: Source) -> bool:
    """Whether the names of a table's columns make everything large that has to know them."""
    return len(source.column_names or ()) >= WIDE


def other_columns(url: str, names: Sequence[str], expected: Sequence[str]) -> str:
    """Say in what the names of columns differ."""
    for number, (name, wanted) in enumerate(zip(names, expected, strict=False), start=1):
        if name != wanted:
            return f"{url}: column {number}: found {shown(name)}, expected {shown(wanted)} as in the training data"
    return f"{url}: found {len(names)} columns, expected {len(expected)} as in the training data"


def shown(text: str, limit: int = 40) -> str:
    """`text` quoted for a message: one line, not too long."""
    return repr(text if len(text) <= limit else text[:limit] + "...")
