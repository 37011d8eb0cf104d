"""Evidence for the calibration of more than two classes, whose competition no histogram shows."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Self

import numpy as np

from ikmap.json_values import Json, list_of, text_of

MOST_NUMBERS = 1 << 18
"""Largest number of decision values of a fold, of all classes together."""


@dataclass(frozen=True, eq=False)
class DecisionEvidence:
    """Targets and decisions of rows that were not learned from.

    Attributes
    ----------
    target : ndarray of int32, shape (n,)
    decision : ndarray of float32, shape (n, K)
    """

    target: np.ndarray
    decision: np.ndarray

    @classmethod
    def of(cls, target: np.ndarray, decision: np.ndarray) -> Self:
        """Return the evidence of rows with class numbers and decisions of shape (n, K)."""
        return cls(target.astype(np.int32), decision.astype(np.float32))

    @classmethod
    def none(cls, outputs: int) -> Self:
        """Return the evidence of no rows."""
        return cls(np.zeros(0, dtype=np.int32), np.zeros((0, outputs), dtype=np.float32))

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.target.size)

    def __add__(self, other: Self) -> Self:
        target = np.concatenate([self.target, other.target])
        return type(self)(target, np.concatenate([self.decision, other.decision]))

    def as_json(self) -> list[str]:
        """Return targets and decisions as text."""
        return [_packed(self.target, "<i4"), _packed(self.decision, "<f4")]

    @classmethod
    def from_json(cls, values: Json) -> Self:
        """Return the evidence from which :meth:`as_json` made these values."""
        targets, decisions = map(text_of, list_of(values))
        target, decision = _unpacked(targets, "<i4"), _unpacked(decisions, "<f4")
        return cls(target, decision.reshape(target.size, -1))


def _packed(array: np.ndarray, dtype: str) -> str:
    return base64.b64encode(zlib.compress(np.ascontiguousarray(array, dtype=dtype).tobytes(), 1)).decode()


def _unpacked(text: str, dtype: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype)
