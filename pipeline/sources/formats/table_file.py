"""What a file of a table offers, whatever its format: names, kinds, fragments, and blocks of columns."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from ikmap.tables import ColumnPlan
from pipeline.sources.base import Fragment
from pipeline.sources.columns.request import TableRequest
from pipeline.sources.files.file import File


@dataclass(frozen=True, eq=False)
class Block:
    """Some consecutive rows, as columns that were asked for.

    Attributes
    ----------
    columns : list of pa.ChunkedArray
    first_line : int
        1-based line (text) or row at which it starts.
    n_bytes : int
    lines : list of int, or None
        Line of each row, where they do not follow each other.
    """

    columns: list[pa.ChunkedArray]
    first_line: int
    n_bytes: int


@dataclass(frozen=True)
class TableFile(ABC):
    """A file, opened: small, immutable, picklable.

    Attributes
    ----------
    file : File
    partition : tuple of (str, str or None)
        Columns that the names of its folders give.
    """

    format: ClassVar[str]
    knows_rows: ClassVar[bool] = True
    unit: ClassVar[str] = "row"

    file: File
    partition: tuple[tuple[str, str | None], ...]

    @property
    @abstractmethod
    def own_names(self) -> tuple[str, ...]:
        """Of the columns that stand in the file."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of all columns."""
        return (*self.own_names, *(name for name, _ in self.partition))

    @property
    def nothing(self) -> str:
        """What a cell without a value is, for people."""
        return "an empty cell" if self.unit == "line" else "a missing value"

    @property
    def has_names(self) -> bool:
        """Whether the file names its columns."""
        return True

    def said(self) -> str:
        """How the file is read, for people; empty: nothing had to be found out."""
        return ""

    @abstractmethod
    def plan(self, names: Sequence[str], request: TableRequest) -> list[ColumnPlan]:
        """What some columns of the file are."""

    @abstractmethod
    def label_is_text(self, name: str, missing: Collection[str] = ()) -> bool:
        """Whether labels are words, beside those that stand for nothing.

        Raises
        ------
        InputError
            They are neither words nor numbers.
        """

    @abstractmethod
    def least_rows(self) -> int:
        """Rows that there are at least."""

    @abstractmethod
    def fragments(self, fragment_bytes: int, columns: int, block_bytes: int) -> list[Fragment]:
        """Independent fragments, in order; each has whole blocks, as those of the file read as one."""

    @abstractmethod
    def blocks(
        self,
        fragment: Fragment,
        skip: int,
        names: Sequence[str],
        kinds: Sequence[str],
        missing: frozenset[str],
        size: int,
    ) -> Iterator[Block]:
        """Blocks `skip`, ... of a fragment: the columns of these names, as kinds that are "label" too.

        Parameters
        ----------
        size : int
            Aimed-at bytes of a block.
        """
