"""Tables in memory: DataFrames of pandas and polars, Arrow tables, arrays, without an import of these packages."""

from __future__ import annotations

import datetime
import re
from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ikmap.arrays import Array, Floats, Matrix, Objects, Singles
from ikmap.tables.column_plan import DROP
from ikmap.tables.raw import CATEGORY, NUMBER, TIME, RawTable, as_word, coded, positions_of, without_numbers
from ikmap.tables.times import seconds_in, seconds_of, word_of

if TYPE_CHECKING:
    import pandas as pd

type Frame = pd.DataFrame
"""A table whose columns have names: of pandas, or one of polars or Arrow."""


class FrameModel(Protocol):
    """A fitted model for tables and arrays, as :func:`ikmap.load` returns it."""

    def predict(self, X: Matrix | Frame) -> Array: ...
    def decision_function(self, X: Matrix | Frame) -> Array: ...
    def predict_proba(self, X: Matrix | Frame) -> Array: ...


_UNNAMED = re.compile(r"Unnamed: \d+")
"""Names that pandas gives to columns of CSV whose name is empty."""
_NAMES = {NUMBER: "numbers", CATEGORY: "words", TIME: "dates or times"}


def is_frame(X: object) -> bool:
    """Return whether X is a table whose columns have names."""
    return hasattr(X, "column_names") or (hasattr(X, "columns") and hasattr(X, "__getitem__"))


def names_of(X: Frame) -> list[str]:
    """Return the names of the columns of a table, as texts."""
    return [str(name) for name in (X.column_names if hasattr(X, "column_names") else X.columns)]


def columns_of(X: Frame, names: Sequence[str], kinds: Sequence[str | None] = ()) -> Iterator[Array]:
    """Yield columns of a table, by name: numbers, datetime64, or objects in which None and NaN are missing.

    Parameters
    ----------
    names : sequence of str
        Texts of the names. The empty one, which columns of CSV may have, is also found as pandas reads it
        (``Unnamed: 0``), where a single column is called so.
    kinds : sequence of (str or None), optional
        Kinds that are wanted. A category keeps what only words show, such as the zone of a time. A column that is left
        out (:data:`DROP`) may be lacking, and its cells count as missing.

    Raises
    ------
    ValueError
        There is no column of a name, or several.
    """
    places: dict[str, list[int]] = {}
    for j, name in enumerate(names_of(X)):
        places.setdefault(name, []).append(j)
    if "" in names and "" not in places:
        unnamed = [at for name, at in places.items() if _UNNAMED.fullmatch(name) and name not in names]
        if len(unnamed) == 1:
            places[""] = unnamed[0]
    kinds = kinds or [None] * len(names)
    for name, kind in zip(names, kinds, strict=True):
        if name not in places and kind != DROP:
            raise ValueError(f"X: found no column {name!r}, expected it as in the training data")
        if len(places.get(name, ())) > 1:
            first, second, *_ = places[name]
            raise ValueError(
                f"X: column name {name!r} appears twice (columns {first + 1} and {second + 1}), expected names whose "
                "texts differ; rename one of them, as by X.columns = [...]"
            )
    for name, kind in zip(names, kinds, strict=True):
        yield np.full(len(X), np.nan) if kind == DROP else _column(X, places[name][0], name, as_words=kind == CATEGORY)


def _column(X: Frame, j: int, name: str, as_words: bool) -> Array:
    """Return the column at a position."""
    if hasattr(X, "column_names"):  # Arrow
        column = X.column(j)
        try:
            column.validate(full=True)  # what was read from a damaged file may point anywhere
        except ValueError as error:
            raise ValueError(f"column {name!r}: damaged: {error}") from None
        type_of = str(column.type)
        zoned = type_of.startswith("timestamp") and "tz=" in type_of
        if zoned and as_words:
            return _objects(column.cast("string").to_pylist())
        if zoned:  # the date and the time of its own clock
            days, within = _array(column.cast("date32")), _array(column.cast("time64[ns]").cast("int64"))
            times: Array = days.astype("datetime64[us]") + np.nan_to_num(within // 1000).astype("timedelta64[us]")
            return times
        if type_of.startswith(("dictionary", "decimal", "date", "time32", "time64", "bool")):
            return _objects(column.to_pylist())
        return _array(column)
    pandas = hasattr(X, "iloc")
    column = X.iloc[:, j] if pandas else X[X.columns[j]]
    kind = getattr(column.dtype, "kind", None)
    zoned = getattr(column.dtype, "tz" if pandas else "time_zone", None) is not None
    if (kind == "b" and pandas) or (as_words and (zoned or kind in ("i", "u"))):
        return _objects(column.to_list())
    if kind in ("i", "u", "f") and pandas:  # whose own types have their own NA
        single = as_words and kind == "f" and column.dtype.itemsize == 4
        return np.asarray(column.to_numpy(dtype="float32" if single else "float64", na_value=np.nan))
    if zoned:
        column = column.dt.tz_localize(None) if pandas else column.dt.replace_time_zone(None)
    return np.asarray(column.to_numpy())


def _array(column: pd.Series) -> Array:
    """Return a column of Arrow, with NaN or NaT for missing cells."""
    return np.asarray(column.to_numpy() if hasattr(column, "chunks") else column.to_numpy(zero_copy_only=False))


def cells(values: np.ndarray, name: str, kind: str | None = None) -> tuple[np.ndarray, tuple[str, ...] | None, str]:
    """Return the cells of a column as numbers, its words, and its kind.

    Parameters
    ----------
    kind : str, optional
        Required kind; by default the kind of the cells. Of a column that is left out (:data:`DROP`) all cells count as
        missing, whatever they are.

    Raises
    ------
    ValueError
        It is of another kind, a number is infinite, or a cell is an array.
    """
    if kind == DROP:
        return np.full(len(values), np.nan), (), CATEGORY
    found, words, own = _cells(values, name, as_words=kind == CATEGORY)
    if kind == TIME and values.dtype.kind == "m":  # as earlier versions had it
        own = TIME
    if kind == TIME and own == CATEGORY:
        found, words, own = _times_in(found, words or (), name), None, TIME
    if kind is not None and own != kind and not np.isnan(found).all():
        raise ValueError(
            f"column {name!r}: found {_NAMES[own]}, expected {_NAMES[kind]} as in the rows it was fitted on"
        )
    if np.isinf(found).any():
        row = int(np.flatnonzero(np.isinf(found))[0])
        raise ValueError(f"row {row}, column {name!r}: found {found[row]}, expected a finite number, not infinity")
    return (found, words, own if kind is None else kind)


def _cells(values: np.ndarray, name: str, as_words: bool) -> tuple[np.ndarray, tuple[str, ...] | None, str]:
    if values.dtype.kind in "iufb" and not as_words:
        return values.astype(np.float64), None, NUMBER
    if values.dtype.kind in "Mm" and not as_words:
        absent = np.isnat(values)
        unit, own = ("datetime64[us]", TIME) if values.dtype.kind == "M" else ("timedelta64[us]", NUMBER)
        seconds = values.astype(unit).astype(np.int64) / 1e6
        return np.where(absent, np.nan, seconds), None, own
    if values.dtype.kind == "M":
        times = [None if text == "NaT" else text.replace("T", " ") for text in np.datetime_as_string(values).tolist()]
        return *coded(times), CATEGORY
    if values.dtype == np.float32:
        values = _of_the_same_digits(values)
    # Rows of numbers and words have numbers of NumPy in them.
    plain = (value.item() if isinstance(value, np.number | np.bool_) else value for value in values.tolist())
    listed = [None if is_absent(value) else value for value in plain]
    there = [value for value in listed if value is not None]
    if not as_words and all(isinstance(value, int | float | Decimal | bool) for value in there):
        return np.array([np.nan if v is None else float(v) for v in listed], dtype=np.float64), None, NUMBER
    if not as_words and all(isinstance(value, datetime.date | datetime.time) for value in there):
        return np.array([np.nan if v is None else seconds_of(v) for v in listed], dtype=np.float64), None, TIME
    for row, value in enumerate(listed):
        if isinstance(value, np.ndarray):
            raise ValueError(
                f"row {row}, column {name!r}: found an array, expected a number, a word or a time; to leave the column "
                f"out, put TableEncoder(columns={{{name!r}: {{'encoding': 'drop'}}}}) in front"
            )
    return *coded([None if value is None else _word(value) for value in listed]), CATEGORY


def _word(value: object) -> str:
    """Return the word that a run has for a value: whole numbers without a fraction, times as Arrow writes them."""
    if isinstance(value, datetime.date | datetime.time):
        return word_of(value)
    return as_word(int(value) if isinstance(value, float) and value.is_integer() else value)


def _of_the_same_digits(values: Singles) -> Floats:
    """Return the float64 numbers that are written with the digits of float32 numbers; whole numbers stay themselves."""
    numbers = values.astype(np.float64)
    return np.where(numbers == np.floor(numbers), numbers, values.astype(str).astype(np.float64))


def is_absent(value: object) -> bool:
    """Return whether a cell is missing: None, NaN, NaT, or the NA of pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):  # which cannot be compared
        return True
    different = value != value  # of an array, another array
    return isinstance(different, bool | np.bool_) and bool(different)


def _times_in(codes: Floats, words: Sequence[str], name: str) -> Floats:
    """Return the seconds of ISO dates or times as words, which pandas leaves in columns of CSV."""
    seconds = [seconds_in(word) for word in words]
    if None in seconds:
        k = seconds.index(None)
        row = int(np.flatnonzero(codes == k)[0])
        raise ValueError(
            f"row {row}, column {name!r}: found {words[k]!r}, expected a date or time such as 2001-05-31 23:59"
        )
    table = np.array([*seconds, np.nan], dtype=np.float64)
    values: np.ndarray = table[positions_of(codes, len(words))]
    return values


def _objects(values: Sequence[object]) -> Objects:
    objects = np.empty(len(values), dtype=object)
    objects[:] = values
    return objects


def table_of_columns(
    columns: Sequence[np.ndarray],
    names: Sequence[str],
    kinds: Sequence[str | None],
    missing: Collection[str] = (),
    missing_numbers: Sequence[float] = (),
) -> tuple[RawTable, list[str]]:
    """Return a table of columns, and their kinds; given kinds are required.

    Parameters
    ----------
    missing : collection of str
        Words that stand for nothing.
    missing_numbers : sequence of float
        Numbers that stand for nothing in columns of numbers.
    """
    if missing:
        columns = [_without(*column, missing, missing_numbers) for column in zip(columns, kinds, strict=True)]
    made = [cells(column, name, kind) for column, name, kind in zip(columns, names, kinds, strict=True)]
    if missing:
        made = [(_without_words(codes, words, missing), words, kind) for codes, words, kind in made]
    n = len(columns[0]) if columns else 0
    values = np.column_stack([found for found, _, _ in made]) if made else np.empty((n, 0))
    return RawTable(np.ascontiguousarray(values), tuple(words for _, words, _ in made)), [kind for _, _, kind in made]


def table_by_name(
    X: Frame,
    names: Sequence[str],
    kinds: Sequence[str],
    missing: Collection[str] = (),
    missing_numbers: Sequence[float] = (),
) -> RawTable:
    """Return the columns of a DataFrame with these names, which can stand in any order among others.

    Parameters
    ----------
    missing, missing_numbers
        As of :func:`table_of_columns`.

    Raises
    ------
    ValueError
        One is missing, has the name of another one, or is of another kind.
    """
    return table_of_columns(list(columns_of(X, names, kinds)), names, kinds, missing, missing_numbers)[0]


def _without(column: Array, kind: str | None, missing: Collection[str], missing_numbers: Sequence[float]) -> Array:
    """Return the column with None or NaN in place of what stands for nothing."""
    numbers = missing_numbers if kind == NUMBER else ()
    if column.dtype.kind in "iuf" and numbers:
        return without_numbers(column.astype(np.float64), numbers)
    if column.dtype.kind not in "OUT":
        return column

    def is_nothing(value: object) -> bool:
        if isinstance(value, str):
            return value.strip() in missing
        if isinstance(value, bool) or not isinstance(value, int | float | Decimal | np.number):
            return False
        return float(value) in numbers

    return _objects([None if is_nothing(value) else value for value in column])


def _without_words(codes: Floats, words: Sequence[str] | None, missing: Collection[str]) -> Floats:
    """Return the codes of a column with NaN for words that stand for nothing, such as numbers in a column of words."""
    lost = [float(k) for k, word in enumerate(words or ()) if word in missing]
    return without_numbers(codes, lost)
