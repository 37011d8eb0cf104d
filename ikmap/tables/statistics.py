"""Statistics of the training rows of a table: counts, extremes, and rows drawn by number.

All of it adds up over parts of the rows in any grouping, to the same bits: counts are integers, sums of targets are
sums of integers, and which rows are drawn for quantiles goes by their numbers.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from io import BytesIO
from typing import Self

import numpy as np

from ikmap import seed_paths
from ikmap.arrays import Array, Bytes, Floats, Int64s
from ikmap.json_values import Json
from ikmap.seeds import generator
from ikmap.tables.raw import CATEGORY, MISSING, RawTable, positions_of

FOLDS = 5
DRAWN = 1 << 16
"""Training rows from which quantiles and medians are found."""
EXACT = 2**53
"""Whole numbers up to this one are float64 numbers, all of them."""
MOST_LEVELS = 1_000_000
"""Different words of a column; more are no categories."""


@dataclass(frozen=True, eq=False)
class LevelCounts:
    """Number of rows of each word of a column, by fold, and the sums of their targets.

    Attributes
    ----------
    words : tuple of str, in order of the alphabet
    rows : int64 array (words, FOLDS)
    sums : int64 array (words, FOLDS, K)
    too_many : bool
        True if there are more than :data:`MOST_LEVELS` words, none of which has been kept.
    """

    words: tuple[str, ...]
    rows: np.ndarray
    sums: np.ndarray
    too_many: bool = False

    @classmethod
    def total(cls, parts: Sequence[Self]) -> Self:
        """Return the sum of several counts."""
        if any(part.too_many for part in parts):
            return parts[0]._without_words()
        words = tuple(sorted(set().union(*(part.words for part in parts))))
        place = {word: k for k, word in enumerate(words)}
        rows = np.zeros((len(words), FOLDS), dtype=np.int64)
        sums = np.zeros((len(words), *parts[0].sums.shape[1:]), dtype=np.int64)
        for part in parts:
            at = np.array([place[word] for word in part.words], dtype=np.int64)
            rows[at] += part.rows
            sums[at] += part.sums
        return cls(words, rows, sums)

    def limited(self) -> Self:
        """Return the counts, without words if there are more than :data:`MOST_LEVELS` of them."""
        return self._without_words() if sum(word != MISSING for word in self.words) > MOST_LEVELS else self

    def _without_words(self) -> Self:
        return type(self)((), self.rows[:0], self.sums[:0], too_many=True)


@dataclass(frozen=True, eq=False)
class Statistics:
    """Statistics of some training rows.

    Attributes
    ----------
    rows : int
    missing : int64 array (c,)
    low, high : float64 array (c,)
        Extremes of the present cells; inf and -inf if there are none.
    drawn : float64 array (m, c)
        The rows that were drawn, in order of their numbers; of words, the codes mean nothing.
    levels : mapping of int to LevelCounts
        Counts of the words of columns, by position of the column.
    sums : int64 array (K,)
        Sums of all targets.
    """

    rows: int
    missing: np.ndarray
    low: np.ndarray
    high: np.ndarray
    drawn: np.ndarray
    levels: Mapping[int, LevelCounts]
    sums: np.ndarray

    @classmethod
    def of(
        cls, table: RawTable, kinds: Sequence[str], folds: np.ndarray, targets: np.ndarray, drawn: np.ndarray
    ) -> Self:
        """Count some rows.

        Parameters
        ----------
        kinds : sequence of str
            Kinds of the columns.
        folds : int64 array (n,)
            Folds of the rows (:func:`fold_of`).
        targets : int64 array (n, K)
        drawn : bool array (n,)
            Which rows are drawn.
        """
        values = table.values
        # Of nothing but zeros the lowest is 0, whichever sign came first.
        low = np.array([np.fmin.reduce(column, initial=np.inf) for column in values.T]) + 0.0
        high = np.array([np.fmax.reduce(column, initial=-np.inf) for column in values.T]) + 0.0
        missing = np.array([np.count_nonzero(np.isnan(column)) for column in values.T], dtype=np.int64)
        weights = [_weights(column) for column in targets.T]
        levels = {
            j: _count(values[:, j], table.levels[j] or (), folds, weights)
            for j, kind in enumerate(kinds)
            if kind == CATEGORY
        }
        some = np.ascontiguousarray(values.T.take(np.flatnonzero(drawn), axis=1).T)
        return cls(table.rows, missing, low, high, some, levels, targets.sum(axis=0, dtype=np.int64))

    @classmethod
    def total(cls, parts: Sequence[Self]) -> Self:
        """Return the sum of several statistics, in the order of their rows."""
        return cls(
            sum(part.rows for part in parts),
            np.sum([part.missing for part in parts], axis=0),
            np.min([part.low for part in parts], axis=0),
            np.max([part.high for part in parts], axis=0),
            np.concatenate([part.drawn for part in parts]),
            {j: LevelCounts.total([part.levels[j] for part in parts]) for j in parts[0].levels},
            np.sum([part.sums for part in parts], axis=0),
        )

    def limited(self, columns: Collection[int]) -> Self:
        """Return the statistics, of these columns without the words if there are very many of them."""
        levels = {j: counts.limited() if j in columns else counts for j, counts in self.levels.items()}
        return replace(self, levels=levels)

    def packed(self) -> np.ndarray:
        """Return the statistics as bytes, uint8, for :meth:`unpacked`."""
        arrays = {name: getattr(self, name) for name in ("missing", "low", "high", "drawn", "sums")}
        for j, counts in self.levels.items():
            arrays |= {f"rows_{j}": counts.rows, f"sums_{j}": counts.sums, f"words_{j}": packed(counts.words)}
        too_many = np.array([j for j, counts in self.levels.items() if counts.too_many], dtype=np.int64)
        columns = {"words": np.array(sorted(self.levels)), "too_many": too_many}
        return packed_arrays({"rows": np.array(self.rows), **columns, **arrays})

    @classmethod
    def unpacked(cls, values: np.ndarray) -> Self:
        """Return the statistics from which :meth:`packed` made these bytes."""
        arrays = unpacked_arrays(values)
        too_many = arrays.get("too_many", np.empty(0)).tolist()  # earlier versions kept all words
        levels = {
            j: LevelCounts(unpacked(arrays[f"words_{j}"]), arrays[f"rows_{j}"], arrays[f"sums_{j}"], j in too_many)
            for j in arrays["words"].astype(np.int64).tolist()
        }
        plain = {name: arrays[name] for name in ("missing", "low", "high", "drawn", "sums")}
        return cls(rows=int(arrays["rows"]), levels=levels, **plain)


def _weights(targets: Int64s) -> Int64s | Floats:
    """Return targets as float64 where sums of these are sums of whole numbers, none rounded: they add up faster."""
    exact = targets.size > 0 and float(np.abs(targets).max()) * targets.size < EXACT
    return targets.astype(np.float64) if exact else targets


def _count(codes: np.ndarray, words: Sequence[str], folds: np.ndarray, weights: Sequence[np.ndarray]) -> LevelCounts:
    n = len(words)
    cells = positions_of(codes, n)
    cells *= FOLDS
    cells += folds
    size = (n + 1) * FOLDS
    rows = np.bincount(cells, minlength=size).reshape(n + 1, FOLDS)
    sums = np.zeros((size, len(weights)), dtype=np.int64)
    for k, column in enumerate(weights):
        if column.dtype == np.float64:
            sums[:, k] = np.bincount(cells, weights=column, minlength=size)
        else:
            np.add.at(sums[:, k], cells, column)
    by_word = sums.reshape(n + 1, FOLDS, len(weights))
    named = (*words, MISSING)
    there = sorted(np.flatnonzero(rows.any(axis=1)).tolist(), key=named.__getitem__)
    return LevelCounts(tuple(named[k] for k in there), rows[there].astype(np.int64), by_word[there])


def fold_of(numbers: np.ndarray, seed: int) -> np.ndarray:
    """Return the fold of each row by its number, int64 in 0 .. FOLDS - 1, however rows are grouped."""
    start = (2 * seed + 1) * 0x9E3779B97F4A7C15 % 2**64
    mixed = numbers.astype(np.uint64) + np.uint64(start)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):  # SplitMix64
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    mixed -= mixed // np.uint64(FOLDS) * np.uint64(FOLDS)  # several times faster than %
    return mixed.astype(np.int64)


@lru_cache(maxsize=1)
def drawn_rows(n: int, seed: int) -> Int64s:
    """Return ascending numbers of the rows that are drawn for quantiles: all rows, or :data:`DRAWN` of them."""
    if n <= DRAWN:
        drawn = np.arange(n)
    else:
        drawn = np.sort(generator(seed, seed_paths.ENCODING).choice(n, DRAWN, replace=False, shuffle=False))
    drawn.flags.writeable = False  # each task of a process asks for the same
    return drawn


def packed(words: Sequence[Json]) -> Bytes:
    """Return words, or those of several columns, as bytes of JSON."""
    return np.frombuffer(json.dumps(list(words)).encode(), dtype=np.uint8).copy()


def unpacked(packed_words: Bytes) -> tuple[str, ...]:
    """Return the words from which :func:`packed` made these bytes."""
    return tuple(json.loads(packed_words.tobytes()))


def packed_arrays(arrays: Mapping[str, Array]) -> Bytes:
    """Return arrays as bytes: a single array, as making one takes the store longer than writing what is in them."""
    file = BytesIO()
    np.savez(file, allow_pickle=False, **arrays)
    return np.frombuffer(file.getvalue(), dtype=np.uint8)


def unpacked_arrays(packed_bytes: Bytes) -> dict[str, Array]:
    """Return the arrays from which :func:`packed_arrays` made these bytes."""
    with np.load(BytesIO(packed_bytes.tobytes()), allow_pickle=False) as arrays:
        return dict(arrays)
