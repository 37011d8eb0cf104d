"""The base of files of tables: named columns of any kind, which a plan turns into rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow as pa

from ikmap.tables import ColumnPlan
from pipeline.sources.columns.plan import Plan
from pipeline.sources.columns.raw_rows import ColumnBlock, RawRows
from pipeline.sources.columns.read_request import ReadRequest
from pipeline.sources.columns.request import TableRequest
from pipeline.sources.columns.rows import Wanted, rows_of, wanted_of
from pipeline.sources.columns.table_plan import plan_of_table
from pipeline.sources.formats.base import DataFile, Fragment


@dataclass(frozen=True)
class TableFile(DataFile):
    """One file of a table.

    Attributes
    ----------
    partition : tuple of (str, str or None)
        Columns that the names of its folders give and the file does not have.
    """

    partition: tuple[tuple[str, str | None], ...]

    @property
    @abstractmethod
    def own_names(self) -> tuple[str, ...]:
        """Names of the columns that stand in the file; their places where it has no names."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns."""
        return (*self.own_names, *(name for name, _ in self.partition))

    @property
    def nothing(self) -> str:
        """Words for a cell without a value, for messages."""
        return "an empty cell" if self.unit == "line" else "a missing value"

    @property
    def has_names(self) -> bool:
        """True if the file names its columns."""
        return True

    def type_of(self, name: str) -> pa.DataType | None:  # noqa: ARG002
        """Return the Arrow type of the values of a column; None: they are text."""
        return None

    @abstractmethod
    def kinds(self, names: Sequence[str], request: TableRequest) -> list[ColumnPlan]:
        """Return of what kind some columns of the file are."""

    @abstractmethod
    def are_numbers(self, names: Sequence[str], request: TableRequest) -> bool:
        """Return whether many columns are plainly numbers, at less cost than their kinds."""

    @abstractmethod
    def label_is_text(self, name: str, missing: Collection[str] = ()) -> bool:
        """Return whether labels are words, beside those that stand for nothing.

        Raises
        ------
        InputError
            They are neither words nor numbers.
        """

    @abstractmethod
    def blocks(self, fragment: Fragment, wanted: Wanted, skip: int) -> Iterator[ColumnBlock]:
        """Yield blocks `skip`, ... of a fragment."""

    def plan(self, given: str, files: Sequence[DataFile], request: ReadRequest) -> Plan:
        return plan_of_table(given, cast("Sequence[TableFile]", files), request)

    def rows(self, fragment: Fragment, plan: Plan, skip: int = 0) -> Iterator[RawRows]:
        wanted = wanted_of(self, plan)
        for block in self.blocks(fragment, wanted, skip):
            yield rows_of(self, block, wanted, plan)
