"""The roles of the columns of a file of a table, whatever its format."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

from ikmap.tables import ColumnPlan
from pipeline.sources.columns.request import TableRequest
from pipeline.urls import Location

if TYPE_CHECKING:
    import pyarrow as pa


class Table(Protocol):
    """A file of a table, opened; :class:`~pipeline.sources.formats.table_file.TableFile` tells what each of these is.

    Attributes
    ----------
    unit : str
        What a row is called in messages.
    """

    unit: ClassVar[str]

    @property
    def url(self) -> Location: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def own_names(self) -> tuple[str, ...]: ...
    @property
    def partition(self) -> tuple[tuple[str, str | None], ...]: ...
    @property
    def nothing(self) -> str: ...
    @property
    def has_names(self) -> bool: ...
    def type_of(self, name: str) -> pa.DataType | None: ...
    def kinds(self, names: Sequence[str], request: TableRequest) -> list[ColumnPlan]: ...
    def are_numbers(self, names: Sequence[str], request: TableRequest) -> bool: ...
    def label_is_text(self, name: str, missing: Collection[str] = ()) -> bool: ...
