"""Arrow columns become numbers: float64, NaN where missing, codes of words, seconds of times."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ikmap.arrays import Bools, Floats
from ikmap.tables import CATEGORY, NUMBER, TIME
from ikmap.tables.raw import as_word, without_numbers
from ikmap.tables.statistics import EXACT
from ikmap.tables.times import seconds_in
from pipeline.errors import InputError
from pipeline.monitoring.plain_text import shown
from pipeline.sources.columns.request import as_typed

type Where = Callable[[int], str]
"""Names a row of the column, and the column, for people."""
LABEL = "label"
"""The kind of a column whose values are taken as they are: labels, ids."""
type Role = Literal["feature", "label", "weight"]
"""Purpose of the cells of a column."""
WEIGHT = "a finite number >= 0 in every row (the weight; --weight)"
"""Words for what a cell of the weights has to be."""


class WantedColumn(NamedTuple):
    """A column that is read.

    Attributes
    ----------
    name : str
    kind : str
        Number, category or time; :data:`LABEL` where cells are taken as they are.
    role : str
        What its cells are for; ids are none of the three, and count as features.
    """

    name: str
    kind: str
    role: Role = "feature"

    def expected(self, word: str, missing: Collection[str]) -> str:
        """Return what a cell has to be, and what to type if it is not meant to be that but the word that was found.

        Parameters
        ----------
        word : str
        missing : collection of str
            Words that stand for nothing already: they have to be named again beside another one.
        """
        if self.role == "weight":
            return WEIGHT
        words = f"train with {as_typed('--category', self.name)}"
        if self.role == "label":
            return f"a number as in the first rows (the label); if labels are words, {words}"
        what = "a number" if self.kind == NUMBER else "a date or time such as 2001-05-31, 2001-05-31 23:59 or 23:59"
        nothing = as_typed("--missing", *sorted(set(missing) - {""}), "WORD" if len(word) > 40 else word)
        return f"{what}; if its cells are words, {words}; if this one stands for nothing, train with {nothing}"


def is_number(kind: pa.DataType) -> bool:
    """Return whether cells of an Arrow type are numbers."""
    types = pa.types
    return bool(types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind))


def is_text(kind: pa.DataType) -> bool:
    """Return whether cells of an Arrow type are words."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def is_time(kind: pa.DataType) -> bool:
    """Return whether cells of an Arrow type are dates or times."""
    types = pa.types
    return bool(types.is_timestamp(kind) or types.is_date(kind) or types.is_time(kind) or types.is_duration(kind))


def text_labels(url: str, name: str, kind: pa.DataType) -> bool:
    """Return whether labels of an Arrow type are words, as booleans are too: true and false.

    Raises
    ------
    InputError
        Values of the type are no labels, such as lists and dates.
    """
    value_type = kind.value_type if pa.types.is_dictionary(kind) else kind
    if not (is_text(value_type) or is_number(value_type) or pa.types.is_null(value_type)):
        raise InputError(
            f"{url}: column {shown(name)} (the label): found values of type {kind}, expected words, numbers or booleans"
        )
    return is_text(value_type) or pa.types.is_boolean(value_type)


def label_words(cells: pa.ChunkedArray, first: pa.DataType | None, where: Where) -> np.ndarray:
    """Return labels that are words in the first file, as objects; None where a row has no label.

    Parameters
    ----------
    first : pa.DataType or None
        Type of the labels of the first file, where it is known.

    Raises
    ------
    InputError
        The labels of the first file are booleans, and a label here is a number other than 0 and 1.
    """
    if first is not None and pa.types.is_boolean(first) and is_number(cells.type) and cells.type != first:
        numbers = cells.cast(pa.float64(), safe=False)
        strange = ~np.isin(_numbers_of(numbers), (0.0, 1.0)) & _is_present(numbers)
        if strange.any():
            row = int(np.flatnonzero(strange)[0])
            raise InputError(f"{where(row)}: found {numbers[row].as_py():g}, expected true or false (the label)")
        cells = pc.not_equal(numbers, 0)
    words = cells if is_text(cells.type) else cells.cast(pa.string())
    codes, dictionary = _as_codes(words)
    words_and_none = np.array([*dictionary.to_pylist(), None], dtype=object)
    labels: np.ndarray = words_and_none[codes]
    return labels


def float_values(column: pa.ChunkedArray) -> Floats:
    """Return the cells of a float64 column, NaN where a cell is missing."""
    values: Floats = _numbers_of(column)
    return np.where(_is_present(column), values, np.nan) if column.null_count else values


def numbers_together(table: pa.Table, count: int) -> Floats | None:
    """Return the first columns of a table as rows of float64, NaN where a cell is missing.

    It is None where Arrow cannot make them all at once with the same bits as one by one: they are not all of one type
    of numbers, or there are none.
    """
    kinds = set(table.schema.types[:count])
    if len(kinds) != 1 or not _is_plain_number(*kinds):
        return None
    batches = table.select(range(count)).to_batches()
    parts = [batch.to_tensor(null_to_nan=True).to_numpy().astype(np.float64, copy=False) for batch in batches]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty((0, count)), *parts])


def _is_plain_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_float32(kind) or pa.types.is_float64(kind))


def arrow_floats(values: Floats) -> pa.ChunkedArray:
    """Return numbers as an Arrow column of float64, in which NaN is a missing cell."""
    present = ~np.isnan(values)
    mask = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    buffers = [mask, pa.py_buffer(np.ascontiguousarray(values))]
    return pa.chunked_array([pa.Array.from_buffers(pa.float64(), values.size, buffers)])


def _is_present(column: pa.ChunkedArray) -> Bools:
    return _numbers_of(column.is_valid().cast(pa.uint8())).astype(np.bool_)


def _numbers_of(column: pa.ChunkedArray) -> np.ndarray:
    """Return the cells of a column of numbers; a missing cell has any value.

    Arrow's own way to NumPy imports pandas where it is installed, which takes longer than reading a million rows.
    """
    chunks = [
        np.from_dlpack(pa.Array.from_buffers(column.type, len(chunk), [None, chunk.buffers()[1]], offset=chunk.offset))
        for chunk in column.chunks
        if len(chunk)
    ]
    return chunks[0] if len(chunks) == 1 else np.concatenate([np.empty(0, column.type.to_pandas_dtype()), *chunks])


def kind_of_type(kind: pa.DataType) -> str | None:
    """Return the kind of a column by its Arrow type; None for types of no kind, such as lists."""
    if pa.types.is_dictionary(kind) and not is_text(kind):
        kind = kind.value_type
    if is_number(kind) or pa.types.is_null(kind) or pa.types.is_duration(kind):  # which has no month or weekday
        return NUMBER
    return CATEGORY if is_text(kind) else TIME if is_time(kind) else None


def as_numbers(
    column: pa.ChunkedArray,
    wanted: WantedColumn,
    missing: frozenset[str],
    where: Where,
    missing_numbers: tuple[float, ...] = (),
) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Return the cells of a column as a float64 array, and the words that its codes stand for where it has words.

    Parameters
    ----------
    missing : frozenset of str
        Words that stand for nothing.
    missing_numbers : tuple of float
        Numbers that stand for nothing in a column of numbers. True and false are no numbers there.

    Raises
    ------
    InputError
        A cell is not of the kind that is wanted.
    """
    kind = wanted.kind
    if kind == CATEGORY:
        return _codes(column, missing)
    if is_text(column.type):
        return _parsed(column, wanted, missing, where, missing_numbers), None
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_duration(column.type) and wanted.role == "feature":  # earlier models have it for a time
        return _seconds(column), None
    if not pa.types.is_null(column.type) and (pa.types.is_duration(column.type) or kind_of_type(column.type) != kind):
        as_before = (
            f"{_TYPES[kind]} as before it; write all files with the same type, or train with "
            f"{as_typed('--drop', wanted.name)}"
        )
        raise InputError(
            f"{where(0)}: found values of type {column.type}, expected "
            f"{WEIGHT if wanted.role == 'weight' else as_before}"
        )
    if kind == TIME:
        return _seconds(column), None
    values = float_values(column.cast(pa.float64(), safe=False))
    if not pa.types.is_boolean(column.type):
        values = without_numbers(values, missing_numbers)
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0])
        finite = WEIGHT if wanted.role == "weight" else f"a finite number{' (the label)' * (wanted.role == 'label')}"
        raise InputError(f"{where(row)}: found {values[row]}, expected {finite}")
    return values, None


def _codes(column: pa.ChunkedArray, missing: frozenset[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    codes, dictionary = _as_codes(column)
    words = [None if word is None else str(word).strip() for word in dictionary.to_pylist()]
    present = np.bincount(codes, minlength=len(words)) > 0
    words = [None if not word or word in missing else as_word(word) for word in words]
    levels = tuple(sorted({word for word, there in zip(words, present, strict=False) if there and word}))
    place = {word: float(k) for k, word in enumerate(levels)}
    table = np.array([place.get(word, np.nan) if word else np.nan for word in words] + [np.nan])
    return table[codes], levels


def _as_codes(column: pa.ChunkedArray) -> tuple[np.ndarray, pa.Array]:
    """Return the place of each cell among some words, and the words, of which cells may lack some.

    The place of a missing cell is behind the last word.
    """
    if pa.types.is_dictionary(column.type) and pa.types.is_floating(column.type.value_type):
        column = column.cast(column.type.value_type)
    if not pa.types.is_dictionary(column.type):
        if not is_text(column.type):
            column = _as_text(column)
        column = column.dictionary_encode()
    column = column.unify_dictionaries()
    if not column.num_chunks:
        return np.empty(0, dtype=np.int64), pa.array([], pa.string())
    words = column.chunk(0).dictionary
    if pa.types.is_string_view(words.type):  # as polars writes text; Arrow takes no views by their places
        words = words.cast(pa.string())
    indices = pa.chunked_array([chunk.indices for chunk in column.chunks]).cast(pa.int64())
    codes = _numbers_of(indices)
    return np.where(_is_present(indices), codes, len(words)) if indices.null_count else codes, words


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values of any type as words: whole numbers without a fraction."""
    if pa.types.is_floating(column.type):
        filled = column.fill_null(0.5) if column.null_count else column
        whole = pc.and_(pc.equal(pc.floor(filled), filled), pc.less(pc.abs(filled), 2.0**63))
        # Each cell by itself: the word of a number does not depend on those beside it.
        return pc.if_else(whole, filled.cast(pa.int64(), safe=False).cast(pa.string()), column.cast(pa.string()))
    return column.cast(pa.string())


def _seconds(column: pa.ChunkedArray) -> Floats:
    kind = column.type
    if pa.types.is_duration(kind) or pa.types.is_time(kind):
        per = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[kind.unit]
    else:
        if pa.types.is_timestamp(kind) and kind.tz:
            column = pc.local_timestamp(column)
        if not pa.types.is_timestamp(kind):
            column = column.cast(pa.timestamp("s"))
        per = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[column.type.unit]
    whole = column.cast(pa.int32() if pa.types.is_time32(kind) else pa.int64())
    if not whole.null_count:
        return np.asarray(_numbers_of(whole) / per)
    return np.where(_is_present(whole), _numbers_of(whole) / per, np.nan)


def _parsed(
    column: pa.ChunkedArray,
    wanted: WantedColumn,
    missing: frozenset[str],
    where: Where,
    missing_numbers: tuple[float, ...],
) -> Floats:
    """Return the numbers or times in cells of text; each word is looked at once."""
    kind = wanted.kind
    codes, words = _as_codes(column)
    present = np.bincount(codes, minlength=len(words) + 1)[:-1] > 0
    table = np.full(len(words) + 1, np.nan)
    if kind == TIME:
        table[:-1] = _iso_seconds(words, missing)
    faults: dict[str, list[int]] = {}
    rest = np.flatnonzero(present & np.isnan(table[:-1]))
    others = words.take(pa.array(rest)).to_pylist() if rest.size else []
    for k, text in zip(rest.tolist(), others, strict=True):
        word = "" if text is None else str(text).strip()
        if not word or word in missing:
            continue
        value = number_of_word(word) if kind == NUMBER else seconds_in(word)
        if value is None:
            faults.setdefault(as_word(word), []).append(k)
        elif kind != NUMBER or value not in missing_numbers or word.lower() in _TRUTH:
            table[k] = value
    if faults:
        word = min(faults)
        row = int(np.flatnonzero(np.isin(codes, faults[word]))[0])
        raise InputError(f"{where(row)}: found {shown(word)}, expected {wanted.expected(word, missing)}")
    values: Floats = table[codes]
    return values


_TYPES = {NUMBER: "numbers", TIME: "dates or times"}
_TRUTH = {"true": 1.0, "false": 0.0}
"""Numbers of these words, in any case, in a column of numbers: those of the booleans of Parquet and Arrow."""
_STARTS = frozenset("tTfF ")
_ISO = r"^\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?)?$"


def _iso_seconds(words: pa.Array, missing: frozenset[str] = frozenset()) -> Floats:
    """Return seconds of the words that Arrow reads as :func:`ikmap.tables.times.seconds_in` does; NaN for all others.

    These are full ISO dates, with the time of day or without. Arrow is laxer in some things and stricter in others, so
    nothing else goes to it; and where one of the words is no date after all, it says nothing of any of them.
    """
    seconds = np.full(len(words), np.nan)
    words = words.cast(pa.string())
    plain = pc.match_substring_regex(words, _ISO)
    plain = pc.and_not(plain, pc.starts_with(words, "0000"))  # the year 0 is a year for Arrow alone
    if missing:
        plain = pc.and_not(plain, pc.is_in(words, pa.array(sorted(missing), words.type)))
    plain = pa.chunked_array([plain])
    chosen = np.flatnonzero(_numbers_of(plain.cast(pa.uint8())) & _is_present(plain))
    if not chosen.size:
        return seconds
    try:
        times = words.take(pa.array(chosen)).cast(pa.timestamp("us")).cast(pa.int64())
    except pa.ArrowInvalid:
        return seconds
    times = _numbers_of(pa.chunked_array([times]))
    whole, rest = np.divmod(times, 1_000_000)
    # Of more digits than a float64 has, the quotient would be rounded twice.
    exact = (np.abs(times) <= EXACT) | (rest == 0)
    seconds[chosen[exact]] = np.where(rest == 0, whole.astype(np.float64), times / 1e6)[exact]
    return seconds


def are_times(words: Sequence[str]) -> np.ndarray:
    """Return a mask of the words that are dates or times."""
    mask = ~np.isnan(_iso_seconds(pa.array([word if word.isascii() else "" for word in words], pa.string())))
    for k in np.flatnonzero(~mask).tolist():
        mask[k] = seconds_in(words[k]) is not None
    return mask


def boolean_columns(rows: Iterable[Sequence[str]]) -> frozenset[int]:
    """Return the places of the columns of text that have the word true or false, in any case."""
    return frozenset(
        j for row in rows for j, cell in enumerate(row) if cell[:1] in _STARTS and cell.strip().lower() in _TRUTH
    )


def number_of_word(word: str) -> float | None:
    """Return the number that a word is in a column of numbers: true is 1 and false 0, in any case; None for others."""
    return _TRUTH.get(word.lower(), number_in(word))


def number_in(word: str) -> float | None:
    """Return the finite number that is written in a word; None if it is none."""
    if not word.isascii() or "_" in word:
        return None
    try:
        value = float(word)
    except ValueError:
        return None
    return value if np.isfinite(value) else None
