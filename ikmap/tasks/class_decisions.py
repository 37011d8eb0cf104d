"""Decisions of some rows for more than two classes, as they are: how classes compete shows in no histogram of one."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

MOST_NUMBERS = 1 << 18
"""Decisions of all classes together that a fold is asked for."""


@dataclass(frozen=True, eq=False)
class ClassDecisions:
    """Rows one after the other.

    Attributes
    ----------
    target : ndarray of int32, shape (n,)
    decision : ndarray of float32, shape (n, K)
    """

    target: np.ndarray
    decision: np.ndarray

    @classmethod
    def of(cls, target: np.ndarray, decision: np.ndarray) -> Self:
        """Of class numbers and decisions of shape (n, K)."""
        return cls(target.astype(np.int32), decision.astype(np.float32))

    @classmethod
    def none(cls, outputs: int) -> Self:
        """Of no rows."""
        return cls(np.zeros(0, dtype=np.int32), np.zeros((0, outputs), dtype=np.float32))

    @property
    def rows(self) -> int:
        """How many rows are in it."""
        return int(self.target.size)

    def __add__(self, other: Self) -> Self:
        pairs = ((self.target, other.target), (self.decision, other.decision))
        return type(self)(*(np.concatenate(pair) for pair in pairs))

    def as_json(self) -> list[str]:
        """Targets and decisions as text."""
        return [_packed(self.target, "<i4"), _packed(self.decision, "<f4")]

    @classmethod
    def from_json(cls, values: Any) -> Self:
        """What :meth:`as_json` gave."""
        target, decision = _unpacked(values[0], "<i4"), _unpacked(values[1], "<f4")
        return cls(target, decision.reshape(target.size, -1))


def _packed(array: np.ndarray, dtype: str) -> str:
    return base64.b64encode(zlib.compress(np.ascontiguousarray(array, dtype=dtype).tobytes(), 1)).decode()


def _unpacked(text: str, dtype: str) -> np.ndarray:
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype)
