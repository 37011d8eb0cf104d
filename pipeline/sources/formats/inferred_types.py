"""Tables whose cells have a type each (JSON lines, ARFF, SQLite): what columns are by them, and cells as columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import pyarrow as pa

from ikmap.tables import CATEGORY, NUMBER, ColumnPlan
from pipeline.errors import InputError
from pipeline.monitoring.plain_text import not_utf8, shown
from pipeline.sources.columns.cells import LABEL, WantedColumn, is_text, number_of_word
from pipeline.sources.columns.kinds import plan_of_cells
from pipeline.sources.columns.request import TableRequest
from pipeline.sources.formats.csv_text import is_broken
from pipeline.sources.formats.typed import TypedColumns

type Cell = object
"""None, a bool, int, float or str, :class:`Digits`; or something that no cell of a table can be."""


class Digits(str):
    """A number as it is written in a text."""

    __slots__ = ()


@dataclass(frozen=True)
class InferredTable(TypedColumns):
    """A file whose columns have the types that their first cells have.

    Attributes
    ----------
    plans : tuple of ColumnPlan
        What the columns of text are, and what columns of both numbers and words are.
    """

    plans: tuple[ColumnPlan, ...]

    def kinds(self, names: Sequence[str], request: TableRequest) -> list[ColumnPlan]:
        known = {plan.name: plan for plan in self.plans}
        given = {*request.plan, *request.categories}
        by_type = super().kinds(names, request)
        return [plan if plan.name in given else known.get(plan.name, plan) for plan in by_type]

    def label_is_text(self, name: str, missing: Collection[str] = ()) -> bool:
        numbers = {plan.name for plan in self.plans if plan.kind == NUMBER}
        return name not in numbers and super().label_is_text(name, missing)


def types_of(
    names: Sequence[str],
    first: Sequence[Sequence[Cell]],
    further: Sequence[Sequence[Cell]],
    request: TableRequest,
    untyped: Collection[str] = (),
) -> tuple[list[pa.DataType], tuple[ColumnPlan, ...]]:
    """Return the types of columns by their first rows and some further down, and plans of those that need more.

    Text is words, or dates and times; digits in it are words, except in the `untyped` columns. A column of numbers and
    words is of what most of its cells are, as in CSV.
    """
    missing = request.missing_cells
    types, plans = [], []
    for j, name in enumerate(names):
        samples = [[cell for row in rows if _is_there(cell := row[j], missing)] for rows in (first, further)]
        kinds = {kind for kind in set(map(_type_of, samples[1])) if kind in _PLAIN} | set(map(_type_of, samples[0]))
        if strange := [kind for kind in kinds if kind not in _PLAIN]:
            types.append(strange[0])
        elif _TEXT not in kinds:
            types.append(pa.null() if not kinds else kinds.pop() if len(kinds) == 1 else _REAL)
        else:
            words = [[[_word(cell)] for cell in cells] for cells in samples]
            plan = plan_of_cells([name], words[0], TableRequest(missing=request.missing), words[1])[0]
            is_mixed = len(kinds) > 1
            if plan.kind == NUMBER and not is_mixed and name not in untyped:
                plan = ColumnPlan(name, CATEGORY, why="text, which has digits in it")
            types.append(_REAL if plan.kind == NUMBER and is_mixed else _TEXT)
            plans.append(plan)
    return types, tuple(plans)


def column_of(
    cells: Sequence[Cell],
    wanted: WantedColumn,
    of_type: pa.DataType,
    missing: Collection[str],
    where: Callable[[int], str],
) -> pa.ChunkedArray:
    """Return cells as a column of the wanted kind, or of a type where it holds labels or ids.

    Raises
    ------
    InputError
        A cell is no number in a column of numbers, or no cell of a table at all.
    """
    is_number = wanted.kind == NUMBER and not is_text(of_type)
    if wanted.kind == LABEL and pa.types.is_boolean(of_type):
        cells = [_truth(cell, k, where) for k, cell in enumerate(cells)]
    column = _as_they_are(cells, pa.float64() if is_number else of_type if wanted.kind == LABEL else pa.string())
    if column is None and is_number:
        column = pa.array([_number(cell, k, wanted, missing, where) for k, cell in enumerate(cells)], pa.float64())
    elif column is None:
        column = pa.array([_text(cell, k, where) for k, cell in enumerate(cells)], pa.string())
    return pa.chunked_array([column])


_INTEGER, _REAL, _TRUTH, _TEXT = pa.int64(), pa.float64(), pa.bool_(), pa.string()
_PLAIN = (_INTEGER, _REAL, _TRUTH, _TEXT)


def _type_of(cell: Cell) -> pa.DataType:
    if isinstance(cell, bool):
        return _TRUTH
    if isinstance(cell, Digits):
        whole = len(cell) <= 20 and cell.lstrip("-").isdecimal()
        return _INTEGER if whole and -(1 << 63) <= int(cell) < 1 << 63 else _REAL
    if isinstance(cell, str):
        return _TEXT
    if isinstance(cell, int):
        return _INTEGER
    if isinstance(cell, float):
        return _REAL
    if isinstance(cell, bytes):
        return pa.binary()
    return pa.list_(pa.null()) if isinstance(cell, list) else pa.struct([])


def _is_there(cell: Cell, missing: Collection[str]) -> bool:
    return cell is not None and not (isinstance(cell, str) and cell.strip() in missing)


def _as_they_are(cells: Sequence[Cell], of_type: pa.DataType) -> pa.Array | None:
    """Return cells as values of a type, where Arrow takes them without changing any; else None."""
    if bytes in set(map(type, cells)):  # Arrow would take them for text
        return None
    try:
        return pa.array(cells, of_type)
    except (pa.ArrowException, OverflowError, UnicodeError, ValueError, TypeError):
        return None


def _number(
    cell: Cell, row: int, wanted: WantedColumn, missing: Collection[str], where: Callable[[int], str]
) -> float | None:
    if cell is None:
        return None
    if isinstance(cell, bool | int | float):
        return _finite(cell, row, where)
    if isinstance(cell, Digits):
        return _finite(float(cell), row, where)
    if isinstance(cell, str):
        word = cell.strip()
        if word in missing or not word:
            return None
        value = number_of_word(word)
        if value is not None:
            return value
    word = cell.strip() if isinstance(cell, str) else "WORD"
    raise InputError(f"{where(row)}: found {_shown(cell)}, expected {wanted.expected(word, missing)}")


def _truth(cell: Cell, row: int, where: Callable[[int], str]) -> Cell:
    """Return a label as true or false, where the labels are; words stay."""
    if isinstance(cell, Digits | int | float) and not isinstance(cell, bool):
        if float(cell) not in (0.0, 1.0):
            raise InputError(f"{where(row)}: found {_word(cell)}, expected true or false (the label)")
        return float(cell) == 1.0
    word = cell.strip().lower() if isinstance(cell, str) else ""
    return word == "true" if word in ("true", "false") else cell


def _finite(value: float, row: int, where: Callable[[int], str]) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise InputError(f"{where(row)}: found {number}, expected a finite number")
    return number


def _text(cell: Cell, row: int, where: Callable[[int], str]) -> str | None:
    if cell is None:
        return None
    if isinstance(cell, bool | int | float | str):
        word = _word(cell)
        if is_broken(word):
            raise InputError(f"{where(row)}: {not_utf8('text')}")
        return word
    raise InputError(f"{where(row)}: found {_shown(cell)}, expected a number, a word, a date or a time")


def _word(cell: Cell) -> str:
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        return str(int(cell))
    return str(cell)


def _shown(cell: Cell) -> str:
    if isinstance(cell, str):
        return shown(cell)
    return "a list" if isinstance(cell, list) else "an object" if isinstance(cell, dict) else "bytes (a blob)"
