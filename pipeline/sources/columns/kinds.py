"""The kind of each column: by its type, or in text by its first cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa

from ikmap.tables import CATEGORY, NUMBER, TIME, ColumnPlan
from ikmap.tables.times import seconds_in
from pipeline.errors import InputError
from pipeline.sources.columns.cells import kind_of_type, number_in
from pipeline.sources.columns.request import TableRequest


def plan_of_types(
    url: str, names: Sequence[str], types: Sequence[pa.DataType], request: TableRequest
) -> list[ColumnPlan]:
    """What columns of a typed table are.

    Raises
    ------
    InputError
        One of them has a type that is of no kind.
    """
    plan = []
    for name, kind in zip(names, types, strict=True):
        known = _requested(name, request)
        by_type = kind_of_type(kind)
        if by_type is None:
            raise InputError(
                f"{url}: column {name!r}: found values of type {kind}, expected numbers, words, dates or times; leave "
                f"it out: --drop {name}"
            )
        plan.append(known or ColumnPlan(name, by_type, why=f"type {kind}"))
    return plan


def plan_of_cells(names: Sequence[str], rows: Sequence[Sequence[str]], request: TableRequest) -> list[ColumnPlan]:
    """What columns of text are, by their cells in the first rows."""
    missing = frozenset(request.missing) | {""}
    plan = []
    for j, name in enumerate(names):
        if known := _requested(name, request):
            plan.append(known)
            continue
        cells = Counter(cell for row in rows if j < len(row) and (cell := row[j].strip()) not in missing)
        numbers = [cell for cell in cells if number_in(cell) is not None or cell.lower().lstrip("+-") in _NOT_FINITE]
        if not cells:
            plan.append(ColumnPlan(name, NUMBER, why=f"no value in the first {len(rows):,} rows"))
        elif len(numbers) == len(cells):
            plan.append(ColumnPlan(name, NUMBER, why="numbers in the first rows"))
        elif len(numbers) >= MANY and sum(map(cells.__getitem__, numbers)) >= MOST * cells.total():
            plan.append(ColumnPlan(name, NUMBER, why="mostly numbers in the first rows"))  # the others are refused
        elif all(seconds_in(cell) is not None for cell in cells):
            plan.append(ColumnPlan(name, TIME, why="dates or times in the first rows"))
        else:
            word = min(cell for cell in cells if number_in(cell) is None)
            plan.append(ColumnPlan(name, CATEGORY, why=f"words in the first rows, such as {word[:20]!r}"))
    return plan


MANY, MOST = 20, 0.95
"""A column with so many different numbers, in so large a share of its cells, is one of numbers with faults in it."""
_NOT_FINITE = frozenset({"inf", "infinity"})


def _requested(name: str, request: TableRequest) -> ColumnPlan | None:
    """What the user says of a column."""
    if name in request.plan:
        return request.plan[name]
    return ColumnPlan(name, CATEGORY, why="--category") if name in request.categories else None
