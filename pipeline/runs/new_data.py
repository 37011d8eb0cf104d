"""Open new rows to score, with their columns in the order that the model knows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ikmap.json_values import Label
from pipeline.runs.trained_model import TrainedModel
from pipeline.sources import CsvFormat, ReadRequest, Sizes, Source, open_source
from pipeline.sources.columns.cells import number_in


@dataclass(frozen=True)
class NewData:
    """Files to score.

    Attributes
    ----------
    source : Source
        Its columns are those of the model, in their order.
    ignored : tuple of str
        Columns of the first file that the model does not know.
    """

    source: Source
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
        Into what files are cut.

    Raises
    ------
    InputError
        The file cannot be read, or has other columns.
    """
    columns, preparation = model.columns(), model.preparation()
    names = () if columns is None else tuple(column.name for column in columns)
    if preparation.encoded and names == tuple(map(str, range(len(names)))):
        names = ()  # as columns of a file without names are called
    known_label = preparation.label
    if known_label is None and names and model.label is not None:  # of an older run
        known_label = str(model.label)
    request = ReadRequest(
        label=model.label if label is None else label,
        require_label=label is not None,
        known_label=known_label if label is None else None,
        label_last=preparation.label_last or not names,
        columns=preparation.n_columns if columns is None else tuple(columns),
        header_names=names,
        text_labels=any(_is_changed_as_number(own) for own in model.task().codec.classes),
        csv=CsvFormat(**dict(model.csv)),
        csv_of_training=True,
        table=replace(model.table, plan={}, categories=(), drop=(), weight=None, split_column=None, unlabelled=True),
        sizes=sizes,
    )
    source = open_source(url, format, request)
    of_training = {*model.table.drop, model.table.weight}
    return NewData(source, tuple(name for name in source.unused if name not in of_training))


def _is_changed_as_number(label: Label) -> bool:
    """Return whether a label is a word, such as 01, that would be another if it were read as a number."""
    return isinstance(label, str) and (number := number_in(label)) is not None and label != f"{number:.15g}"
