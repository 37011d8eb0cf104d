"""Open new rows to score, with their columns in the order that the model knows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pipeline.errors import InputError
from pipeline.runs.trained_model import TrainedModel
from pipeline.sources import CsvFormat, Sizes, Source, open_source
from pipeline.sources.base import WIDE
from pipeline.sources.files.file import find_file
from pipeline.sources.files.named import named_files
from pipeline.sources.open import format_of, requested_format
from pipeline.sources.opened import TABLES
from pipeline.sources.table_source import open_table


@dataclass(frozen=True)
class NewData:
    """A file to score.

    Attributes
    ----------
    source : Source
    columns : list of int or None
        For each column of the model, its place among the file's; None: they are in the same order.
    ignored : tuple of str
        Columns of the file that the model does not know.
    """

    source: Source
    columns: list[int] | None
    ignored: tuple[str, ...] = ()


def open_data(
    model: TrainedModel,
    url: str,
    format: str = "auto",
    label: str | int | None = None,
    sizes: Sizes = Sizes(),  # noqa: B008 - immutable
) -> NewData:
    """Open data that must have the model's columns, by name if both have names; further columns are ignored then.

    Labels are optional.

    Parameters
    ----------
    label : str or int, optional
        Label column of a table, which must then be there. Default: that of the run, if the file has it.
    sizes : Sizes
        Sizes of :func:`~pipeline.sources.open_source`.

    Raises
    ------
    InputError
        The file cannot be read, or has other columns.
    """
    if (table := _table(model, url, format, label, sizes)) is not None:
        return table
    preparation = model.preparation()
    expected = preparation.column_names
    required = label is not None
    label = label if required else model.label

    def opened(n_columns: int | None) -> Source:
        csv = CsvFormat(**dict(model.csv))
        return open_source(url, format, label, n_columns, require_label=required, csv=csv, sizes=sizes)

    try:
        source = opened(preparation.n_columns)
    except InputError:
        if expected is None:
            raise
        source = opened(None)  # an error that names the missing column is better than one with their number
        if source.column_names is None:
            raise
    names = source.column_names
    if expected is None or names is None or list(names) == expected:
        return NewData(source, None)
    place = {name: j for j, name in enumerate(names)}
    for name in expected:
        if name not in place:
            raise InputError(f"{url}: found no column {name!r}, expected it as in the training data")
    known = set(expected)
    return NewData(source, [place[name] for name in expected], tuple(name for name in names if name not in known))


def _table(model: TrainedModel, url: str, format: str, label: str | int | None, sizes: Sizes) -> NewData | None:
    """Open data as a table whose columns have names, or are to be encoded; return None if it is no such table."""
    files, csv = named_files(url), CsvFormat(**dict(model.csv))
    first = find_file(files[0].url)
    format = requested_format(first, format, csv)
    kind = format_of(first, format)
    columns = model.columns()
    if kind not in TABLES or columns is None or len(columns) >= WIDE:
        if len(files) > 1:
            raise InputError(f"{url}: found {len(files)} files, expected one, as the training data is no table")
        return None
    source = open_table(
        url,
        format,
        model.label if label is None else label,
        replace(model.table, plan={}, categories=(), drop=(), weight=None, unlabelled=True),
        require_label=label is not None,
        columns=columns,
        csv=csv,
        sizes=sizes,
    )
    other_columns = {*model.table.drop, model.table.weight}
    return NewData(source, None, tuple(name for name in source.unused if name not in other_columns))
