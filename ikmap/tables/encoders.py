"""Encodings of one column: a few numbers, fitted on the training rows, that turn it into features."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from ikmap.arrays import Array, Floats, Int64s
from ikmap.json_values import Json, JsonObject, MutableJsonObject
from ikmap.tables.raw import MISSING
from ikmap.tables.statistics import FOLDS, LevelCounts, packed, unpacked

KNOTS = 1024
"""Number of knots of a curve of quantiles."""
DAY = 86_400.0
BUCKETS = 32
PARTS = ("year", "month", "day", "weekday", "minute", "second")
"""Parts of a time. The minute is that of the day, the second that of the minute."""
PERIODS = {"month": 12.0, "day": 31.0, "weekday": 7.0, "minute": 1440.0, "second": 60.0}
ROUNDS = {"month": 365.25 * DAY, "day": 30.4375 * DAY, "weekday": 7 * DAY, "minute": DAY, "second": 60.0}
"""Seconds after which a part comes round; the year never does."""


@dataclass(frozen=True, eq=False)
class Encoding:
    """Base of the encodings of one column.

    Attributes
    ----------
    how : str
        The word for it in a column plan.
    """

    how: ClassVar[str]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the features, to follow the name of the column: such as "=Paris", or ""."""
        raise NotImplementedError

    def encode(self, values: np.ndarray, folds: np.ndarray | None) -> np.ndarray:
        """Return the features of cells, float64 of shape (n, len(names)).

        Parameters
        ----------
        values : float64 array (n,), or int64 array (n,) of positions among :attr:`words`, -1 for another word
        folds : int64 array (n,) or None
            Folds of training rows, or None for other rows.
        """
        raise NotImplementedError

    @property
    def entries(self) -> int:
        """Largest number of features of a row that are not 0."""
        return len(self.names)

    def chosen(self, values: np.ndarray) -> np.ndarray | None:  # noqa: ARG002
        """Return the feature with a 1 in each row, int64 (n,), or -1 for none; None for encodings with other values."""
        return None

    @property
    def words(self) -> tuple[str, ...] | None:
        """Words that the encoding knows, for a column of words."""
        return None

    @cached_property
    def numbered(self) -> dict[str, int]:
        """Position of each word."""
        return {word: k for k, word in enumerate(self.words or ())}

    def parts(self) -> tuple[JsonObject, dict[str, Array]]:
        """Return the encoding as JSON values and arrays."""
        values: MutableJsonObject = {}
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
        """Return the object from which :meth:`parts` made values and arrays."""
        plain: dict[str, Any] = {
            key: tuple(value) if isinstance(value, list) else value for key, value in values.items()
        }
        stored = {key: unpacked(value) if key == "known" else value for key, value in arrays.items()}
        return cls(**plain, **stored)


@dataclass(frozen=True, eq=False)
class Number(Encoding):
    """A number through a piecewise linear curve; the median stands for a missing value, and a further feature marks it.

    Attributes
    ----------
    fill : float
    marks : bool
        True if there is a feature that is 1 for missing numbers.
    knots, places : float64 arrays
        The curve; empty: numbers stay as they are. Beyond its ends it is flat.
    shift, width : float
        Shift and divisor of numbers without a curve.
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
    """Return knots of numbers, and places in [0, 1]: the share of smaller numbers and half that of equal ones."""
    ordered = np.sort(drawn)
    knots, first, rows = np.unique(ordered, return_index=True, return_counts=True)
    places = (first + 0.5 * rows) / ordered.size
    if knots.size > KNOTS:
        kept = np.unique(np.searchsorted(places, np.linspace(places[0], places[-1], KNOTS)))
        knots, places = knots[kept], places[kept]
    return knots, places


@dataclass(frozen=True, eq=False)
class OneHot(Encoding):
    """A feature for each frequent word, and one for all rare words; a new word has none of them.

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
        features = np.zeros((values.size, len(self.shown)))
        rows = np.flatnonzero(values >= 0)
        features[rows, self.column[values[rows]]] = 1.0
        return features


@dataclass(frozen=True, eq=False)
class Table(Encoding):
    """Numbers by word, for training rows also by fold, where those of a fold come from the other folds.

    Attributes
    ----------
    known : tuple of str
    numbers : float64 array (words + 1, FOLDS + 1 or 1, K)
        Last of the words: that of all other words; last of the folds: for rows that are no training rows.
    word : str
        The encoding's name in a plan.
    outputs : tuple of str
        Suffixes of the names of several features.
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
    """Return the mean target of each word, shrunk to that of all rows, float64 (words + 1, FOLDS + 1, K).

    A fold has the means of the other folds' rows. Where a word has many rows, its means hardly differ; a tree that
    tells them apart nevertheless learns which fold a row is of, and thereby something of its label.

    Parameters
    ----------
    sums : int64 array (K,)
        Sums of the targets of all rows, as whole multiples of `unit`.
    smooth : float
        So many rows with the mean of all count as rows of each word.
    enough : int, optional
        A word of at least so many rows has the mean of them all in every fold: of one label there is next to nothing
        in it. None: no word has.
    """
    n = counts.rows.shape[0]
    numbers = np.empty((n + 1, FOLDS + 1, sums.size))
    all_rows, all_sums = counts.rows.sum(axis=1), counts.sums.sum(axis=1)
    for fold in range(FOLDS + 1):
        of_rows, of_sums, of_all, others = all_rows, all_sums, sums, rows
        if fold < FOLDS:  # what the fold's own labels tell is left out
            of_rows, of_sums = all_rows - counts.rows[:, fold], all_sums - counts.sums[:, fold]
            if of_rows.any():
                of_all, others = of_sums.sum(axis=0), int(of_rows.sum())
        prior = of_all.astype(np.float64) / others
        numbers[:n, fold] = (of_sums + smooth * prior) / (of_rows + smooth)[:, None]
        numbers[n, fold] = prior
    if enough is not None:
        many = np.flatnonzero(all_rows >= enough)
        numbers[many] = numbers[many, -1:]
    return numbers * unit


def hashed_numbers(words: Sequence[str]) -> np.ndarray:
    """Return the bucket of each word, int64 in 0 .. BUCKETS - 1, by BLAKE2b."""
    digests = (hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=4).digest() for word in words)
    return np.array([int.from_bytes(digest, "little") % BUCKETS for digest in digests], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Time(Encoding):
    """The parts of a time that differ among the training rows, as numbers, on circles, or both.

    Attributes
    ----------
    kept : tuple of str
        Names among :data:`PARTS`.
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
        """Return whether a part gives a feature as a number, and whether it gives two on a circle."""
        circle = part in PERIODS and self.form != "parts"
        return not circle or self.form == "both", circle


def time_parts(seconds: np.ndarray, wanted: Sequence[str] = PARTS) -> dict[str, np.ndarray]:
    """Return parts of times that are given in seconds since 1970, float64 arrays (n,)."""
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
    """Return whether a word stands for missing cells."""
    return word == MISSING


ENCODINGS: dict[str, type[Encoding]] = {one.how: one for one in (Number, OneHot, Table, Time)}
