"""A table as numbers, before anything is known of the training rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ikmap.arrays import Floats

NUMBER, CATEGORY, TIME = "number", "category", "time"
KINDS = (NUMBER, CATEGORY, TIME)
MISSING = ""
"""The level of a missing cell among the words of a column: no other word is empty."""

_WHOLE = re.compile(r"-?\d+(\.0)?", re.ASCII)
_CLOCK = re.compile(r"((?:\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d{4})?", re.ASCII)
_DIGITS = (0, 3, 6, 9)
"""Digits of a fraction of a second in the words of a column of times, by the unit of the column."""

type Levels = tuple[tuple[str, ...] | None, ...]


@dataclass(frozen=True, eq=False)
class RawTable:
    """Some rows of a table.

    Attributes
    ----------
    values : float64 array (n, c)
        NaN where a cell is missing. Of a column of words: positions in its levels. Of times: seconds since 1970, in
        the clock of the data. In Fortran order it is faster, for all that is done goes column by column.
    levels : tuple of (tuple of str or None), length c
        The words of each column that has words.
    """

    values: Floats
    levels: Levels

    @property
    def rows(self) -> int:
        return int(self.values.shape[0])

    def take(self, rows: np.ndarray | slice) -> RawTable:
        """Return some rows, by number."""
        if isinstance(rows, slice):
            return RawTable(self.values[rows], self.levels)
        return RawTable(self.values.T.take(rows, axis=1).T, self.levels)


def recoded(codes: Floats, found: Sequence[str], place: Mapping[str, int]) -> np.ndarray:
    """Return the positions of words among the known words, int64 (n,), -1 for an unknown word.

    A whole number that is not known as it is written is also looked for with, or without, its fraction of 0: a program
    that reads 7 as a number writes 7.0 as soon as another cell of the column is missing. A time is also looked for with
    more or fewer zeros behind its seconds: packages keep the same times in different units.

    Parameters
    ----------
    codes : float64 array (n,)
        Positions among the words found; NaN where the cell is missing, whose word is :data:`MISSING`.
    place : mapping of str to int
        Positions of the known words.
    """
    table = np.array([*(_position(word, place) for word in found), place.get(MISSING, -1)], dtype=np.int64)
    values: np.ndarray = table[positions_of(codes, len(found))]
    return values


def _position(word: str, place: Mapping[str, int]) -> int:
    """Return the position of a word, however it is written, or -1 for an unknown word."""
    if word in place:
        return place[word]
    return next((place[other] for other in _otherwise_written(word) if other in place), -1)


def _otherwise_written(word: str) -> Iterator[str]:
    """Yield a whole number without its fraction of 0, or with one; a time with the digits of each unit that it fits."""
    if _WHOLE.fullmatch(word):
        yield word.removesuffix(".0") if word.endswith(".0") else f"{word}.0"
    elif clock := _CLOCK.fullmatch(word):
        seconds, fraction, zone = clock.groups("")
        digits = fraction.rstrip("0")
        for n in _DIGITS:
            if n >= len(digits):
                yield f"{seconds}{'.' if n else ''}{digits.ljust(n, '0')}{zone}"


def positions_of(codes: Floats, absent: int) -> np.ndarray:
    """Return codes as int64, with `absent` for missing cells."""
    missing = np.isnan(codes)
    if not missing.any():
        return codes.astype(np.int64)
    return np.where(missing, absent, codes).astype(np.int64)


def without_numbers(values: Floats, numbers: Sequence[float]) -> Floats:
    """Return values with NaN in place of the numbers that stand for nothing; the array itself where it has none."""
    if not numbers:
        return values
    absent = np.isin(values, numbers)
    return np.where(absent, np.nan, values) if absent.any() else values


def as_word(value: object) -> str:
    """Return a value as a word, with the same words for true and false in text, Parquet, DataFrames and Python."""
    word = str(value).strip()
    lowered = word.lower()
    return lowered if lowered in ("true", "false") else word


def coded(words: Sequence[object]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the codes of words, in which None is missing, and the words in alphabetical order."""
    texts = [None if word is None else str(word) for word in words]
    levels = tuple(sorted({text for text in texts if text}))
    place: dict[str | None, float] = {text: float(k) for k, text in enumerate(levels)}
    return np.array([place.get(text, np.nan) for text in texts], dtype=np.float64), levels
