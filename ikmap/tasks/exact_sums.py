"""Sums of float64 numbers without any rounding: they add up over rows, shards and pieces in any grouping."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

import numpy as np

from ikmap.json_values import Json, text_of, whole_number

HALF = 27
"""Bits of the upper part of a mantissa; the lower one has 26."""
LOWEST = -1074 - 64
"""All finite numbers are whole multiples of two to this power, and so are their halves of mantissas."""
AT_ONCE = 1 << 24
"""Number of halves of mantissas that add up to less than 2**53, below which float64 numbers are exact."""
SPLIT = float((1 << HALF) + 1)


@dataclass(frozen=True)
class ExactSum:
    """A sum: ``units`` times two to the power of :data:`LOWEST`."""

    units: int = 0

    @classmethod
    def of(cls, values: np.ndarray) -> Self:
        """Return the sum of finite numbers, shape (n,)."""
        values = np.asarray(values, dtype=np.float64)
        return cls(sum(_units(values[start : start + AT_ONCE]) for start in range(0, values.size, AT_ONCE)))

    @classmethod
    def of_squares(cls, values: np.ndarray) -> Self:
        """Return the sum of the squares of numbers. Squares below 1e300 are exact unless they are below 1e-280."""
        values = np.asarray(values, dtype=np.float64)
        squares = values * values
        # Dekker's product gives the rounding error of each square.
        scaled = SPLIT * values
        high = scaled - (scaled - values)
        low = values - high
        error = ((high * high - squares) + 2 * high * low) + low * low
        return cls(cls.of(squares).units + cls.of(error).units)

    def __add__(self, other: Self) -> Self:
        return type(self)(self.units + other.units)

    @property
    def fraction(self) -> Fraction:
        """Value of the sum."""
        return Fraction(self.units, 1 << -LOWEST)

    def __float__(self) -> float:
        return float(self.fraction)

    def as_json(self) -> list[Json]:
        """Return the digits in base 16 without trailing zero bits, and the number of these bits."""
        zeros = (self.units & -self.units).bit_length() - 1 if self.units else 0
        return [f"{self.units >> zeros:x}", zeros]

    @classmethod
    def from_json(cls, values: Sequence[Json]) -> Self:
        """Return the sum of which :meth:`as_json` made these values."""
        digits, zeros = values
        return cls(int(text_of(digits), 16) << whole_number(zeros))


def _units(values: np.ndarray) -> int:
    mantissas, exponents = np.frexp(values)
    scaled = np.ldexp(mantissas, HALF)
    upper = np.trunc(scaled)
    lower = np.ldexp(scaled - upper, 53 - HALF)
    total = 0
    if values.size:
        least = int(exponents.min())
        places = exponents - least
        for part, place in ((upper, HALF), (lower, 53)):
            sums = np.bincount(places, weights=part)
            for k in np.flatnonzero(sums).tolist():
                total += int(sums[k]) << (k + least - place - LOWEST)
    return total
