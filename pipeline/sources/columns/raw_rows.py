"""Some consecutive rows of a file: the columns that were wanted, as they were read, and the rows that come of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from ikmap.arrays import Floats

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class ColumnBlock:
    """Some consecutive rows, as the columns that were wanted.

    Attributes
    ----------
    columns : list of pa.ChunkedArray
        In the order in which they were wanted.
    first_line : int
        1-based line (text) or row at which it starts.
    n_bytes : int
    rows : int
    numbers : float64 array (rows, n), or None
        The wanted features where all of them are numbers that were parsed together; `columns` then has the others.
    line_of : callable or None
        As of :class:`RawRows`.
    """

    columns: Sequence[pa.ChunkedArray]
    first_line: int
    n_bytes: int
    rows: int
    numbers: Floats | None = None
    line_of: Callable[[int], int] | None = None

    def line(self, row: int) -> int:
        """Return the line (text) or row of a row of the block."""
        return self.first_line + row if self.line_of is None else self.line_of(row)


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
