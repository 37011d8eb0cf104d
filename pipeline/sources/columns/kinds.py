"""The kind of each column: by its type, or in text by its first cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from ikmap.tables import CATEGORY, NUMBER, TIME, ColumnPlan
from ikmap.tables.statistics import EXACT
from pipeline.errors import InputError
from pipeline.sources.columns.cells import are_times, kind_of_type, number_in
from pipeline.sources.columns.request import TableRequest, as_typed


def plan_of_types(
    url: str, names: Sequence[str], types: Sequence[pa.DataType], request: TableRequest
) -> list[ColumnPlan]:
    """Return what the columns of a typed table are.

    Raises
    ------
    InputError
        A column has a type that is of no kind.
    """
    plan = []
    for name, kind in zip(names, types, strict=True):
        known = _requested(name, request)
        by_type = kind_of_type(kind)
        if by_type is None:
            raise InputError(
                f"{url}: column {name!r}: found values of type {kind}, expected numbers, words, dates or times; leave "
                f"it out: {as_typed('--drop', name)}"
            )
        plan.append(known or ColumnPlan(name, by_type, why=f"type {kind}"))
    return plan


def plan_of_cells(
    names: Sequence[str],
    rows: Sequence[Sequence[str]],
    request: TableRequest,
    further: Sequence[Sequence[str]] = (),
) -> list[ColumnPlan]:
    """Return what columns of text are, by their cells in the first rows, and in some from further down.

    A column of numbers or of times whose cells further down are of another kind, more than a few of them, is one of
    words; one that has no value in the first rows is what the others say. Nothing else is decided by rows further down,
    so a column of words stays one.
    """
    missing = request.missing_cells
    return [
        _requested(name, request)
        or _plan_of(name, len(rows), cells_of(j, rows, missing), cells_of(j, further, missing))
        for j, name in enumerate(names)
    ]


def cells_of(j: int, rows: Iterable[Sequence[str]], missing: Collection[str]) -> Counter[str]:
    """Return how often each cell stands in a column, of those that are not missing."""
    return Counter(cell for row in rows if j < len(row) and (cell := row[j].strip()) not in missing)


def few(others: Iterable[str], cells: Counter[str]) -> bool:
    """Return whether `others` are so few of the cells that they are faults."""
    return cells.total() - sum(cells[cell] for cell in others) >= MOST * cells.total()


def are_faults(others: Collection[str], cells: Counter[str]) -> bool:
    """Return whether so many different cells are of one kind that the few others are faults, if there are any."""
    return not others or (len(cells) - len(others) >= MANY and few(others, cells))


def _plan_of(name: str, first_rows: int, cells: Counter[str], further: Counter[str]) -> ColumnPlan:
    if not cells:
        plan = _plan_of(name, 0, further, Counter()) if further else ColumnPlan(name, NUMBER)
        where = f"no value in the first {first_rows:,} rows"
        return replace(plan, why=f"{where}; {plan.why.replace('the first rows', 'rows further down')}".rstrip("; "))
    no_numbers = _no_numbers(cells)
    for kind, what in ((NUMBER, "numbers"), (TIME, "dates or times")):
        others = no_numbers if kind == NUMBER else _no_times(cells)
        if not are_faults(others, cells):
            continue
        why = f"{'mostly ' if others else ''}{what} in the first rows"  # the others are refused
        strange = _no_numbers(further) if kind == NUMBER else _no_times(further)
        if not few(strange, further):
            return ColumnPlan(name, CATEGORY, why=f"{why}, but not further down, such as {_shown(min(strange))}")
        if kind == NUMBER and any(map(_is_rounded, (*cells, *further))):
            why += "; whole numbers beyond 2^53 are rounded"
        return ColumnPlan(name, kind, why=why)
    return ColumnPlan(name, CATEGORY, why=f"words in the first rows, such as {_shown(min(no_numbers))}")


MANY, MOST = 20, 0.95
"""A column with so many different numbers, in so large a share of its cells, is one of numbers with faults in it."""
_NOT_FINITE = frozenset({"inf", "infinity"})


def _no_numbers(cells: Iterable[str]) -> list[str]:
    return [cell for cell in cells if number_in(cell) is None and cell.lower().lstrip("+-") not in _NOT_FINITE]


def _no_times(cells: Collection[str]) -> list[str]:
    words = list(cells)
    return [word for word, is_time in zip(words, are_times(words).tolist(), strict=True) if not is_time]


def _is_rounded(cell: str) -> bool:
    """Return whether a cell is a whole number, written in digits, that float64 may have to round."""
    return len(cell) > 15 and cell.lstrip("+-").isdecimal() and abs(float(cell)) > EXACT


def _shown(word: str) -> str:
    return repr(word[:20])


def _requested(name: str, request: TableRequest) -> ColumnPlan | None:
    """Return what the user says of a column; None if that is nothing."""
    if name in request.plan:
        return request.plan[name]
    return ColumnPlan(name, CATEGORY, why="--category") if name in request.categories else None
