"""The column plan: the encoding of each column and the reason for it, from statistics of the training rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ikmap.tables.column_plan import DROP, ColumnPlan
from ikmap.tables.encoder import Encoder
from ikmap.tables.encoders import (
    BUCKETS,
    DAY,
    PARTS,
    ROUNDS,
    Encoding,
    Number,
    OneHot,
    Table,
    Time,
    hashed_numbers,
    is_missing,
    quantile_curve,
    target_numbers,
    time_parts,
)
from ikmap.tables.raw import CATEGORY, NUMBER, TIME
from ikmap.tables.statistics import EXACT, MOST_LEVELS, LevelCounts, Statistics
from ikmap.tables.words import CATEGORIES

FEW_LEVELS = 32
"""Up to so many words have a feature each, where no single target orders them."""
RARE, RARE_SHARE = 10, 1000
"""A word of fewer rows than 10, and than a thousandth, shares a feature with the others that are as rare."""
MOSTLY = 0.5
"""Words of which more than this share of the training rows has one of its own are no categories."""
SMOOTH = 20.0
WHOLE = ("type int64", "type uint64")
"""Types of columns that may have whole numbers which are no float64 numbers."""
OFTEN = 6
"""A part of a time recurs if it comes round so often among the training rows."""
ENOUGH = 500
"""A word of at least so many training rows is encoded by the targets of all of them, of fewer without a row's fold."""


@dataclass(frozen=True)
class EncodingRequest:
    """The requested encodings of all columns of a kind; "auto" leaves the choice to the plan."""

    numbers: str = "auto"
    categories: str = "auto"
    times: str = "auto"

    def of(self, kind: str) -> str:
        return {NUMBER: self.numbers, CATEGORY: self.categories, TIME: self.times}[kind]


def choose(
    columns: Sequence[ColumnPlan],
    statistics: Statistics,
    request: EncodingRequest,
    *,
    only_numbers: str = "minmax",
    only_times: str = "parts",
) -> list[ColumnPlan]:
    """Choose the encoding of each column that has none yet; leave out columns that have no value.

    Parameters
    ----------
    only_numbers, only_times : str
        Encodings of numbers and of times if the request names none.
    """
    usual = {NUMBER: only_numbers, TIME: only_times}
    return [_chosen(column, j, statistics, request, usual) for j, column in enumerate(columns)]


def _chosen(
    column: ColumnPlan, j: int, statistics: Statistics, request: EncodingRequest, usual: Mapping[str, str]
) -> ColumnPlan:
    there = statistics.rows - int(statistics.missing[j])
    if there == 0 and column.encoding != DROP:
        return _with(column, DROP, "every cell is missing")
    if column.encoding != "auto":
        return column
    if column.kind == CATEGORY:
        counts = statistics.levels[j]
        words = [word for word in counts.words if not is_missing(word)]
        if counts.too_many:
            why = f"more than {MOST_LEVELS:,} different words in {there:,} rows: an id or free text"
            return _with(column, DROP, why)
        if len(counts.words) == 1:
            return _with(column, DROP, "the same in every training row")
        if len(words) > max(FEW_LEVELS, min(MOSTLY * there, MOST_LEVELS)):
            return _with(column, DROP, f"{len(words):,} different words in {there:,} rows: an id or free text")
        if request.categories != "auto":
            return _with(column, request.categories, "asked for")
        outputs = statistics.sums.size
        if len(words) <= FEW_LEVELS and outputs != 1:
            return _with(column, "onehot", f"{len(words)} words")
        return _with(column, "target" if outputs else "count", f"{len(words):,} words")
    if statistics.low[j] == statistics.high[j] and not statistics.missing[j]:
        return _with(column, DROP, "the same in every training row")
    encoding, why = request.of(column.kind), "asked for"
    if encoding == "auto":
        encoding, why = usual[column.kind], ""
    if max(-float(statistics.low[j]), float(statistics.high[j])) > EXACT and column.why in WHOLE:
        why = "; ".join(part for part in ("whole numbers beyond 2^53 are rounded", why) if part)
    if encoding == "recurring":
        if not _recurring(j, statistics):
            return _with(column, DROP, f"no part of it comes round {OFTEN} times among the training rows")
        why = f"parts that come round {OFTEN} times among the training rows"
    return _with(column, encoding, why)


def _recurring(j: int, statistics: Statistics) -> list[str]:
    """Return the parts of a time that recur often and differ; all parts for times of day without a date."""
    low, high = float(statistics.low[j]), float(statistics.high[j])
    span = np.inf if low >= 0 and high < DAY else high - low
    return [part for part in _differing(j, statistics) if span >= OFTEN * ROUNDS.get(part, np.inf)]


def _differing(j: int, statistics: Statistics) -> list[str]:
    """Return the parts of a time that differ among the drawn rows."""
    drawn = statistics.drawn[:, j]
    drawn = drawn[~np.isnan(drawn)]
    parts = time_parts(drawn if drawn.size else statistics.low[j : j + 1])
    return [part for part in PARTS if parts[part].min() != parts[part].max()]


def _with(column: ColumnPlan, encoding: str, why: str) -> ColumnPlan:
    return replace(column, encoding=encoding, why="; ".join(part for part in (column.why, why) if part))


def fit(
    columns: Sequence[ColumnPlan],
    statistics: Statistics,
    *,
    unit: float = 1.0,
    outputs: Sequence[str] = ("",),
    out_of_fold: bool = True,
    enough: int | None = ENOUGH,
) -> Encoder:
    """Make the encoder of a plan in which every encoding is chosen.

    Parameters
    ----------
    unit : float
        Value of 1 of the whole numbers that stand for targets.
    outputs : sequence of str, length K
        Suffixes of the names of the targets.
    out_of_fold : bool
        Training rows are encoded by the targets of other rows only; else as those that are scored are.
    enough : int, optional
        But for words of at least so many rows. None: all words, as where rows of a group tell of each other.

    Raises
    ------
    ValueError
        No column is left.
    """
    encodings: list[Encoding | None] = [
        None if column.encoding == DROP else _fitted(column, j, statistics, unit, tuple(outputs), out_of_fold, enough)
        for j, column in enumerate(columns)
    ]
    if not any(encoding and encoding.names for encoding in encodings):
        raise ValueError(
            f"found no column that tells rows apart in {statistics.rows} sample{'s' * (statistics.rows != 1)}, "
            "expected one at least"
        )
    return Encoder(tuple(columns), tuple(encodings))


def _fitted(
    column: ColumnPlan,
    j: int,
    statistics: Statistics,
    unit: float,
    outputs: tuple[str, ...],
    out_of_fold: bool,
    enough: int | None,
) -> Encoding:
    if column.kind == CATEGORY:
        return _of_words(column, statistics.levels[j], statistics, unit, outputs, out_of_fold, enough)
    drawn = statistics.drawn[:, j]
    drawn = drawn[~np.isnan(drawn)]
    fill = float(np.sort(drawn)[drawn.size // 2]) if drawn.size else float(statistics.low[j])
    marks = bool(statistics.missing[j])
    if column.kind == TIME:
        if column.encoding == "recurring":
            return Time(tuple(_recurring(j, statistics)) or ("year",), "parts", fill, marks)
        return Time(tuple(_differing(j, statistics)) or ("year",), column.encoding, fill, marks)
    none = np.zeros(0)
    low, high = float(statistics.low[j]), float(statistics.high[j])
    if column.encoding == "minmax":  # a number that is always the same, or missing, is 0
        ends = (np.array([low, high]), np.array([0.0, 1.0])) if low < high else (np.array([low]), np.array([0.0]))
        return Number(fill, marks, *ends)
    if column.encoding == "quantile" and drawn.size:
        return Number(fill, marks, *quantile_curve(drawn))
    if column.encoding == "standard" and drawn.size and drawn.min() < drawn.max():
        return Number(fill, marks, none, none, float(drawn.mean()), float(drawn.std()))
    return Number(fill, marks, none, none)


def _of_words(
    column: ColumnPlan,
    counts: LevelCounts,
    statistics: Statistics,
    unit: float,
    outputs: tuple[str, ...],
    out_of_fold: bool,
    enough: int | None,
) -> Encoding:
    rows = counts.rows.sum(axis=1)
    if column.encoding == "target":
        if not statistics.sums.size:
            raise ValueError(
                f"column {column.name!r}: encoding = 'target', but nothing is learned from labels; expected one of "
                f"{', '.join(word for word in CATEGORIES if word != 'target')}"
            )
        numbers = target_numbers(counts, statistics.sums, statistics.rows, SMOOTH, unit, enough)
        return Table(counts.words, numbers if out_of_fold else numbers[:, -1:], "target", outputs)
    if column.encoding == "count":
        share = np.append(rows, 0).astype(np.float64) / statistics.rows
        return Table(counts.words, share[:, None, None], "share")
    if column.encoding == "hash":
        shown = tuple(f" (bucket {k})" for k in range(BUCKETS))
        return OneHot(counts.words, hashed_numbers(counts.words), shown)
    rare = rows < min(RARE, statistics.rows / RARE_SHARE)
    together = int(rare.sum()) > 1
    columns = np.zeros(len(counts.words), dtype=np.int64)
    shown_words: list[str] = []
    for k, word in enumerate(counts.words):
        if together and rare[k]:
            continue
        columns[k] = len(shown_words)
        shown_words.append(" is missing" if is_missing(word) else f"={word}")
    if together:
        columns[rare] = len(shown_words)
        shown_words.append(" is rare")
    return OneHot(counts.words, columns, tuple(shown_words))
