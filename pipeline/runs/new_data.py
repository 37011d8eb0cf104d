"""Open new rows to score, with their columns in the order that the model knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pipeline.errors import InputError
from pipeline.readers import CsvFormat, Sizes, Source, open_source
from pipeline.runs.trained_model import TrainedModel


@dataclass(frozen=True)
class NewData:
    """A file to score.

    Attributes
    ----------
    source : Source
    columns : list of int or None
        Which of the file's columns is each of the model's; None: they are in the same order.
    """

    source: Source
    columns: list[int] | None


def open_data(
    model: TrainedModel,
    url: str,
    format: str = "auto",
    label: str | int | None = None,
    sizes: Sizes = Sizes(),  # noqa: B008 - immutable
) -> NewData:
    """Open data that must have the model's columns, by name where both have names. Labels are optional.

    Parameters
    ----------
    label : str or int, optional
        Label column of a table, which must then be there. Default: that of the run, where the file has it.
    sizes : Sizes
        As of :func:`~pipeline.readers.open_source`.

    Raises
    ------
    InputError
        The file cannot be read, or has other columns.
    """
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
        if expected is not None:  # which column it is says more than how many there are
            _same_names(url, opened(None).column_names, expected)
        raise
    names = source.column_names
    if expected is None or names is None or list(names) == expected:
        return NewData(source, None)
    _same_names(url, names, expected)
    place = {name: j for j, name in enumerate(names)}
    return NewData(source, [place[name] for name in expected])


def _same_names(url: str, found: Sequence[str] | None, expected: Sequence[str]) -> None:
    """Refuse a table that lacks a column of the training data, or has one too many."""
    names, wanted = set(found or expected), set(expected)
    for name in expected:
        if name not in names:
            raise InputError(f"{url}: found no column {name!r}, expected it as in the training data")
    for name in found or ():
        if name not in wanted:
            raise InputError(f"{url}: found column {name!r}, which the training data does not have")
