"""Cells that stand for nothing: words, and the numbers among them."""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np

MISSING_WORDS = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "?")
"""Cells of text that are missing, where the user says nothing else; the empty one always is."""
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)


def is_numeric(cell: str) -> bool:
    """Return whether a cell is a number, finite or not."""
    cell = cell.strip()
    return bool(NUMBER.fullmatch(cell) or NOT_FINITE.fullmatch(cell))


@lru_cache(maxsize=16)
def numbers_among(words: frozenset[str] | tuple[str, ...]) -> tuple[str, ...]:
    """Return which of the cells that are missing would be read as numbers, such as -999."""
    return tuple(word for word in sorted(words) if is_numeric(word) and not np.isnan(float(word)))


@lru_cache(maxsize=16)
def numbers_of(words: frozenset[str] | tuple[str, ...]) -> tuple[float, ...]:
    """Return the numbers among the cells that are missing, each as columns of float64 and of float32 have it."""
    found = set()
    for number in map(float, numbers_among(words)):
        with np.errstate(over="ignore"):
            single = float(np.float32(number))
        found |= {number} if np.isinf(single) else {number, single}
    return tuple(sorted(found))
