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
    folds : int
        Number of folds.
    weights : ndarray of float64, shape (P,)
        Weight of each part of a sum in the model of all rows.
    """

    kind: ClassVar[str] = "out-of-fold"
    version: ClassVar[int] = 1

    decisions: Floats
    folds: int
    weights: Floats
