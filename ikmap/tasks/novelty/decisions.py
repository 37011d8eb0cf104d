"""What the decision values of a learner of novelty mean: how far a row's score lies above the threshold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ikmap.tasks.novelty.codec import NOVEL
from ikmap.tasks.task import ColumnType, Decisions


@dataclass(frozen=True)
class NoveltyDecisions(Decisions):
    """A decision has one column; above 0, the row is novel."""

    dtype: ClassVar[str] = "int32"

    @property
    def columns(self) -> Mapping[str, ColumnType]:
        return {"alert": "bool", "score": "float64"}

    def predict(self, decision: np.ndarray) -> np.ndarray:
        """Return 1 for rows above the threshold, else 0."""
        return (decision[:, 0] > 0).astype(np.int32)

    def values(self, decision: np.ndarray) -> Mapping[str, np.ndarray]:
        """Return whether a row is novel, and how far its score lies above the threshold."""
        return {"alert": self.predict(decision) == NOVEL, "score": decision[:, 0]}
