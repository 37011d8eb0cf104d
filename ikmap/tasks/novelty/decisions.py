"""The meaning of the decision values of a learner of novelty: the score of a row less the threshold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ikmap.tasks.novelty.codec import NOVEL
from ikmap.tasks.task import ColumnType, Decisions


@dataclass(frozen=True)
class NoveltyDecisions(Decisions):
    """Decisions of one column, above 0 for novel rows."""

    dtype: ClassVar[str] = "int32"

    @property
    def columns(self) -> Mapping[str, ColumnType]:
        return {"alert": "bool", "score": "float64"}

    def predict(self, decision: np.ndarray) -> np.ndarray:
        """Return 1 for rows above the threshold, else 0."""
        return (decision[:, 0] > 0).astype(np.int32)

    def values(self, decision: np.ndarray) -> Mapping[str, np.ndarray]:
        """Return a mask of the novel rows, and the scores less the threshold."""
        return {"alert": self.predict(decision) == NOVEL, "score": decision[:, 0]}
