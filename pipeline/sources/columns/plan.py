"""What the columns of rows are, once files are opened: plain data that goes to every task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ikmap.tables import NUMBER, ColumnPlan

if TYPE_CHECKING:
    import pyarrow as pa

    from pipeline.sources.columns.request import TableRequest

WIDE = 1024
"""A table of so many columns of numbers alone is planned by their count: a plan of each would take longer than to read
them."""
A_NUMBER = "a number in the first rows, or by its type"


@dataclass(frozen=True)
class Plan:
    """How columns become rows.

    Attributes
    ----------
    columns : tuple of ColumnPlan, int, or None
        The feature columns; their count, where all of them are numbers and there are many, or they have no names;
        None: known when the rows are read (LIBSVM text).
    names : tuple of str or None
        Of the feature columns, where they have names.
    label : str or None
    text_labels : bool
        Whether labels are words.
    label_type : pa.DataType or None
        Arrow type of the labels, where the first file has typed columns.
    request : TableRequest or None
        What is wanted of a table; None where rows are no table.
    split_column : ColumnPlan or None
        The column by whose values rows are divided.
    id_type : pa.DataType or None
        Arrow type of the column that tells rows apart.
    first : str
        The first file, for messages.
    """

    columns: tuple[ColumnPlan, ...] | int | None
    names: tuple[str, ...] | None = None
    label: str | None = None
    text_labels: bool = False
    label_type: pa.DataType | None = None
    request: TableRequest | None = None
    split_column: ColumnPlan | None = None
    id_type: pa.DataType | None = None
    first: str = ""

    @property
    def n_columns(self) -> int | None:
        """Number of feature columns."""
        return len(self.columns) if isinstance(self.columns, tuple) else self.columns

    @property
    def each(self) -> tuple[ColumnPlan, ...]:
        """The plan of each column."""
        if isinstance(self.columns, tuple):
            return self.columns
        names = map(str, range(self.columns or 0)) if self.names is None else self.names
        return tuple(ColumnPlan(name, NUMBER, why=A_NUMBER) for name in names)

    @property
    def is_plain(self) -> bool:
        """Whether columns are numbers and no encoding is asked for: then they are features as they are."""
        if self.request is not None and self.request.encodes:
            return False
        return not isinstance(self.columns, tuple) or all(column.kind == NUMBER for column in self.columns)
