"""The base of files of numbers without names: LIBSVM text, NumPy arrays and archives, and idx files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ikmap.tables import NUMBER
from pipeline.errors import InputError
from pipeline.sources.columns.plan import Plan
from pipeline.sources.columns.read_request import ReadRequest
from pipeline.sources.formats import shown_formats
from pipeline.sources.formats.base import DataFile


@dataclass(frozen=True)
class MatrixFile(DataFile):
    """One file, whose columns are numbers in their order.

    Attributes
    ----------
    n_columns : int or None
        Feature columns; None for LIBSVM text unless it was given.
    """

    n_columns: int | None

    def plan(self, given: str, files: Sequence[DataFile], request: ReadRequest) -> Plan:
        if len(files) > 1:
            raise InputError(
                f"{given}: found {len(files)} files, the first of format {self.format}, expected one, or tables "
                f"({shown_formats(tables=True)})"
            )
        if request.table.drop:
            raise InputError(
                f"{given}: found no column {request.table.drop[0]!r}, which is to be dropped, expected a table whose "
                "columns have names"
            )
        if request.columns is None and (options := ", ".join(request.table.as_json())):
            raise InputError(
                f"{given}: found a file of format {self.format}, expected a table ({shown_formats(tables=True)}), "
                f"for which {options} is given"
            )
        if isinstance(request.columns, tuple):
            for column in request.columns:
                if column.kind != NUMBER:
                    raise InputError(
                        f"{given}: found a file of format {self.format}, whose columns are numbers, expected a table "
                        f"({shown_formats(tables=True)}), as column {column.name!r} of the training data is a "
                        f"{column.kind}"
                    )
        return Plan(self.n_columns)
