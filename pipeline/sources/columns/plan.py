"""Plan of the columns of files that are open: plain data that goes to every task."""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ikmap.json_values import JsonObject
from ikmap.tables import NUMBER, ColumnPlan
from pipeline.errors import InputError
from pipeline.monitoring.plain_text import shown
from pipeline.record_types import RecordView
from pipeline.sources.columns.request import TableRequest

if TYPE_CHECKING:
    import pyarrow as pa

WIDE = 1024
"""A table of so many columns of numbers alone is planned by their count: a plan of each would take longer than to read
them."""
A_NUMBER = "a number in the first rows, or by its type"


@dataclass(frozen=True)
class Plan:
    """The plan by which columns become rows.

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
        """True if columns are numbers and no encoding is asked for: then they are features as they are."""
        if self.request is not None and self.request.encodes:
            return False
        return not isinstance(self.columns, tuple) or all(column.kind == NUMBER for column in self.columns)

    def as_in(self, first: Plan, url: str) -> Plan:
        """Return the plan of more rows of a table, from `url`: their labels and ids are as those of the first rows.

        Raises
        ------
        InputError
            They have no label or id, and the first rows have.
        """
        if self.request is None or first.request is None:
            return self
        for name, option, lacks in (
            (first.label, "", self.label is None),
            (first.request.id, " (--id)", self.request.id is None),
        ):
            if name is not None and lacks:
                raise InputError(f"{url}: found no column {shown(name)}{option}, expected it as in {first.first}")
        return replace(
            self,
            label=None if first.label is None else self.label,
            text_labels=first.text_labels,
            label_type=first.label_type,
            id_type=first.id_type,
            first=first.first,
        )

    def as_json(self) -> JsonObject:
        """Return the plan as JSON values."""
        columns = [column.as_json() for column in self.columns] if isinstance(self.columns, tuple) else self.columns
        return {
            "columns": columns,
            "names": None if self.names is None else list(self.names),
            "label": self.label,
            "text_labels": self.text_labels,
            "label_type": _type_as_text(self.label_type),
            "request": None if self.request is None else self.request.as_json(),
            "split_column": None if self.split_column is None else self.split_column.as_json(),
            "id_type": _type_as_text(self.id_type),
            "first": self.first,
        }

    @classmethod
    def from_json(cls, values: RecordView) -> Plan:
        """Return the plan that :meth:`as_json` has made into JSON values."""
        columns, names, request, split_column = (values[key] for key in ("columns", "names", "request", "split_column"))
        return cls(
            columns=tuple(ColumnPlan(**column) for column in columns) if isinstance(columns, list) else columns,
            names=None if names is None else tuple(names),
            label=values["label"],
            text_labels=values["text_labels"],
            label_type=_type_in_text(values["label_type"]),
            request=None if request is None else TableRequest.from_json(request),
            split_column=None if split_column is None else ColumnPlan(**split_column),
            id_type=_type_in_text(values["id_type"]),
            first=values["first"],
        )


def _type_as_text(arrow_type: pa.DataType | None) -> str | None:
    """Return an Arrow type as text: the schema of a column of this type, as Arrow writes it, in base64."""
    if arrow_type is None:
        return None
    import pyarrow as pa

    return b64encode(pa.schema([("", arrow_type)]).serialize().to_pybytes()).decode()


def _type_in_text(text: str | None) -> pa.DataType | None:
    """Return the Arrow type that :func:`_type_as_text` has made into text."""
    if text is None:
        return None
    import pyarrow as pa

    return pa.ipc.read_schema(pa.py_buffer(b64decode(text))).field(0).type
