"""Apply a plan: columns of a table, as they were read, become rows of numbers and codes, labels, ids and weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ikmap.arrays import Floats
from ikmap.tables import NUMBER, ColumnPlan
from ikmap.tables.raw import without_numbers
from pipeline.errors import InputError, in_one_line
from pipeline.monitoring.plain_text import shown
from pipeline.sources.columns.cells import (
    LABEL,
    Role,
    WantedColumn,
    arrow_floats,
    as_numbers,
    float_values,
    is_text,
    label_words,
)
from pipeline.sources.columns.plan import Plan
from pipeline.sources.columns.raw_rows import ColumnBlock, RawRows
from pipeline.sources.columns.request import TableRequest, as_typed
from pipeline.sources.columns.table import Table
from pipeline.sources.columns.weights import weights_in


@dataclass(frozen=True)
class Wanted:
    """The columns of a file that are read.

    Attributes
    ----------
    names : list of str
    kinds : list of str
        Of each: number, category, time or label.
    numbers : int
        So many of the first are features, all of them numbers; 0: the features are of any kind.
    missing : frozenset of str
        Cells of text that are missing.
    missing_numbers : tuple of float
        Numbers that are missing in columns of numbers.
    label, weight : str or None
        Names of the columns of the labels and of the weights, where there are such.
    """

    names: list[str]
    kinds: list[str]
    numbers: int
    missing: frozenset[str]
    missing_numbers: tuple[float, ...] = ()
    label: str | None = None
    weight: str | None = None

    @property
    def columns(self) -> list[WantedColumn]:
        """The columns one by one, each with what its cells are for."""
        return [WantedColumn(name, kind, self._role(name)) for name, kind in zip(self.names, self.kinds, strict=True)]

    def _role(self, name: str) -> Role:
        return "label" if name == self.label else "weight" if name == self.weight else "feature"


def wanted_of(file: Table, plan: Plan) -> Wanted:
    """Return which columns of a file a plan needs."""
    request = _request(plan)
    own = set(file.own_names)
    beside = [name for name in (plan.label, request.id, request.weight) if name is not None and name in own]
    kinds = dict.fromkeys(beside, LABEL)
    kinds |= {name: NUMBER for name in (request.weight, None if plan.text_labels else plan.label) if name in kinds}
    count = 0
    if isinstance(plan.columns, int):
        features = dict.fromkeys(_names(file, plan), NUMBER)
        count = len(features)
    else:
        features = {column.name: column.kind for column in plan.each if column.name in own}
    if plan.split_column is not None and plan.split_column.name in own:
        features.setdefault(plan.split_column.name, plan.split_column.kind)
    kinds = {**features, **kinds}
    missing, numbers = request.missing_cells, request.missing_numbers
    return Wanted(list(kinds), list(kinds.values()), count, missing, numbers, plan.label, request.weight)


def rows_of(file: Table, block: ColumnBlock, wanted: Wanted, plan: Plan) -> RawRows:
    """Return the rows of a block, as a plan has them.

    Raises
    ------
    InputError
        A cell is not what the plan says, with its place.
    """
    cells = _Cells(file, block, wanted)
    request = _request(plan)
    X, levels = _numbers(cells, plan) if isinstance(plan.columns, int) else _features(cells, plan)
    plain = all(words is None for words in levels or ()) and not np.isnan(X).any()
    y = None if plan.label is None else _labels(cells, plan.label, plan, request)
    weights = None
    if request.weight is not None:
        weights = weights_in(cells[request.weight], request.weight, cells.where(request.weight), file.nothing)
    return RawRows(
        np.ascontiguousarray(X) if plain else X,
        y,
        block.first_line,
        block.n_bytes,
        None if plain else levels or (None,) * X.shape[1],
        file.url,
        None if request.id is None else _ids(cells, request.id, plan),
        None if plan.split_column is None else cells.converted(plan.split_column),
        weights,
        block.line_of,
    )


class _Cells:
    """The cells of a block by the names of their columns.

    Those that the names of folders give are the same in all rows; those of a column that the file lacks are missing.
    """

    def __init__(self, file: Table, block: ColumnBlock, wanted: Wanted) -> None:
        self.file, self.block = file, block
        self.missing, self.missing_numbers = wanted.missing, wanted.missing_numbers
        self._together = {} if block.numbers is None else {n: k for k, n in enumerate(wanted.names[: wanted.numbers])}
        self._columns = dict(zip(wanted.names[len(self._together) :], block.columns, strict=True))
        self._fixed = dict(file.partition)

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        if (column := self._columns.get(name)) is not None:
            return column
        if (place := self._together.get(name)) is not None and self.block.numbers is not None:
            return arrow_floats(self.block.numbers[:, place])
        return pa.chunked_array([pa.repeat(pa.scalar(self._fixed.get(name), pa.string()), self.block.rows)])

    def where(self, name: str) -> Callable[[int], str]:
        """Return the function that names a row of a column for people."""
        file, block = self.file, self.block
        return lambda row: f"{file.url}: {file.unit} {block.line(row)}, column {shown(name)}"

    def converted(self, column: ColumnPlan) -> tuple[np.ndarray, tuple[str, ...] | None]:
        """Return numbers or codes, and the words where a column has words."""
        cells, where = self[column.name], self.where(column.name)
        try:
            return as_numbers(cells, WantedColumn(column.name, column.kind), self.missing, where, self.missing_numbers)
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise InputError(
                f"{where(0)}: found values of type {cells.type} that cannot be read as a {column.kind}: "
                f"{in_one_line(error)}; train with {as_typed('--drop', column.name)}"
            ) from error


def _features(cells: _Cells, plan: Plan) -> tuple[np.ndarray, tuple[tuple[str, ...] | None, ...]]:
    columns = plan.each
    X = np.empty((len(columns), cells.block.rows)).T  # column by column
    levels: list[tuple[str, ...] | None] = []
    for k, column in enumerate(columns):
        X[:, k], words = cells.converted(column)
        levels.append(words)
    return X, tuple(levels)


def _numbers(cells: _Cells, plan: Plan) -> tuple[Floats, None]:
    """Return the features of a table of numbers alone, of which nothing is done for each column that need not be."""
    names, X = _names(cells.file, plan), cells.block.numbers
    if X is None:
        X = np.empty((cells.block.rows, len(names)))
        for k, name in enumerate(names):
            column = cells[name]
            if pa.types.is_float64(column.type) and not column.null_count:
                X[:, k] = without_numbers(float_values(column), cells.missing_numbers)
            else:
                X[:, k] = cells.converted(ColumnPlan(name, NUMBER))[0]
    else:
        X = without_numbers(X, cells.missing_numbers)
    if np.isinf(X).any():
        row, k = np.argwhere(np.isinf(X))[0].tolist()
        raise InputError(f"{cells.where(names[k])(row)}: found {X[row, k]}, expected a finite number")
    return X, None


def _names(file: Table, plan: Plan) -> tuple[str, ...]:
    """Return the names of the feature columns in a file; without names, columns go by their place."""
    return plan.names if plan.names is not None else tuple(name for name in file.own_names if name != plan.label)


def _request(plan: Plan) -> TableRequest:
    assert plan.request is not None  # as rows are a table
    return plan.request


def _ids(cells: _Cells, name: str, plan: Plan) -> pa.ChunkedArray:
    column = cells[name]
    try:
        return column.cast(plan.id_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise InputError(
            f"{cells.file.url}: column {shown(name)} (--id): found values of type {column.type}, expected "
            f"{plan.id_type} as in {plan.first}"
        ) from None


def _labels(cells: _Cells, name: str, plan: Plan, request: TableRequest) -> np.ndarray:
    column, where = cells[name], cells.where(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    has_words = not plan.text_labels and (cells.file.unit == "line" or is_text(column.type))
    if plan.text_labels:
        words = label_words(column, plan.label_type, where)
        labels = np.empty(len(words), dtype=object)
        labels[:] = [None if word is None else str(word).strip() for word in words]
        bad = [k for k, word in enumerate(labels) if not word or word in cells.missing]
    else:
        # Labels that are numbers by their type are what they are.
        numbers = cells.missing_numbers if cells.file.type_of(name) is None or is_text(column.type) else ()
        labels, _ = as_numbers(column, WantedColumn(name, NUMBER, "label"), cells.missing, where, numbers)
        bad = np.flatnonzero(np.isnan(labels)).tolist()
    if bad and not request.unlabelled:  # else it is empty, or NaN
        word = labels[bad[0]] if plan.text_labels else None
        unknown = " or a word of --missing" if has_words else ""
        what = f"{shown(word)}, which stands for nothing (--missing)" if word else f"{cells.file.nothing}{unknown}"
        raise InputError(f"{where(int(bad[0]))}: found {what}, expected a label")
    if plan.text_labels:
        labels[bad] = ""
    elif request.above is not None:
        return np.where(np.isnan(labels), np.nan, labels > request.above)
    return labels
