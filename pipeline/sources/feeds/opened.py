"""Open what arrives: by its format, with the columns of what came before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ikmap.json_values import JsonObject
from ikmap.tables import ColumnPlan
from pipeline.errors import InputError
from pipeline.record_types import RecordView
from pipeline.sources.base import BLOCK_BYTES, FRAGMENT_BYTES, WIDE, Source, check_columns
from pipeline.sources.columns.request import TableRequest
from pipeline.sources.files.file import File
from pipeline.sources.formats.arrow import open_arrow_table
from pipeline.sources.formats.csv import open_text_table
from pipeline.sources.formats.csv_text import CsvFormat
from pipeline.sources.formats.delimited import open_delimited
from pipeline.sources.formats.libsvm import open_libsvm
from pipeline.sources.formats.parquet import open_parquet
from pipeline.sources.formats.parquet_table import open_parquet_table
from pipeline.sources.formats.table_file import TableFile
from pipeline.sources.table_source import TableSource, open_table


@dataclass(frozen=True)
class KnownColumns:
    """The columns of a feed, as they were found with its first rows.

    Attributes
    ----------
    columns : tuple of ColumnPlan
    text_labels : bool
        Whether labels are words.
    """

    columns: tuple[ColumnPlan, ...]
    text_labels: bool

    def as_json(self) -> JsonObject:
        """Return the columns as JSON values."""
        return {"columns": [column.as_json() for column in self.columns], "text_labels": self.text_labels}

    @classmethod
    def from_json(cls, values: RecordView) -> KnownColumns:
        """Return the columns that :meth:`as_json` has made into JSON values."""
        return cls(tuple(ColumnPlan(**column) for column in values["columns"]), values["text_labels"])


def unchanged(error: InputError) -> InputError:
    """Return an error as it is."""
    return error


@dataclass(frozen=True)
class FeedRequest:
    """What is asked of rows that arrive.

    Attributes
    ----------
    format : str
    label, n_columns, require_label
        As of :func:`~pipeline.sources.open_source`.
    table : TableRequest
    csv : CsvFormat
    """

    format: str = "auto"
    label: str | int | None = None
    n_columns: int | None = None
    require_label: bool = True
    table: TableRequest = field(default_factory=TableRequest)
    csv: CsvFormat = field(default_factory=CsvFormat)

    def open(
        self,
        file: File,
        kind: str,
        known: KnownColumns | None = None,
        explained: Callable[[InputError], InputError] = unchanged,
    ) -> Source:
        """Open a file, or the beginning of text that is still arriving.

        Parameters
        ----------
        kind : str
            Its format.
        known : KnownColumns, optional
            Columns of what came before.
        explained : callable
            Function that adds to an error in the file itself.

        Raises
        ------
        InputError
            The file cannot be read, or has no such columns. NoRows: it has no rows.
        """
        if kind == "libsvm":
            self._refuse_table(file, kind)
            return open_libsvm(file, self.n_columns, False, FRAGMENT_BYTES, BLOCK_BYTES)
        if self.csv != CsvFormat() and kind != "csv":
            key = next(key for key, value in self.csv._asdict().items() if value is not None)
            raise InputError(f"{file.url}: read as {kind}, but --{key} is for CSV; leave it out")
        try:
            table_file = self._table_file(file, kind)
        except InputError as error:
            raise explained(error) from error
        if known is None and not self.table.as_json() and len(table_file.names) > WIDE:
            how = self.label, self.n_columns, self.require_label, FRAGMENT_BYTES, BLOCK_BYTES
            return open_delimited(file, *how, self.csv) if kind == "csv" else open_parquet(file, *how)
        return self._table(table_file, known)

    def _table_file(self, file: File, kind: str) -> TableFile:
        if file.compression and kind != "csv":
            raise InputError(
                f"{file.url}: found a compressed .{kind} file, expected it uncompressed; decompress it first"
            )
        if kind == "csv":
            return open_text_table(file, (), self.label, self.csv)
        if kind == "parquet":
            return open_parquet_table(file, ())
        if kind == "arrow":
            return open_arrow_table(file, ())
        raise InputError(f"{file.url}: found a file of format {kind}, expected CSV, Parquet, Arrow or LIBSVM text")

    def _table(self, file: TableFile, known: KnownColumns | None) -> TableSource:
        given, request = str(file.file.url), self.table
        columns: Sequence[ColumnPlan] | None = None
        if known is not None:
            columns, request = known.columns, replace(request, plan={}, categories=(), drop=(), kept=None)
            if request.id is not None and request.id not in file.names:
                raise InputError(f"{given}: found no column {request.id!r} (--id), expected it as in the rows before")
        table = open_table(
            given, "auto", self.label, request, require_label=self.require_label, columns=columns, files=(file,)
        )
        if known is not None:
            return replace(table, text_labels=known.text_labels)
        check_columns(given, len(table.columns) + len(request.drop), self.n_columns)
        return table

    def _refuse_table(self, file: File, kind: str) -> None:
        """Refuse what only a table can have."""
        if self.table.as_json():
            raise InputError(
                f"{file.url}: found rows of format {kind}, expected CSV, Parquet or Arrow, for which "
                f"{', '.join(self.table.as_json())} is given"
            )


def known_columns(source: Source) -> KnownColumns | None:
    """Return the columns of a table, or None for other rows."""
    return KnownColumns(source.columns, source.text_labels) if isinstance(source, TableSource) else None
