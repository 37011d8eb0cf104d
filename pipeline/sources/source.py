"""The rows that a user has named: one file or several, opened, with a plan of their columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ikmap.json_values import JsonObject
from ikmap.tables import ColumnPlan
from pipeline.sources.columns.plan import WIDE, Plan
from pipeline.sources.columns.raw_rows import RawRows
from pipeline.sources.columns.request import TableRequest
from pipeline.sources.files.file import joint_identity
from pipeline.sources.formats.base import DataFile, Fragment

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Source:
    """Rows of files, whatever their format. Small, immutable, picklable.

    Attributes
    ----------
    url : str
        What the user has named: a file, a folder, a glob or a list.
    files : tuple of DataFile
    plan : Plan
    """

    url: str
    files: tuple[DataFile, ...]
    plan: Plan

    @property
    def format(self) -> str:
        """Name of the format of its files."""
        return self.files[0].format

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.file.size for file in self.files)

    @property
    def sparse(self) -> bool:
        """True if blocks hold CSR rows."""
        return self.files[0].sparse

    @property
    def knows_rows(self) -> bool:
        """True if the files say how many rows they have."""
        return self.files[0].knows_rows

    @property
    def n_columns(self) -> int | None:
        """Feature columns; None: they are known when the rows are read (LIBSVM text)."""
        return self.plan.n_columns

    @property
    def column_names(self) -> tuple[str, ...] | None:
        """Names of the feature columns, where they have names."""
        return self.plan.names

    @property
    def label_name(self) -> str | None:
        """Name of the label column, where columns have names."""
        return None if self.plan.names is None else self.plan.label

    @property
    def label_last(self) -> bool:
        """True if the first file has the features, in their order, and behind them the label, and nothing else."""
        plan = self.plan
        return plan.names is not None and self.files[0].names == (*plan.names, plan.label)

    @property
    def is_wide(self) -> bool:
        """True if the names of its columns make everything large that has to know them."""
        return len(self.plan.names or ()) >= WIDE

    @property
    def column_plans(self) -> tuple[ColumnPlan, ...]:
        """The plan of each feature column of a table; of numbers without names there is none."""
        return () if self.plan.request is None else self.plan.each

    @property
    def request(self) -> TableRequest:
        """Request for the table."""
        return self.plan.request or TableRequest()

    @property
    def id_column(self) -> str | None:
        """Name of the column that tells rows apart."""
        return self.request.id

    @property
    def id_type(self) -> pa.DataType | None:
        """Arrow type of the column that tells rows apart."""
        return self.plan.id_type

    @property
    def unused(self) -> list[str]:
        """Columns of the first file that are read for nothing."""
        plan, request = self.plan, self.request
        known = {plan.label, request.id, request.weight, *(column.name for column in plan.each)}
        return [name for name in self.files[0].names if name not in known]

    def encodes(self, missing: int) -> bool:
        """Return whether its columns need an encoder, with so many missing cells in all rows."""
        return self.plan.request is not None and (missing > 0 or not self.plan.is_plain)

    def said(self) -> list[str]:
        """Return how it is read, for people."""
        first, above = self.files[0], self.request.above
        lines = [f"{self.url}: {len(self.files)} files"] if len(self.files) > 1 else []
        lines += [f"{first.url}: {how}"] if (how := first.said()) else []
        return lines if above is None else [*lines, f"label: 1 where {self.plan.label} is above {above:g}, else 0"]

    def identity(self) -> JsonObject:
        """Return size and SHA-256 of local files; size and version tag of a remote one."""
        identities = [file.identity() for file in self.files]
        return joint_identity(identities, self.size)

    def least_rows(self) -> int:
        """Return how many rows there are at least: all, where files say how many they have, else those near starts."""
        return sum(file.least_rows() for file in self.files)

    def fragments(self) -> list[Fragment]:
        """Return independent units of work, in order; together they hold every row once."""
        fragments: list[Fragment] = []
        for k, file in enumerate(self.files):
            for fragment in file.fragments(self.plan):
                fragments.append(replace(fragment, number=len(fragments), file=k))
        return fragments

    def read(self, fragment: Fragment, skip: int = 0) -> Iterator[RawRows]:
        """Yield blocks `skip`, `skip + 1`, ... of a fragment; the skipped ones are not parsed.

        Raises
        ------
        InputError
            On the first fault: file, line or row, column, what was found, what was expected.
        """
        return self.files[fragment.file].rows(fragment, self.plan, skip)

    def place(self, block: RawRows, row: int) -> str:
        """Return the file of a row of a block, and its line of text there, or its row."""
        return f"{block.url or self.url}: {self.files[0].unit} {block.line(row)}"

    def of_columns(self, n: int) -> Source:
        """Return the source with so many columns, where it does not know how many it has."""
        return self if self.plan.n_columns is not None else replace(self, plan=replace(self.plan, columns=n))
