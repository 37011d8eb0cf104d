"""Plan a table: which of its columns are features, of what kind, and which hold labels, ids and weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from ikmap.tables import CATEGORY, NUMBER, ColumnPlan
from ikmap.tables.column_plan import DROP
from pipeline.errors import InputError
from pipeline.sources.columns.cells import number_in
from pipeline.sources.columns.checks import check_columns
from pipeline.sources.columns.labels import choose_label
from pipeline.sources.columns.plan import A_NUMBER, WIDE, Plan
from pipeline.sources.columns.read_request import ReadRequest
from pipeline.sources.columns.request import TableRequest
from pipeline.sources.columns.table import Table


def plan_of_table(given: str, files: Sequence[Table], wanted: ReadRequest) -> Plan:
    """Return what the rows of a table of several files are made of, by the first of them.

    Raises
    ------
    InputError
        A file lacks a column, or the first one has a column that is of no kind.
    """
    first, request, columns = files[0], wanted.table, wanted.columns
    if request.drop and not first.has_names:
        raise InputError(
            f"{given}: found no column {request.drop[0]!r}, which is to be dropped, expected a table whose columns "
            "have names"
        )
    if columns is not None and request.id not in first.names:
        request = replace(request, id=None)
    request.refuse_unknown(first.url, first.names)
    label = _label_of(first, request, wanted)
    beside = {name for name in (label, request.id, request.weight, *request.drop) if name is not None}
    features = [name for name in first.names if name not in beside]
    if isinstance(columns, tuple):
        if not first.has_names:
            columns = _by_position(given, features, columns)
    else:
        if not features and request.drop:
            raise InputError(f"{given}: found no feature column that is not dropped, expected at least one to stay")
        check_columns(given, len(features), None)
        check_columns(given, len(features) + len(request.drop), wanted.n_columns)
        columns = (
            tuple(ColumnPlan(name, NUMBER, why="as in the training data") for name in features)
            if isinstance(columns, int)
            else _inferred(files, features, request)
        )
    # Nothing is learned from columns that are left out, so files may lack them.
    _refuse_lacking(files, [column.name for column in columns if column.encoding != DROP], label, request)
    text = label is not None and (wanted.text_labels or _is_text(first, label, request))
    if text and request.above is not None:
        raise InputError(
            f"{first.url}: column {label!r} (the label): found words, expected numbers for --above {request.above:g}"
        )
    numbers = all(column.kind == NUMBER and column.encoding == "auto" for column in columns)
    compact = numbers and len(columns) >= WIDE and not first.partition
    return Plan(
        columns=len(columns) if compact else columns,
        names=tuple(column.name for column in columns) if first.has_names else None,
        label=label,
        text_labels=text,
        label_type=None if label is None else first.type_of(label),
        request=request,
        split_column=_split_column(files, columns, label, request),
        id_type=None if request.id is None else first.type_of(request.id) or pa.string(),
        first=first.url,
    )


def _label_of(first: Table, request: TableRequest, wanted: ReadRequest) -> str | None:
    """Return the name of the label column."""
    apart = {*request.drop, *(name for name in (request.id, request.weight) if name is not None)}
    by_name = first.has_names and wanted.known_label is not None
    given = wanted.known_label if by_name else wanted.label
    # A column that is to be left out is the label only if it is named as such.
    names = [name for name in first.names if given is not None or name not in apart]
    expected = wanted.n_columns
    if isinstance(wanted.columns, tuple):
        expected = len(wanted.columns) + len(apart) - (len(first.names) - len(names))
    at = choose_label(
        first.url,
        names if first.has_names else None,
        len(names),
        given,
        required=wanted.require_label,
        n_columns=expected,
        by_name=by_name,
        last=wanted.label_last,
    )
    label = None if at is None else names[at]
    if isinstance(wanted.columns, tuple) and label != given and label in {own.name for own in wanted.columns}:
        return None  # a position of the training file, whose label is not in this one: here a feature has it
    if label in apart:
        raise InputError(f"{first.url}: column {label!r} is the label, and is to be left out; expected one of both")
    return label


def _is_text(first: Table, label: str, request: TableRequest) -> bool:
    """Return whether the labels are words."""
    if label in request.categories or label not in first.own_names:
        return True
    return first.label_is_text(label, request.missing)


def _inferred(files: Sequence[Table], names: Sequence[str], request: TableRequest) -> tuple[ColumnPlan, ...]:
    """Return what columns are, by their types or first cells, and by what the user says."""
    first = files[0]
    own = [name for name in names if name in first.own_names] if first.partition else list(names)
    said = bool(request.plan or request.categories)
    if len(own) >= WIDE and not said and first.are_numbers(own, request):
        planned = {name: ColumnPlan(name, NUMBER, why=A_NUMBER) for name in own}
    else:
        planned = {column.name: column for column in first.kinds(own, request)}
    for name, _ in first.partition:
        if name in names:
            planned[name] = request.plan.get(name) or _plan_of_partition(name, files)
    return tuple(planned[name] for name in names)


def _split_column(
    files: Sequence[Table], columns: Sequence[ColumnPlan], label: str | None, request: TableRequest
) -> ColumnPlan | None:
    """Return the plan of the column by whose values rows are divided."""
    if (name := request.split_column) is None:
        return None
    first = files[0]
    if name == label:
        raise InputError(f"{first.url}: column {name!r} is the label, expected another for --split-by")
    same_name = [column for column in columns if column.name == name]
    if same_name:
        return same_name[0]
    return first.kinds([name], request)[0] if name in first.own_names else _plan_of_partition(name, files)


def _refuse_lacking(files: Sequence[Table], features: Sequence[str], label: str | None, request: TableRequest) -> None:
    """Refuse files that lack a column.

    Raises
    ------
    InputError
        A file lacks a feature, the label, the ids, the weights, or the column that rows are split by.
    """
    beside = (label, request.id, request.weight, request.split_column)
    needed = [*features, *(name for name in beside if name is not None)]
    width = len(files[0].own_names)
    for file in files:
        if not file.has_names and len(file.own_names) != width:  # more cannot be told from others in their places
            raise InputError(
                f"{file.url}: found {len(file.own_names)} columns without names, expected {width} as in {files[0].url}"
            )
        there = set(file.names)
        for name in needed:
            if name not in there:
                raise InputError(
                    f"{file.url}: found no column {name!r}, expected it as in "
                    f"{'the training data' if file is files[0] else files[0].url}; its columns are "
                    f"{', '.join(file.names[:12])}{', ...' if len(file.names) > 12 else ''}"
                )


def _by_position(given: str, names: Sequence[str], columns: Sequence[ColumnPlan]) -> tuple[ColumnPlan, ...]:
    """Return the columns of the training data under the numbers that they have in a file without names."""
    check_columns(given, len(names), len(columns))
    return tuple(replace(column, name=name) for column, name in zip(columns, names, strict=True))


def _plan_of_partition(name: str, files: Sequence[Table]) -> ColumnPlan:
    values = [dict(file.partition).get(name) for file in files]
    numbers = all(value is None or number_in(value) is not None for value in values)
    return ColumnPlan(name, NUMBER if numbers else CATEGORY, why="in the names of the folders")
