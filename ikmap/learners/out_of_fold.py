"""Decisions on training rows of models that have not learned from them, as they are stored beside a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ikmap.arrays import Floats
from ikmap.model import Model


@dataclass(frozen=True, eq=False)
class OutOfFold(Model):
    """Decisions on training rows of models that have not learned from them.

    Attributes
    ----------
    decisions : ndarray of float64, shape (n, K)
        NaN for rows without a decision by such a model, as the earliest ones in order of time.
    folds : int
        Number of folds.
    rows_learned : int
        Number of rows that the model of the first fold has learned from, or of the last one in order of time.
    weights : ndarray of float64, shape (P,)
        Weight of each part of a sum in the model of all rows.
    """

    kind: ClassVar[str] = "out-of-fold"
    version: ClassVar[int] = 1

    decisions: Floats
    folds: int
    rows_learned: int
    weights: Floats
