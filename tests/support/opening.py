"""Open a source with its request in one call, as tests need it."""

from __future__ import annotations

from collections.abc import Sequence

from ikmap.tables import ColumnPlan
from pipeline.sources import CsvFormat, ReadRequest, Sizes, Source, open_source
from pipeline.sources.columns.request import TableRequest


def opened(
    given: str,
    format: str = "auto",
    label: str | int | None = None,
    n_columns: int | None = None,
    zero_based: bool = False,
    *,
    request: TableRequest | None = None,
    require_label: bool = True,
    columns: Sequence[ColumnPlan] | int | None = None,
    csv: CsvFormat | None = None,
    sizes: Sizes | None = None,
) -> Source:
    """Open files as a source."""
    wanted = ReadRequest(
        label=label,
        require_label=require_label,
        columns=columns if columns is None or isinstance(columns, int) else tuple(columns),
        count=n_columns,
        zero_based=zero_based,
        csv=csv or CsvFormat(),
        table=request or TableRequest(),
        sizes=sizes or Sizes(),
    )
    return open_source(given, format, wanted)
