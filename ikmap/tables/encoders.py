"""How one column becomes features: each encoding is a few numbers, fitted on the training rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from ikmap.arrays import Array, Floats, Int64s
from ikmap.json_values import Json, JsonObject
from ikmap.tables.raw import MISSING
from ikmap.tables.statistics import FOLDS, LevelCounts, packed, unpacked

KNOTS = 1024
"""Of a curve of quantiles."""
DAY = 86_400.0
BUCKETS = 32
PARTS = ("year", "month", "day", "weekday", "minute", "second")
"""Of a time. The minute is that of the day, the second that of the minute."""
PERIODS = {"month": 12.0, "day": 31.0, "weekday": 7.0, "minute": 1440.0, "second": 60.0}
ROUNDS = {"month": 365.25 * DAY, "day": 30.4375 * DAY, "weekday": 7 * DAY, "minute": DAY, "second": 60.0}
"""Seconds after which a part comes round; the year never does."""


@dataclass(frozen=True, eq=False)
class Encoding:
    """One column's features.

    Attributes
    ----------
    how : str
        The word for it in a column plan.
    """

    how: ClassVar[str]

    @property
    def names(self) -> tuple[str, ...]:
        """Of the features, without the column's own name: such as "=Paris", or "" for the column itself."""
        raise NotImplementedError

    def encode(self, values: np.ndarray, folds: np.ndarray | None) -> np.ndarray:
        """Features, float64 (n, len(names)), of cells.

        Parameters
        ----------
        values : float64 array (n,), or int64 array (n,) of positions among :attr:`words`, -1 for another word
        folds : int64 array (n,) or None
            Of training rows; None: they are none.
        """
        raise NotImplementedError

    @property
    def entries(self) -> int:
        """Features of a row, at most, that are not 0."""
        return len(self.names)

    def chosen(self, values: np.ndarray) -> np.ndarray | None:  # noqa: ARG002
        """Of an encoding with a single entry, which is 1: its feature, int64 (n,), or -1 for none; else None."""
        return None

    @property
    def words(self) -> tuple[str, ...] | None:
        """Those that the encoding knows, of a column of words."""
        return None

    @cached_property
    def numbered(self) -> dict[str, int]:
        """Position of each of the words."""
        return {word: k for k, word in enumerate(self.words or ())}

    def parts(self) -> tuple[JsonObject, dict[str, Array]]:
        """Plain data."""
        values: JsonObject = {}
        arrays: dict[str, np.ndarray] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "known":
                arrays[field.name] = packed(value)
            elif isinstance(value, np.ndarray):
                arrays[field.name] = value
            else:
                values[field.name] = list(value) if isinstance(value, tuple) else value
        return values, arrays

    @classmethod
    def from_parts(cls, values: Mapping[str, Json], arrays: Mapping[str, np.ndarray]) -> Self:
        """What :meth:`parts` gave."""
        plain: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
        }
        stored = {key: unpacked(value) if key == "known" else value for key, value in arrays.items()}
        return cls(**plain, **stored)


@dataclass(frozen=True, eq=False)
class Number(Encoding):
    """A number through a curve of straight pieces; the median stands for a missing one, beside a mark that it was.

    Attributes
    ----------
    fill : float
    marks : bool
        Whether there is a feature that is 1 where the number is missing.
    knots, places : float64 arrays
        The curve; empty: numbers stay as they are. Beyond its ends it is flat.
    shift, width : float
        Of numbers that are only shifted and divided.
    """

    how: ClassVar[str] = "number"

    fill: float
    marks: bool
    knots: Floats
    places: Floats
    shift: float = 0.0
    width: float = 1.0

    @property
    def names(self) -> tuple[str, ...]:
        return ("", " is missing") if self.marks else ("",)

    def encode(self, values: np.ndarray, folds: np.ndarray | None) -> Floats:  # noqa: ARG002
        absent = np.isnan(values)
        filled = np.where(absent, self.fill, values) if absent.any() else values
        if self.knots.size:
            filled = np.interp(filled, self.knots, self.places)
        elif (self.shift, self.width) != (0.0, 1.0):
            filled = (filled - self.shift) / self.width
        return np.column_stack([filled, absent]) if self.marks else filled[:, None]


def quantile_curve(drawn: Floats) -> tuple[np.ndarray, np.ndarray]:
    """Knots and places, in [0, 1], of numbers: the share of those below, with half of those that are equal."""
    ordered = np.sort(drawn)
    knots, first, rows = np.unique(ordered, return_index=True, return_counts=True)
    places = (first + 0.5 * rows) / ordered.size
    if knots.size > KNOTS:
        kept = np.unique(np.searchsorted(places, np.linspace(places[0], places[-1], KNOTS)))
        knots, places = knots[kept], places[kept]
    return knots, places


@dataclass(frozen=True, eq=False)
class OneHot(Encoding):
    """A feature for each frequent word, and one for the rare ones together; a word that is new has none of them.

    Attributes
    ----------
    known : tuple of str
    column : int64 array (words,)
        Feature of each word.
    shown : tuple of str
        Names of the features.
    """

    how: ClassVar[str] = "onehot"

    known: tuple[str, ...]
    column: np.ndarray
    shown: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return self.shown

    @property
    def words(self) -> tuple[str, ...]:
        return self.known

    @property
    def entries(self) -> int:
        return 1

    def chosen(self, values: np.ndarray) -> np.ndarray:
        columns: Array = np.append(self.column, -1)[values]
        return columns

    def encode(self, values: np.ndarray, folds: np.ndarray | None) -> Floats:  # noqa: ARG002
        found = np.zeros((values.size, len(self.shown)))
        rows = np.flatnonzero(values >= 0)
        found[rows, self.column[values[rows]]] = 1.0
        return found


@dataclass(frozen=True, eq=False)
class Table(Encoding):
    """Numbers looked up by word; for training rows by fold too, where a fold's numbers come from the other folds.

    Attributes
    ----------
    known : tuple of str
    numbers : float64 array (words + 1, FOLDS + 1 or 1, K)
        Last of the words: that of all other words; last of the folds: for rows that are no training rows.
    word : str
        The encoding's name in a plan.
    outputs : tuple of str
        What tells the features of several apart.
    """

    how: ClassVar[str] = "table"

    known: tuple[str, ...]
    numbers: Floats
    word: str
    outputs: tuple[str, ...] = ("",)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f" ({self.word}{output})" for output in self.outputs)

    @property
    def words(self) -> tuple[str, ...]:
        return self.known

    def encode(self, values: np.ndarray, folds: np.ndarray | None) -> Floats:
        words, folded, outputs = self.numbers.shape
        last = folded - 1
        by_fold: Int64s | int = last if folds is None or last == 0 else folds
        # A word that is not known is -1: the last one.
        at = np.where(values < 0, words - 1, values) * folded + by_fold
        numbers: Floats = self.numbers.reshape(words * folded, outputs).take(at, axis=0)
        return numbers


def target_numbers(
    counts: LevelCounts, sums: np.ndarray, rows: int, smooth: float, unit: float, enough: int | None = None
) -> Floats:
    """Mean target of each word, drawn towards that of all rows: float64 (words + 1, FOLDS + 1, K).

    A fold has the means of the other folds' rows. Where a word has many rows, its means hardly differ; a tree that
    tells them apart nevertheless learns which fold a row is of, and thereby something of its label.

    Parameters
    ----------
    sums : int64 array (K,)
        Of the targets of all rows, as whole multiples of `unit`.
    smooth : float
        So many rows with the mean of all count as rows of each word.
    enough : int, optional
        A word of at least so many rows has the mean of them all in every fold: of one label there is next to nothing
        in it. None: no word has.
    """
    n = counts.rows.shape[0]
    found = np.empty((n + 1, FOLDS + 1, sums.size))
    all_rows, all_sums = counts.rows.sum(axis=1), counts.sums.sum(axis=1)
    for fold in range(FOLDS + 1):
        of_rows, of_sums, of_all, others = all_rows, all_sums, sums, rows
        if fold < FOLDS:  # what the fold's own labels tell is left out
            of_rows, of_sums = all_rows - counts.rows[:, fold], all_sums - counts.sums[:, fold]
            if of_rows.any():
                of_all, others = of_sums.sum(axis=0), int(of_rows.sum())
        prior = of_all.astype(np.float64) / others
        found[:n, fold] = (of_sums + smooth * prior) / (of_rows + smooth)[:, None]
        found[n, fold] = prior
    if enough is not None:
        many = np.flatnonzero(all_rows >= enough)
        found[many] = found[many, -1:]
    return found * unit


def hashed_numbers(words: Sequence[str]) -> np.ndarray:
    """Bucket of each word, int64 in 0 .. BUCKETS - 1, by BLAKE2b."""
    digests = (hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=4).digest() for word in words)
    return np.array([int.from_bytes(digest, "little") % BUCKETS for digest in digests], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Time(Encoding):
    """Parts of a time, those that differ among the training rows; as numbers, on circles, or both.

    Attributes
    ----------
    kept : tuple of str
        Of :data:`PARTS`.
    form : {"parts", "cycles", "both"}
    fill : float
        Seconds that stand for a missing time.
    marks : bool
    """

    how: ClassVar[str] = "time"

    kept: tuple[str, ...]
    form: str
    fill: float
    marks: bool

    @property
    def names(self) -> tuple[str, ...]:
        names: list[str] = []
        for part in self.kept:
            number, circle = self._forms(part)
            names += [f".{part}"] * number + [f".{part} sine", f".{part} cosine"] * circle
        return (*names, " is missing") if self.marks else tuple(names)

    def encode(self, values: np.ndarray, folds: np.ndarray | None) -> Floats:  # noqa: ARG002
        absent = np.isnan(values)
        parts = time_parts(np.where(absent, self.fill, values), self.kept)
        columns: list[np.ndarray] = []
        for part in self.kept:
            number, circle = self._forms(part)
            angle = 2 * np.pi * parts[part] / PERIODS[part] if circle else None
            columns += [parts[part]] * number + ([] if angle is None else [np.sin(angle), np.cos(angle)])
        if self.marks:
            columns.append(absent.astype(np.float64))
        return np.column_stack(columns)

    def _forms(self, part: str) -> tuple[bool, bool]:
        """Whether a part is a feature as a number, and whether it is two on a circle."""
        circle = part in PERIODS and self.form != "parts"
        return not circle or self.form == "both", circle


def time_parts(seconds: np.ndarray, wanted: Sequence[str] = PARTS) -> dict[str, np.ndarray]:
    """Parts of times, given in seconds since 1970: float64 arrays (n,)."""
    days = np.floor(seconds / DAY)
    within = seconds - DAY * days if {"minute", "second"} & set(wanted) else days
    first, last = (int(days.min()), int(days.max())) if days.size else (0, 0)
    # There are few days: what they are is looked up.
    few = last - first < days.size
    numbers = np.arange(first, last + 1) if few else days.astype(np.int64)
    at = (days - first).astype(np.int64) if few else slice(None)
    dates = numbers.astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    years = dates.astype("datetime64[Y]")
    makers: dict[str, Callable[[], np.ndarray]] = {
        "year": lambda: (years.astype(np.int64) + 1970.0)[at],
        "month": lambda: ((months - years).astype(np.int64) + 1.0)[at],
        "day": lambda: ((dates - months).astype(np.int64) + 1.0)[at],
        "weekday": lambda: np.mod(numbers + 3.0, 7)[at],  # Monday is 0
        "minute": lambda: np.floor(within / 60),
        "second": lambda: np.mod(within, 60),
    }
    return {part: makers[part]() for part in wanted}


def is_missing(word: str) -> bool:
    """Whether a word stands for missing cells."""
    return word == MISSING


ENCODINGS: dict[str, type[Encoding]] = {one.how: one for one in (Number, OneHot, Table, Time)}
