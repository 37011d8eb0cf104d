"""A request for rows, before their files are opened. Plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ikmap.tables import ColumnPlan
from pipeline.sources.columns.plan import Plan
from pipeline.sources.columns.request import TableRequest


class CsvFormat(NamedTuple):
    """The format of CSV text; fields that are None are found out from the text.

    Attributes
    ----------
    header : bool, sequence of str, or None
        Whether the first line names the columns; or their names, where it has a row.
    delimiter : str or None
        What stands between columns.
    encoding : str or None
    """

    header: bool | Sequence[str] | None = None
    delimiter: str | None = None
    encoding: str | None = None


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
    """A request for the rows of files that are not opened yet.

    Attributes
    ----------
    label : str or int, optional
        Label column of a table by name or position (negative ones count from the end); of .npz the member with the
        labels (default "y"). Without it: the column named label, target, class or y, else - in a table without names -
        the last. LIBSVM text has its label in front, idx files in a file beside them.
    require_label : bool
        If False, files may come without labels; their blocks then have ``y = None``.
    known_label : str, optional
        Name of the label column of the training data. In a file with names, no other column is the label.
    label_last : bool
        True if the label of a file without names, where it has one, stands behind the features.
    columns : tuple of ColumnPlan, int, or None
        The feature columns that there must be, such as those of the training data: by name, others are left alone; or
        so many numbers (of sparse rows: at most).
    text_labels : bool
        Labels are words, as those of the training data, also where they look like numbers.
    header_names : tuple of str
        Names of columns of the training data: a first line of CSV text that has them all names its columns.
    count : int, optional
        How many feature columns there must be, of whatever kind.
    zero_based : bool
        LIBSVM indices count from 0 instead of 1.
    csv : CsvFormat
        What is known of CSV text.
    csv_of_training : bool
        True if `csv` describes the training data. These files may then have another format, and CSV text may name its
        columns itself, or have the features alone.
    table : TableRequest
        What is wanted of a table.
    sizes : Sizes
    partition : tuple of (str, str or None)
        Columns that the names of the file's folders give, such as ``year=2001``; None where the value is missing.
    """

    label: str | int | None = None
    require_label: bool = True
    known_label: str | None = None
    label_last: bool = True
    columns: tuple[ColumnPlan, ...] | int | None = None
    text_labels: bool = False
    header_names: tuple[str, ...] = ()
    count: int | None = None
    zero_based: bool = False
    csv: CsvFormat = field(default_factory=CsvFormat)
    csv_of_training: bool = False
    table: TableRequest = field(default_factory=TableRequest)
    sizes: Sizes = field(default_factory=Sizes)
    partition: tuple[tuple[str, str | None], ...] = ()

    @property
    def n_columns(self) -> int | None:
        """Number of feature columns that there must be; None if any number will do."""
        if self.columns is None:
            return self.count
        return self.columns if isinstance(self.columns, int) else len(self.columns)

    @property
    def named(self) -> frozenset[str]:
        """Names of all columns that are asked for by name."""
        features = [column.name for column in self.columns] if isinstance(self.columns, tuple) else []
        labels = [label for label in (self.label, self.known_label) if isinstance(label, str)]
        return frozenset(features).union(labels, *self.table.named.values())

    def like(self, plan: Plan) -> ReadRequest:
        """Return the request for files that must have the columns of others, such as those of the training data."""
        columns = plan.each if plan.request is not None else plan.n_columns
        table = replace(self.table, plan={}, categories=(), drop=(), split_column=None)
        label, named = plan.label if self.label is None else self.label, plan.names is not None
        return replace(
            self,
            columns=columns,
            count=None,
            table=table,
            label=label,
            known_label=plan.label if named else None,
            label_last=not named,
        )
